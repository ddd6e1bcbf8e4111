//! Checks tokens: any text, any header and claims with a valid signature, and any set of keys. The first character selects the form.
//!
//! A token without a valid signature is never accepted. An accepted token has the algorithm of its key, the issuer, the audience, a
//! later end and an earlier start. Its copies with another signature are rejected.

#![no_main]

use std::{
    cell::OnceCell,
    time::{Duration, SystemTime},
};

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use fuzz::{block_on, fuzz_target};
use mcp_auth::{Jwt, TokenVerifier as _};
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _},
};
use serde_json::{Value, json};

const ISSUER: &str = "https://as.example";
const RESOURCE: &str = "https://mcp.example.com/mcp";
const SECRET: &[u8; 32] = b"0123456789abcdef0123456789abcdef";

/// The key of an issuer.
enum Signer {
    Hs256,
    Es256(EcdsaKeyPair),
    EdDsa(Ed25519KeyPair),
}

thread_local! {
    static SIGNERS: OnceCell<[Signer; 3]> = const { OnceCell::new() };
}

impl Signer {
    /// Returns a signer of each algorithm.
    fn all() -> [Self; 3] {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let es256 = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).unwrap();
        let eddsa = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        [Self::Hs256, Self::Es256(es256), Self::EdDsa(eddsa)]
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::Es256(_) => "ES256",
            Self::EdDsa(_) => "EdDSA",
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Hs256 => hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), message).as_ref().to_vec(),
            Self::Es256(key) => key.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec(),
            Self::EdDsa(key) => key.sign(message).as_ref().to_vec(),
        }
    }

    /// Returns a provider that accepts the tokens of this key.
    fn provider(&self) -> Jwt {
        let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let jwk = match self {
            Self::Hs256 => return Jwt::hs256(ISSUER, SECRET).unwrap(),
            Self::Es256(key) => {
                // An uncompressed point: a byte 4, and the two coordinates.
                let (x, y) = key.public_key().as_ref()[1..].split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "x": encode(x), "y": encode(y) })
            }
            Self::EdDsa(key) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "x": encode(key.public_key().as_ref()) })
            }
        };
        Jwt::keys(ISSUER, &json!({ "keys": [jwk] }).to_string()).unwrap()
    }
}

/// Checks a token whose header and claims are texts.
fn signed(signer: &Signer, others: &[Signer], header: &str, claims: &str) {
    let [head, body] = [header, claims].map(|part| BASE64_URL_SAFE_NO_PAD.encode(part));
    let message = format!("{head}.{body}");
    let signature = signer.sign(message.as_bytes());
    let token = format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(&signature));
    let jwt = signer.provider();
    let accepts = |jwt: &Jwt, token: &str| block_on(jwt.verify_token(token, RESOURCE)).is_ok();
    let Ok(accepted) = block_on(jwt.verify_token(&token, RESOURCE)) else { return };
    let claims: Value = serde_json::from_str(claims).unwrap();
    assert_eq!(claims["iss"], ISSUER);
    let audience = &claims["aud"];
    assert!(*audience == RESOURCE || audience.as_array().is_some_and(|all| all.iter().any(|one| *one == RESOURCE)));
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let skew = Duration::from_secs(120);
    let end = claims["exp"].as_f64().unwrap();
    assert!(end > (now - skew).as_secs_f64(), "{claims}");
    assert!(claims["nbf"].as_f64().is_none_or(|start| start < (now + skew).as_secs_f64()), "{claims}");
    assert_eq!(serde_json::from_str::<Value>(header).unwrap()["alg"], signer.algorithm());
    assert!(claims.get("sub").is_none_or(|subject| *subject == accepted.principal.subject.as_str()));

    // Each other key and each other signature is wrong.
    let other = Jwt::hs256(ISSUER, b"another secret of the same size.").unwrap();
    assert!(!accepts(&other, &token));
    for other in others.iter().filter(|other| other.algorithm() != signer.algorithm()) {
        assert!(!accepts(&other.provider(), &token), "{}", other.algorithm());
    }
    let mut changed = signature.clone();
    changed[claims.to_string().len() % signature.len()] ^= 1;
    for wrong in [&changed[..], &signature[1..], &[]] {
        assert!(!accepts(&jwt, &format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(wrong))));
    }
    let shorter = token.strip_suffix(|_: char| true).unwrap();
    assert!(!accepts(&jwt, shorter));
}

fuzz_target!(|data: &str| {
    let (form, text) = data.split_at(data.floor_char_boundary(1));
    let (first, second) = text.split_once('\n').unwrap_or((text, ""));
    let by_key = |at: usize| {
        SIGNERS.with(|signers| {
            let signers = signers.get_or_init(Signer::all);
            signed(&signers[at], signers, first, second);
        });
    };
    match form {
        "t" => {
            let jwt = Jwt::hs256(ISSUER, SECRET).unwrap();
            assert!(block_on(jwt.verify_token(text, RESOURCE)).is_err(), "{text}");
        }
        "s" => by_key(0),
        "e" => by_key(1),
        "d" => by_key(2),
        _ => {
            let Ok(jwt) = Jwt::keys(ISSUER, first) else { return };
            assert!(block_on(jwt.verify_token(second, RESOURCE)).is_err(), "{second}");
        }
    }
});
