//! The public URLs of requests behind routers of an application.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::sync::Arc;

use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use mcp_auth::{AuthRequest, Authenticated, Authenticator, BoxFuture, Rejection};
use mcp_protocol::{Challenge, Principal};
use mcp_server_http::{HttpConfig, HttpServer};
use parking_lot::Mutex;
use tower_service::Service as _;

use crate::{
    authentication::server,
    common::{request, within},
};

/// An authenticator that records the public URLs of the requests.
#[derive(Clone, Default)]
struct Recorded(Arc<Mutex<Vec<String>>>);

impl Authenticator for Recorded {
    fn authenticate<'a>(&'a self, request: &'a AuthRequest<'a>) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
        self.0.lock().push(request.target.to_owned());
        Box::pin(async { Ok(Authenticated::new(Principal::new("ann"))) })
    }

    fn challenges(&self) -> Vec<Challenge> {
        vec![Challenge::bearer()]
    }
}

#[tokio::test]
async fn the_paths_of_sse_have_their_public_urls_behind_each_router() {
    let config = |recorded: &Recorded| {
        HttpConfig::new()
            .public_url("https://mcp.example.com/team/mcp")
            .authenticate(recorded.clone())
            .sse("/sse", "/messages")
    };
    let service = |recorded: &Recorded| server().into_service(config(recorded));
    type Mount<'a> = &'a dyn Fn(&Recorded) -> axum::Router;
    let at_its_path: Mount<'_> = &|recorded| axum::Router::new().nest_service("/team/mcp", service(recorded));
    let beside: Mount<'_> = &|recorded| axum::Router::new().nest_service("/team", service(recorded));
    let nested: Mount<'_> = &|recorded| axum::Router::new().nest("/team", server().into_router(config(recorded)));
    let twice: Mount<'_> = &|recorded| {
        let inner = axum::Router::new().nest_service("/mcp", service(recorded));
        axum::Router::new().nest("/team", inner)
    };
    for (name, mount, prefix) in [
        ("a service at the path of the endpoint", at_its_path, "/team/mcp"),
        ("a service above the path of the endpoint", beside, "/team"),
        ("a nested router", nested, "/team"),
        ("a service in a nested router", twice, "/team/mcp"),
    ] {
        let recorded = Recorded::default();
        let mut app = mount(&recorded);
        let mut open = request(Method::GET, &[("accept", "text/event-stream")], "");
        *open.uri_mut() = format!("{prefix}/sse").parse().unwrap();
        let mut stream = app.call(open).await.unwrap().into_body();
        let event = within("the first event", stream.frame()).await.unwrap().unwrap().into_data().unwrap();
        let event = String::from_utf8(event.to_vec()).unwrap();
        let path = event.strip_prefix("event: endpoint\ndata: ").unwrap().trim_end();
        let mut post = request(Method::POST, &[("content-type", "application/json")], "{}");
        *post.uri_mut() = path.parse().unwrap();
        assert_eq!(app.call(post).await.unwrap().status(), StatusCode::ACCEPTED, "{name}");
        let expected = ["sse", "messages"].map(|last| format!("https://mcp.example.com{prefix}/{last}"));
        assert_eq!(*recorded.0.lock(), expected, "{name}");
    }
}
