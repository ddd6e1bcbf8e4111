//! The parameters of requests, as an authorization server receives them, and its answers.

use mcp_protocol::auth::AuthorizationServerMetadata;
use mcp_test::authorization_server::{AuthorizationServer, Endpoint, RegisteredClient};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::*;
use crate::{
    discovery::Server,
    quirks::Quirk,
    registration::{Registration, Source},
};

#[tokio::test]
async fn a_client_for_itself_names_the_audience_at_servers_that_read_it() {
    const RESOURCE: &str = "https://mcp.example/mcp";
    let authorization =
        AuthorizationServer::builder().client(RegisteredClient::with_secret("c", "hunter2")).start().await.unwrap();
    let metadata = AuthorizationServerMetadata::new(authorization.issuer());
    let client = Registration {
        client_id: "c".into(),
        client_secret: Some("hunter2".into()),
        method: AuthMethod::ClientSecretPost,
        source: Source::Application,
        ..Registration::none()
    };
    for (issuer, expected) in [("https://as.example", None), ("https://example.auth0.com/", Some(RESOURCE))] {
        let (identity, quirks) = (issuer.to_owned(), Quirk::of_issuer(issuer));
        let metadata = metadata.clone();
        let server = Server { identity, metadata, is_legacy: false, has_default_endpoints: false, quirks };
        let endpoint = TokenEndpoint {
            fetch: &Fetch::builder().allow_loopback(true).build(),
            url: &format!("{}/token", authorization.issuer()),
            name: TOKEN_ENDPOINT,
            client: &client,
            key: None,
            resource: Some(RESOURCE),
            proofs: None,
        };
        endpoint.client_credentials(&[], server.audience(endpoint.resource, &[])).await.unwrap();
        let requests = authorization.requests();
        let request = requests.iter().rfind(|request| request.endpoint() == Endpoint::Token).unwrap();
        assert_eq!((request.parameter("audience"), request.parameter("resource")), (expected, Some(RESOURCE)));
    }
}

/// Starts an endpoint. `answer` returns the status and the body for the head and the body of a request. Returns the URL.
pub(super) async fn endpoint(answer: impl Fn(&str, &[u8]) -> (u16, String) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/token", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap();
            let mut body = vec![0; header(&head, "content-length:").unwrap().parse().unwrap()];
            stream.read_exact(&mut body).await.unwrap();
            let (status, answer) = answer(&head, &body);
            let length = answer.len();
            let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
            stream.write_all(format!("{head}{answer}").as_bytes()).await.unwrap();
        }
    });
    url
}

/// Returns the value of a header. The name has small letters and a colon.
pub(super) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.to_ascii_lowercase().starts_with(name).then(|| line[name.len()..].trim()))
}

#[tokio::test]
async fn an_answer_with_bytes_behind_its_document_is_no_token_of_any_grant() {
    let fetch = Fetch::builder().allow_loopback(true).build();
    let client = Registration { client_id: "app".into(), ..Registration::none() };
    for (body, is_token) in [
        (r#"{"access_token": "t", "token_type": "Bearer"}"#, true),
        ("{\"access_token\": \"t\", \"token_type\": \"Bearer\"}\r\n", true),
        (r#"{"access_token": "t", "token_type": "Bearer"} x"#, false),
        (r#"{"access_token": "t", "token_type": "Bearer"}{}"#, false),
        (r#"{"error": "access_denied", "access_token": "t", "token_type": "Bearer"} x"#, false),
    ] {
        let url = endpoint(move |_, _| (200, body.to_owned())).await;
        let endpoint = TokenEndpoint {
            fetch: &fetch,
            url: &url,
            name: TOKEN_ENDPOINT,
            client: &client,
            key: None,
            resource: None,
            proofs: None,
        };
        let secret = Secret::new("code");
        let verifier = PkceCodeVerifier::new("x".repeat(43));
        let answers = [
            endpoint.redeem(&secret, verifier, "http://127.0.0.1:1/callback").await,
            endpoint.refresh(&secret).await,
            endpoint.client_credentials(&[], None).await,
            endpoint.redeem_assertion(&secret, &[]).await,
            endpoint.redeem_device_code(&secret).await,
        ];
        for answer in answers {
            match answer {
                Ok(answer) => assert!(is_token && answer.access_token.expose() == "t", "{body}"),
                Err(error) => {
                    assert!(!is_token && error.to_string().contains("not a token response"), "{body}: {error}")
                }
            }
        }
    }
}
