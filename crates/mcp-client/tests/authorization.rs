//! Authorizers: their errors, and how the client reconnects after them.

use std::{
    collections::VecDeque,
    error::Error as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_client::{
    State,
    http::{
        Authorizer, AuthorizerError, AuthorizerErrorKind, Http, Refusal, Target, Verdict,
        reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue},
    },
    protocol::ProtocolVersion,
    transport::{BoxFuture, Connect},
};
use mcp_test::peer::{Reply, ScriptedServer};
use parking_lot::Mutex;

use crate::common::{
    scripted_site::{ERAS, predicates, quick, text},
    wait_until,
};

type MakeError = fn() -> AuthorizerError;

/// Fails for `initialize` while there are errors, and counts these requests.
#[derive(Clone, Default)]
struct Login {
    errors: Arc<Mutex<VecDeque<MakeError>>>,
    logins: Arc<AtomicUsize>,
    /// The method and the name of each operation.
    operations: Arc<Mutex<Vec<String>>>,
}

impl Login {
    fn fail(&self, times: usize, error: MakeError) {
        self.errors.lock().extend(vec![error; times]);
    }

    fn logins(&self) -> usize {
        self.logins.load(Ordering::Relaxed)
    }
}

impl Authorizer for Login {
    fn authorize<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Result<HeaderMap, AuthorizerError>> {
        Box::pin(async {
            if let Some(operation) = &target.operation {
                let name = operation.name.as_deref().unwrap_or_default();
                self.operations.lock().push(format!("{} {name}", operation.method));
            }
            if target.operation.as_ref().is_some_and(|operation| &*operation.method == "initialize") {
                self.logins.fetch_add(1, Ordering::Relaxed);
                let error = self.errors.lock().pop_front();
                if let Some(error) = error {
                    return Err(error());
                }
            }
            Ok(HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer t"))]))
        })
    }

    fn refused<'a>(&'a self, _: &'a Refusal) -> BoxFuture<'a, Result<Verdict, AuthorizerError>> {
        Box::pin(std::future::ready(Ok(Verdict::GiveUp)))
    }
}

const SESSION: ProtocolVersion = ProtocolVersion::V2025_11_25;

#[tokio::test]
async fn a_failed_login_is_not_repeated_when_the_client_reconnects() {
    let server = ScriptedServer::for_revision(SESSION);
    let peer = server.listen().await.unwrap();
    let login = Login::default();
    let http = Http::new(peer.url()).unwrap().authorizer(login.clone());
    let client = quick(&[SESSION]).connect(http).await.unwrap();
    assert_eq!(login.logins(), 1);
    login.fail(8, || AuthorizerError::login_required("the token was revoked"));
    peer.forget_sessions();
    // The session is lost, and the client cannot open another one.
    let error = client.ping().await.unwrap_err();
    assert_eq!(predicates(&error), "unauthorized", "{error:?}");
    let mut cause = error.source();
    while let Some(source) = cause.filter(|source| !source.is::<AuthorizerError>()) {
        cause = source.source();
    }
    let kind = cause.and_then(|source| source.downcast_ref::<AuthorizerError>()).map(AuthorizerError::kind);
    assert_eq!(kind, Some(AuthorizerErrorKind::LoginRequired));
    wait_until(|| client.state() == State::Down).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(login.logins(), 2);
    // Each later call asks once.
    assert_eq!(predicates(&client.ping().await.unwrap_err()), "unauthorized");
    assert_eq!(login.logins(), 3);
    login.errors.lock().clear();
    client.ping().await.unwrap();
    client.close().await;
}

#[tokio::test]
async fn the_client_reconnects_when_the_authorization_server_is_back() {
    let server = ScriptedServer::for_revision(SESSION);
    let peer = server.listen().await.unwrap();
    let login = Login::default();
    let http = Http::new(peer.url()).unwrap().authorizer(login.clone());
    let client = quick(&[SESSION]).connect(http).await.unwrap();
    login.fail(3, || AuthorizerError::unavailable("HTTP status 503", None));
    peer.forget_sessions();
    client.ping().await.unwrap();
    assert_eq!(login.logins(), 5);
    client.close().await;
}

#[tokio::test]
async fn errors_contain_the_challenges_and_the_required_scopes() {
    let challenge = "Bearer error=\"insufficient_scope\", scope=\"files:read files:write\", DPoP algs=\"ES256\"";
    for version in ERAS {
        for (status, expected) in [(401, "401 unauthorized"), (403, "403 forbidden")] {
            let reply = || Reply::status(status, "").header("www-authenticate", challenge);
            let server = ScriptedServer::for_revision(version).on("tools/call", reply());
            let peer = server.listen().await.unwrap();
            let client = quick(&[version]).connect(peer.url()).await.unwrap();
            let error = client.call_tool("t", ()).await.unwrap_err();
            assert_eq!(predicates(&error), expected, "{version}");
            assert_eq!(error.required_scopes(), ["files:read", "files:write"]);
            assert_eq!(error.challenges().len(), 2);
            client.close().await;
        }
    }
}

#[tokio::test]
async fn the_authorizer_of_the_builder_reaches_urls_and_endpoints() {
    let server = ScriptedServer::for_revision(SESSION);
    let peer = server.listen().await.unwrap();
    let (login, other) = (Arc::new(Login::default()), Login::default());
    let builder = || quick(&[SESSION]).auth(Arc::clone(&login));
    let url = peer.url();
    let http = || Http::new(&url).unwrap().header("x-team", "blue").unwrap().authorizer(other.clone());
    for client in [
        builder().connect(&url).await,
        builder().connect(url.as_str()).await,
        builder().connect(url.clone()).await,
        builder().connect(http()).await,
        builder().connect(&http()).await,
    ] {
        client.unwrap().close().await;
    }
    assert_eq!((login.logins(), other.logins()), (5, 0));
    let requests = peer.requests();
    assert!(requests.iter().all(|request| request.header("authorization") == Some("Bearer t")));
    assert!(requests.iter().any(|request| request.header("x-team") == Some("blue")));
}

#[tokio::test]
async fn an_authorizer_is_an_error_for_targets_without_http() {
    let server = ScriptedServer::for_revision(SESSION);
    let connector: Arc<dyn Connect> = Arc::new(server.clone());
    for connecting in [
        quick(&[SESSION]).auth(Login::default()).connect(server.clone()).await,
        quick(&[SESSION]).auth(Login::default()).connect(&server).await,
        quick(&[SESSION]).auth(Login::default()).connect(connector).await,
    ] {
        let error = connecting.unwrap_err();
        assert!(error.is_invalid_request() && error.to_string().contains("a URL"), "{error}");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn an_authorizer_receives_the_name_of_a_tool_in_each_era() {
    for version in ERAS {
        let server = ScriptedServer::for_revision(version).on("tools/call", text("3"));
        let peer = server.listen().await.unwrap();
        let login = Login::default();
        let client = quick(&[version]).auth(login.clone()).connect(peer.url()).await.unwrap();
        client.call_tool("sum", ()).await.unwrap();
        assert!(login.operations.lock().contains(&"tools/call sum".to_owned()), "{version}");
        client.close().await;
    }
}
