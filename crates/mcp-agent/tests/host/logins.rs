//! Servers that need a login of the user.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_agent::{CallError, Host, ServerState};
use mcp_client::{http::Http, transport::BoxFuture};
use mcp_oauth::{Answer, Error, ErrorKind, Login, OAuth, UserAgent};
use mcp_server::{auth::Jwt, prelude::*};
use mcp_test::authorization_server::{
    AuthorizationServer, AuthorizationServerBuilder, RunningAuthorizationServer, open_page,
};
use tokio::{net::TcpListener, sync::Semaphore, time::timeout};

use crate::common::{TEST_TIMEOUT, names, server, until_state};

/// A user who logs in after a permit of the test.
#[derive(Clone)]
struct User {
    permits: Arc<Semaphore>,
    declines: Arc<AtomicBool>,
    logins: Arc<AtomicUsize>,
}

impl User {
    fn new() -> Self {
        Self { permits: Arc::new(Semaphore::new(0)), declines: Arc::default(), logins: Arc::default() }
    }
}

impl UserAgent for User {
    fn open<'a>(&'a self, login: &'a Login) -> BoxFuture<'a, Result<Answer, Error>> {
        Box::pin(async move {
            self.logins.fetch_add(1, Ordering::SeqCst);
            self.permits.acquire().await.unwrap().forget();
            if self.declines.load(Ordering::SeqCst) {
                return Err(Error::new(ErrorKind::Denied, "the user declined"));
            }
            let location = open_page(login.url.as_str()).await.unwrap().expect("the page redirects");
            open_page(&location).await.unwrap();
            Ok(Answer::Redirect)
        })
    }
}

/// Starts a server that requires tokens. Returns its URL.
async fn protected() -> (RunningAuthorizationServer, String) {
    protected_by(AuthorizationServer::builder()).await
}

/// Starts a server that requires tokens of an authorization server. Returns its URL.
async fn protected_by(authorization: AuthorizationServerBuilder) -> (RunningAuthorizationServer, String) {
    let authorization = authorization.auto_approve().subject("ada").start().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let protected = Server::builder("protected", "1")
        .tool(tool("name", async |principal: Principal| principal.subject))
        .tool(tool("admin", async || "administered").requires_scopes(["admin"]))
        .list_forbidden_entries()
        .build();
    let config =
        HttpConfig::new().public_url(&url).authenticate(Jwt::issuer(authorization.issuer()).unwrap().audience(&url));
    tokio::spawn(async move { protected.serve_http_on(listener, config).await });
    (authorization, url)
}

fn endpoint(url: &str, user: &User) -> Http {
    let oauth = OAuth::builder().user_agent(user.clone()).build();
    Http::new(url).unwrap().authorizer(Arc::new(oauth))
}

