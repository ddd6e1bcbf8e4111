//! Keys that an issuer publishes.

use std::{
    future::Future as _,
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

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
        Lookup::Join => "join",
        Lookup::Unavailable(_) => "unavailable",
    }
}

#[test]
fn known_keys_outlive_an_outage_of_a_day() {
    let signer = Signer::es256();
    let start = Instant::now();
    let mut cache = KeyCache::default();
    let look = |cache: &mut KeyCache, id, after| name(&cache.lookup(Algorithm::ES256, Some(id), start + after));
    assert_eq!(look(&mut cache, "a", Duration::ZERO), "fetch");
    assert_eq!(look(&mut cache, "a", Duration::ZERO), "join");
    cache.complete(Some(set(&signer, &["a"])), start);
    for (id, after, expected) in [
        ("a", Duration::from_secs(599), "found"),
        ("a", Duration::from_secs(600), "stale"),
        // One caller fetches the keys, and the others use them.
        ("a", Duration::from_secs(600), "found"),
        ("b", Duration::from_secs(600), "join"),
    ] {
        assert_eq!(look(&mut cache, id, after), expected, "{id} {after:?}");
    }
    cache.complete(None, start + 10 * MINUTE);
    // The issuer is away for more than a day.
    let mut time = 11 * MINUTE;
    while time < 24 * 60 * MINUTE {
        for expected in ["stale", "stale", "stale", "found"] {
            assert_eq!(look(&mut cache, "a", time), expected, "{time:?}");
            cache.complete(None, start + time);
        }
        assert_eq!(look(&mut cache, "b", time), "unavailable");
        time += MINUTE;
    }
    assert_eq!(look(&mut cache, "a", time), "fetch", "keys of a day ago are not used");
    cache.complete(Some(set(&signer, &["b"])), start + time);
    assert_eq!(look(&mut cache, "b", time), "found");
}

#[test]
fn a_key_is_unknown_only_after_a_successful_fetch() {
    let start = Instant::now();
    let mut cache = KeyCache::default();
    let fetched = |cache: &KeyCache, id| cache.fetched(Algorithm::ES256, Some(id), start).map(|keys| keys.len());
    cache.complete(Some(set(&Signer::es256(), &["a"])), start);
    assert_eq!((fetched(&cache, "a"), fetched(&cache, "b")), (Ok(1), Err(Fault::NoKey)));
    cache.complete(None, start);
    assert!(matches!(fetched(&cache, "b"), Err(Fault::Unavailable(_))));
    // A set without keys replaces the known keys.
    cache.complete(Some(set(&Signer::es256(), &[])), start);
    assert_eq!(fetched(&cache, "a"), Err(Fault::NoKey));
}

#[test]
fn a_flood_of_random_key_ids_causes_three_fetches_in_a_minute() {
    const TOKENS: u32 = 100_000;
    let (start, signer) = (Instant::now(), Signer::es256());
    for time in [Duration::ZERO, MINUTE, 10 * MINUTE] {
        let mut cache = KeyCache::default();
        let mut fetches: Vec<Instant> = Vec::new();
        for number in 0..TOKENS {
            let now = start + time * number / TOKENS;
            let id = format!("random-{number}");
            match cache.lookup(Algorithm::ES256, Some(&id), now) {
                Lookup::Fetch => {
                    fetches.push(now);
                    // Each other fetch fails.
                    let keys = fetches.len().is_multiple_of(2).then(|| set(&signer, &["known"]));
                    cache.complete(keys, now);
                    assert!(cache.fetched(Algorithm::ES256, Some(&id), now).is_err());
                }
                Lookup::Unavailable(_) => {}
                other => panic!("{number}: {}", name(&other)),
            }
        }
        let in_one_minute =
            |at: &Instant| fetches.iter().filter(|other| **other >= *at && **other < *at + MINUTE).count();
        let most = fetches.iter().map(in_one_minute).max();
        assert_eq!(most, Some(3), "{time:?}");
        assert!(matches!(cache.lookup(Algorithm::ES256, Some("known"), start + time), Lookup::Found(_)), "{time:?}");
    }
}

