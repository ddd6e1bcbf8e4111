//! Keys that an issuer publishes.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::{
    super::key_cache::{KeyCache, Lookup},
    *,
};

const MINUTE: Duration = Duration::from_secs(60);

fn set(signer: &Signer, ids: &[&str]) -> KeySet {
    let keys: Vec<Value> = ids.iter().map(|id| signer.jwk(id)).collect();
    KeySet::parse(json!({"keys": keys}).to_string().as_bytes()).unwrap()
}

fn name(lookup: &Lookup) -> &'static str {
    match lookup {
        Lookup::Found(_) => "found",
        Lookup::Stale(_) => "stale",
        Lookup::Fetch => "fetch",
        Lookup::Unknown => "unknown",
        Lookup::Unavailable(_) => "unavailable",
    }
}

#[test]
fn known_keys_outlive_an_outage_of_a_day() {
    let signer = Signer::es256();
    let mut cache = KeyCache::default();
    let look = |cache: &KeyCache, id, after| name(&cache.lookup(Algorithm::ES256, Some(id), now() + after));
    assert_eq!(look(&cache, "a", Duration::ZERO), "fetch");
    assert!(cache.begin(now()));
    cache.complete(Some(set(&signer, &["a"])), now());
    for (id, after, expected) in [
        ("a", Duration::from_secs(599), "found"),
        ("a", Duration::from_secs(600), "stale"),
        ("b", Duration::from_secs(1), "fetch"),
    ] {
        assert_eq!(look(&cache, id, after), expected, "{id} {after:?}");
    }
    // The issuer is away for more than a day.
    let mut time = 10 * MINUTE;
    while time < 24 * 60 * MINUTE {
        assert!(cache.begin(now() + time) && cache.begin(now() + time) && cache.begin(now() + time));
        assert!(!cache.begin(now() + time), "a fourth fetch in one minute");
        cache.complete(None, now() + time);
        assert_eq!(look(&cache, "a", time), "found");
        assert_eq!(look(&cache, "b", time), "unavailable");
        time += MINUTE;
    }
    assert_eq!(look(&cache, "a", time), "fetch", "keys of a day ago are not used");
    assert!(cache.begin(now() + time));
    cache.complete(Some(set(&signer, &["b"])), now() + time);
    assert_eq!(look(&cache, "b", time), "found");
}

#[test]
fn a_wrong_key_id_is_invalid_when_the_issuer_answers() {
    let mut cache = KeyCache::default();
    for _ in 0..3 {
        assert!(cache.begin(now()));
        cache.complete(Some(set(&Signer::es256(), &["a"])), now());
    }
    assert_eq!(name(&cache.lookup(Algorithm::ES256, Some("b"), now())), "unknown");
    // The clock is set back.
    assert_eq!(name(&cache.lookup(Algorithm::ES256, Some("a"), now() - MINUTE)), "found");
}

/// An issuer on this machine.
struct Issuer {
    url: String,
    keys: Arc<Mutex<Option<String>>>,
    fetches: Arc<AtomicUsize>,
}

impl Issuer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let keys: Arc<Mutex<Option<String>>> = Arc::default();
        let fetches: Arc<AtomicUsize> = Arc::default();
        let (issuer, shared, counted) = (url.clone(), Arc::clone(&keys), Arc::clone(&fetches));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = vec![0; 4096];
                let read = stream.read(&mut request).await.unwrap_or(0);
                let head = String::from_utf8_lossy(&request[..read]).into_owned();
                let path = head.split(' ').nth(1).unwrap_or_default();
                let (status, body) = match path {
                    "/.well-known/openid-configuration" => {
                        ("200 OK", json!({"issuer": issuer, "jwks_uri": format!("{issuer}/keys")}).to_string())
                    }
                    "/keys" => {
                        counted.fetch_add(1, Ordering::SeqCst);
                        let keys = shared.lock().clone();
                        keys.map_or(("503 Service Unavailable", String::new()), |keys| ("200 OK", keys))
                    }
                    _ => ("404 Not Found", String::new()),
                };
                let length = body.len();
                let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
                let _ = stream.write_all((head + &body).as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
        Self { url, keys, fetches }
    }

    fn publish(&self, signer: &Signer, ids: &[&str]) {
        let keys: Vec<Value> = ids.iter().map(|id| signer.jwk(id)).collect();
        *self.keys.lock() = Some(json!({"keys": keys}).to_string());
    }

    fn fetches(&self) -> usize {
        self.fetches.load(Ordering::SeqCst)
    }

    /// Returns a provider for this issuer, and a function that moves its clock.
    fn provider(&self) -> (Jwt, impl Fn(Duration)) {
        let mut jwt = Jwt::issuer(&self.url).unwrap();
        let (clock, advance) = Clock::manual(now());
        jwt.verified.clock = clock.clone();
        let Keys::Remote(keys) = &mut jwt.keys else { panic!("keys from a URL") };
        Arc::get_mut(keys).unwrap().clock = clock;
        (jwt, advance)
    }

    fn token(&self, signer: &Signer, id: &str) -> String {
        let mut claims = changed("iss", &json!(self.url));
        claims["exp"] = json!(NOW + 1_000_000);
        signer.token(id, &claims)
    }
}

