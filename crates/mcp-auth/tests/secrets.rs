//! No secret of a request or of the configuration is in a log record, in `Debug` or in the text of an error.
//!
//! The test has a program of its own, because other tests in parallel could switch off log records in its thread.

#![allow(clippy::unwrap_used, reason = "helpers outside the test functions fail the test too")]

use std::sync::Arc;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use http::{HeaderMap, HeaderName, Method};
use mcp_auth::{
    ApiKeys, AuthRequest, Authenticator, Basic, BearerTokens, BoxFuture, Chain, Custom, Dpop, GitHub, Introspection,
    Jwt, Rejection, Scheme, hash_api_key, hash_password,
};
use mcp_protocol::{Challenge, Principal};

const RESOURCE: &str = "https://mcp.example.com/mcp";

/// Credentials that cannot be read, and the reason in the log.
const MALFORMED: [(&str, &str, &str); 6] = [
    ("authorization", "Bearer hunter2 hunter2", "the token contains an invalid character"),
    ("authorization", "Bearer", "there are no credentials behind the scheme"),
    ("authorization", "Basic hunter2?", "the user and the password are not Base64"),
    ("authorization", "Basic aHVudGVyMg==", "there is no colon between the user and the password"),
    ("authorization", "Basic /w==", "the user and the password are not UTF-8"),
    ("x-api-key", " ", "the key is empty"),
];

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

#[tokio::test]
async fn secrets_are_in_no_log_record_and_no_text() {
    let records = Records::default();
    let writer = records.clone();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone()).finish();
    let guard = tracing::subscriber::set_default(subscriber);
    let digest = hash_password("hunter2-password").unwrap();
    let pepper_hash = hash_api_key(b"hunter2-pepper-16", "hunter2-hashed");
    let keys = ApiKeys::new()
        .key("hunter2-key", Principal::new("a"))
        .unwrap()
        .pepper(b"hunter2-pepper-16")
        .unwrap()
        .hashed_key(&pepper_hash, Principal::new("b"))
        .unwrap()
        .verify_with(|_| async { Ok(None) });
    let basic = Basic::new("tools").user("ann", &digest, Principal::new("ann")).unwrap();
    let jwt = Jwt::hs256("https://as.example", b"hunter2-secret-hunter2-secret-32").unwrap();
    let tokens = BearerTokens::new().token("hunter2-token", Principal::new("a")).unwrap();
    // The client secret is in the requests to these issuers, which are away.
    let away =
        std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().map(|address| format!("http://{address}"));
    let away = &*away.unwrap();
    let introspection = Introspection::endpoint(away, away, "hunter2-id", "hunter2-secret").unwrap();
    let github = GitHub::new("app", "hunter2-secret").unwrap().enterprise(away, away).unwrap();
    let dpop = Dpop::new(Jwt::hs256("https://as.example", b"hunter2-secret-hunter2-secret-32").unwrap());
    let dpop = dpop.nonce_key(b"hunter2-nonces-hunter2-nonces-32").unwrap();
    let mut shown = format!("{keys:?} {basic:?} {jwt:?} {tokens:?} {introspection:?} {github:?} {dpop:?}");
    let chain = Chain::new().with(keys).with(basic).with(jwt).with(tokens).with(Custom::new(Ticket));
    let chain = chain.with(introspection).with(github).with(dpop);
    let encoded = BASE64_STANDARD.encode("ann:hunter2-wrong");
    let valid = BASE64_STANDARD.encode("ann:hunter2-password");
    for (name, value) in [
        ("x-api-key", "hunter2-key".to_owned()),
        ("x-api-key", "hunter2-hashed".to_owned()),
        ("x-api-key", "hunter2-other".to_owned()),
        ("authorization", "Bearer hunter2-token".to_owned()),
        ("authorization", "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJodW50ZXIyIn0.".to_owned()),
        ("authorization", "Ticket hunter2".to_owned()),
        ("authorization", "DPoP hunter2".to_owned()),
        ("authorization", format!("Basic {encoded}")),
        ("authorization", format!("Basic {valid}")),
    ]
    .into_iter()
    .chain(MALFORMED.map(|(name, value, _)| (name, value.to_owned())))
    {
        let mut headers = HeaderMap::new();
        headers.insert(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        let request = AuthRequest::new(&Method::POST, RESOURCE, &headers);
        let result = chain.authenticate(&request).await;
        shown += &format!("{request:?} {result:?}");
        if let Err(rejection) = result {
            shown += &format!("{rejection} {}", rejection.challenge(Challenge::bearer()));
        }
    }
    drop(guard);
    shown += &String::from_utf8(records.0.lock().unwrap().clone()).unwrap();
    assert!(shown.contains("rejected a token"), "{shown}");
    for reason in MALFORMED.map(|(.., reason)| reason) {
        assert!(shown.contains(&format!(r#"rejected malformed credentials reason="{reason}""#)), "{reason}: {shown}");
    }
    for secret in ["hunter2", &encoded, &valid, "eyJ", &digest, &pepper_hash] {
        assert!(!shown.contains(secret), "{secret}: {shown}");
    }
}
