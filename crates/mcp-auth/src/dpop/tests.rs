//! Proofs that the tests sign themselves.

use std::time::UNIX_EPOCH;

use http::{HeaderMap, HeaderValue, Method};
use mcp_protocol::auth::Confirmation;
use mcp_store::{KeyPage, StoreError, StoreFuture};
use serde_json::{Value, json};

use super::{proof::thumbprint, *};
use crate::{
    Jwt,
    jwt::tests::{ISSUER, NOW, RESOURCE, SECRET, Signer, at_test_time, changed, encode, now},
};

fn provider() -> Dpop<Jwt> {
    let mut dpop = Dpop::new(at_test_time(Jwt::hs256(ISSUER, SECRET).unwrap()));
    dpop.clock = Clock::manual(now()).0;
    dpop
}

/// Returns a token that is bound to the key of a signer.
fn bound(signer: &Signer) -> String {
    let jkt = thumbprint(&signer.jwk("")).unwrap();
    Signer::Secret(SECRET).token("any", &changed("cnf", &json!({"jkt": jkt})))
}

fn public(signer: &Signer) -> Value {
    let mut jwk = signer.jwk("");
    jwk.as_object_mut().unwrap().remove("kid");
    jwk
}

fn header(signer: &Signer) -> Value {
    json!({"typ": "dpop+jwt", "alg": signer.algorithm(), "jwk": public(signer)})
}

fn claims(token: &str, id: &str) -> Value {
    let hash = encode(crypto::sha256(token.as_bytes()));
    json!({"htm": "POST", "htu": RESOURCE, "iat": NOW, "jti": id, "ath": hash})
}

fn proof(signer: &Signer, token: &str, id: &str) -> String {
    signer.token_of(&header(signer).to_string(), &claims(token, id).to_string())
}

async fn check(dpop: &Dpop<Jwt>, scheme: &str, token: &str, proofs: &[&str]) -> Result<Authenticated, Rejection> {
    let mut headers = HeaderMap::new();
    headers.insert(header::AUTHORIZATION, HeaderValue::try_from(format!("{scheme} {token}")).unwrap());
    for proof in proofs {
        headers.append(DPOP, HeaderValue::try_from(*proof).unwrap());
    }
    let request = AuthRequest::new(&Method::POST, RESOURCE, &headers);
    Authenticator::authenticate(dpop, &request).await
}

#[tokio::test]
async fn a_bound_token_is_accepted_with_a_proof_of_its_key() {
    for signer in [Signer::es256(), Signer::ed25519(), Signer::rsa("RS256"), Signer::rsa("PS256")] {
        let dpop = provider();
        let token = bound(&signer);
        let authenticated = check(&dpop, "DPoP", &token, &[&proof(&signer, &token, "1")]).await.unwrap();
        let principal = &authenticated.principal;
        assert_eq!((&*principal.subject, principal.scheme.as_deref()), ("user-7", Some("DPoP")));
        let expected = Confirmation::jkt(thumbprint(&public(&signer)).unwrap());
        assert_eq!(principal.confirmation, Some(expected));
        assert!(authenticated.headers.is_empty());
    }
}

#[tokio::test]
async fn a_token_that_is_also_bound_to_a_certificate_needs_both() {
    let (signer, certificate) = (Signer::es256(), b"the certificate of the client");
    let jkt = thumbprint(&signer.jwk("")).unwrap();
    let x5t = encode(crypto::sha256(certificate));
    let token = Signer::Secret(SECRET).token("any", &changed("cnf", &json!({"jkt": jkt, "x5t#S256": x5t})));
    let dpop = provider();
    for (id, certificate, is_accepted) in
        [("1", Some(&certificate[..]), true), ("2", Some(&b"another"[..]), false), ("3", None, false)]
    {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, HeaderValue::try_from(format!("DPoP {token}")).unwrap());
        headers.insert(DPOP, HeaderValue::try_from(proof(&signer, &token, id)).unwrap());
        let request = AuthRequest::new(&Method::POST, RESOURCE, &headers);
        let request = certificate.map_or(request, |der| request.with_client_certificate(der));
        let got = Authenticator::authenticate(&dpop, &request).await.map(|_| ());
        assert_eq!(got, if is_accepted { Ok(()) } else { Err(Rejection::Invalid) }, "{id}");
    }
}

