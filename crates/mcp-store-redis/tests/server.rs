//! The check of a server at the start: settings, permissions, credentials, TLS and Unix sockets.

use std::{
    error::Error as _,
    fs,
    io::Write,
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_store::{KeyValue, PubSub, suite};
use mcp_store_redis::{Protocol, RedisOptions, RedisStore};
use mcp_test::redis_server::RedisServer;
use tokio::time::timeout;
use tracing_subscriber::fmt::MakeWriter;

use crate::common::options;

/// The records of `tracing`.
#[derive(Clone, Default)]
struct Records(Arc<Mutex<Vec<u8>>>);

impl Write for Records {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Records {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Connects, and returns the records of the attempt.
async fn records_of(options: RedisOptions) -> String {
    let records = Records::default();
    let subscriber = tracing_subscriber::fmt().with_writer(records.clone()).with_ansi(false).finish();
    let guard = tracing::subscriber::set_default(subscriber);
    RedisStore::connect(options).await.unwrap();
    drop(guard);
    let bytes = records.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn the_log_of_lost_topics_ends_with_their_new_connection() {
    let name = "the_log_of_lost_topics_ends_with_their_new_connection";
    let Some(mut server) = RedisServer::start_or_skip(name) else { return };
    let records = Records::default();
    let subscriber = tracing_subscriber::fmt().with_writer(records.clone()).with_ansi(false).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let store = RedisStore::connect(options(server.address())).await.unwrap();
    let mut reader = store.subscribe("t", 10).await.unwrap();
    server.kill().unwrap();
    reader.recv().await.unwrap();
    server.restart().unwrap();
    let text = || String::from_utf8(records.0.lock().unwrap().clone()).unwrap();
    let again = async {
        while !text().contains("INFO mcp_store_redis::topics: the topics of redis are connected again") {
            // The reader receives a report of the gap when its topic is subscribed.
            reader.recv().await.unwrap();
        }
    };
    timeout(Duration::from_secs(20), again).await.expect("the topics are connected");
    let text = text();
    assert_eq!(text.matches("the connection to the topics of redis is lost").count(), 1, "{text}");
    assert!(text.rfind("is lost") < text.find("the topics of redis are connected again"), "{text}");
}

#[tokio::test]
async fn a_server_that_evicts_records_is_rejected() {
    let name = "a_server_that_evicts_records_is_rejected";
    let Some(server) = RedisServer::start_with_or_skip(name, &["--maxmemory-policy allkeys-lru"]) else { return };
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let error = RedisStore::connect(options(server.address()).protocol(protocol)).await.unwrap_err();
        assert!(error.is_invalid(), "{error:?}");
        assert!(error.to_string().contains("allkeys-lru instead of noeviction"), "{error}");
    }
    // The rule also holds if the server shows its settings by INFO alone.
    server.send("ACL SETUSER default -config").unwrap();
    let error = RedisStore::connect(options(server.address())).await.unwrap_err();
    assert!(error.to_string().contains("allkeys-lru"), "{error}");
}

#[tokio::test]
async fn missing_persistence_is_a_warning_with_the_loss() {
    let name = "missing_persistence_is_a_warning_with_the_loss";
    let Some(server) = RedisServer::start_or_skip(name) else { return };
    let records = records_of(options(server.address())).await;
    assert!(records.contains("WARN") && records.contains("a crash of redis loses all records"), "{records}");

    server.send("CONFIG SET save \"3600 1\"").unwrap();
    let records = records_of(options(server.address())).await;
    assert!(records.contains("all writes since the last snapshot"), "{records}");

    server.send("CONFIG SET appendfsync always").unwrap();
    server.send("CONFIG SET appendonly yes").unwrap();
    assert!(!records_of(options(server.address())).await.contains("WARN"));
    server.send("CONFIG SET appendfsync everysec").unwrap();
    let records = records_of(options(server.address())).await;
    assert!(records.contains("INFO") && records.contains("up to 2 seconds"), "{records}");

    server.send("ACL SETUSER default -config -info").unwrap();
    let records = records_of(options(server.address())).await;
    assert!(records.contains("does not show its maxmemory-policy"), "{records}");
    assert!(records.contains("does not show its persistence"), "{records}");
}

/// Returns the commands of the README that create a user.
fn permissions(namespace: &str) -> Vec<String> {
    let readme = include_str!("../README.md");
    let (_, rest) = readme.split_once("```text\n").unwrap();
    let (lines, _) = rest.split_once("```").unwrap();
    lines.replace("{NAMESPACE}", &format!("{{{namespace}}}")).lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_permissions_of_the_readme_are_sufficient() {
    let Some(server) = RedisServer::start_or_skip("the_permissions_of_the_readme_are_sufficient") else { return };
    // The suite has a namespace for each rule, so the user has the keys and the channels of all of them.
    for command in permissions("test/*") {
        assert_eq!(server.send(&command).unwrap(), "+OK\r\n", "{command}");
    }
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let factory = async || {
            let options = options(server.address()).credentials("fleet", "secret").protocol(protocol);
            RedisStore::connect(options).await.unwrap()
        };
        suite::all(factory).await.unwrap();
    }
    // The user reaches no other namespace.
    let other = options(server.address()).credentials("fleet", "secret").namespace("other");
    let store = RedisStore::connect(other).await.unwrap();
    let error = store.get("k").await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("the user of redis lacks a permission of this store: "), "{text}");
    assert!(text.to_lowercase().contains("no permissions to access"), "{text}");
}

#[tokio::test]
async fn wrong_credentials_are_invalid_and_never_printed() {
    let name = "wrong_credentials_are_invalid_and_never_printed";
    let Some(server) = RedisServer::start_with_or_skip(name, &["--requirepass right"]) else { return };
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let options = options(server.address()).protocol(protocol);
        for wrong in [options.clone(), options.clone().password("hunter2"), options.clone().credentials("a", "hunter2")]
        {
            let error = RedisStore::connect(wrong).await.unwrap_err();
            assert!(error.is_invalid(), "{error:?}");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
        let store = RedisStore::connect(options.password("right").database(3)).await.unwrap();
        store.put("k", Arc::from(*b"v"), None).await.unwrap();
        assert!(!format!("{store:?}").contains("right"), "{store:?}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_unix_socket_and_tls_lead_to_the_same_store() {
    let Some(server) = RedisServer::start_or_skip("a_unix_socket_and_tls_lead_to_the_same_store") else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(path("cert.pem"), cert.pem()).unwrap();
    fs::write(path("key.pem"), signing_key.serialize_pem()).unwrap();
    drop(server);

    // A server on TLS alone has no plain port for the helper, so this server has both.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (socket, cert_path, key_path) = (path("redis.sock"), path("cert.pem"), path("key.pem"));
    let arguments = [
        format!("--unixsocket {}", socket.display()),
        format!("--tls-port {port} --tls-cert-file {} --tls-key-file {}", cert_path.display(), key_path.display()),
        format!("--tls-ca-cert-file {} --tls-auth-clients yes", cert_path.display()),
    ];
    let _server = RedisServer::start(&arguments.each_ref().map(String::as_str)).unwrap();

    let by_socket = RedisOptions::unix(&socket).namespace("same");
    let store = RedisStore::connect(by_socket).await.unwrap();
    store.put("k", Arc::from(*b"v"), None).await.unwrap();

    let pem = cert.pem();
    let tls = RedisOptions::from_url(&format!("rediss://localhost:{port}")).unwrap().namespace("same");
    let trusted = tls.clone().root_certificates(pem.as_bytes()).unwrap();
    let options = trusted.clone().client_certificate(pem.as_bytes(), signing_key.serialize_pem().as_bytes()).unwrap();
    let store = RedisStore::connect(options).await.unwrap();
    assert_eq!(store.get("k").await.unwrap().as_deref(), Some(&b"v"[..]));
    // Neither an unknown authority nor a client without a certificate is accepted.
    for rejected in [tls, trusted] {
        let error = RedisStore::connect(rejected.call_time_limit(Duration::from_secs(1))).await.unwrap_err();
        assert!(error.is_unavailable(), "{error:?}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_speak_redis_is_named_with_its_address() {
    for (scheme, reply, text) in [
        ("redis", "HTTP/1.1 400 Bad Request\r\n\r\n", "the server at {url} does not reply as redis"),
        // A port with TLS closes a connection that does not begin with a handshake.
        ("redis", "", "redis at {url} closed the connection; a port with TLS needs rediss://"),
        ("redis", "-WRONGPASS no\r\n", "redis at {url} rejected the credentials"),
        ("rediss", "HTTP/1.1 400 Bad Request\r\n\r\n", "redis is not reachable at {url}"),
    ] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("{scheme}://{}/0", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            std::io::Read::read(&mut stream, &mut [0; 1024]).unwrap();
            stream.write_all(reply.as_bytes()).unwrap();
        });
        let error = RedisStore::connect(RedisOptions::from_url(&url).unwrap()).await.unwrap_err();
        assert_eq!(error.to_string(), text.replace("{url}", &url), "{error:?}");
        assert!(!error.source().is_some_and(|source| source.to_string().contains('\n')), "{error:?}");
        server.join().unwrap();
    }
}

#[tokio::test]
async fn an_address_without_a_server_is_unavailable() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // A server that accepts connections and never responds.
    let url = format!("redis://ada:pass-word@{address}/0");
    let connect = async || RedisStore::connect(RedisOptions::from_url(&url).unwrap()).await.unwrap_err();
    let error = connect().await;
    assert!(error.is_unavailable(), "{error:?}");
    assert_eq!(error.to_string(), format!("redis at redis://{address}/0 did not accept a connection in 2s"));
    drop(listener);
    let error = connect().await;
    assert_eq!(error.to_string(), format!("redis is not reachable at redis://{address}/0"));
    assert!(error.source().is_some_and(|cause| cause.to_string().contains("refused")), "{error:?}");
    assert!(!format!("{error:?}").contains("pass-word"), "{error:?}");
}
