//! Discovery against scripted servers, and the recorded documents of real authorization servers.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::*;

/// A server with documents at paths. `{origin}` in a document is the origin of the server.
struct Site {
    origin: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Site {
    async fn start(documents: &[(&'static str, u16, Value)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let documents: HashMap<&'static str, (u16, String)> = documents
            .iter()
            .map(|(path, status, document)| (*path, (*status, document.to_string().replace("{origin}", &origin))))
            .collect();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let path = String::from_utf8(head).unwrap().split(' ').nth(1).unwrap().to_owned();
                seen.lock().unwrap().push(path.clone());
                let (status, body) = documents.get(path.as_str()).cloned().unwrap_or((404, String::new()));
                let head =
                    format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
                stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
            }
        });
        Self { origin, requests }
    }

    fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin)
    }
}

fn fetch() -> Fetch {
    Fetch::builder().allow_loopback(true).build()
}

const PRM: &str = "/.well-known/oauth-protected-resource";
const PRM_PATH: &str = "/.well-known/oauth-protected-resource/mcp";

#[tokio::test]
async fn resource_metadata_is_read_from_the_first_place_that_has_it() {
    let document = |resource: &str| json!({"resource": resource, "authorization_servers": ["https://as.example"]});
    let own = document("{origin}/mcp");
    for (documents, challenge, expected, requests) in [
        (vec![("/custom", 200, own.clone())], Some("/custom"), Ok(true), vec!["/custom"]),
        (vec![(PRM_PATH, 200, own.clone())], None, Ok(true), vec![PRM_PATH]),
        (vec![(PRM_PATH, 200, own.clone())], Some("/custom"), Ok(true), vec!["/custom", PRM_PATH]),
        (vec![(PRM, 200, document("{origin}"))], None, Ok(true), vec![PRM_PATH, PRM]),
        (vec![(PRM_PATH, 200, json!("<html>")), (PRM, 200, own.clone())], None, Ok(true), vec![PRM_PATH, PRM]),
        (vec![], None, Ok(false), vec![PRM_PATH, PRM]),
        (vec![(PRM_PATH, 200, document("https://b.example/mcp"))], None, Err(ErrorKind::Discovery), vec![PRM_PATH]),
        (vec![(PRM_PATH, 200, json!({"authorization_servers": []}))], None, Err(ErrorKind::Discovery), vec![PRM_PATH]),
        (vec![(PRM_PATH, 503, json!({}))], None, Err(ErrorKind::Unavailable), vec![PRM_PATH]),
        (vec![(PRM_PATH, 429, json!({}))], None, Err(ErrorKind::Unavailable), vec![PRM_PATH]),
    ] {
        let site = Site::start(&documents).await;
        let endpoint = Url::parse(&site.url("/mcp")).unwrap();
        let challenge = challenge.map(|path| site.url(path));
        let found = resource(&fetch(), &endpoint, challenge.as_deref()).await;
        let found = found.map(|found| found.is_some()).map_err(|error| error.kind());
        assert_eq!((found, site.requests()), (expected, requests.into_iter().map(str::to_owned).collect()));
    }
}

#[tokio::test]
async fn server_metadata_is_read_in_the_order_of_the_specification() {
    const RFC8414: &str = "/.well-known/oauth-authorization-server/t";
    const OIDC: &str = "/.well-known/openid-configuration/t";
    const APPENDED: &str = "/t/.well-known/openid-configuration";
    let own = json!({"issuer": "{origin}/t"});
    let foreign = json!({"issuer": "https://b.example/t"});
    for (documents, expected, requests) in [
        (vec![(RFC8414, 200, own.clone())], Ok(()), vec![RFC8414]),
        (vec![(OIDC, 200, own.clone())], Ok(()), vec![RFC8414, OIDC]),
        (vec![(APPENDED, 200, own.clone())], Ok(()), vec![RFC8414, OIDC, APPENDED]),
        (vec![(RFC8414, 200, foreign.clone()), (APPENDED, 200, own.clone())], Ok(()), vec![RFC8414, OIDC, APPENDED]),
        (vec![(RFC8414, 200, foreign)], Err(ErrorKind::Discovery), vec![RFC8414, OIDC, APPENDED]),
        (vec![(RFC8414, 500, own)], Err(ErrorKind::Unavailable), vec![RFC8414]),
    ] {
        let site = Site::start(&documents).await;
        let found = server(&fetch(), &site.url("/t")).await.map(|_| ()).map_err(|error| error.kind());
        assert_eq!((found, site.requests()), (expected, requests.into_iter().map(str::to_owned).collect()));
    }
    let error = server(&fetch(), "https://user@as.example").await.unwrap_err();
    assert!(error.to_string().contains("is not a URL of an authorization server"), "{error}");
}