#[tokio::test]
async fn forged_proofs_are_rejected() {
    let (signer, stranger) = (Signer::es256(), Signer::es256());
    let token = bound(&signer);
    let other = bound(&stranger);
    let sign = |header: &Value, claims: &Value| signer.token_of(&header.to_string(), &claims.to_string());
    let with_header = |name: &str, value: Value| {
        let mut header = header(&signer);
        header[name] = value;
        sign(&header, &claims(&token, "1"))
    };
    let with_claim = |name: &str, value: Value| {
        let mut claims = claims(&token, "1");
        claims[name] = value;
        sign(&header(&signer), &claims)
    };
    let without_claim = |name: &str| {
        let mut claims = claims(&token, "1");
        claims.as_object_mut().unwrap().remove(name);
        sign(&header(&signer), &claims)
    };
    let mut private = public(&signer);
    private["d"] = json!("AA");
    let good = proof(&signer, &token, "1");
    let parts: Vec<&str> = good.split('.').collect();
    let mut rows: Vec<(&str, Vec<String>)> = vec![
        ("no proof", vec![]),
        ("two proofs", vec![proof(&signer, &token, "1"), proof(&signer, &token, "2")]),
        ("not a proof", vec!["x".to_owned()]),
        ("empty proof", vec![String::new()]),
        ("no signature", vec![format!("{}.{}.", parts[0], parts[1])]),
        ("changed claims", vec![format!("{}.{}.{}", parts[0], encode(claims(&token, "2").to_string()), parts[2])]),
        ("type of an access token", vec![with_header("typ", json!("at+jwt"))]),
        ("no type", vec![with_header("typ", Value::Null)]),
        ("algorithm none", vec![with_header("alg", json!("none"))]),
        ("HS256 with the public key", vec![with_header("alg", json!("HS256"))]),
        ("no key", vec![with_header("jwk", Value::Null)]),
        ("private key", vec![with_header("jwk", private)]),
        ("symmetric key", vec![with_header("jwk", json!({"kty": "oct", "k": "AA"}))]),
        ("key of another client in the header", vec![with_header("jwk", public(&stranger))]),
        ("critical extension", vec![with_header("crit", json!(["b64"]))]),
        ("other method", vec![with_claim("htm", json!("GET"))]),
        ("method of lower case", vec![with_claim("htm", json!("post"))]),
        ("other URL", vec![with_claim("htu", json!("https://evil.example/mcp"))]),
        ("relative URL", vec![with_claim("htu", json!("/mcp"))]),
        ("proof for another token", vec![proof(&signer, &other, "1")]),
        ("token hash of another type", vec![with_claim("ath", json!(1))]),
        ("old proof", vec![with_claim("iat", json!(NOW - 301))]),
        ("proof of the future", vec![with_claim("iat", json!(NOW + 301))]),
        ("time as a text", vec![with_claim("iat", json!(NOW.to_string()))]),
        ("empty id", vec![with_claim("jti", json!(""))]),
        ("long id", vec![with_claim("jti", json!("x".repeat(2_000)))]),
        ("nonce as a number", vec![with_claim("nonce", json!(1))]),
    ];
    rows.extend(["htm", "htu", "iat", "jti", "ath"].map(|name| (name, vec![without_claim(name)])));
    let dpop = provider();
    for (name, proofs) in rows {
        let proofs: Vec<&str> = proofs.iter().map(String::as_str).collect();
        let got = check(&dpop, "DPoP", &token, &proofs).await.map(|_| ());
        assert_eq!(got, Err(Rejection::InvalidProof), "{name}");
    }
    check(&dpop, "DPoP", &token, &[&good]).await.unwrap();
}

