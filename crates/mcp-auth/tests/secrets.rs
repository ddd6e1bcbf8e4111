//! No secret of a request or of the configuration is in a log record, in `Debug` or in the text of an error.
//!
//! The test has a program of its own, because other tests in parallel could switch off log records in its thread.

#![allow(clippy::unwrap_used, reason = "helpers outside the test functions fail the test too")]

use std::{
    collections::BTreeSet,
    fmt::Debug,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine as _};
use http::{HeaderMap, HeaderName, Method};
use mcp_auth::{
    ApiKeys, AuthRequest, Authenticator, Basic, BearerTokens, BoxFuture, Chain, ConfigError, Custom, Dpop, GitHub,
    Introspection, Jwt, Policy, Rejection, Scheme, hash_api_key, hash_password,
};
use mcp_protocol::{Challenge, Principal};
use ring::{
    digest, hmac,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

const RESOURCE: &str = "https://mcp.example.com/mcp";
/// The SHA-256 of `hunter2`.
const HUNTER2_SHA256: &str = "f52fbd32b2b3b86ff88ef6c490628285f482af15ddcb29541f94bcf526a3f6c7";
const SECRET: &[u8] = b"hunter2-secret-hunter2-secret-32";

/// Credentials that cannot be read, and the reason in the log.
const MALFORMED: [(&str, &str, &str); 6] = [
    ("authorization", "Bearer hunter2 hunter2", "the token contains an invalid character"),
    ("authorization", "Bearer", "there are no credentials behind the scheme"),
    ("authorization", "Basic hunter2?", "the user and the password are not Base64"),
    ("authorization", "Basic aHVudGVyMg==", "there is no colon between the user and the password"),
    ("authorization", "Basic /w==", "the user and the password are not UTF-8"),
    ("x-api-key", " ", "the key is empty"),
];

#[derive(Debug)]
struct Ticket;

impl Scheme for Ticket {
    fn challenge(&self) -> Challenge {
        Challenge::new("Ticket")
    }

    fn verify<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Principal, Rejection>> {
        Box::pin(std::future::ready(Err(Rejection::Invalid)))
    }
}

/// Collects the log records of this thread.
#[derive(Clone, Default)]
struct Records(Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Records {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Collects the texts of public types.
#[derive(Default)]
struct Shown {
    text: String,
    types: BTreeSet<String>,
}

impl Shown {
    fn add(&mut self, value: &impl Debug) {
        let name = std::any::type_name_of_val(value).split('<').next().unwrap_or_default();
        self.types.insert(name.rsplit("::").next().unwrap_or_default().to_owned());
        self.text += &format!("{value:?} {value:#?} ");
    }

    fn refused<T>(&mut self, result: Result<T, ConfigError>) {
        let error = result.err().expect("the setting is invalid");
        self.add(&error);
        self.text += &format!("{error} ");
    }
}

/// Returns the public types of the crate, without traits and aliases.
fn public_types() -> BTreeSet<String> {
    let exports = include_str!("../src/lib.rs").split("pub use").skip(1);
    let exports = exports.map(|export| export.split(';').next().unwrap_or_default());
    let words = exports.flat_map(|export| export.split(|c: char| !c.is_alphanumeric()));
    let not_types = ["Authenticator", "BoxFuture", "IntoAuthenticator", "Scheme", "TokenVerifier"];
    let is_type = |word: &&str| word.starts_with(char::is_uppercase) && !not_types.contains(word);
    words.filter(is_type).map(str::to_owned).collect()
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn signed(header: &Value, claims: &Value, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let message = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
    let signature = sign(message.as_bytes());
    format!("{message}.{}", encode(signature))
}

/// Returns a token of the shared secret.
fn token(issuer: &str, more: &Value) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let mut claims = json!({ "iss": issuer, "sub": "u", "aud": RESOURCE, "iat": now, "exp": now + 300 });
    claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let sign = |message: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), message).as_ref().to_vec();
    signed(&json!({ "alg": "HS256", "typ": "at+jwt" }), &claims, sign)
}

/// Returns a token that is bound to a key, and a proof of the key for it.
fn bound() -> (String, String) {
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).unwrap();
    let point = key.public_key().as_ref();
    let (x, y) = (encode(&point[1..33]), encode(&point[33..]));
    let digest_of = |text: &str| encode(digest::digest(&digest::SHA256, text.as_bytes()));
    let thumbprint = digest_of(&format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#));
    let token = token("https://bound.example", &json!({ "cnf": { "jkt": thumbprint } }));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let claims =
        json!({ "jti": "hunter2-proof", "htm": "POST", "htu": RESOURCE, "iat": now, "ath": digest_of(&token) });
    let header = json!({ "typ": "dpop+jwt", "alg": "ES256", "jwk": { "kty": "EC", "crv": "P-256", "x": x, "y": y } });
    let proof = signed(&header, &claims, |message| key.sign(&random, message).unwrap().as_ref().to_vec());
    (token, proof)
}

/// Starts an issuer that knows one opaque token. It fails for another one, and repeats the request in its answer.
async fn issuer() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let active = json!({ "active": true, "sub": "u", "aud": RESOURCE, "iss": url, "exp": now + 300 }).to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 8192];
            let mut length = 0;
            // The body may follow in a segment of its own.
            while !String::from_utf8_lossy(&request[..length]).contains("token=") {
                match stream.read(&mut request[length..]).await {
                    Ok(read @ 1..) => length += read,
                    _ => break,
                }
            }
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            let (status, body) = match &request {
                known if known.contains("hunter2-opaque") => ("200 OK", active.clone()),
                failing if failing.contains("hunter2-outage") => ("500 Internal Server Error", request.clone()),
                _ => ("200 OK", json!({ "active": false, "error": request }).to_string()),
            };
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            let _ = stream.write_all((head + &body).as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    url
}

