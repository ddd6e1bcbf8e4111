//! No log record, error or debug text contains a secret.

use std::{
    error::Error as StdError,
    fmt::Debug,
    io,
    sync::{Arc, Mutex},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use mcp_fetch::Fetch;
use mcp_oauth::{
    Error, ErrorKind, IdentityProvider, Keyring as _, MemoryStore, Revocation, SealedStore, SharedStore,
    SubjectTokenType, TokenStore,
};
use mcp_test::authorization_server::{
    AuthorizationServer, Endpoint, Misbehavior, RegisteredClient, ResponseFault, RunningAuthorizationServer,
};
use mcp_transport::BoxFuture;
use serde_json::{Value, json};
use tracing_subscriber::{filter::LevelFilter, fmt::MakeWriter};
use url::form_urlencoded;

use crate::{
    common::{Site, User, World, claims_of},
    device::{self, Decision},
    echo,
    machines::{issuer, key},
    sealed::FakeKeyring,
};

/// The text of a log. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Written {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// The secrets of a run, with their names, and the texts that the run produced.
#[derive(Default)]
struct Run {
    secrets: Vec<(String, String)>,
    texts: Vec<String>,
}

impl Run {
    fn secret(&mut self, name: &str, value: &str) {
        assert!(value.len() > 3, "{name} is too short for a search");
        self.secrets.push((name.to_owned(), value.to_owned()));
    }

    fn debug(&mut self, values: &[&dyn Debug]) {
        self.texts.extend(values.iter().map(|value| format!("{value:?} {value:#?}")));
    }

    /// Adds the texts of an error and of its sources.
    fn error(&mut self, error: &Error) {
        self.debug(&[&error.oauth_error(), error]);
        let mut next: Option<&dyn StdError> = Some(error);
        while let Some(error) = next {
            self.texts.push(format!("{error} {error:?}"));
            next = error.source();
        }
    }

    /// Adds the secrets of all requests to an authorization server.
    fn requests(&mut self, server: &RunningAuthorizationServer) {
        for request in server.requests() {
            for (name, value) in request.parameters() {
                if echo::is_secret(name) || name == "state" && request.endpoint() == Endpoint::Authorization {
                    self.secret(name, value);
                }
            }
            for name in ["authorization", "dpop"] {
                if let Some(value) = request.headers().get(name) {
                    self.secret(name, value.to_str().unwrap());
                }
            }
            if let Some(proof) = request.headers().get("dpop")
                && let Some(nonce) = claims_of(proof.to_str().unwrap())["nonce"].as_str()
            {
                self.secret("nonce", nonce);
            }
        }
    }

    /// Adds the secrets of the stored tokens.
    async fn tokens(&mut self, site: &Site, store: &dyn TokenStore) {
        let record = store.load(&site.key()).await.unwrap().unwrap();
        let record: Value = serde_json::from_str(record.expose()).unwrap();
        for name in ["access_token", "refresh_token", "dpop_key"] {
            if let Some(value) = record[name].as_str() {
                self.secret(name, value);
            }
        }
    }
}

/// A run, and the kinds of secrets that it must have.
type Scenario = (&'static str, fn() -> BoxFuture<'static, Run>, &'static [&'static str]);

const SCENARIOS: [Scenario; 7] = [
    (
        "login, refresh and failures",
        || Box::pin(log_in_and_fail()),
        &["access_token", "refresh_token", "code", "code_verifier", "state", "authorization", "client secret"],
    ),
    (
        "bound tokens",
        || Box::pin(bind_tokens()),
        &["access_token", "refresh_token", "code", "dpop", "dpop_key", "nonce"],
    ),
    ("device flow", || Box::pin(log_in_with_a_code()), &["access_token", "refresh_token", "device_code", "user code"]),
    ("step-up", || Box::pin(step_up()), &["access_token", "refresh_token", "code", "code_verifier"]),
    (
        "machines",
        || Box::pin(act_for_itself()),
        &["access_token", "authorization", "client secret", "client_assertion", "assertion", "subject_token"],
    ),
    (
        "an authorization server that repeats the request",
        || Box::pin(meet_echo()),
        &["refresh_token", "client secret", "code", "code_verifier", "assertion", "token"],
    ),
    ("sealed records", || Box::pin(seal()), &["access_token", "keyring"]),
];

#[test]
fn texts_contain_no_secrets() {
    for (scenario, run, kinds) in SCENARIOS {
        let written = Written::default();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(LevelFilter::TRACE)
            .with_writer(written.clone())
            .finish();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let run = tracing::subscriber::with_default(subscriber, || runtime.block_on(run()));
        // The records of the test authorization server are not those of the client.
        let log = written.text();
        let mut text: String = log.lines().filter(|line| !line.contains(" mcp_test::")).collect();
        assert!(text.contains("TRACE"), "{scenario}: the log is captured");
        text.extend(run.texts);
        for kind in kinds {
            assert!(run.secrets.iter().any(|(name, _)| name == kind), "{scenario}: there is no {kind}");
        }
        for (name, secret) in run.secrets {
            for form in [form_urlencoded::byte_serialize(secret.as_bytes()).collect(), secret] {
                assert!(!text.contains(&form), "{scenario}: {name} is in a text");
            }
        }
    }
}