#[tokio::test]
async fn tokens_and_proofs_of_different_keys_are_rejected() {
    let (signer, thief) = (Signer::es256(), Signer::es256());
    let dpop = provider();
    let token = bound(&signer);
    let unbound = Signer::Secret(SECRET).token("any", &changed("x", &json!(1)));
    for (name, scheme, token, proofs) in [
        ("stolen token with the proof of the thief", "DPoP", &token, vec![proof(&thief, &token, "1")]),
        ("stolen token as a bearer token", "Bearer", &token, vec![]),
        ("stolen token as a bearer token with a proof", "Bearer", &token, vec![proof(&thief, &token, "2")]),
        ("token without a key", "DPoP", &unbound, vec![proof(&signer, &unbound, "3")]),
    ] {
        let proofs: Vec<&str> = proofs.iter().map(String::as_str).collect();
        let got = check(&dpop, scheme, token, &proofs).await.map(|_| ());
        assert_eq!(got, Err(Rejection::Invalid), "{name}");
    }
    // A plain bearer token is accepted unless proofs are required.
    check(&dpop, "Bearer", &unbound, &[]).await.unwrap();
    let required = provider().required();
    assert_eq!(check(&required, "Bearer", &unbound, &[]).await.map(|_| ()), Err(Rejection::Invalid));
    check(&required, "DPoP", &token, &[&proof(&signer, &token, "4")]).await.unwrap();
    let names =
        |dpop: &Dpop<Jwt>| dpop.challenges().iter().map(|challenge| challenge.scheme.clone()).collect::<Vec<_>>();
    assert_eq!((names(&dpop), names(&required)), (vec!["DPoP".into(), "Bearer".into()], vec!["DPoP".to_owned()]));
    assert_eq!(Dpop::new(Jwt::issuer(ISSUER).unwrap()).authorization_servers(), [ISSUER]);
    let mut metadata = ProtectedResourceMetadata::default();
    required.algorithms(["ES256"]).unwrap().describe(&mut metadata);
    let none = provider().algorithms([]).unwrap_err();
    assert_eq!(none.to_string(), "the list of algorithms is empty");
    assert_eq!(metadata.dpop_signing_alg_values_supported, Some(vec!["ES256".to_owned()]));
    assert_eq!(metadata.dpop_bound_access_tokens_required, Some(true));
}

#[tokio::test]
async fn a_proof_is_accepted_once_by_all_nodes_of_a_fleet() {
    let signer = Signer::es256();
    let (token, store) = (bound(&signer), Arc::new(MemoryStore::new()));
    let nodes = [(); 2].map(|()| provider().store(store.clone()));
    let (first, second) = (proof(&signer, &token, "1"), proof(&signer, &token, "2"));
    for (node, proof, expected) in [
        (0, &first, Ok(())),
        (0, &first, Err(Rejection::InvalidProof)),
        (1, &first, Err(Rejection::InvalidProof)),
        (1, &second, Ok(())),
        (0, &second, Err(Rejection::InvalidProof)),
    ] {
        let got = check(&nodes[node], "DPoP", &token, &[proof]).await.map(|_| ());
        assert_eq!(got, expected, "node {node}");
    }
    // A proof of another client may have the same id. A proof without a valid token is not stored.
    let other = Signer::es256();
    check(&nodes[0], "DPoP", &bound(&other), &[&proof(&other, &bound(&other), "1")]).await.unwrap();
    let before = store.usage().entries;
    assert_eq!(check(&nodes[0], "DPoP", "x", &[&proof(&signer, "x", "9")]).await.map(|_| ()), Err(Rejection::Invalid));
    assert_eq!(store.usage().entries, before);
}

