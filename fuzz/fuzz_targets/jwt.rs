//! Checks tokens: any text, any header and claims with a valid signature, and any set of keys. The first byte selects the form.
//!
//! A token without a valid signature is never accepted. An accepted token has the issuer, the audience and a later end.

#![no_main]

use std::time::{Duration, SystemTime};

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use fuzz::block_on;
use libfuzzer_sys::fuzz_target;
use mcp_auth::{Jwt, TokenVerifier as _};
use ring::hmac;
use serde_json::Value;

const ISSUER: &str = "https://as.example";
const RESOURCE: &str = "https://mcp.example.com/mcp";
const SECRET: &[u8; 32] = b"0123456789abcdef0123456789abcdef";

/// Checks a token whose claims are a text.
fn signed(header: &str, claims: &str) {
    let [head, body] = [header, claims].map(|part| BASE64_URL_SAFE_NO_PAD.encode(part));
    let message = format!("{head}.{body}");
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), message.as_bytes());
    let token = format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(tag));
    let jwt = Jwt::hs256(ISSUER, SECRET).unwrap();
    let Ok(accepted) = block_on(jwt.verify_token(&token, RESOURCE)) else { return };
    let claims: Value = serde_json::from_str(claims).unwrap();
    assert_eq!(claims["iss"], ISSUER);
    let audience = &claims["aud"];
    assert!(*audience == RESOURCE || audience.as_array().is_some_and(|all| all.iter().any(|one| *one == RESOURCE)));
    let end = claims["exp"].as_f64().unwrap();
    let limit = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap() - Duration::from_secs(120);
    assert!(end > limit.as_secs_f64(), "{claims}");
    assert_eq!(serde_json::from_str::<Value>(header).unwrap()["alg"], "HS256");
    assert!(claims.get("sub").is_none_or(|subject| *subject == accepted.principal.subject.as_str()));
    // Another secret and another server reject the token.
    let other = Jwt::hs256(ISSUER, b"another secret of the same size.").unwrap();
    assert!(block_on(other.verify_token(&token, RESOURCE)).is_err());
    let shorter = token.strip_suffix(|_: char| true).unwrap();
    assert!(block_on(jwt.verify_token(shorter, RESOURCE)).is_err());
}

fuzz_target!(|data: &str| {
    let (form, text) = data.split_at(data.floor_char_boundary(1));
    let (first, second) = text.split_once('\n').unwrap_or((text, ""));
    match form {
        "t" => {
            let jwt = Jwt::hs256(ISSUER, SECRET).unwrap();
            assert!(block_on(jwt.verify_token(text, RESOURCE)).is_err(), "{text}");
        }
        "s" => signed(first, second),
        _ => {
            let Ok(jwt) = Jwt::keys(ISSUER, first) else { return };
            let _ = block_on(jwt.verify_token(second, RESOURCE));
        }
    }
});
