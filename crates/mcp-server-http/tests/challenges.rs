//! The challenges of responses with the status 401.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use http::HeaderName;
use mcp_auth::{AuthRequest, Authenticated, Authenticator, BoxFuture, Rejection};
use mcp_protocol::Challenge;
use mcp_server_http::{HttpConfig, HttpServer};
use serde_json::json;

use crate::{
    authentication::server,
    common::{send, stateless},
};

/// An authenticator without challenges, whose credentials are in a header of its own.
struct Silent(Vec<&'static str>, bool);

impl Authenticator for Silent {
    fn authenticate<'a>(&'a self, _: &'a AuthRequest<'a>) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
        Box::pin(async { Err(Rejection::Missing) })
    }

    fn challenges(&self) -> Vec<Challenge> {
        Vec::new()
    }

    fn request_headers(&self) -> Vec<HeaderName> {
        self.0.iter().map(|name| HeaderName::from_static(name)).collect()
    }

    fn authorization_servers(&self) -> Vec<String> {
        if self.1 { vec!["https://as.example".to_owned()] } else { Vec::new() }
    }
}

#[tokio::test]
async fn each_401_has_a_challenge() {
    let document = r#"Bearer resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp""#;
    for (authenticator, expected) in [
        (Silent(vec!["authorization"], true), vec![document]),
        (Silent(vec!["authorization"], false), vec!["Bearer"]),
        (Silent(vec!["x-ticket"], true), vec![document]),
        (Silent(vec!["x-ticket"], false), vec![r#"ApiKey header="x-ticket""#]),
        (Silent(vec![], false), vec!["Bearer"]),
    ] {
        for allows_anonymous in [false, true] {
            let (headers, has_metadata) = (authenticator.0.clone(), authenticator.1);
            let config =
                HttpConfig::new().public_url("https://mcp.example.com/mcp").authenticate(Silent(headers, has_metadata));
            let config = if allows_anonymous { config.allow_anonymous() } else { config };
            // An anonymous caller receives 401 for an entry that requires authentication.
            let answer =
                send(&server().into_service(config), stateless("tools/call", json!({"name": "known"}), &[])).await;
            let got: Vec<&str> =
                answer.headers.get_all("www-authenticate").iter().map(|value| value.to_str().unwrap()).collect();
            assert_eq!((answer.status.as_u16(), got), (401, expected.clone()), "{:?}", authenticator.0);
        }
    }
}