#[tokio::test]
async fn a_server_that_needs_a_login_joins_after_the_login() {
    let (_authorization, url) = protected().await;
    let user = User::new();
    let starting = Host::builder("test", "1")
        .start_limit(Duration::from_secs(3_600))
        .server("s", endpoint(&url, &user))
        .server("open", &server("open", &["t"]))
        .start();
    // A login takes as long as the user needs, so the host does not wait for it.
    let host = timeout(TEST_TIMEOUT, starting).await.unwrap().unwrap();
    let status = host.status("s").unwrap();
    assert_eq!(status.state, ServerState::NeedsLogin, "{status:?}");
    assert_eq!(status.reason.as_deref(), Some("the user must log in"));
    assert_eq!(names(&host), ["open:t"]);
    assert_eq!(host.call("open:t", ()).await.unwrap().text(), "t");
    user.permits.add_permits(1);
    until_state(&host, "s", ServerState::Ready).await;
    assert_eq!(host.call("s:name", ()).await.unwrap().text(), "ada");
    assert_eq!(user.logins.load(Ordering::SeqCst), 1);
    timeout(TEST_TIMEOUT, host.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_declined_login_leads_to_no_other_login_until_the_application_restarts_the_server() {
    let (_authorization, url) = protected().await;
    let user = User::new();
    user.declines.store(true, Ordering::SeqCst);
    user.permits.add_permits(1);
    let builder = Host::builder("test", "1").server("open", &server("open", &["t"]));
    let starting = builder.server("s", endpoint(&url, &user)).start();
    let host = timeout(TEST_TIMEOUT, starting).await.unwrap().unwrap();
    let mut events = host.status_events();
    let is_denied = || host.status("s").unwrap().reason.is_some_and(|reason| reason.contains("denied"));
    let declined = timeout(TEST_TIMEOUT, async {
        while !is_denied() {
            assert!(events.next().await.is_some(), "the host ended");
        }
    });
    assert!(declined.await.is_ok(), "{:?}", host.status("s"));
    assert_eq!(host.status("s").unwrap().state, ServerState::NeedsLogin);
    assert_eq!(user.logins.load(Ordering::SeqCst), 1);

    user.declines.store(false, Ordering::SeqCst);
    user.permits.add_permits(1);
    assert!(host.restart("s"));
    until_state(&host, "s", ServerState::Ready).await;
    assert_eq!(host.call("s__name", ()).await.unwrap().text(), "ada");
}

#[tokio::test]
async fn a_server_that_answers_401_needs_a_login() {
    let (_authorization, url) = protected().await;
    let builder = Host::builder("test", "1").server("open", &server("open", &["t"]));
    let host = builder.server("s", &*url).start().await.unwrap();
    let status = host.status("s").unwrap();
    assert_eq!(status.state, ServerState::NeedsLogin, "{status:?}");
    let error = host.call("s:name", ()).await.unwrap_err();
    assert!(matches!(error, CallError::Unavailable { state: ServerState::NeedsLogin, .. }), "{error}");
}

#[cfg(feature = "oauth")]
mod definitions {
    //! Logins with the OAuth settings of definitions.

    use std::path::Path;

    use mcp_agent::{
        config::{ConfigFile, Environment, Scope, ServerDefinition},
        connector_with_oauth,
    };
    use mcp_client::Client;
    use mcp_oauth::MemoryStore;
    use mcp_test::authorization_server::RegisteredClient;
    use serde_json::{Value, json};

    use super::*;

    /// An authorization server with one registered client, and a server that requires its tokens.
    struct Registered {
        issuer: RunningAuthorizationServer,
        url: String,
        user: User,
    }

    impl Registered {
        async fn start() -> Self {
            let client = RegisteredClient::with_secret("team-app", "hunter2").redirect_uri("http://127.0.0.1/callback");
            let builder = AuthorizationServer::builder().no_registration().scopes(["admin"]).client(client);
            let (issuer, url) = protected_by(builder).await;
            Self { issuer, url, user: User::new() }
        }

        /// Returns the definition of an entry. `change` changes the entry of a valid client.
        fn definition(&self, change: impl FnOnce(&mut Value)) -> ServerDefinition {
            let mut entry = json!({
                "url": self.url,
                "oauth": {"clientId": "team-app", "clientSecret": "${SECRET}", "scopes": ["admin"]},
                "x-mcp": {"oauthIssuer": self.issuer.issuer()},
            });
            change(&mut entry);
            let text = json!({"mcpServers": {"s": entry}}).to_string();
            let environment = Environment::default().variable("SECRET", "hunter2");
            let file = ConfigFile::parse(Path::new("/p/.mcp.json"), &text, Scope::Named, &environment).unwrap();
            assert!(file.errors.is_empty(), "{:?}", file.errors);
            file.servers.into_iter().next().unwrap()
        }

        /// Starts a host with the server of a definition and a server without a login.
        async fn host(&self, definition: &ServerDefinition) -> Host {
            let (user, store) = (self.user.clone(), MemoryStore::new());
            let builder = Host::builder("test", "1").server("open", &server("open", &["t"]));
            let builder = builder.oauth(move |definition| {
                assert_eq!(definition.name, "s");
                OAuth::builder().user_agent(user.clone()).store(store.clone())
            });
            timeout(TEST_TIMEOUT, builder.definition(definition).start()).await.unwrap().unwrap()
        }

        fn logins(&self) -> usize {
            self.user.logins.load(Ordering::SeqCst)
        }
    }

    #[tokio::test]
    async fn a_host_logs_in_with_the_client_of_the_definition() {
        let world = Registered::start().await;
        let definition = world.definition(|_| {});
        let host = world.host(&definition).await;
        world.user.permits.add_permits(1);
        until_state(&host, "s", ServerState::Ready).await;
        assert_eq!(host.call("s:name", ()).await.unwrap().text(), "ada");
        assert_eq!(host.call("s:admin", ()).await.unwrap().text(), "administered");

        // The store keeps the login of a replaced definition.
        let changed = definition.clone().call_timeout(Duration::from_secs(30));
        timeout(TEST_TIMEOUT, host.replace_definition(&changed)).await.unwrap().unwrap();
        assert_eq!(host.call("s:admin", ()).await.unwrap().text(), "administered");
        assert_eq!(world.logins(), 1);
        timeout(TEST_TIMEOUT, host.shutdown()).await.unwrap();

        let builder = OAuth::builder().user_agent(world.user.clone());
        world.user.permits.add_permits(1);
        let client = Client::connect(connector_with_oauth(&definition, builder).unwrap());
        let client = timeout(TEST_TIMEOUT, client).await.unwrap().unwrap();
        assert_eq!(client.call_tool("admin", ()).await.unwrap().text(), "administered");
    }

    #[tokio::test]
    async fn a_definition_without_a_usable_client_opens_no_page() {
        let world = Registered::start().await;
        let occupied = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = occupied.local_addr().unwrap().port();
        type Change = Box<dyn FnOnce(&mut Value)>;
        let changes: [(&str, Change, ServerState, String); 5] = [
            ("no issuer", Box::new(|entry| entry["x-mcp"] = json!({})), ServerState::Failed, "`oauthIssuer`".into()),
            (
                "no id",
                Box::new(|entry| entry["oauth"]["clientId"] = Value::Null),
                ServerState::Failed,
                "a client id".into(),
            ),
            (
                "other issuer",
                Box::new(|entry| entry["x-mcp"]["oauthIssuer"] = "https://as.example".into()),
                ServerState::NeedsLogin,
                "the configured issuer is https://as.example".into(),
            ),
            (
                "port",
                Box::new(move |entry| entry["oauth"]["callbackPort"] = port.into()),
                ServerState::NeedsLogin,
                format!("the port {port} of 127.0.0.1"),
            ),
            (
                "header",
                Box::new(|entry| entry["headers"] = json!({"authorization": "Bearer x"})),
                ServerState::NeedsLogin,
                "401".into(),
            ),
        ];
        for (name, change, state, reason) in changes {
            let host = world.host(&world.definition(change)).await;
            let status = host.status("s").unwrap();
            assert_eq!(status.state, state, "{name}: {status:?}");
            let mut found = status.reason.unwrap_or_default();
            let error = host.start_error("s").unwrap();
            let mut cause = std::error::Error::source(&error);
            while let Some(error) = cause {
                found.push_str(&format!(": {error}"));
                cause = error.source();
            }
            assert!(found.contains(&reason) && !found.contains("hunter2"), "{name}: {found}");
        }
        assert_eq!(world.logins(), 0);
    }
}
