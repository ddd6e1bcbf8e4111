//! Signed tokens for the other crates of the workspace: a key that signs, and checks of tokens, assertions and proofs.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use http::Method;
use ring::{
    digest, hmac,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Map, Value, json};

use crate::{
    crypto,
    dpop::proof::{Expected, Proof, thumbprint},
    error::ConfigError,
    jwt::{Fault, PUBLIC, keys::KeySet, token::Token},
};

/// A private key that signs tokens with ES256.
pub struct SigningKey {
    key: EcdsaKeyPair,
    jwk: Value,
    thumbprint: String,
}

impl SigningKey {
    /// Returns a new random key.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn generate() -> Result<Self, ConfigError> {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        Self::from_pkcs8(document.map_err(|_| no_random())?.as_ref())
    }

    /// Reads a key in the form PKCS#8 (DER).
    ///
    /// # Errors
    /// If the bytes are not a private key of the curve P-256.
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, ConfigError> {
        let invalid = || ConfigError::new("the key is not a PKCS#8 key of the curve P-256");
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &SystemRandom::new())
            .map_err(|_| invalid())?;
        // An uncompressed point: a byte 4, and the two coordinates.
        let (x, y) =
            key.public_key().as_ref().get(1..).and_then(|point| point.split_at_checked(32)).ok_or_else(invalid)?;
        let mut jwk = json!({
            "kty": "EC", "crv": "P-256",
            "x": BASE64_URL_SAFE_NO_PAD.encode(x), "y": BASE64_URL_SAFE_NO_PAD.encode(y),
        });
        let thumbprint = thumbprint(&jwk).ok_or_else(invalid)?;
        jwk["kid"] = thumbprint.clone().into();
        jwk["alg"] = "ES256".into();
        jwk["use"] = "sig".into();
        Ok(Self { key, jwk, thumbprint })
    }

    /// Returns the public key as a JWK, with its thumbprint as its id.
    #[must_use]
    pub fn jwk(&self) -> &Value {
        &self.jwk
    }

    /// Returns the thumbprint of the public key (RFC 7638).
    #[must_use]
    pub fn thumbprint(&self) -> &str {
        &self.thumbprint
    }

    /// Signs claims. The header has `alg` and the given members, for example `typ` and `kid`.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn sign(&self, header: &Map<String, Value>, claims: &Map<String, Value>) -> Result<String, ConfigError> {
        let mut header = header.clone();
        header.insert("alg".into(), "ES256".into());
        let encode = |object: Map<String, Value>| BASE64_URL_SAFE_NO_PAD.encode(Value::Object(object).to_string());
        let message = format!("{}.{}", encode(header), encode(claims.clone()));
        let signature = self.key.sign(&SystemRandom::new(), message.as_bytes()).map_err(|_| no_random())?;
        Ok(format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("thumbprint", &self.thumbprint).finish_non_exhaustive()
    }
}

fn no_random() -> ConfigError {
    ConfigError::new("the system has no random numbers")
}

/// Checks the signature of a token, and its type if one is required. Returns the claims, which the caller checks.
///
/// The keys are a JWK set.
///
/// # Errors
/// The reason, without a part of the token.
pub fn verify(jwk_set: &Value, token: &str, typ: Option<&str>) -> Result<Map<String, Value>, &'static str> {
    let token = if typ.is_some() { Token::parse(token, typ) } else { Token::parse_any(token) }.map_err(reason)?;
    if !PUBLIC.contains(&token.algorithm) {
        return Err("the algorithm has no public keys");
    }
    let keys = KeySet::parse(jwk_set.to_string().as_bytes())?;
    if !token.is_signed_by(&keys.select(token.algorithm, token.key_id())) {
        return Err("the signature is wrong, or the key is unknown");
    }
    token.claims().map_err(reason)
}

fn reason(fault: Fault) -> &'static str {
    if let Fault::Invalid(reason) = fault { reason } else { "the token is invalid" }
}

/// Reads the claims of a token without any check, for example to find the issuer whose keys verify it.
#[must_use]
pub fn unverified_claims(token: &str) -> Option<Map<String, Value>> {
    Token::parse_any(token).ok()?.claims().ok()
}