#[tokio::test]
async fn nonces_are_demanded_and_renewed() {
    let signer = Signer::es256();
    let token = bound(&signer);
    let (clock, advance) = Clock::manual(UNIX_EPOCH + Duration::from_secs(NOW - NOW % 120));
    let mut dpop = provider().nonce_key(&[7; 32]).unwrap();
    dpop.clock = clock;
    let with_nonce = |nonce: Option<&str>, id: &str| {
        let mut claims = claims(&token, id);
        if let Some(nonce) = nonce {
            claims["nonce"] = json!(nonce);
        }
        signer.token_of(&header(&signer).to_string(), &claims.to_string())
    };
    let demanded = |result: Result<Authenticated, Rejection>| match result {
        Err(Rejection::FreshProof { nonce }) => nonce.to_str().unwrap().to_owned(),
        other => panic!("{other:?}"),
    };
    let first = demanded(check(&dpop, "DPoP", &token, &[&with_nonce(None, "1")]).await);
    assert_eq!(demanded(check(&dpop, "DPoP", &token, &[&with_nonce(Some("x"), "2")]).await), first);
    let accepted = check(&dpop, "DPoP", &token, &[&with_nonce(Some(&first), "3")]).await.unwrap();
    assert!(accepted.headers.is_empty());
    advance(Duration::from_secs(120));
    let renewed = check(&dpop, "DPoP", &token, &[&with_nonce(Some(&first), "4")]).await.unwrap();
    let second = renewed.headers[DPOP_NONCE].to_str().unwrap().to_owned();
    assert_ne!(first, second);
    advance(Duration::from_secs(120));
    demanded(check(&dpop, "DPoP", &token, &[&with_nonce(Some(&first), "5")]).await);
    check(&dpop, "DPoP", &token, &[&with_nonce(Some(&second), "6")]).await.unwrap();
    let text = provider().nonce_key(&[7; 31]).map(|_| ()).unwrap_err().to_string();
    assert_eq!(text, "the key of the nonces must have at least 32 bytes");
}

#[tokio::test]
async fn a_client_with_many_proofs_does_not_exclude_other_clients() {
    let (greedy, other) = (Signer::es256(), Signer::es256());
    let (greedy_token, other_token) = (bound(&greedy), bound(&other));
    let mut dpop = provider().store(Arc::new(MemoryStore::with_limits(MemoryLimits::default().entries(36))));
    dpop.quota = Quota::new(36);
    let (clock, advance) = Clock::manual(now());
    dpop.clock = clock;
    let unavailable = Err(Rejection::Unavailable { retry_after: Duration::from_secs(1) });
    let mut results = Vec::new();
    for number in 0..40 {
        let proof = proof(&greedy, &greedy_token, &number.to_string());
        results.push(check(&dpop, "DPoP", &greedy_token, &[&proof]).await.map(|_| ()));
    }
    assert_eq!(results[..4], [Ok(()), Ok(()), Ok(()), Ok(())]);
    assert!(results[4..].iter().all(|result| *result == unavailable), "{results:?}");
    // A used proof is still reported as used, and it takes no place.
    let first = proof(&other, &other_token, "0");
    check(&dpop, "DPoP", &other_token, &[&first]).await.unwrap();
    let before = dpop.quota.total();
    assert_eq!(check(&dpop, "DPoP", &other_token, &[&first]).await.map(|_| ()), Err(Rejection::InvalidProof));
    assert_eq!(dpop.quota.total(), before);
    // The places are free after the window and the skew of the clocks.
    let at = |seconds: u64| {
        advance(Duration::from_secs(seconds));
        let mut claims = claims(&greedy_token, &format!("after {seconds}"));
        claims["iat"] = json!(NOW + 300);
        greedy.token_of(&header(&greedy).to_string(), &claims.to_string())
    };
    let early = at(359);
    assert_eq!(check(&dpop, "DPoP", &greedy_token, &[&early]).await.map(|_| ()), unavailable);
    let later = at(2);
    check(&dpop, "DPoP", &greedy_token, &[&later]).await.unwrap();
}

/// A store that records the lifetimes of its entries.
#[derive(Debug, Default)]
struct Lifetimes(MemoryStore, parking_lot::Mutex<Vec<u64>>);

impl KeyValue for Lifetimes {
    fn get<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Arc<[u8]>>> {
        self.0.get(key)
    }

    fn put<'a>(&'a self, key: &'a str, value: Arc<[u8]>, ttl: Option<Duration>) -> StoreFuture<'a, ()> {
        self.0.put(key, value, ttl)
    }

