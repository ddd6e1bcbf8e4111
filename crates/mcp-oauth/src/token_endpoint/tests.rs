//! The parameters of requests, as an authorization server receives them.

use mcp_test::authorization_server::{AuthorizationServer, Endpoint, RegisteredClient};

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
    let metadata = mcp_protocol::auth::AuthorizationServerMetadata::new(authorization.issuer());
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