/// The thumbprint, the id and the nonce of a DPoP proof.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckedProof {
    /// The thumbprint of the key (RFC 7638).
    pub thumbprint: String,
    /// The claim `jti`. The caller checks that it is new.
    pub id: String,
    /// The claim `nonce`. The caller checks it.
    pub nonce: Option<String>,
}

/// Checks a DPoP proof for a request without an access token, such as a token request (RFC 9449 §4.3).
///
/// # Errors
/// The reason, without a part of the proof.
pub fn check_proof(
    proof: &str,
    method: &Method,
    target: &str,
    window: Duration,
    now: SystemTime,
) -> Result<CheckedProof, &'static str> {
    let expected = Expected { method, target, token: None, algorithms: &PUBLIC, window, now };
    let Proof { thumbprint, id, nonce, .. } = Proof::check(proof, &expected)?;
    Ok(CheckedProof { thumbprint, id, nonce })
}

/// Returns a random text of 43 letters, digits, `-` and `_`.
///
/// # Errors
/// If the system has no random numbers.
pub fn random_text() -> Result<String, ConfigError> {
    let mut bytes = [0; 32];
    if crypto::random(&mut bytes) { Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes)) } else { Err(no_random()) }
}

/// Returns the SHA-256 of bytes in the form base64url, as PKCE and `ath` use it.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, bytes))
}

/// Returns the HMAC-SHA-256 of parts in the form base64url.
#[must_use]
pub fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(crypto::keyed_digest(&hmac::Key::new(hmac::HMAC_SHA256, key), parts))
}

/// Compares two texts in a time that depends on their lengths only.
#[must_use]
pub fn is_equal(one: &str, other: &str) -> bool {
    crypto::is_equal(one.as_bytes(), other.as_bytes())
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        if let Value::Object(object) = value { object } else { Map::new() }
    }

    #[test]
    fn signed_tokens_verify_with_their_key_only() {
        let (key, other) = (SigningKey::generate().unwrap(), SigningKey::generate().unwrap());
        let header = object(json!({"typ": "at+jwt", "kid": key.thumbprint()}));
        let claims = object(json!({"sub": "alice"}));
        let token = key.sign(&header, &claims).unwrap();
        let keys = |key: &SigningKey| json!({"keys": [key.jwk()]});
        assert_eq!(verify(&keys(&key), &token, None), Ok(claims.clone()));
        assert_eq!(verify(&keys(&key), &token, Some("at+jwt")), Ok(claims.clone()));
        let reason = verify(&keys(&key), &token, Some("dpop+jwt")).unwrap_err();
        assert_eq!(reason, "the type is not that of an access token");
        assert!(verify(&keys(&other), &token, None).is_err());
        assert!(verify(&json!({}), &token, None).is_err());
        assert_eq!(unverified_claims(&token), Some(claims));
        assert_eq!(unverified_claims("a.b"), None);
        assert!(!format!("{key:?}").contains("key:"));
    }

    #[test]
    fn proofs_without_an_access_token_need_no_hash_of_it() {
        let key = SigningKey::generate().unwrap();
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let target = "http://127.0.0.1/token";
        let header = object(json!({"typ": "dpop+jwt", "jwk": key.jwk()}));
        let claims = object(json!({"htm": "POST", "htu": target, "iat": 1_800_000_000, "jti": "1", "nonce": "n"}));
        let proof = key.sign(&header, &claims).unwrap();
        let check = |target| check_proof(&proof, &Method::POST, target, Duration::from_secs(300), now);
        let checked = check(target).unwrap();
        assert_eq!(checked.thumbprint, key.thumbprint());
        assert_eq!((checked.id.as_str(), checked.nonce.as_deref()), ("1", Some("n")));
        assert!(check("http://127.0.0.1/other").is_err());
    }

    #[test]
    fn texts_are_compared() {
        for (one, other, expected) in [("", "", true), ("a", "a", true), ("a", "b", false), ("a", "ab", false)] {
            assert_eq!(is_equal(one, other), expected, "{one} {other}");
        }
    }

    #[test]
    fn invalid_keys_are_rejected() {
        assert!(SigningKey::from_pkcs8(b"").is_err());
        // RFC 7636 appendix B.
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        assert_eq!(sha256(verifier.as_bytes()), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        assert_ne!(random_text().unwrap(), random_text().unwrap());
    }
}