fn is_unavailable(result: &Result<Principal, Rejection>) -> bool {
    matches!(result, Err(Rejection::Unavailable { .. }))
}

#[tokio::test]
async fn keys_are_discovered_and_a_rotation_is_seen_by_the_next_token() {
    let issuer = Issuer::start().await;
    let (old, new) = (Signer::es256(), Signer::es256());
    issuer.publish(&old, &["old"]);
    let (jwt, _) = issuer.provider();
    check(&jwt, &issuer.token(&old, "old")).await.unwrap();
    check(&jwt, &issuer.token(&old, "old")).await.unwrap();
    assert_eq!(issuer.fetches(), 1);
    issuer.publish(&new, &["new"]);
    check(&jwt, &issuer.token(&new, "new")).await.unwrap();
    assert_eq!(check(&jwt, &issuer.token(&old, "old")).await, Err(Rejection::Invalid));
}

#[tokio::test]
async fn random_key_ids_cause_three_fetches_in_a_minute() {
    let issuer = Issuer::start().await;
    let signer = Signer::es256();
    issuer.publish(&signer, &["known"]);
    let (jwt, advance) = issuer.provider();
    for minute in 1..=2 {
        for number in 0..200 {
            let got = check(&jwt, &issuer.token(&signer, &format!("random-{minute}-{number}"))).await;
            assert_eq!(got, Err(Rejection::Invalid));
            check(&jwt, &issuer.token(&signer, "known")).await.unwrap();
        }
        assert_eq!(issuer.fetches(), minute * 3);
        advance(MINUTE);
    }
}

#[tokio::test]
async fn parallel_requests_share_one_fetch() {
    let issuer = Issuer::start().await;
    let signer = Signer::es256();
    issuer.publish(&signer, &["a"]);
    let jwt = Arc::new(issuer.provider().0);
    let token = issuer.token(&signer, "a");
    let checks: Vec<_> = (0..50)
        .map(|_| {
            let (jwt, token) = (Arc::clone(&jwt), token.clone());
            tokio::spawn(async move { check(&jwt, &token).await })
        })
        .collect();
    for check in checks {
        check.await.unwrap().unwrap();
    }
    assert_eq!(issuer.fetches(), 1);
}

#[tokio::test]
async fn an_outage_is_unavailable_for_new_keys_only() {
    let issuer = Issuer::start().await;
    let signer = Signer::es256();
    let (jwt, advance) = issuer.provider();
    let first = check(&jwt, &issuer.token(&signer, "a")).await;
    assert!(is_unavailable(&first), "{first:?}");
    issuer.publish(&signer, &["a"]);
    check(&jwt, &issuer.token(&signer, "a")).await.unwrap();
    *issuer.keys.lock() = None;
    advance(60 * MINUTE);
    check(&jwt, &issuer.token(&signer, "a")).await.unwrap();
    let unknown = check(&jwt, &issuer.token(&signer, "b")).await;
    assert!(is_unavailable(&unknown), "{unknown:?}");
}

#[tokio::test]
async fn large_key_sets_and_foreign_metadata_are_refused() {
    let issuer = Issuer::start().await;
    let signer = Signer::es256();
    let ids: Vec<String> = (0..101).map(|number| format!("k{number}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    issuer.publish(&signer, &ids);
    let (jwt, advance) = issuer.provider();
    assert!(is_unavailable(&check(&jwt, &issuer.token(&signer, "k1")).await));
    *issuer.keys.lock() = Some(format!("{{\"keys\":[],\"x\":\"{}\"}}", "x".repeat(2 << 20)));
    assert!(is_unavailable(&check(&jwt, &issuer.token(&signer, "k1")).await));
    advance(MINUTE);
    // The metadata of the issuer has the name without a slash.
    issuer.publish(&signer, &["a"]);
    let mut foreign = Jwt::issuer(format!("{}/", issuer.url)).unwrap();
    foreign.verified.clock = Clock::manual(now()).0;
    assert!(is_unavailable(&check(&foreign, &issuer.token(&signer, "a")).await));
}
