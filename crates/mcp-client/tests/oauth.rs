//! Logins of a client at a server of each revision, with the test authorization server.

#![expect(clippy::unwrap_used, reason = "a test ends at the first error")]

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_client::{
    Client, Error,
    oauth::{Answer, ErrorKind, Login, MemoryStore, OAuth, TokenStore as _, UserAgent},
    protocol::ProtocolVersion,
    transport::BoxFuture,
};
use mcp_server::{auth::Jwt, prelude::*};
use mcp_test::authorization_server::{AuthorizationServer, Endpoint, RunningAuthorizationServer, open_page};
use tokio::{net::TcpListener, task::JoinHandle};
use tracing_subscriber::filter::LevelFilter;

/// A user who approves each login, and whose browser is a TCP connection.
#[derive(Clone, Default)]
struct User {
    logins: Arc<AtomicUsize>,
    declines: bool,
    delay: Duration,
}

impl UserAgent for User {
    fn open<'a>(&'a self, login: &'a Login) -> BoxFuture<'a, Result<Answer, mcp_client::oauth::Error>> {
        Box::pin(async move {
            self.logins.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(self.delay).await;
            if self.declines {
                return Err(mcp_client::oauth::Error::new(ErrorKind::Denied, "the user declined"));
            }
            let location = open_page(login.url.as_str()).await.unwrap().expect("the page redirects");
            open_page(&location).await.unwrap();
            Ok(Answer::Redirect)
        })
    }
}

/// A server that requires tokens of an authorization server.
struct World {
    authorization: RunningAuthorizationServer,
    url: String,
    serving: JoinHandle<()>,
    user: User,
}

impl World {
    async fn start(version: ProtocolVersion) -> Self {
        let authorization = AuthorizationServer::builder().auto_approve().subject("alice").start().await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let path = if version == ProtocolVersion::V2024_11_05 { "sse" } else { "mcp" };
        let url = format!("http://{}/{path}", listener.local_addr().unwrap());
        let server = Server::builder("protected", "1")
            .versions([version])
            .tool(tool("name", async |principal: Principal| principal.subject))
            .tool(tool("write", async || "written").requires_scopes(["write"]))
            .list_forbidden_entries()
            .build();
        let auth = Jwt::issuer(authorization.issuer()).unwrap().audience(&url);
        let config = HttpConfig::new().sse("/sse", "/messages").public_url(&url).authenticate(auth);
        let serving = tokio::spawn(async move { server.serve_http_on(listener, config).await.unwrap() });
        Self { authorization, url, serving, user: User::default() }
    }

    async fn connect(&self, auth: OAuth) -> Result<Client, Error> {
        let connecting = Client::builder("c", "1").auth(auth).connect(&self.url);
        tokio::time::timeout(Duration::from_secs(30), connecting).await.unwrap()
    }

    fn auth(&self) -> OAuth {
        OAuth::builder().user_agent(self.user.clone()).build()
    }