#[tokio::test]
async fn secrets_are_in_no_log_record_and_no_text() {
    let records = Records::default();
    let writer = records.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    let digest = hash_password("hunter2-password").unwrap();
    let pepper_hash = hash_api_key(b"hunter2-pepper-16", "hunter2-hashed");
    let keys = ApiKeys::new()
        .pepper(b"hunter2-pepper-16")
        .unwrap()
        .key("hunter2-key", Principal::new("a"))
        .unwrap()
        .hashed_key(&pepper_hash, Principal::new("b"))
        .unwrap()
        .verify_with(|_| async { Ok(None) });
    let basic = Basic::new("tools").user("ann", &digest, Principal::new("ann")).unwrap();
    let jwt = Jwt::hs256("https://as.example", SECRET).unwrap().keep_subject_token();
    let tokens = BearerTokens::new().token("hunter2-token", Principal::new("a")).unwrap();
    let issuer = &*issuer().await;
    let introspection = Introspection::endpoint(issuer, issuer, "hunter2-id", "hunter2-secret").unwrap();
    // The client secret is in the requests to these issuers, which are away.
    let away = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let away = &*format!("http://{away}");
    let absent = Introspection::endpoint(away, away, "hunter2-id", "hunter2-secret").unwrap();
    let github = GitHub::new("app", "hunter2-secret").unwrap().enterprise(away, away).unwrap();
    let dpop = Dpop::new(Jwt::hs256("https://bound.example", SECRET).unwrap());
    let dpop = dpop.nonce_key(b"hunter2-nonces-hunter2-nonces-32").unwrap();
    let custom = Custom::new(Ticket);
    let mut shown = Shown::default();
    shown.add(&keys);
    shown.add(&basic);
    shown.add(&jwt);
    shown.add(&tokens);
    shown.add(&introspection);
    shown.add(&github);
    shown.add(&dpop);
    shown.add(&custom);
    shown.refused(Jwt::hs256("https://as.example", b"hunter2"));
    shown.refused(Jwt::issuer("https://hunter2:hunter2@as.example"));
    shown.refused(Jwt::issuer("https://as.example/?key=hunter2"));
    shown.refused(Jwt::keys("https://as.example", r#"{"keys":"hunter2"}"#));
    shown.refused(ApiKeys::new().pepper(b"hunter2"));
    shown.refused(ApiKeys::new().hashed_key("hunter2", Principal::new("a")));
    let twice =
        |keys: ApiKeys| keys.key("hunter2", Principal::new("a"))?.hashed_key(HUNTER2_SHA256, Principal::new("b"));
    shown.refused(twice(ApiKeys::new()));
    shown.refused(ApiKeys::new().key("hunter2", Principal::new("a")).unwrap().key("hunter2", Principal::new("b")));
    shown.refused(Basic::new("tools").user("ann", "hunter2", Principal::new("ann")));
    shown.refused(Introspection::issuer("http://hunter2@as.example", "hunter2", "hunter2"));
    shown.refused(Dpop::new(Jwt::hs256("https://as.example", SECRET).unwrap()).nonce_key(b"hunter2"));
    let chain = Chain::new().with(keys).with(basic).with(jwt).with(tokens).with(custom);
    let chain = Policy::new(chain.with(introspection).with(absent).with(github).with(dpop));
    shown.add(&chain);
    shown.add(&Chain::new());
    let encoded = BASE64_STANDARD.encode("ann:hunter2-wrong");
    let valid = BASE64_STANDARD.encode("ann:hunter2-password");
    let (bound, proof) = bound();
    let token = token("https://as.example", &json!({}));
    let mut accepted = 0;
    for (name, value, proof) in [
        ("x-api-key", "hunter2-key".to_owned(), None),
        ("x-api-key", "hunter2-hashed".to_owned(), None),
        ("x-api-key", "hunter2-other".to_owned(), None),
        ("authorization", "Bearer hunter2-token".to_owned(), None),
        ("authorization", "Bearer hunter2-opaque".to_owned(), None),
        ("authorization", "Bearer hunter2-unknown".to_owned(), None),
        ("authorization", "Bearer hunter2-outage".to_owned(), None),
        ("authorization", format!("Bearer {token}"), None),
        ("authorization", format!("Bearer {token}x"), None),
        ("authorization", format!("Bearer {bound}"), None),
        ("authorization", "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJodW50ZXIyIn0.".to_owned(), None),
        ("authorization", "Ticket hunter2".to_owned(), None),
        ("authorization", "DPoP hunter2".to_owned(), None),
        ("authorization", format!("DPoP {bound}"), Some(proof.clone())),
        // A proof is good for one request.
        ("authorization", format!("DPoP {bound}"), Some(proof.clone())),
        ("authorization", format!("DPoP {bound}"), Some("hunter2".to_owned())),
        ("authorization", format!("Basic {encoded}"), None),
        ("authorization", format!("Basic {valid}"), None),
    ]
    .into_iter()
    .chain(MALFORMED.map(|(name, value, _)| (name, value.to_owned(), None)))
    {
        let mut headers = HeaderMap::new();
        headers.insert(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        headers.extend(proof.map(|proof| (HeaderName::from_static("dpop"), proof.parse().unwrap())));
        let request = AuthRequest::new(&Method::POST, RESOURCE, &headers);
        shown.add(&request);
        match chain.authenticate(&request).await {
            Ok(authenticated) => {
                accepted += 1;
                shown.add(&authenticated);
                if let Some(token) = &authenticated.subject_token {
                    shown.add(token);
                    shown.text += &format!("{:?}", token.clone().into_secret());
                }
            }
            Err(rejection) => {
                shown.add(&rejection);
                shown.text += &format!("{rejection} {} ", rejection.challenge(Challenge::bearer()));
            }
        }
    }
    assert_eq!(accepted, 6, "{}", shown.text);
    assert_eq!(shown.types, public_types());
    drop(guard);
    let records = String::from_utf8(records.0.lock().unwrap().clone()).unwrap();
    assert!(records.contains("rejected a token"), "{records}");
    for reason in MALFORMED.map(|(.., reason)| reason) {
        let record = format!(r#"rejected malformed credentials reason="{reason}""#);
        assert!(records.contains(&record), "{reason}: {records}");
    }
    for reason in [
        "no entry has the credentials",
        "the user name or the password is wrong",
        "the function of the application does not know the credentials",
        "the issuer reports an inactive token",
    ] {
        assert!(records.contains(&format!(r#"rejected credentials reason="{reason}""#)), "{reason}: {records}");
    }
    let shown = shown.text + &records;
    for secret in ["hunter2", &encoded, &valid, "eyJ", &digest, &pepper_hash] {
        assert!(!shown.contains(secret), "{secret}: {shown}");
    }
}
