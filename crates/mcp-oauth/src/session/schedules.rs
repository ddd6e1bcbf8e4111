//! The renewal of tokens in random schedules: each refresh token serves one renewal, and each request has current tokens.

use bytes::Bytes;
use http::StatusCode;
use mcp_protocol::auth::AuthorizationServerMetadata;
use mcp_test::schedule::{Schedule, explore};
use mcp_transport::BoxFuture;
use parking_lot::Mutex;
use serde_json::json;
use url::form_urlencoded;

use super::*;
use crate::{MemoryStore, OAuth, SharedStore, TokenStore, tokens::Grant};

const SEEDS: u64 = 48;
const ENDPOINT: &str = "https://mcp.example/mcp";
const ISSUER: &str = "https://as.example";
/// The requests of each process.
const REQUESTS: usize = 5;

/// An authorization server that replaces each refresh token.
struct Issuer {
    schedule: Schedule,
    issued: Mutex<Issued>,
}

#[derive(Default)]
struct Issued {
    /// The number of the newest tokens.
    newest: usize,
    /// The response with the newest tokens was lost, so the client can repeat its request.
    is_lost: bool,
    /// The requests with a refresh token that another renewal has used.
    reused: usize,
}

impl Issuer {
    async fn answer(&self, url: Url, body: Bytes) -> Option<(StatusCode, Bytes)> {
        self.schedule.pause().await;
        if url.path().starts_with("/.well-known/") {
            let mut metadata = AuthorizationServerMetadata::new(ISSUER);
            metadata.token_endpoint = Some(format!("{ISSUER}/token"));
            return Some((StatusCode::OK, serde_json::to_vec(&metadata).unwrap().into()));
        }
        let (answer, is_lost) = {
            let mut issued = self.issued.lock();
            let sent = form_urlencoded::parse(&body).find(|(name, _)| name == "refresh_token");
            let sent = sent.and_then(|(_, token)| number(&token)).unwrap();
            if sent == issued.newest {
                issued.newest += 1;
            } else if sent + 1 != issued.newest || !issued.is_lost {
                issued.reused += 1;
                let refusal = json!({ "error": "invalid_grant" });
                return Some((StatusCode::BAD_REQUEST, refusal.to_string().into()));
            }
            issued.is_lost = self.schedule.chance(10);
            let (access, refresh) = (name("access", issued.newest), name("refresh", issued.newest));
            // Some tokens end at once, so that the next request renews them.
            let life = if self.schedule.chance(60) { 0 } else { 3600 };
            let answer =
                json!({ "access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": life });
            (answer, issued.is_lost)
        };
        self.schedule.pause().await;
        (!is_lost).then(|| (StatusCode::OK, answer.to_string().into()))
    }
}

fn name(kind: &str, number: usize) -> String {
    format!("{kind}-{number}")
}

fn number(token: &str) -> Option<usize> {
    token.rsplit('-').next()?.parse().ok()
}

fn number_of(tokens: &Tokens) -> usize {
    number(tokens.access_token.expose()).unwrap()
}

/// Returns the tokens of an earlier login, which have expired.
fn expired() -> Tokens {
    Tokens {
        issuer: ISSUER.to_owned(),
        is_legacy: false,
        client_id: "https://app.example/client.json".to_owned(),
        resource: None,
        dpop_key: None,
        access_token: name("access", 0).into(),
        refresh_token: Some(name("refresh", 0).into()),
        is_revoked: false,
        obtained_at: 0,
        logged_in_at: 0,
        expires_at: Some(1),
        requested: Vec::new(),
        granted: None,
        grant: Grant::Login,
    }
}

/// Requests the tokens at a random time. Some requests are dropped.
async fn request(session: &Arc<Session>, schedule: &Schedule) {
    for _ in 0..schedule.below(6) {
        schedule.pause().await;
    }
    let before = session.current().map_or(0, |tokens| number_of(&tokens));
    let requested = match schedule.chance(30) {
        true => schedule.run_or_drop(session.tokens()).await,
        false => Some(session.tokens().await),
    };
    match requested {
        Some(Ok(tokens)) => {
            let tokens = tokens.unwrap();
            assert!(number_of(&tokens) >= before.max(1), "{} after {before}", number_of(&tokens));
        }
        Some(Err(error)) => assert!(error.is_temporary(), "{error}"),
        None => {}
    }
}

async fn renewals(schedule: Schedule, store: impl TokenStore + Clone, processes: usize) {
    let issuer = Arc::new(Issuer { schedule: schedule.clone(), issued: Mutex::default() });
    let answering = issuer.clone();
    let fetch = Fetch::builder().answers(move |url, body| {
        let issuer = answering.clone();
        Box::pin(async move { issuer.answer(url, body).await })
    });
    let fetch = fetch.build();
    let record = serde_json::to_string(&expired()).unwrap();
    store.save(&format!("tokens/{ENDPOINT}"), &record.into()).await.unwrap();
    let sessions: Vec<_> = (0..processes)
        .map(|_| {
            let auth = OAuth::builder().store(store.clone()).fetch(fetch.clone()).build();
            auth.session(&ENDPOINT.parse().unwrap()).unwrap()
        })
        .collect();
    let requests = sessions.iter().flat_map(|session| std::iter::repeat_n(session, REQUESTS)).map(|session| {
        let schedule = &schedule;
        Box::pin(async move { request(session, schedule).await }) as BoxFuture<'_, ()>
    });
    schedule.run_all(requests).await;
    for session in &sessions {
        session.finish_renewals().await;
    }
    let issued = issuer.issued.lock();
    assert_eq!(issued.reused, 0, "two renewals have sent one refresh token");
    assert!(issued.newest > 0);
}

#[test]
fn each_refresh_token_serves_one_renewal_of_a_process() {
    explore(SEEDS, async |schedule: Schedule| renewals(schedule, MemoryStore::new(), 1).await);
}

#[test]
fn each_refresh_token_serves_one_renewal_of_two_processes() {
    explore(SEEDS, async |schedule: Schedule| {
        let store = SharedStore::new(Arc::new(schedule.store(0)));
        renewals(schedule, store, 2).await;
    });
}
