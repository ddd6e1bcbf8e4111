//! Network faults: an address without a listener, a server without TLS, and an untrusted certificate.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::time::Duration;

use mcp_client::{Error, http::Http};
use mcp_server::prelude::*;
use mcp_test::peer::ScriptedServer;
use tokio::net::TcpListener;

use crate::common::scripted_site::{DEADLINE, ERAS, alive, no_tasks_above, predicates, quick};

/// A self-signed certificate for this machine and its key, in PEM.
fn certificate() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

/// Connects in both eras. Each attempt fails with the same error and leaves no task.
async fn check(http: impl Fn() -> Http, expected: &str) -> Error {
    let tasks = alive();
    let mut last = None;
    for versions in [&ERAS[..1], &ERAS[1..], &ERAS[..]] {
        let error = tokio::time::timeout(DEADLINE, quick(versions).connect(http())).await.unwrap().unwrap_err();
        assert_eq!(predicates(&error), expected, "{versions:?}: {error:?}");
        last = Some(error);
        no_tasks_above(tasks, expected).await;
    }
    last.unwrap()
}

/// The error and its causes, in one line.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[tokio::test]
async fn an_address_without_a_listener_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    drop(listener);
    let error = check(|| Http::new(&url).unwrap(), "unreachable retryable").await;
    assert!(chain(&error).contains("refused"), "{}", chain(&error));
}

#[tokio::test]
async fn a_server_without_tls_is_unreachable_over_https() {
    let server = ScriptedServer::silent();
    let peer = server.listen().await.unwrap();
    let url = peer.url().replace("http:", "https:");
    // With a root of our own, so that a machine without any has one.
    let (pem, _) = certificate();
    let tasks = alive();
    for versions in [&ERAS[..1], &ERAS[1..]] {
        let http =
            Http::new(&url).unwrap().root_certificates(&pem).unwrap().connect_timeout(Duration::from_millis(200));
        let error = quick(versions).connect(http).await.unwrap_err();
        assert!(error.is_unreachable(), "{error:?}");
        server.wait_until_disconnected().await;
    }
    assert!(server.seen().is_empty());
    no_tasks_above(tasks, "no TLS").await;
}

#[tokio::test]
async fn an_untrusted_certificate_fails_the_connect() {
    let (pem, key) = certificate();
    let (other, _) = certificate();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/mcp", listener.local_addr().unwrap());
    let server = Server::builder("real", "1").tool(tool("quick", async || "quick")).build();
    let tls = TlsConfig::from_pem(&pem, &key).unwrap();
    let running = server.clone();
    let serving =
        tokio::spawn(async move { running.serve_https_on(listener, tls, HttpConfig::new().ignore_signals()).await });
    for versions in [&ERAS[..1], &ERAS[1..]] {
        let http = Http::new(&url).unwrap().root_certificates(&other).unwrap();
        let error = quick(versions).connect(http).await.unwrap_err();
        assert_eq!(predicates(&error), "unreachable", "{error:?}");
        assert!(chain(&error).contains("certificate"), "{}", chain(&error));
        // The same server, vouched for.
        let http = Http::new(&url).unwrap().root_certificates(&pem).unwrap();
        let client = quick(versions).connect(http).await.unwrap();
        assert_eq!(client.call_tool("quick", ()).await.unwrap().text(), "quick");
        client.close().await;
    }
    server.shutdown();
    tokio::time::timeout(DEADLINE, serving).await.unwrap().unwrap().unwrap();
}