#[tokio::test]
async fn a_server_without_documents_has_the_default_endpoints_of_2025_03_26() {
    const ROOT: &str = "/.well-known/oauth-authorization-server";
    let document = json!({"issuer": "{origin}", "authorization_endpoint": "{origin}/oauth/authorize"});
    for (documents, path) in [(vec![(ROOT, 200, document)], "/oauth/authorize"), (vec![], "/authorize")] {
        let site = Site::start(&documents).await;
        let server = legacy(&fetch(), &Url::parse(&site.url("/mcp")).unwrap()).await.unwrap();
        assert_eq!(server.login_url().unwrap().as_str(), site.url(path));
        assert_eq!((server.identity, site.requests()), (site.origin.clone(), vec![ROOT.to_owned()]));
    }
}

/// The members that discovery uses, of the documents of real authorization servers. The first text is the issuer in the
/// metadata of an MCP server.
#[test]
fn documents_of_real_authorization_servers_are_judged() {
    for (issuer, document, expected) in [
        // https://login.microsoftonline.com/{tenant}/v2.0/.well-known/openid-configuration: PKCE is not declared.
        (
            "https://login.microsoftonline.com/t/v2.0",
            json!({
                "issuer": "https://login.microsoftonline.com/t/v2.0",
                "authorization_endpoint": "https://login.microsoftonline.com/t/oauth2/v2.0/authorize",
                "token_endpoint": "https://login.microsoftonline.com/t/oauth2/v2.0/token",
                "token_endpoint_auth_methods_supported": ["client_secret_post", "private_key_jwt", "client_secret_basic"],
                "scopes_supported": ["openid", "profile", "email", "offline_access"]
            }),
            None,
        ),
        // https://login.microsoftonline.com/common/v2.0/.well-known/openid-configuration: the issuer is a template.
        (
            "https://login.microsoftonline.com/common/v2.0",
            json!({"issuer": "https://login.microsoftonline.com/{tenantid}/v2.0"}),
            Some("instead of"),
        ),
        // https://accounts.google.com/.well-known/openid-configuration
        (
            "https://accounts.google.com",
            json!({
                "issuer": "https://accounts.google.com",
                "authorization_endpoint": "https://accounts.google.com/o/oauth2/v2/auth",
                "token_endpoint": "https://oauth2.googleapis.com/token",
                "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
                "code_challenge_methods_supported": ["plain", "S256"]
            }),
            None,
        ),
        // https://samples.auth0.com/.well-known/openid-configuration: the issuer ends with a slash.
        (
            "https://samples.auth0.com/",
            json!({
                "issuer": "https://samples.auth0.com/",
                "authorization_endpoint": "https://samples.auth0.com/authorize",
                "token_endpoint": "https://samples.auth0.com/oauth/token",
                "registration_endpoint": "https://samples.auth0.com/oidc/register",
                "code_challenge_methods_supported": ["S256", "plain"]
            }),
            None,
        ),
        // https://cognito-idp.us-east-1.amazonaws.com/{pool}/.well-known/openid-configuration: PKCE is not declared.
        (
            "https://cognito-idp.us-east-1.amazonaws.com/us-east-1_p",
            json!({
                "issuer": "https://cognito-idp.us-east-1.amazonaws.com/us-east-1_p",
                "authorization_endpoint": "https://p.auth.us-east-1.amazoncognito.com/oauth2/authorize",
                "token_endpoint": "https://p.auth.us-east-1.amazoncognito.com/oauth2/token",
                "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"]
            }),
            None,
        ),
        // https://mcp.atlassian.com/.well-known/oauth-authorization-server: the issuer is that of another host.
        (
            "https://mcp.atlassian.com",
            json!({
                "issuer": "https://cf.mcp.atlassian.com",
                "authorization_endpoint": "https://mcp.atlassian.com/v1/authorize",
                "token_endpoint": "https://cf.mcp.atlassian.com/v1/token",
                "code_challenge_methods_supported": ["S256"]
            }),
            Some("the issuer \"https://cf.mcp.atlassian.com\" instead of \"https://mcp.atlassian.com\""),
        ),
    ] {
        let result = server::judge(document, issuer).and_then(|server| {
            server.login_url().map_err(|error| error.to_string())?;
            server.token_url().map(|_| ()).map_err(|error| error.to_string())
        });
        match expected {
            None => assert_eq!(result, Ok(()), "{issuer}"),
            Some(text) => assert!(result.as_ref().is_err_and(|reason| reason.contains(text)), "{issuer}: {result:?}"),
        }
    }
}
