//! No log record, error or debug text contains a secret.

use std::{
    io,
    sync::{Arc, Mutex},
};

use mcp_oauth::MemoryStore;
use mcp_test::authorization_server::{AuthorizationServer, Misbehavior, RegisteredClient};
use tracing_subscriber::{filter::LevelFilter, fmt::MakeWriter};

use crate::common::World;

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

#[test]
fn texts_contain_no_secrets() {
    let written = Written::default();
    let subscriber = tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_writer(written.clone()).finish();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (secrets, texts) = tracing::subscriber::with_default(subscriber, || runtime.block_on(run()));
    let mut text = written.text();
    assert!(text.contains("a user must log in"), "the log is captured");
    // The records of the test authorization server are not those of the client.
    text = text.lines().filter(|line| line.contains("mcp_oauth") || line.contains("mcp_fetch")).collect();
    text.extend(texts);
    assert!(secrets.len() > 10);
    for (name, secret) in secrets {
        assert!(!text.contains(&secret), "{name} is in a text");
    }
}

/// Logs in, refreshes and fails. Returns all secrets of the run, and the texts that it produced.
async fn run() -> (Vec<(String, String)>, Vec<String>) {
    let client = RegisteredClient::with_secret("app", "hunter2-client").redirect_uri("http://127.0.0.1/callback");
    let world = World::with(AuthorizationServer::builder().client(client)).await;
    let store = MemoryStore::new();
    let build = || {
        world
            .builder()
            .client_id("app")
            .client_secret("hunter2-client")
            .issuer(world.authorization.issuer())
            .store(store.clone())
    };
    let mut texts = vec![format!("{:?}", build()), format!("{store:?}")];
    let mut tokens = vec![world.site.token(&build().build()).await];
    world.site.expire(&store).await;
    let auth = build().build();
    tokens.push(world.site.token(&auth).await);
    world.site.expire(&store).await;
    for misbehavior in [Misbehavior::WrongIss, Misbehavior::WrongTokenType, Misbehavior::ResourceRejected] {
        world.authorization.misbehave(Misbehavior::RefreshRejected);
        world.authorization.misbehave(misbehavior);
        let auth = build().build();
        let error = world.site.error(&auth).await;
        texts.extend([format!("{auth:?}"), format!("{error:?} {error}")]);
        if let Some(error) = error.oauth_error() {
            texts.push(format!("{error:?}"));
        }
        world.authorization.behave();
    }
    let mut secrets: Vec<_> = tokens.into_iter().map(|token| ("access token".to_owned(), token)).collect();
    secrets.push(("client secret".into(), "hunter2-client".into()));
    for request in world.authorization.requests() {
        for name in ["code", "code_verifier", "state", "refresh_token", "client_secret"] {
            if let Some(value) = request.parameter(name) {
                secrets.push((name.into(), value.into()));
            }
        }
        if let Some(value) = request.headers().get("authorization") {
            secrets.push(("authorization".into(), value.to_str().unwrap().into()));
        }
    }
    (secrets, texts)
}
