//! The checks of a proof (RFC 9449 §4.3).

use std::time::{Duration, SystemTime};

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use http::Method;
use jsonwebtoken::Algorithm;
use ring::digest;
use serde_json::{Map, Value};
use url::Url;

use crate::{
    crypto, json,
    jwt::{Fault, claims, keys::Key, token::Token},
};

/// The longest id of a proof, in bytes.
const MAX_ID: usize = 1 << 10;

/// The request that a proof must be about.
pub(crate) struct Expected<'a> {
    pub(crate) method: &'a Method,
    pub(crate) target: &'a str,
    /// The access token of the request. A token request has none.
    pub(crate) token: Option<&'a str>,
    pub(crate) algorithms: &'a [Algorithm],
    pub(crate) window: Duration,
    pub(crate) now: SystemTime,
}

/// A proof that passed the checks.
#[derive(Debug)]
pub(crate) struct Proof {
    /// The thumbprint of the key that signed it (RFC 7638).
    pub(crate) thumbprint: String,
    /// The id: the claim `jti`.
    pub(crate) id: String,
    /// The time of the client when it made the proof: the claim `iat`.
    pub(crate) issued_at: SystemTime,
    pub(crate) nonce: Option<String>,
}

impl Proof {
    /// Checks the signature and the claims of a proof. The error names the reason for log records.
    pub(crate) fn check(text: &str, expected: &Expected<'_>) -> Result<Self, &'static str> {
        let token = Token::parse_any(text).map_err(reason)?;
        if !token.header.typ.as_deref().is_some_and(|typ| typ.eq_ignore_ascii_case("dpop+jwt")) {
            return Err("the type of the proof is not dpop+jwt");
        }
        if !expected.algorithms.contains(&token.algorithm) {
            return Err("the algorithm of the proof is not allowed");
        }
        let jwk = jwk(text).ok_or("the header of the proof has no key")?;
        let key = Key::from_jwk(&jwk).ok_or("the key of the proof is not a public key of a supported kind")?;
        if !key.verify(token.algorithm, token.message, &token.signature) {
            return Err("the signature of the proof is wrong");
        }
        let claims = token.claims().map_err(reason)?;
        if text_of(&claims, "htm")? != expected.method.as_str() {
            return Err("the proof is for another method");
        }
        if !is_same_url(text_of(&claims, "htu")?, expected.target) {
            return Err("the proof is for another URL");
        }
        if let Some(token) = expected.token {
            let hash = BASE64_URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, token.as_bytes()));
            if !crypto::is_equal(text_of(&claims, "ath")?.as_bytes(), hash.as_bytes()) {
                return Err("the proof is for another token");
            }
        }
        let issued_at = claims::time(&claims, "iat").map_err(reason)?.ok_or("the proof has no time")?;
        let difference = match expected.now.duration_since(issued_at) {
            Ok(age) => age,
            Err(ahead) => ahead.duration(),
        };
        if difference > expected.window {
            return Err("the proof is too old, or its time is in the future");
        }
        let id = text_of(&claims, "jti")?;
        if id.is_empty() || id.len() > MAX_ID {
            return Err("the id of the proof is empty or too long");
        }
        let nonce = match claims.get("nonce") {
            None => None,
            Some(Value::String(nonce)) => Some(nonce.clone()),
            Some(_) => return Err("the nonce of the proof is not a text"),
        };
        let thumbprint = thumbprint(&jwk).ok_or("the key of the proof has no thumbprint")?;
        Ok(Self { thumbprint, id: id.to_owned(), issued_at, nonce })
    }
}

fn reason(fault: Fault) -> &'static str {
    if let Fault::Invalid(reason) = fault { reason } else { "the proof is invalid" }
}

/// Returns the key in the header of a proof, as it is written there.
fn jwk(text: &str) -> Option<Value> {
    let header = BASE64_URL_SAFE_NO_PAD.decode(text.split('.').next()?).ok()?;
    json::object(&header)?.remove("jwk").filter(Value::is_object)
}

fn text_of<'c>(claims: &'c Map<String, Value>, name: &str) -> Result<&'c str, &'static str> {
    claims.get(name).and_then(Value::as_str).ok_or("a claim of the proof is missing or not a text")
}

/// Compares two URLs without their queries and fragments (RFC 9449 §4.3, RFC 3986 §6.2).
fn is_same_url(one: &str, other: &str) -> bool {
    let normalized = |text: &str| {
        let mut url = Url::parse(text).ok()?;
        url.set_query(None);
        url.set_fragment(None);
        Some(url)
    };
    normalized(one).is_some_and(|one| Some(one) == normalized(other))
}

/// Returns the thumbprint of a public key: the SHA-256 of its required members in their order (RFC 7638 §3).
pub(crate) fn thumbprint(jwk: &Value) -> Option<String> {
    let members: &[&str] = match jwk.get("kty")?.as_str()? {
        "EC" => &["crv", "kty", "x", "y"],
        "OKP" => &["crv", "kty", "x"],
        "RSA" => &["e", "kty", "n"],
        _ => return None,
    };
    let pairs = members.iter().map(|name| {
        let value = Value::from(jwk.get(name)?.as_str()?);
        Some(format!("\"{name}\":{value}"))
    });
    let text = format!("{{{}}}", pairs.collect::<Option<Vec<_>>>()?.join(","));
    Some(BASE64_URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, text.as_bytes())))
}

#[cfg(test)]
mod unit_tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn thumbprints_are_those_of_the_specifications() {
        // RFC 7638 §3.1 and RFC 8037 appendix A.3.
        let rsa = json!({
            "kty": "RSA", "e": "AQAB", "alg": "RS256", "kid": "2011-04-29",
            "n": "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw",
        });
        let ed25519 = json!({"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"});
        for (jwk, expected) in [
            (rsa, Some("NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs")),
            (ed25519, Some("kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k")),
            (json!({"kty": "oct", "k": "AA"}), None),
            (json!({"kty": "EC", "crv": "P-256", "x": "AA"}), None),
            (json!({"kty": "OKP", "crv": "Ed25519", "x": 1}), None),
        ] {
            assert_eq!(thumbprint(&jwk).as_deref(), expected, "{jwk}");
        }
    }

    #[test]
    fn urls_are_compared_without_query_and_fragment() {
        let target = "https://mcp.example.com/mcp";
        for (url, expected) in [
            ("https://mcp.example.com/mcp", true),
            ("HTTPS://MCP.Example.com:443/mcp?x=1#y", true),
            ("https://mcp.example.com/a/../mcp", true),
            ("http://mcp.example.com/mcp", false),
            ("https://mcp.example.com/mcp/", false),
            ("https://mcp.example.com/MCP", false),
            ("https://mcp.example.com:8443/mcp", false),
            ("https://evil.example/mcp", false),
            ("https://user@mcp.example.com/mcp", false),
            ("/mcp", false),
            ("", false),
        ] {
            assert_eq!(is_same_url(url, target), expected, "{url}");
        }
    }
}
