//! The providers through the trait, as a server uses them.

#![allow(clippy::unwrap_used, reason = "helpers outside the test functions fail the test too")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine as _};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header::AUTHORIZATION};
use mcp_auth::{
    ApiKeys, AuthRequest, Authenticated, Authenticator, Basic, BearerTokens, BoxFuture, Chain, ConfigError, Custom,
    Jwt, Policy, Rejection, Scheme, hash_api_key,
};
use mcp_protocol::{Challenge, Principal, ProtectedResourceMetadata, auth::Secret};
use ring::hmac;

const PEPPER: &[u8] = b"pepper-pepper-16";
const RESOURCE: &str = "https://mcp.example.com/mcp";

/// Returns the subject and the scheme of the caller.
async fn check(auth: &dyn Authenticator, lines: &[(&str, &str)]) -> Result<(String, String), Rejection> {
    let principal = principal(auth, lines).await?;
    Ok((principal.subject.clone(), principal.scheme.clone().unwrap_or_default()))
}

async fn principal(auth: &dyn Authenticator, lines: &[(&str, &str)]) -> Result<Arc<Principal>, Rejection> {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap());
    }
    let request = AuthRequest::new(&Method::POST, RESOURCE, &headers);
    auth.authenticate(&request).await.map(|authenticated| authenticated.principal)
}

fn accepted(subject: &str, scheme: &str) -> Result<(String, String), Rejection> {
    Ok((subject.to_owned(), scheme.to_owned()))
}