/// Logs in, refreshes, and meets faults of the authorization server.
async fn log_in_and_fail() -> Run {
    let mut run = Run::default();
    let client = RegisteredClient::with_secret("app", "hunter2-client").redirect_uri("http://127.0.0.1/callback");
    let mut world = World::with(AuthorizationServer::builder().client(client)).await;
    world.user.pastes = true;
    let store = MemoryStore::new();
    let build = || {
        let builder = world.builder().client_id("app").client_secret("hunter2-client");
        builder.issuer(world.authorization.issuer()).store(store.clone())
    };
    run.secret("client secret", "hunter2-client");
    run.debug(&[&build(), &store]);
    for _ in 0..2 {
        let auth = build().build();
        world.site.token(&auth).await;
        run.tokens(&world.site, &store).await;
        let login = auth.stored_login(&world.site.endpoint).await;
        run.debug(&[&auth, &login]);
        world.site.expire(&store).await;
    }
    let token = |fault| Misbehavior::Response(Endpoint::Token, fault);
    for misbehavior in [
        Misbehavior::WrongIss,
        Misbehavior::ChangedState,
        Misbehavior::WrongTokenType,
        Misbehavior::ResourceRejected,
        token(ResponseFault::Status(500)),
        token(ResponseFault::Html),
        token(ResponseFault::Huge),
        token(ResponseFault::Truncated),
        token(ResponseFault::Redirect("http://127.0.0.1:9/".into())),
    ] {
        let is_refused = !matches!(misbehavior, Misbehavior::Response(..));
        if is_refused {
            world.authorization.misbehave(Misbehavior::RefreshRejected);
        }
        world.authorization.misbehave(misbehavior);
        let auth = build().build();
        run.error(&world.site.error(&auth).await);
        run.debug(&[&auth]);
        world.authorization.behave();
    }
    let revocation = build().build().log_out(&world.site.endpoint).await.unwrap();
    assert!(matches!(revocation, Revocation::Revoked), "{revocation:?}");
    run.requests(&world.authorization);
    run
}

/// Logs in and refreshes with bound tokens, and meets an endless demand for nonces.
async fn bind_tokens() -> Run {
    let mut run = Run::default();
    let mut world = World::with(AuthorizationServer::builder().require_dpop().dpop_nonces()).await;
    world.site.require_proofs();
    *world.site.proofs().nonce.lock().unwrap() = Some("hunter2-nonce".into());
    run.secret("nonce", "hunter2-nonce");
    let store = MemoryStore::new();
    for _ in 0..2 {
        let auth = world.builder().store(store.clone()).build();
        world.site.token(&auth).await;
        run.tokens(&world.site, &store).await;
        run.debug(&[&auth]);
        world.site.expire(&store).await;
    }
    world.authorization.misbehave(Misbehavior::NonceLoop);
    run.error(&world.site.error(&world.builder().store(store).build()).await);
    run.requests(&world.authorization);
    run
}

/// Logs in with the device flow, and meets a user who denies the login.
async fn log_in_with_a_code() -> Run {
    let mut run = Run::default();
    let world = device::world(AuthorizationServer::builder()).await;
    for decision in [Decision::Approve, Decision::Deny] {
        let (reader, store) = (device::reader(&world, decision), MemoryStore::new());
        let auth = device::builder(&world, &reader).store(store.clone()).build();
        match world.site.call(&auth).await {
            Ok(_) => run.tokens(&world.site, &store).await,
            Err(error) => run.error(&error),
        }
        run.debug(&[&auth]);
        for code in reader.user_codes() {
            run.secret("user code", &code);
        }
    }
    run.requests(&world.authorization);
    run
}

/// Logs in with further scopes, with success and without.
async fn step_up() -> Run {
    let mut run = Run::default();
    let world = World::new().await;
    let store = MemoryStore::new();
    let auth = world.builder().scopes(["a"]).store(store.clone()).build();
    world.site.token(&auth).await;
    run.tokens(&world.site, &store).await;
    world.site.require(&["b"]);
    world.site.token(&auth).await;
    run.tokens(&world.site, &store).await;
    world.authorization.misbehave(Misbehavior::NarrowScope);
    world.site.require(&["c", "b"]);
    run.error(&world.site.error(&auth).await);
    run.debug(&[&auth]);
    run.requests(&world.authorization);
    run
}