/// A response with a status, a location and a body.
type Odd = (&'static str, &'static str, &'static str);

/// An issuer on this machine.
struct Issuer {
    url: String,
    keys: Arc<Mutex<Option<String>>>,
    /// The status, the location and the body at the first URL of the metadata.
    first: Arc<Mutex<Option<Odd>>>,
    fetches: Arc<AtomicUsize>,
}

impl Issuer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let keys: Arc<Mutex<Option<String>>> = Arc::default();
        let fetches: Arc<AtomicUsize> = Arc::default();
        let first: Arc<Mutex<Option<Odd>>> = Arc::default();
        let (issuer, shared, counted) = (url.clone(), Arc::clone(&keys), Arc::clone(&fetches));
        let odd = Arc::clone(&first);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = vec![0; 4096];
                let read = stream.read(&mut request).await.unwrap_or(0);
                let head = String::from_utf8_lossy(&request[..read]).into_owned();
                let path = head.split(' ').nth(1).unwrap_or_default();
                let mut extra = String::new();
                let odd = *odd.lock();
                let (status, body) = match path {
                    "/.well-known/oauth-authorization-server" if odd.is_some() => {
                        let (status, location, body) = odd.unwrap_or_default();
                        if !location.is_empty() {
                            extra = format!("location: {location}\r\n");
                        }
                        (status, body.to_owned())
                    }
                    "/login" => ("200 OK", "<html>".to_owned()),
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
                let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{extra}connection: close\r\n\r\n");
                let _ = stream.write_all((head + &body).as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
        Self { url, keys, first, fetches }
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
        let (clock, advance) = Clock::manual(now());
        (with_clock(Jwt::issuer(&self.url).unwrap(), clock), advance)
    }

    fn token(&self, signer: &Signer, id: &str) -> String {
        let mut claims = changed("iss", &json!(self.url));
        claims["exp"] = json!(NOW + 1_000_000);
        signer.token(id, &claims)
    }
}

fn with_clock(mut jwt: Jwt, clock: Clock) -> Jwt {
    let Keys::Remote(keys) = &jwt.keys else { panic!("keys from a URL") };
    let source = keys.source.clone();
    let (Source::Issuer(url) | Source::Url(url)) = &source;
    let fetch = fetch_for(url).unwrap();
    jwt.keys = Keys::Remote(Arc::new(RemoteKeys::new(source, fetch, clock.clone())));
    jwt.clock = clock;
    jwt
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
            if number < 3 {
                assert_eq!(got, Err(Rejection::Invalid), "{number}");
            } else {
                assert!(is_unavailable(&got), "{number}: {got:?}");
            }
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
    let (jwt, advance) = issuer.provider();
    for count in [101, 10_000] {
        let mut keys: Vec<Value> = (1..count).map(|number| json!({ "kid": number.to_string() })).collect();
        keys.push(signer.jwk("k1"));
        *issuer.keys.lock() = Some(json!({ "keys": keys }).to_string());
        assert!(is_unavailable(&check(&jwt, &issuer.token(&signer, "k1")).await), "{count}");
    }
    *issuer.keys.lock() = Some(json!({"keys": [signer.jwk("k1")], "x": "x".repeat(2 << 20)}).to_string());
    assert!(is_unavailable(&check(&jwt, &issuer.token(&signer, "k1")).await));
    advance(MINUTE);
    // The metadata of the issuer has the name without a slash.
    issuer.publish(&signer, &["a"]);
    let name = format!("{}/", issuer.url);
    let foreign = with_clock(Jwt::issuer(&*name).unwrap(), Clock::manual(now()).0);
    assert!(is_unavailable(&check(&foreign, &signer.token("a", &changed("iss", &json!(name)))).await));
}

#[tokio::test]
async fn a_request_that_ends_does_not_end_the_fetch() {
    let issuer = Issuer::start().await;
    let signer = Signer::es256();
    issuer.publish(&signer, &["a"]);
    let (jwt, _) = issuer.provider();
    let token = issuer.token(&signer, "a");
    // The request ends after its first step, which starts the fetch.
    let mut request = Box::pin(check(&jwt, &token));
    let first = std::future::poll_fn(|context| std::task::Poll::Ready(request.as_mut().poll(context))).await;
    assert!(first.is_pending());
    drop(request);
    check(&jwt, &token).await.unwrap();
    assert_eq!(issuer.fetches(), 1);
}

#[tokio::test]
async fn tokens_with_wrong_claims_cause_no_fetch() {
    let issuer = Issuer::start().await;
    let signer = Signer::es256();
    issuer.publish(&signer, &["a"]);
    let (jwt, _) = issuer.provider();
    for (name, value, expected) in [
        ("iss", json!("https://other.example"), Rejection::Invalid),
        ("aud", json!("https://other.example/mcp"), Rejection::Invalid),
        ("sub", json!(""), Rejection::Invalid),
    ] {
        let mut claims = changed("iss", &json!(issuer.url));
        claims[name] = value;
        assert_eq!(check(&jwt, &signer.token("a", &claims)).await, Err(expected), "{name}");
    }
    assert_eq!(issuer.fetches(), 0);
    check(&jwt, &issuer.token(&signer, "a")).await.unwrap();
}

#[tokio::test]
async fn only_a_token_of_the_issuer_has_expired() {
    let issuer = Issuer::start().await;
    let (signer, stranger) = (Signer::es256(), Signer::es256());
    issuer.publish(&signer, &["a"]);
    let (jwt, _) = issuer.provider();
    let mut claims = changed("iss", &json!(issuer.url));
    claims["exp"] = json!(NOW - 100);
    assert_eq!(check(&jwt, &stranger.token("a", &claims)).await, Err(Rejection::Invalid));
    assert_eq!(check(&jwt, &signer.token("a", &claims)).await, Err(Rejection::Expired));
}

#[tokio::test]
async fn a_replaced_key_with_the_same_id_is_seen_once_in_a_minute() {
    let issuer = Issuer::start().await;
    let (old, new, stranger) = (Signer::es256(), Signer::es256(), Signer::es256());
    issuer.publish(&old, &["a"]);
    let (jwt, advance) = issuer.provider();
    check(&jwt, &issuer.token(&old, "a")).await.unwrap();
    issuer.publish(&new, &["a"]);
    check(&jwt, &issuer.token(&new, "a")).await.unwrap();
    assert_eq!(issuer.fetches(), 2);
    for fetches in [2, 3] {
        for number in 0..10 {
            let mut claims = changed("iss", &json!(issuer.url));
            claims["exp"] = json!(NOW + 1_000_000);
            claims["jti"] = json!(format!("{fetches}-{number}"));
            assert_eq!(check(&jwt, &stranger.token("a", &claims)).await, Err(Rejection::Invalid));
        }
        assert_eq!(issuer.fetches(), fetches);
        advance(MINUTE);
    }
}

#[tokio::test]
async fn ages_of_keys_do_not_depend_on_the_time_of_day() {
    let issuer = Issuer::start().await;
    let signer = Signer::es256();
    issuer.publish(&signer, &["a"]);
    let (clock, advance) = Clock::manual(now());
    // The time of day stands still.
    let jwt = with_clock(Jwt::issuer(&issuer.url).unwrap(), clock.with_time(now()));
    check(&jwt, &issuer.token(&signer, "a")).await.unwrap();
    *issuer.keys.lock() = None;
    advance(25 * 60 * MINUTE);
    assert!(is_unavailable(&check(&jwt, &issuer.token(&signer, "a")).await));
}

#[tokio::test]
async fn an_issuer_can_withdraw_all_keys() {
    let issuer = Issuer::start().await;
    let signer = Signer::es256();
    issuer.publish(&signer, &["a"]);
    let (jwt, advance) = issuer.provider();
    check(&jwt, &issuer.token(&signer, "a")).await.unwrap();
    issuer.publish(&signer, &[]);
    advance(MINUTE);
    assert_eq!(check(&jwt, &issuer.token(&signer, "b")).await, Err(Rejection::Invalid));
    assert_eq!(check(&jwt, &issuer.token(&signer, "a")).await, Err(Rejection::Invalid));
}

#[tokio::test]
async fn discovery_continues_after_a_document_of_another_purpose() {
    for (status, location, body) in [
        ("302 Found", "/login", "<html>"),
        ("302 Found", "https://login.example/", ""),
        ("200 OK", "", "<html>"),
        ("200 OK", "", r#"{"issuer":"https://other.example"}"#),
        ("500 Internal Server Error", "", ""),
    ] {
        let issuer = Issuer::start().await;
        let signer = Signer::es256();
        issuer.publish(&signer, &["a"]);
        *issuer.first.lock() = Some((status, location, body));
        let (jwt, _) = issuer.provider();
        let got = check(&jwt, &issuer.token(&signer, "a")).await;
        assert!(got.is_ok(), "{status} {location} {body}: {got:?}");
    }
}