    fn logins(&self) -> usize {
        self.user.logins.load(Ordering::SeqCst)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

#[tokio::test]
async fn a_client_logs_in_and_steps_up_at_servers_of_each_revision() {
    for version in ProtocolVersion::ALL {
        let world = World::start(*version).await;
        let client = world.connect(world.auth()).await.unwrap();
        assert_eq!(client.call_tool("name", ()).await.unwrap().text(), "alice", "{version}");
        assert_eq!(world.logins(), 1, "{version}");
        // Over HTTP+SSE the answer to a call is a message, and a message has no challenge.
        if *version == ProtocolVersion::V2024_11_05 {
            assert!(client.call_tool("write", ()).await.is_err());
            continue;
        }
        for _ in 0..2 {
            let written = client.call_tool("write", ()).await.unwrap_or_else(|error| panic!("{version}: {error}"));
            assert_eq!(written.text(), "written", "{version}");
        }
        assert_eq!((world.logins(), world.authorization.count(Endpoint::Token)), (2, 2), "{version}");
        client.close().await;
    }
}

#[tokio::test]
async fn the_time_limits_of_the_client_pause_during_a_login() {
    for version in [ProtocolVersion::V2026_07_28, ProtocolVersion::V2025_11_25] {
        let mut world = World::start(version).await;
        world.user.delay = Duration::from_secs(3);
        let limit = Duration::from_secs(2);
        let builder = Client::builder("c", "1").auth(world.auth()).probe_timeout(limit).connect_timeout(limit);
        let client = builder.idle_timeout(limit).connect(&world.url).await.unwrap();
        assert_eq!(client.call_tool("name", ()).await.unwrap().text(), "alice", "{version}");
        let (one, other) = tokio::join!(client.call_tool("write", ()), client.call_tool("write", ()));
        assert_eq!((one.unwrap().text(), other.unwrap().text()), ("written".into(), "written".into()), "{version}");
        assert_eq!(world.logins(), 2, "{version}");
    }
}

#[tokio::test]
async fn a_declined_login_ends_the_connection_attempt_with_a_typed_error() {
    let mut world = World::start(ProtocolVersion::V2026_07_28).await;
    world.user.declines = true;
    let error = match world.connect(world.auth()).await {
        Ok(client) => client.list_tools().await.unwrap_err(),
        Err(error) => error,
    };
    assert!(error.is_unauthorized() && !error.is_retryable(), "{error:?}");
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    let mut found = None;
    while let Some(current) = source {
        found = found.or_else(|| current.downcast_ref::<mcp_client::oauth::Error>());
        source = current.source();
    }
    assert_eq!(found.expect("the error of the login is in the chain").kind(), ErrorKind::Denied);
    assert_eq!(world.logins(), 1);
}

/// The text of a log. Clones share it.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Logs in, steps up, refreshes and fails. Returns all secrets of the run, and the texts that it produced.
async fn run(version: ProtocolVersion) -> (Vec<String>, Vec<String>) {
    let mut world = World::start(version).await;
    let store = MemoryStore::new();
    let builder = |world: &World| OAuth::builder().user_agent(world.user.clone()).store(store.clone());
    let key = format!("tokens/{}", world.url);
    let (mut secrets, mut texts) = (Vec::new(), Vec::new());
    // The first client logs in and steps up, and the second refreshes the tokens.
    for _ in 0..2 {
        let connecting = Client::builder("c", "1").auth(builder(&world).build());
        texts.push(format!("{connecting:?}"));
        let client = connecting.connect(&world.url).await.unwrap();
        for tool in ["name", "write"] {
            texts.push(format!("{:?} {client:?}", client.call_tool(tool, ()).await.unwrap()));
            let record = store.load(&key).await.unwrap().unwrap();
            let mut record: serde_json::Value = serde_json::from_str(record.expose()).unwrap();
            secrets.extend(["access_token", "refresh_token"].map(|name| record[name].as_str().unwrap().to_owned()));
            if tool == "write" {
                record["expires_at"] = 1.into();
                store.save(&key, &record.to_string().as_str().into()).await.unwrap();
            }
        }
        client.close().await;
    }
    assert_eq!((world.logins(), world.authorization.count(Endpoint::Token)), (2, 3), "{version}");

    store.remove(&key).await.unwrap();
    world.user.declines = true;
    let error = match world.connect(builder(&world).build()).await {
        Ok(client) => client.call_tool("name", ()).await.unwrap_err(),
        Err(error) => error,
    };
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(error) = source {
        texts.push(format!("{error} {error:?}"));
        source = error.source();
    }
    for request in world.authorization.requests() {
        let names = ["code", "code_verifier", "refresh_token", "state"];
        secrets.extend(names.iter().filter_map(|name| request.parameter(name)).map(str::to_owned));
    }
    (secrets, texts)
}

#[test]
fn the_log_and_the_errors_of_a_client_contain_no_secrets() {
    for version in [ProtocolVersion::V2026_07_28, ProtocolVersion::V2025_11_25] {
        let (log, runtime) = (Log::default(), tokio::runtime::Builder::new_current_thread().enable_all().build());
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_max_level(LevelFilter::TRACE);
        let subscriber = subscriber.with_writer(move || writer.clone()).finish();
        // A second subscriber, so that `tracing` does not cache the interest of a callsite for all threads.
        let _second = tracing::Dispatch::new(tracing_subscriber::registry());
        let (secrets, texts) =
            tracing::subscriber::with_default(subscriber, || runtime.unwrap().block_on(run(version)));
        let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert!(log.contains("TRACE") && log.contains("mcp_oauth"), "{version}: the log is captured");
        // The records of the test authorization server are not those of the client.
        let mut text: String = log.lines().filter(|line| !line.contains(" mcp_test::")).collect();
        text.extend(texts);
        assert!(secrets.len() > 10, "{version}: {}", secrets.len());
        assert!(secrets.iter().all(|secret| !text.contains(secret)), "{version}");
    }
}
