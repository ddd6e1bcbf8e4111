//! HTTP statuses of a server, and faults of its authorization server: the errors that the client of the gateway receives.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mcp_agent::{Gateway, Host};
use mcp_client::{
    http::{Authorizer, AuthorizerError, Http, Refusal, Target, Verdict, reqwest::header::HeaderMap},
    transport::{BoxFuture, Connect},
};
use mcp_protocol::RpcError;
use mcp_test::peer::Reply;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::common::{REVISIONS, SOON, client, scripted};

/// The error of a login, if it fails.
type LoginFault = fn() -> AuthorizerError;

/// Authorizes requests until the login fails.
#[derive(Clone)]
struct Login {
    has_failed: Arc<AtomicBool>,
    fault: LoginFault,
}

impl Authorizer for Login {
    fn authorize<'a>(&'a self, _: &'a Target) -> BoxFuture<'a, Result<HeaderMap, AuthorizerError>> {
        let has_failed = self.has_failed.load(Ordering::SeqCst);
        Box::pin(ready(if has_failed { Err((self.fault)()) } else { Ok(HeaderMap::new()) }))
    }

    fn refused<'a>(&'a self, _: &'a Refusal) -> BoxFuture<'a, Result<Verdict, AuthorizerError>> {
        Box::pin(ready(Ok(Verdict::GiveUp)))
    }
}

/// Calls a tool without hints. The server sends this reply, or the login has this fault before the call.
async fn fault_of(reply: Reply, fault: Option<LoginFault>) -> RpcError {
    let peer = scripted("t").on("tools/call", reply).listen().await.unwrap();
    let login = Login { has_failed: Arc::default(), fault: fault.unwrap_or(|| AuthorizerError::other("unused")) };
    let http: Arc<dyn Connect> = Arc::new(Http::new(peer.url()).unwrap().authorizer(login.clone()));
    let host = Host::builder("gateway", "1").server("s", http).start().await.unwrap();
    let gateway = Gateway::builder(host).build().unwrap().versions([REVISIONS[0]]).build();
    let user = client().connect(&gateway).await.unwrap();
    login.has_failed.store(fault.is_some(), Ordering::SeqCst);
    let called = timeout(SOON, user.call_tool("s__t", ()).into_future()).await.unwrap();
    called.unwrap_err().rpc().unwrap().clone()
}

#[tokio::test]
async fn an_http_status_of_a_server_is_in_its_error() {
    let busy = |status: u16| Reply::status(status, "an internal detail").header("retry-after", "3");
    for (status, text, is_retryable) in [
        (401, "the server did not accept the credentials of the request", false),
        (403, "the server answered with HTTP status 403", false),
        (418, "the server answered with HTTP status 418", false),
        (429, "the server answered with HTTP status 429", true),
        (500, "the server answered with HTTP status 500", false),
        // A proxy can answer so after the server received the call.
        (503, "the server answered with HTTP status 503", false),
    ] {
        let error = fault_of(busy(status), None).await;
        let mut data = json!({ "server": "s", "retryable": is_retryable });
        if is_retryable {
            data["retryAfterMs"] = json!(3000);
        }
        assert_eq!((&*error.message, error.data), (text, Some(data)), "{status}");
    }
}

#[tokio::test]
async fn a_response_without_an_answer_has_an_error_without_its_details() {
    let redirect = Reply::status(302, "").header("location", "http://internal.example/");
    let page = Reply::status(200, "<html>an internal detail</html>").header("content-type", "text/html");
    for (reply, text) in [
        (redirect, "the server answered with a redirect that is not followed"),
        (page, "the server answered with content that is neither JSON nor an event stream"),
    ] {
        let error = fault_of(reply, None).await;
        assert_eq!((&*error.message, error.data), (text, Some(json!({ "server": "s", "retryable": false }))));
    }
}

#[tokio::test]
async fn a_call_without_an_authorization_was_not_sent() {
    let away: LoginFault = || AuthorizerError::unavailable("HTTP status 503", Some(Duration::from_secs(3)));
    let unknown: LoginFault = || AuthorizerError::login_required("x");
    let data = |is_retryable: bool| json!({ "server": "s", "retryable": is_retryable });
    let mut of_outage: Value = data(true);
    of_outage["retryAfterMs"] = json!(3000);
    let done = Reply::result(json!({ "content": [] }));
    for (fault, text, data) in [
        (away, "the authorization server of the server is not available", of_outage),
        (unknown, "the gateway has no valid credentials for the server", data(false)),
    ] {
        let error = fault_of(done.clone(), Some(fault)).await;
        assert_eq!((&*error.message, error.data), (text, Some(data)));
    }
}