#[tokio::test]
async fn api_keys_are_found_in_each_stored_form() {
    let keys = ApiKeys::new()
        .pepper(PEPPER)
        .unwrap()
        .key("plain-key", Principal::new("plain"))
        .unwrap()
        .key("old-key", Principal::new("old").with_expires_at(SystemTime::UNIX_EPOCH))
        .unwrap()
        .key("new-key", Principal::new("new").with_expires_at(SystemTime::now() + Duration::from_secs(3600)))
        .unwrap()
        .hashed_key(&hash_api_key(PEPPER, "hashed-key"), Principal::new("hashed"))
        .unwrap()
        // The SHA-256 of `hunter2`.
        .hashed_key("F52FBD32B2B3B86FF88EF6C490628285F482AF15DDCB29541F94BCF526A3F6C7", Principal::new("sha"))
        .unwrap();
    for (header, value, expected) in [
        ("x-api-key", "plain-key", accepted("plain", "ApiKey")),
        ("authorization", "ApiKey plain-key", accepted("plain", "ApiKey")),
        ("x-api-key", "hashed-key", accepted("hashed", "ApiKey")),
        ("x-api-key", "hunter2", accepted("sha", "ApiKey")),
        ("x-api-key", "old-key", Err(Rejection::Expired)),
        ("x-api-key", "new-key", accepted("new", "ApiKey")),
        ("x-api-key", "plain-ke", Err(Rejection::Invalid)),
        ("x-api-key", "", Err(Rejection::Malformed)),
        // A hash is not a key.
        ("x-api-key", &hash_api_key(PEPPER, "hashed-key"), Err(Rejection::Invalid)),
        ("x-other", "plain-key", Err(Rejection::Missing)),
        ("authorization", "Bearer plain-key", Err(Rejection::Missing)),
    ] {
        assert_eq!(check(&keys, &[(header, value)]).await, expected, "{header}: {value}");
    }
    let other = ApiKeys::new().header("X-Team").unwrap().key("k", Principal::new("t")).unwrap();
    assert_eq!(check(&other, &[("x-team", "k")]).await, accepted("t", "ApiKey"));
    // An empty value is not a key, whatever the configuration is.
    for header in ["authorization", "x-api-key"] {
        let keys = ApiKeys::new().header(header).unwrap();
        for value in ["", " "] {
            assert_eq!(check(&keys, &[(header, value)]).await, Err(Rejection::Malformed), "{header} {value:?}");
        }
    }
    assert_eq!(check(&other, &[("x-api-key", "k")]).await, Err(Rejection::Missing));
    assert_eq!(other.challenges()[0].to_string(), r#"ApiKey header="x-team""#);
    assert_eq!(other.request_headers(), ["x-team", "authorization"]);
}

#[test]
fn invalid_api_key_settings_are_errors() {
    let hash = hash_api_key(PEPPER, "k");
    for (result, expected) in [
        (ApiKeys::new().hashed_key(&hash, Principal::new("a")), "the hash of the key needs a pepper"),
        (
            ApiKeys::new().pepper(PEPPER).unwrap().hashed_key("hmac-sha256$AA==", Principal::new("a")),
            "the hash of the key must be",
        ),
        (ApiKeys::new().hashed_key(&"g".repeat(64), Principal::new("a")), "the hash of the key must be"),
        (ApiKeys::new().hashed_key("plain", Principal::new("a")), "the hash of the key must be"),
        (ApiKeys::new().hashed_key(&"+5".repeat(32), Principal::new("a")), "the hash of the key must be"),
        (ApiKeys::new().header("a b"), "the name of the header"),
        (ApiKeys::new().key("", Principal::new("ann")), "the key of `ann` is empty"),
        (ApiKeys::new().key(" \t", Principal::new("bob")), "the key of `bob` is empty"),
        (ApiKeys::new().key("key\n", Principal::new("bob")), "the key of `bob` begins or ends with white space"),
        (ApiKeys::new().key(" key", Principal::new("bob")), "the key of `bob` begins or ends with white space"),
        (ApiKeys::new().key("k\u{e9}y", Principal::new("bob")), "the key of `bob` contains a character"),
        (ApiKeys::new().key("k\ny", Principal::new("bob")), "the key of `bob` contains a character"),
        (
            ApiKeys::new().key("key", Principal::new("ann")).and_then(|keys| keys.key("key", Principal::new("bob"))),
            "the credentials of `bob` were added before, for `ann`",
        ),
        (
            ApiKeys::new()
                .pepper(PEPPER)
                .and_then(|keys| keys.hashed_key(&hash, Principal::new("ann")))
                .and_then(|keys| keys.hashed_key(&hash, Principal::new("bob"))),
            "the credentials of `bob` were added before, for `ann`",
        ),
        (ApiKeys::new().pepper(b""), "the pepper must have at least 16 bytes"),
        (ApiKeys::new().pepper(&[7; 15]), "the pepper must have at least 16 bytes"),
        (
            ApiKeys::new()
                .pepper(PEPPER)
                .and_then(|keys| keys.hashed_key(&hash, Principal::new("a")))
                .and_then(|keys| keys.pepper(&[7; 32])),
            "the pepper must be set before",
        ),
    ] {
        let text = result.map(|_| ()).unwrap_err().to_string();
        assert!(text.starts_with(expected), "{text}");
    }
}

#[test]
fn a_key_and_its_hash_are_not_two_entries() {
    const SHA256_OF_KEY: &str = "f52fbd32b2b3b86ff88ef6c490628285f482af15ddcb29541f94bcf526a3f6c7";
    let key = "hunter2";
    let hash = hash_api_key(PEPPER, key);
    type Add<'a> = &'a dyn Fn(ApiKeys, &str) -> Result<ApiKeys, ConfigError>;
    let plain: Add<'_> = &|keys, subject| keys.key(key, Principal::new(subject));
    let hmac: Add<'_> = &|keys, subject| keys.hashed_key(&hash, Principal::new(subject));
    let sha256: Add<'_> = &|keys, subject| keys.hashed_key(SHA256_OF_KEY, Principal::new(subject));
    let other: Add<'_> = &|keys, subject| keys.key("another key", Principal::new(subject));
    for (name, first, second, is_duplicate) in [
        ("a hash after its key", plain, hmac, true),
        ("a key after its hash", hmac, plain, true),
        ("a hash without a pepper after its key", plain, sha256, true),
        ("a key after its hash without a pepper", sha256, plain, true),
        ("a hash after another key", other, hmac, false),
        ("another key after a hash", hmac, other, false),
    ] {
        let keys = ApiKeys::new().pepper(PEPPER).and_then(|keys| first(keys, "ann"));
        let text = keys.and_then(|keys| second(keys, "bob")).err().map(|error| error.to_string());
        let expected = "the credentials of `bob` were added before, for `ann`: each entry needs its own";
        assert_eq!(text.as_deref(), is_duplicate.then_some(expected), "{name}");
    }
    // A pepper after a key could not show that a hash is the hash of that key.
    let late = ApiKeys::new().key(key, Principal::new("ann")).and_then(|keys| keys.pepper(PEPPER));
    assert_eq!(late.unwrap_err().to_string(), "the pepper must be set before the keys and the hashes of keys");
}

#[tokio::test]
async fn the_hash_with_a_pepper_counts_if_a_key_has_two_hashes() {
    let sha256 = "f52fbd32b2b3b86ff88ef6c490628285f482af15ddcb29541f94bcf526a3f6c7";
    let keys = ApiKeys::new()
        .pepper(PEPPER)
        .and_then(|keys| keys.hashed_key(sha256, Principal::new("old")))
        .and_then(|keys| keys.hashed_key(&hash_api_key(PEPPER, "hunter2"), Principal::new("new")))
        .unwrap();
    for _ in 0..2 {
        assert_eq!(check(&keys, &[("x-api-key", "hunter2")]).await, accepted("new", "ApiKey"));
    }
}

#[test]
fn an_empty_token_is_an_error() {
    for token in ["", " "] {
        let text = BearerTokens::new().token(token, Principal::new("ann")).unwrap_err().to_string();
        assert_eq!(text, "the token of `ann` is empty");
    }
}

#[test]
fn a_token_that_no_client_can_use_is_an_error() {
    for (token, expected) in [
        ("token\n", "the token of `ann` begins or ends with white space"),
        ("a b", "the token of `ann` contains a character that a client cannot send"),
        ("a,b", "the token of `ann` contains a character that a client cannot send"),
        ("t\u{f6}ken", "the token of `ann` contains a character that a client cannot send"),
        ("used", "the credentials of `ann` were added before, for `bob`: each entry needs its own"),
    ] {
        let tokens = BearerTokens::new().token("used", Principal::new("bob")).unwrap();
        let text = tokens.token(token, Principal::new("ann")).unwrap_err().to_string();
        assert_eq!(text, expected, "{token:?}");
    }
}

#[tokio::test]
async fn a_key_may_contain_spaces() {
    let keys = ApiKeys::new().key("a key with !~ characters", Principal::new("a")).unwrap();
    for line in [("x-api-key", "a key with !~ characters"), ("authorization", "ApiKey a key with !~ characters")] {
        assert_eq!(check(&keys, &[line]).await, accepted("a", "ApiKey"), "{line:?}");
    }
}

struct Ticket;

impl Scheme for Ticket {
    fn challenge(&self) -> Challenge {
        Challenge::new("Ticket").with_realm("gate")
    }

    fn verify<'a>(&'a self, credentials: &'a str) -> BoxFuture<'a, Result<Principal, Rejection>> {
        let result = match credentials {
            "good" => Ok(Principal::new("holder")),
            "barred" => Err(Rejection::Forbidden),
            "later" => Err(Rejection::Unavailable { retry_after: Duration::from_secs(1) }),
            "old" => Err(Rejection::Expired),
            _ => Err(Rejection::Invalid),
        };
        Box::pin(std::future::ready(result))
    }
}

#[tokio::test]
async fn a_chain_prefers_the_most_precise_rejection() {
    let chain = Chain::new()
        .with(Jwt::hs256("https://as.example", &[7; 32]).unwrap())
        .with(BearerTokens::new().token("fixed", Principal::new("fixed")).unwrap())
        .with(Custom::new(Ticket))
        .with(ApiKeys::new().key("key", Principal::new("key")).unwrap());
    for (lines, expected) in [
        (&[][..], Err(Rejection::Missing)),
        (&[("authorization", "Bearer fixed")], accepted("fixed", "Bearer")),
        (&[("authorization", "Bearer other")], Err(Rejection::Invalid)),
        (&[("authorization", "Ticket good")], accepted("holder", "Ticket")),
        (&[("authorization", "ticket old")], Err(Rejection::Expired)),
        (&[("authorization", "Ticket barred"), ("x-api-key", "key")], Err(Rejection::Forbidden)),
        (&[("authorization", "Ticket old"), ("x-api-key", "key")], accepted("key", "ApiKey")),
        (
            &[("authorization", "Ticket later"), ("x-api-key", "wrong")],
            Err(Rejection::Unavailable { retry_after: Duration::from_secs(1) }),
        ),
        (&[("authorization", "Ticket ")], Err(Rejection::Malformed)),
        (&[("authorization", "Digest x")], Err(Rejection::Missing)),
    ] {
        assert_eq!(check(&chain, lines).await, expected, "{lines:?}");
    }
    let challenges: Vec<String> = chain.challenges().iter().map(ToString::to_string).collect();
    assert_eq!(challenges, ["Bearer", r#"Ticket realm="gate""#, r#"ApiKey header="x-api-key""#]);
    assert_eq!(chain.request_headers(), ["authorization", "x-api-key"]);
}

#[tokio::test]
async fn policies_allow_callers_and_expand_scopes() {
    let tokens = || {
        BearerTokens::new()
            .token("ann", Principal::new("1").with_claim("login", "Ann").with_scopes(["admin"]))
            .unwrap()
            .token("bob", Principal::new("2").with_claim("login", "bob").with_scopes(["write"]))
            .unwrap()
            .token("cid", Principal::new("3").with_claim("login", 3))
            .unwrap()
    };
    let scopes = Policy::new(tokens())
        .scope_implies("admin", ["write", "audit"])
        .scope_implies("write", ["read"])
        // A cycle ends.
        .scope_implies("read", ["write"]);
    for (token, expected) in
        [("ann", &["admin", "audit", "read", "write"][..]), ("bob", &["read", "write"]), ("cid", &[])]
    {
        let principal = principal(&scopes, &[("authorization", &format!("Bearer {token}"))]).await.unwrap();
        assert!(principal.scopes.iter().eq(expected), "{token}: {principal:?}");
    }
    let allowed = Policy::new(tokens()).allow_subjects(["2"]).allow_claim_ignoring_case("login", ["ANN"]);
    for (token, expected) in [("ann", true), ("bob", true), ("cid", false)] {
        let got = check(&allowed, &[("authorization", &format!("Bearer {token}"))]).await;
        assert_eq!(got.as_ref().err(), (!expected).then_some(&Rejection::Forbidden), "{token}");
    }
    assert_eq!(check(&allowed, &[]).await, Err(Rejection::Missing));
}

#[tokio::test]
async fn rules_compare_values_exactly() {
    let tokens = || {
        BearerTokens::new()
            // The Kelvin sign is `k` in lower case.
            .token("kelvin", Principal::new("1").with_issuer("https://a.example").with_claim("login", "\u{212a}im"))
            .unwrap()
            .token("kim", Principal::new("2").with_issuer("https://a.example").with_claim("login", "kim"))
            .unwrap()
            .token("other", Principal::new("2").with_issuer("https://b.example").with_claim("login", "Kim"))
            .unwrap()
            .token("none", Principal::new("2"))
            .unwrap()
    };
    for (rule, expected) in [
        (Policy::new(tokens()).allow_claim("login", ["kim"]), [false, true, false, false]),
        (Policy::new(tokens()).allow_claim_ignoring_case("login", ["KIM"]), [false, true, true, false]),
        (Policy::new(tokens()).allow_principals("https://a.example", ["2"]), [false, true, false, false]),
        (Policy::new(tokens()).allow_subjects(["2"]), [false, true, true, true]),
        // Any rule allows a caller.
        (Policy::new(tokens()).allow_subjects(["1"]).allow_claim("login", ["kim"]), [true, true, false, false]),
    ] {
        for (token, expected) in ["kelvin", "kim", "other", "none"].into_iter().zip(expected) {
            let got = check(&rule, &[("authorization", &format!("Bearer {token}"))]).await;
            assert_eq!(got.is_ok(), expected, "{token}: {rule:?}");
        }
    }
}

struct Hung;

impl Scheme for Hung {
    fn challenge(&self) -> Challenge {
        Challenge::new("Ticket")
    }

    fn verify<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Principal, Rejection>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn hung_checks_end_within_the_time_of_the_chain() {
    let start = tokio::time::Instant::now();
    let one = check(&Custom::new(Hung), &[("authorization", "Ticket x")]).await;
    assert!(matches!(one, Err(Rejection::Unavailable { .. })), "{one:?}");
    assert_eq!(start.elapsed(), Duration::from_secs(10));
    let chain = (0..5).fold(Chain::new(), |chain, _| chain.with(Custom::new(Hung)));
    let all = check(&chain, &[("authorization", "Ticket x")]).await;
    assert!(matches!(all, Err(Rejection::Unavailable { .. })), "{all:?}");
    assert_eq!(start.elapsed(), Duration::from_secs(30));
}

#[tokio::test]
async fn the_function_of_an_application_checks_keys_and_tokens() {
    for (remembered, expected_calls) in [(Duration::ZERO, 4), (Duration::from_secs(60), 2)] {
        let calls = Arc::new(AtomicUsize::new(0));
        let verify = |name: &'static str| {
            let calls = Arc::clone(&calls);
            move |secret: Secret| {
                calls.fetch_add(1, Ordering::SeqCst);
                async move { Ok::<_, Rejection>((secret.expose() == "checked").then(|| Principal::new(name))) }
            }
        };
        let keys = ApiKeys::new().verify_with(verify("key")).remember_for(remembered);
        let tokens = BearerTokens::new().verify_with(verify("token")).remember_for(remembered);
        for _ in 0..2 {
            assert_eq!(check(&keys, &[("x-api-key", "checked")]).await, accepted("key", "ApiKey"));
            assert_eq!(check(&tokens, &[("authorization", "Bearer checked")]).await, accepted("token", "Bearer"));
        }
        assert_eq!(calls.load(Ordering::SeqCst), expected_calls);
    }
}

#[tokio::test]
async fn a_result_that_is_known_without_a_wait_is_that_of_the_check() {
    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
    let signed = signed_token(SECRET);
    let forged = format!("{}x", &signed[..signed.len() - 1]);
    let basic = |user: &str| format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:hunter2")));
    let keys = || ApiKeys::new().key("key", Principal::new("key")).unwrap();
    let tokens = || BearerTokens::new().token("token", Principal::new("token")).unwrap();
    let jwt = || Jwt::hs256("https://as.example", SECRET).unwrap();
    let checked = ApiKeys::new().verify_with(async |key: Secret| {
        Ok::<_, Rejection>((key.expose() == "checked").then(|| Principal::new("checked")))
    });
    // The SHA-256 of `hunter2`.
    let digest = "f52fbd32b2b3b86ff88ef6c490628285f482af15ddcb29541f94bcf526a3f6c7";
    let users = Basic::new("tools").user("ann", digest, Principal::new("ann")).unwrap();
    let policy = Policy::new(tokens()).allow_subjects(["other"]);
    let scopes = Policy::new(tokens()).scope_implies("a", ["b"]);
    let chain = Chain::new().with(jwt()).with(keys()).with(tokens());
    let remote = ApiKeys::new().verify_with(async |_: Secret| Ok::<_, Rejection>(None));
    let mixed = Chain::new().with(remote).with(jwt()).with(tokens());
    let custom = Custom::new(Ticket);
    let all: [(&str, &dyn Authenticator); 11] = [
        ("keys", &keys()),
        ("tokens", &tokens()),
        ("jwt", &jwt()),
        ("checked", &checked),
        ("users", &users),
        ("policy", &policy),
        ("scopes", &scopes),
        ("chain", &chain),
        ("mixed", &mixed),
        ("custom", &custom),
        ("shared", &Arc::new(keys())),
    ];
    let requests: Vec<Vec<(&str, String)>> = vec![
        vec![],
        vec![("x-api-key", "key".into())],
        vec![("x-api-key", "checked".into())],
        vec![("x-api-key", String::new())],
        vec![("authorization", "Bearer token".into())],
        vec![("authorization", "Bearer a b".into())],
        vec![("authorization", format!("Bearer {signed}"))],
        vec![("authorization", format!("Bearer {forged}"))],
        vec![("authorization", basic("ann"))],
        vec![("authorization", basic("bob"))],
        vec![("authorization", "Basic ?".into())],
        vec![("authorization", "Ticket good".into())],
        vec![("authorization", "Ticket bad".into())],
        vec![("authorization", "Bearer token".into()), ("x-api-key", "wrong".into())],
    ];
    for (name, auth) in all {
        for lines in &requests {
            let headers = lines.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            let headers: HeaderMap = headers.collect();
            let request = AuthRequest::new(&Method::POST, RESOURCE, &headers);
            let shown = |result: Result<Authenticated, Rejection>| {
                result.map(|it| (it.principal, it.valid_until, it.has_rejected_credentials))
            };
            let before = auth.authenticate_now(&request).map(shown);
            let expected = shown(auth.authenticate(&request).await);
            assert!(before.as_ref().is_none_or(|before| *before == expected), "{name} {lines:?}: {before:?}");
            // The check has stored its result. A scheme of the application has no store.
            let after = auth.authenticate_now(&request).map(shown);
            assert_eq!(after, (name != "custom").then_some(expected), "{name} {lines:?}");
        }
    }
}

#[tokio::test]
async fn a_chain_reports_credentials_that_a_provider_rejected() {
    let chain = Chain::new()
        .with(ApiKeys::new().key("right", Principal::new("key")).unwrap())
        .with(BearerTokens::new().token("token", Principal::new("token")).unwrap());
    let chain = Chain::new().with(Policy::new(chain)).with(ApiKeys::new());
    for (key, expected) in [(None, Ok(false)), (Some("wrong"), Ok(true)), (Some("right"), Ok(false))] {
        let mut headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer token"))]);
        if let Some(key) = key {
            headers.insert("x-api-key", key.parse().unwrap());
        }
        let request = AuthRequest::new(&Method::POST, RESOURCE, &headers);
        let result = chain.authenticate(&request).await.map(|authenticated| authenticated.has_rejected_credentials);
        assert_eq!(result, expected, "{key:?}");
    }
}

#[tokio::test]
async fn a_chain_reports_only_wrong_and_unreadable_credentials_as_rejected() {
    let away = || Rejection::Unavailable { retry_after: Duration::from_secs(1) };
    for (rejections, expected) in [
        (vec![Rejection::Missing], false),
        (vec![Rejection::Expired], false),
        (vec![away()], false),
        (vec![Rejection::FreshProof { nonce: HeaderValue::from_static("n") }], false),
        (vec![Rejection::Invalid], true),
        (vec![Rejection::Malformed], true),
        (vec![Rejection::InvalidProof], true),
        // The outage is the more precise rejection, and it does not hide the other.
        (vec![Rejection::Invalid, away()], true),
        (vec![away(), Rejection::Malformed], true),
    ] {
        let chain = rejections.iter().fold(Chain::new(), |chain, rejection| chain.with(Rejecting(rejection.clone())));
        let chain = chain.with(BearerTokens::new().token("token", Principal::new("ann")).unwrap());
        let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer token"))]);
        let request = AuthRequest::new(&Method::POST, RESOURCE, &headers);
        let authenticated = chain.authenticate(&request).await.unwrap();
        assert_eq!(authenticated.has_rejected_credentials, expected, "{rejections:?}");
    }
}

#[test]
fn each_rejection_has_its_response() {
    let second = Duration::from_secs(1);
    let nonce = HeaderValue::from_static("n");
    for (rejection, status, header, bearer, dpop) in [
        (Rejection::Missing, 401, None, None, None),
        (Rejection::Malformed, 400, None, Some("invalid_request"), Some("invalid_request")),
        (Rejection::Invalid, 401, None, Some("invalid_token"), Some("invalid_token")),
        (Rejection::Expired, 401, None, Some("invalid_token"), Some("invalid_token")),
        (Rejection::Forbidden, 403, None, None, None),
        (Rejection::InvalidProof, 401, None, None, Some("invalid_dpop_proof")),
        (Rejection::FreshProof { nonce }, 401, Some(("dpop-nonce", "n")), None, Some("use_dpop_nonce")),
        (Rejection::Unavailable { retry_after: second * 5 }, 503, Some(("retry-after", "5")), None, None),
        (Rejection::TooManyFailures { retry_after: second / 2 }, 429, Some(("retry-after", "1")), None, None),
    ] {
        assert_eq!(rejection.status(), status, "{rejection:?}");
        let headers = rejection.headers();
        let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(headers, Vec::from_iter(header), "{rejection:?}");
        for (scheme, expected) in [("Bearer", bearer), ("DPoP", dpop), ("Basic", None)] {
            let challenge = rejection.challenge(Challenge::new(scheme));
            let description = expected.map(|_| rejection.to_string());
            assert_eq!((challenge.error.as_deref(), challenge.error_description), (expected, description), "{scheme}");
        }
    }
}

#[tokio::test]
async fn shared_authenticators_and_policies_answer_like_their_provider() {
    let shared: Arc<dyn Authenticator> = Arc::new(Gate);
    for auth in [&Arc::clone(&shared) as &dyn Authenticator, &Policy::new(Gate), &Policy::new(shared)] {
        assert_eq!(check(auth, &[]).await, accepted("later", ""));
        let headers = HeaderMap::new();
        let known = auth.authenticate_now(&AuthRequest::new(&Method::POST, RESOURCE, &headers));
        assert_eq!(known.unwrap().unwrap().principal.subject, "now");
        assert_eq!(auth.challenges(), [Challenge::new("Gate")]);
        assert_eq!(auth.request_headers(), ["x-gate"]);
        assert_eq!(auth.authorization_servers(), ["https://as.example"]);
        let mut metadata = ProtectedResourceMetadata::new(RESOURCE, Vec::<String>::new());
        auth.describe(&mut metadata);
        assert_eq!(metadata.resource_name.as_deref(), Some("gate"));
    }
}

/// An authenticator that has an answer to each question of a server.
struct Gate;

impl Authenticator for Gate {
    fn authenticate<'a>(&'a self, _: &'a AuthRequest<'a>) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
        Box::pin(async { Ok(Authenticated::new(Principal::new("later"))) })
    }

    fn authenticate_now(&self, _: &AuthRequest<'_>) -> Option<Result<Authenticated, Rejection>> {
        Some(Ok(Authenticated::new(Principal::new("now"))))
    }

    fn challenges(&self) -> Vec<Challenge> {
        vec![Challenge::new("Gate")]
    }

    fn request_headers(&self) -> Vec<HeaderName> {
        vec![HeaderName::from_static("x-gate")]
    }

    fn authorization_servers(&self) -> Vec<String> {
        vec!["https://as.example".to_owned()]
    }

    fn describe(&self, metadata: &mut ProtectedResourceMetadata) {
        metadata.resource_name = Some("gate".to_owned());
    }
}

/// An authenticator that rejects each request for one reason.
struct Rejecting(Rejection);

impl Authenticator for Rejecting {
    fn authenticate<'a>(&'a self, _: &'a AuthRequest<'a>) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
        Box::pin(async { Err(self.0.clone()) })
    }

    fn challenges(&self) -> Vec<Challenge> {
        Vec::new()
    }
}

/// Returns a token for `ann` that is signed with HS256.
fn signed_token(secret: &[u8]) -> String {
    let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    let claims = format!(r#"{{"iss":"https://as.example","aud":"{RESOURCE}","sub":"ann","exp":4000000000}}"#);
    let message = format!("{}.{}", encode(br#"{"alg":"HS256"}"#), encode(claims.as_bytes()));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message.as_bytes());
    format!("{message}.{}", encode(tag.as_ref()))
}