    fn compare_and_swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a [u8]>,
        new: Option<Arc<[u8]>>,
        ttl: Option<Duration>,
    ) -> StoreFuture<'a, Swap> {
        self.1.lock().push(ttl.unwrap().as_secs());
        self.0.compare_and_swap(key, expected, new, ttl)
    }

    fn delete<'a>(&'a self, key: &'a str) -> StoreFuture<'a, bool> {
        self.0.delete(key)
    }

    fn list<'a>(&'a self, prefix: &'a str, after: Option<&'a str>, limit: usize) -> StoreFuture<'a, KeyPage> {
        self.0.list(prefix, after, limit)
    }
}

#[tokio::test]
async fn a_proof_is_stored_until_a_minute_after_its_window() {
    let signer = Signer::es256();
    let (token, store) = (bound(&signer), Arc::new(Lifetimes::default()));
    let dpop = provider().store(store.clone());
    for (age, lifetime) in [(0, 360), (300, 60), (100, 260), (-300, 660)] {
        let mut claims = claims(&token, &age.to_string());
        claims["iat"] = json!(i64::try_from(NOW).unwrap() - age);
        let proof = signer.token_of(&header(&signer).to_string(), &claims.to_string());
        check(&dpop, "DPoP", &token, &[&proof]).await.unwrap();
        assert_eq!(store.1.lock().last(), Some(&lifetime), "{age}");
    }
}

#[test]
fn the_window_of_proofs_is_bounded() {
    let set = |window| provider().window(window).map(|dpop| dpop.window);
    for window in [Duration::from_secs(1), Duration::from_secs(600)] {
        assert_eq!(set(window), Ok(window));
    }
    for window in [Duration::ZERO, Duration::from_millis(999), Duration::from_millis(600_001), Duration::MAX] {
        let text = set(window).unwrap_err().to_string();
        assert_eq!(text, "the window of proofs must be between one second and ten minutes", "{window:?}");
    }
}

#[tokio::test]
async fn random_nonces_exclude_the_proofs_of_a_former_process() {
    let signer = Signer::es256();
    let token = bound(&signer);
    let process = || provider().nonces().unwrap();
    let former = process();
    let Err(Rejection::FreshProof { nonce }) = check(&former, "DPoP", &token, &[&proof(&signer, &token, "1")]).await
    else {
        panic!("the provider demands a nonce")
    };
    let mut claims = claims(&token, "2");
    claims["nonce"] = json!(nonce.to_str().unwrap());
    let used = signer.token_of(&header(&signer).to_string(), &claims.to_string());
    check(&former, "DPoP", &token, &[&used]).await.unwrap();
    let again = check(&process(), "DPoP", &token, &[&used]).await;
    assert!(matches!(again, Err(Rejection::FreshProof { .. })), "{again:?}");
}

/// A store that is away.
#[derive(Debug)]
struct Away;

impl KeyValue for Away {
    fn get<'a>(&'a self, _: &'a str) -> StoreFuture<'a, Option<Arc<[u8]>>> {
        Box::pin(async { Err(StoreError::unavailable("away")) })
    }

    fn put<'a>(&'a self, _: &'a str, _: Arc<[u8]>, _: Option<Duration>) -> StoreFuture<'a, ()> {
        Box::pin(async { Err(StoreError::unavailable("away")) })
    }

    fn compare_and_swap<'a>(
        &'a self,
        _: &'a str,
        _: Option<&'a [u8]>,
        _: Option<Arc<[u8]>>,
        _: Option<Duration>,
    ) -> StoreFuture<'a, Swap> {
        Box::pin(async { Err(StoreError::unavailable("away")) })
    }

    fn delete<'a>(&'a self, _: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(async { Err(StoreError::unavailable("away")) })
    }

    fn list<'a>(&'a self, _: &'a str, _: Option<&'a str>, _: usize) -> StoreFuture<'a, KeyPage> {
        Box::pin(async { Err(StoreError::unavailable("away")) })
    }
}

#[tokio::test]
async fn an_outage_of_the_store_is_unavailable() {
    let signer = Signer::es256();
    let token = bound(&signer);
    let dpop = provider().store(Arc::new(Away));
    let got = check(&dpop, "DPoP", &token, &[&proof(&signer, &token, "1")]).await.map(|_| ());
    assert_eq!(got, Err(Rejection::Unavailable { retry_after: Duration::from_secs(1) }));
}