/// Requests tokens without a user, with valid and invalid credentials.
async fn act_for_itself() -> Run {
    let mut run = Run::default();
    let ((client_key, keys), (wrong_key, _)) = (key(), key());
    let ((trusted, trusted_keys), (foreign, _)) = (issuer(), issuer());
    let builder = AuthorizationServer::builder().trust_issuer("https://issuer.example", trusted_keys.clone());
    let builder = builder.client(RegisteredClient::with_secret("secret", "hunter2-client"));
    let world = World::with(builder.client(RegisteredClient::with_keys("key", keys))).await;
    let provider = AuthorizationServer::builder().trust_issuer("https://issuer.example", trusted_keys);
    let provider = provider.client(RegisteredClient::public("mcp-client")).start().await.unwrap();
    let id_token = trusted.sign("mcp-client", &json!({"sub": "alice"}));
    let exchange = |token: &str| {
        let url = format!("{}/token", provider.issuer());
        let exchange = IdentityProvider::new(url, "mcp-client", SubjectTokenType::IdToken, token);
        exchange.fetch(Fetch::builder().allow_loopback(true).build())
    };
    run.secret("client secret", "hunter2-client");
    run.secret("client secret", "hunter3-client");
    run.debug(&[&client_key, &exchange(&id_token)]);
    let (own, application) = (world.builder(), || world.builder().client_id("secret"));
    for builder in [
        application().client_secret("hunter2-client").client_credentials(),
        application().client_secret("hunter3-client").client_credentials(),
        world.builder().client_id("key").client_key(client_key).client_credentials(),
        world.builder().client_id("key").client_key(wrong_key).client_credentials(),
        own.assertion(trusted),
        world.builder().assertion(foreign),
        // The authorization server does not trust the provider.
        application().client_secret("hunter2-client").assertion(exchange(&id_token)),
        application().client_secret("hunter2-client").assertion(exchange("hunter2-subject")),
    ] {
        let builder = builder.issuer(world.authorization.issuer());
        run.debug(&[&builder]);
        let auth = builder.build();
        match world.site.call(&auth).await {
            Ok((_, token)) => run.secret("access_token", &token),
            Err(error) => run.error(&error),
        }
        run.debug(&[&auth]);
    }
    run.requests(&world.authorization);
    run.requests(&provider);
    run
}

/// Meets an authorization server whose refusals repeat the request.
async fn meet_echo() -> Run {
    let mut run = Run::default();
    let server = echo::Server::start().await;
    let site = Site::start(&server.issuer).await;
    site.revoke("hunter2-access");
    let store = MemoryStore::new();
    let tokens = json!({
        "issuer": server.issuer, "client_id": "app", "access_token": "hunter2-access",
        "refresh_token": "hunter2-refresh", "obtained_at": 1, "expires_at": 2, "grant": "login"
    });
    store.save(&site.key(), &tokens.to_string().as_str().into()).await.unwrap();
    let application = || {
        let builder = mcp_oauth::OAuth::builder().client_id("app").issuer(&server.issuer);
        builder.client_secret("hunter2 client/+").user_agent(User::default())
    };
    run.secret("client secret", "hunter2 client/+");
    let basic = format!("{}:{}", "app", "hunter2+client%2F%2B");
    run.secret("client secret", &BASE64_STANDARD.encode(basic));
    let copy = MemoryStore::new();
    copy.save(&site.key(), &store.load(&site.key()).await.unwrap().unwrap()).await.unwrap();
    let revocation = application().store(copy).build().log_out(&site.endpoint).await.unwrap();
    let Revocation::Failed(error) = &revocation else { panic!("{revocation:?}") };
    run.error(error);
    run.debug(&[&revocation]);
    let mut refusals = 0;
    for builder in [
        // A refresh, and then a login.
        application().store(store),
        application().client_credentials(),
        application().assertion(issuer().0),
    ] {
        let error = site.error(&builder.build()).await;
        assert_eq!(error.kind(), ErrorKind::Token, "{error}");
        assert!(error.to_string().contains("invalid_grant: the request was "), "{error}");
        run.error(&error);
        refusals += 1;
    }
    let secrets = server.secrets();
    assert!(secrets.len() > refusals);
    for (name, value) in secrets {
        run.secret(&name, &value);
    }
    run
}

/// Seals tokens, and loses the key.
async fn seal() -> Run {
    let mut run = Run::default();
    let world = World::new().await;
    let (records, keyring) = (MemoryStore::new(), FakeKeyring::default());
    let store = || SealedStore::new(records.clone(), keyring.clone());
    let (sealed, shared) = (store(), SharedStore::new(Arc::new(mcp_store::MemoryStore::new())));
    world.site.token(&world.builder().store(sealed.clone()).build()).await;
    run.tokens(&world.site, &sealed).await;
    run.secret("keyring", keyring.get().unwrap().unwrap().expose());
    run.debug(&[&sealed, &records, &shared]);
    for entry in [None, Some("hunter2-entry")] {
        keyring.set_entry(entry);
        let auth = world.builder().store(store()).build();
        run.error(&world.site.error(&auth).await);
        run.debug(&[&auth]);
    }
    run.secret("keyring", "hunter2-entry");
    run.requests(&world.authorization);
    run
}
