//! Tests of the state machine, without a network and with a clock of the test.

mod authorization;
mod clients;
mod device;
mod dpop;
mod grants;
mod inspect;
mod misbehavior;
mod refresh;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use mcp_store::{KeyPage, KeyValue, MemoryStore, StoreError, StoreFuture, Swap};
use serde_json::Value;
use url::{Url, form_urlencoded};

use super::{AuthorizationServer, AuthorizationServerBuilder, RegisteredClient, clock, issue::object};

const ISSUER: &str = "http://127.0.0.1:8000";
const RESOURCE: &str = "http://127.0.0.1:9000/mcp";
const REDIRECT_URI: &str = "http://127.0.0.1:7777/callback";
/// The verifier and the challenge of RFC 7636 appendix B.
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
const SECRET: &str = "hunter2";

/// A server with two clients: `app` without a secret, and `service` with a secret.
fn builder() -> AuthorizationServerBuilder {
    AuthorizationServer::builder()
        .auto_approve()
        .subject("alice")
        .scopes(["read", "write"])
        .client(RegisteredClient::public("app").redirect_uri("http://127.0.0.1/callback"))
        .client(RegisteredClient::with_secret("service", SECRET).redirect_uri("https://service.example/callback"))
}

/// A server and the time of the test.
struct Machine {
    server: AuthorizationServer,
    now: SystemTime,
}

/// A response with its body as JSON. Another body is null.
#[derive(Debug)]
struct Answer {
    response: Response<Bytes>,
    json: Value,
}

impl Machine {
    fn new(builder: AuthorizationServerBuilder) -> Self {
        Self { server: builder.build(ISSUER).unwrap(), now: UNIX_EPOCH + Duration::from_secs(1_800_000_000) }
    }

    fn advance(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    async fn send(&self, request: Request<Bytes>) -> Answer {
        let response = self.server.respond(request, self.now).await;
        let json = serde_json::from_slice(response.body()).unwrap_or_default();
        Answer { response, json }
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(Request::get(path).body(Bytes::new()).unwrap()).await
    }

    async fn post(&self, path: &str, form: &[(&str, &str)], headers: &[(&str, &str)]) -> Answer {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let mut request = Request::post(path).header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(body.into()).unwrap()).await
    }

    /// Sends an authorization request of `app` with some parameters in the place of the usual ones. An empty value removes
    /// the parameter.
    async fn authorize(&self, changes: &[(&str, &str)]) -> Answer {
        let usual = [
            ("response_type", "code"),
            ("client_id", "app"),
            ("redirect_uri", REDIRECT_URI),
            ("state", "s1"),
            ("scope", "read write"),
            ("resource", RESOURCE),
            ("code_challenge", CHALLENGE),
            ("code_challenge_method", "S256"),
        ];
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(changed(&usual, changes)).finish();
        self.get(&format!("/authorize?{query}")).await
    }

    /// Returns a code of `app`.
    async fn code(&self) -> String {
        self.authorize(&[]).await.redirected("code").unwrap()
    }

    /// Redeems a code with some parameters in the place of the usual ones.
    async fn redeem(&self, code: &str, changes: &[(&str, &str)]) -> Answer {
        let usual = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", REDIRECT_URI),
            ("code_verifier", VERIFIER),
            ("client_id", "app"),
        ];
        self.post("/token", &changed(&usual, changes), &[]).await
    }

    /// Logs `app` in and returns the tokens.
    async fn log_in(&self) -> Answer {
        let code = self.code().await;
        self.redeem(&code, &[]).await
    }

    async fn refresh(&self, token: &str, changes: &[(&str, &str)]) -> Answer {
        let usual = [("grant_type", "refresh_token"), ("refresh_token", token), ("client_id", "app")];
        self.post("/token", &changed(&usual, changes), &[]).await
    }

    /// Checks a JWT with the key set and returns its claims.
    async fn claims(&self, token: &str) -> Value {
        let keys = self.get("/jwks").await.json;
        mcp_auth::jose::verify(&keys, token, Some("at+jwt")).unwrap().into()
    }
}

impl Answer {
    fn status(&self) -> StatusCode {
        self.response.status()
    }

    fn text(&self) -> &str {
        std::str::from_utf8(self.response.body()).unwrap()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name).and_then(|value| value.to_str().ok())
    }

    /// Returns the status and the error code of JSON.
    fn error(&self) -> (u16, &str) {
        (self.status().as_u16(), self.json["error"].as_str().unwrap_or_default())
    }

    /// Returns a text member of JSON.
    fn member(&self, name: &str) -> &str {
        self.json[name].as_str().unwrap_or_else(|| panic!("`{name}` is missing in {self:?}"))
    }

    /// Returns a parameter of a redirect.
    fn redirected(&self, name: &str) -> Option<String> {
        let location = Url::parse(self.header("location")?).unwrap();
        location.query_pairs().find(|(other, _)| other == name).map(|(_, value)| value.into_owned())
    }
}

fn changed<'a>(usual: &[(&'a str, &'a str)], changes: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let is_changed = |name: &str| changes.iter().any(|(other, _)| *other == name);
    let kept = usual.iter().filter(|(name, _)| !is_changed(name));
    kept.chain(changes.iter().filter(|(_, value)| !value.is_empty())).copied().collect()
}

/// A store that lets other tasks run before each operation, so that concurrent requests interleave. It can be away.
#[derive(Debug, Default)]
struct YieldingStore {
    memory: MemoryStore,
    is_away: AtomicBool,
}

impl YieldingStore {
    async fn ready(&self) -> Result<&MemoryStore, StoreError> {
        tokio::task::yield_now().await;
        let is_away = self.is_away.load(Ordering::Relaxed);
        if is_away { Err(StoreError::unavailable("a deliberate outage")) } else { Ok(&self.memory) }
    }
}

impl KeyValue for YieldingStore {
    fn get<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Arc<[u8]>>> {
        Box::pin(async move { self.ready().await?.get(key).await })
    }

    fn put<'a>(&'a self, key: &'a str, value: Arc<[u8]>, ttl: Option<Duration>) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.ready().await?.put(key, value, ttl).await })
    }

    fn compare_and_swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a [u8]>,
        new: Option<Arc<[u8]>>,
        ttl: Option<Duration>,
    ) -> StoreFuture<'a, Swap> {
        Box::pin(async move { self.ready().await?.compare_and_swap(key, expected, new, ttl).await })
    }

    fn delete<'a>(&'a self, key: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(async move { self.ready().await?.delete(key).await })
    }

    fn list<'a>(&'a self, prefix: &'a str, after: Option<&'a str>, limit: usize) -> StoreFuture<'a, KeyPage> {
        Box::pin(async move { self.ready().await?.list(prefix, after, limit).await })
    }
}
