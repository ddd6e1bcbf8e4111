//! Tokens that the tests sign themselves.

mod attacks;
mod certificates;
mod remote;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use http::{HeaderMap, HeaderValue, Method, header};
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
        RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512,
        RsaEncoding, RsaKeyPair,
    },
};
use serde_json::{Value, json};

use super::*;

pub(crate) const ISSUER: &str = "https://as.example";
pub(crate) const RESOURCE: &str = "https://mcp.example.com/mcp";
pub(crate) const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
/// The time of the tests, in seconds since 1970.
pub(crate) const NOW: u64 = 1_800_000_000;
/// A key for tests only.
const RSA_KEY: &[u8] = include_bytes!("../../tests/data/rsa2048.pk8");

pub(crate) fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(NOW)
}

pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// A key pair that signs tokens.
pub(crate) enum Signer {
    Secret(&'static [u8]),
    Es256(Box<EcdsaKeyPair>),
    Es384(Box<EcdsaKeyPair>),
    Ed25519(Ed25519KeyPair),
    Rsa(Box<RsaKeyPair>, &'static str),
}

impl Signer {
    pub(crate) fn es256() -> Self {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref(), &random).unwrap();
        Self::Es256(Box::new(key))
    }

    pub(crate) fn es384() -> Self {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, key.as_ref(), &random).unwrap();
        Self::Es384(Box::new(key))
    }

    pub(crate) fn ed25519() -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed25519(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap())
    }

    pub(crate) fn rsa(algorithm: &'static str) -> Self {
        Self::Rsa(Box::new(RsaKeyPair::from_pkcs8(RSA_KEY).unwrap()), algorithm)
    }

    pub(crate) fn algorithm(&self) -> &'static str {
        match self {
            Self::Secret(_) => "HS256",
            Self::Es256(_) => "ES256",
            Self::Es384(_) => "ES384",
            Self::Ed25519(_) => "EdDSA",
            Self::Rsa(_, algorithm) => algorithm,
        }
    }

    /// Returns the public key as a JWK.
    pub(crate) fn jwk(&self, id: &str) -> Value {
        match self {
            Self::Secret(secret) => json!({"kty": "oct", "kid": id, "k": encode(secret)}),
            Self::Es256(key) => {
                let point = key.public_key().as_ref();
                json!({"kty": "EC", "crv": "P-256", "kid": id, "x": encode(&point[1..33]), "y": encode(&point[33..])})
            }
            Self::Es384(key) => {
                let point = key.public_key().as_ref();
                json!({"kty": "EC", "crv": "P-384", "kid": id, "x": encode(&point[1..49]), "y": encode(&point[49..])})
            }
            Self::Ed25519(key) => {
                json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": encode(key.public_key().as_ref())})
            }
            Self::Rsa(key, _) => {
                let key = ring::rsa::PublicKeyComponents::<Vec<u8>>::from(key.public());
                json!({"kty": "RSA", "use": "sig", "kid": id, "n": encode(key.n), "e": encode(key.e)})
            }
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Secret(secret) => hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message).as_ref().to_vec(),
            Self::Es256(key) | Self::Es384(key) => key.sign(&random, message).unwrap().as_ref().to_vec(),
            Self::Ed25519(key) => key.sign(message).as_ref().to_vec(),
            Self::Rsa(key, algorithm) => {
                let padding: &'static dyn RsaEncoding = match *algorithm {
                    "RS384" => &RSA_PKCS1_SHA384,
                    "RS512" => &RSA_PKCS1_SHA512,
                    "PS256" => &RSA_PSS_SHA256,
                    "PS384" => &RSA_PSS_SHA384,
                    "PS512" => &RSA_PSS_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(padding, &random, message, &mut signature).unwrap();
                signature
            }
        }
    }

    /// Signs a header and claims, both as texts.
    pub(crate) fn token_of(&self, header: &str, claims: &str) -> String {
        let message = format!("{}.{}", encode(header), encode(claims));
        let signature = self.sign(message.as_bytes());
        format!("{message}.{}", encode(signature))
    }

    pub(crate) fn token(&self, id: &str, claims: &Value) -> String {
        let header = json!({"alg": self.algorithm(), "kid": id, "typ": "at+jwt"});
        self.token_of(&header.to_string(), &claims.to_string())
    }
}

pub(crate) fn claims() -> Value {
    json!({
        "iss": ISSUER, "sub": "user-7", "aud": RESOURCE, "exp": NOW + 300, "iat": NOW - 10, "nbf": NOW - 10,
        "scope": "files:read files:write", "client_id": "c", "jti": "t1", "email": "a@example.com"
    })
}

pub(crate) fn changed(name: &str, value: &Value) -> Value {
    let mut claims = claims();
    if value.is_null() {
        claims.as_object_mut().unwrap().remove(name);
    } else {
        claims[name] = value.clone();
    }
    claims
}

/// Sets the time of a provider to the time of the tests.
pub(crate) fn at_test_time(mut jwt: Jwt) -> Jwt {
    jwt.clock = Clock::manual(now()).0;
    jwt
}

pub(crate) async fn check(jwt: &Jwt, token: &str) -> Result<Principal, Rejection> {
    let mut headers = HeaderMap::new();
    headers.insert(header::AUTHORIZATION, HeaderValue::try_from(format!("Bearer {token}")).unwrap());
    let request = AuthRequest::new(&Method::POST, RESOURCE, &headers);
    let authenticated = Authenticator::authenticate(jwt, &request).await;
    authenticated.map(|authenticated| (*authenticated.principal).clone())
}

#[tokio::test]
async fn a_token_with_a_shared_secret_becomes_a_principal() {
    let jwt = at_test_time(Jwt::hs256(ISSUER, SECRET).unwrap());
    let principal = check(&jwt, &Signer::Secret(SECRET).token("any", &claims())).await.unwrap();
    let expected = Principal::new("user-7")
        .with_issuer(ISSUER)
        .with_client_id("c")
        .with_audience([RESOURCE])
        .with_scopes(["files:read", "files:write"])
        .with_token_id("t1")
        .with_scheme("Bearer")
        .with_claim("email", "a@example.com")
        .with_expires_at(UNIX_EPOCH + Duration::from_secs(NOW + 300));
    assert_eq!(principal, expected);
    assert!(jwt.authorization_servers().is_empty());
}

#[tokio::test]
async fn each_algorithm_verifies_its_own_signatures() {
    let signers = [Signer::es256(), Signer::es384(), Signer::ed25519(), Signer::rsa("RS256")];
    let ids = ["es", "es384", "ed", "rs"];
    let keys: Vec<Value> = signers.iter().zip(ids).map(|(signer, id)| signer.jwk(id)).collect();
    let jwt = at_test_time(Jwt::keys(ISSUER, &json!({"keys": keys}).to_string()).unwrap());
    for (signer, id) in signers.iter().zip(ids) {
        check(&jwt, &signer.token(id, &claims())).await.unwrap();
    }
    for algorithm in ["RS384", "RS512", "PS256", "PS384", "PS512"] {
        check(&jwt, &Signer::rsa(algorithm).token("rs", &claims())).await.unwrap();
    }
    // Only one key allows the algorithm, so the token needs no key id.
    check(&jwt, &signers[0].token_of(r#"{"alg":"ES256"}"#, &claims().to_string())).await.unwrap();
    assert_eq!(jwt.authorization_servers(), [ISSUER]);
}

#[tokio::test]
async fn claims_in_unusual_forms_are_read() {
    let jwt = at_test_time(Jwt::hs256(ISSUER, SECRET).unwrap().audience("a").audience("b").scope_claim("roles"));
    let signer = Signer::Secret(SECRET);
    for (name, value, test) in [
        ("aud", json!("a"), (|principal| principal.audience == ["a"]) as fn(&Principal) -> bool),
        ("aud", json!(["x", "b"]), |principal| principal.audience == ["x", "b"]),
        ("scope", json!("r  w x"), |principal| principal.scopes.iter().eq(["r", "w", "x"])),
        // An item of a list is one scope, and a scope has no white space.
        ("scope", json!(["r", "w x", "", "y\tz", "\u{a0}"]), |principal| principal.scopes.iter().eq(["r"])),
        ("roles", json!(["Help admin", "admins"]), |principal| {
            !principal.scopes.contains("admin") && principal.scopes.contains("admins")
        }),
        ("scp", json!("s"), |principal| principal.scopes.contains("s") && principal.scopes.contains("files:read")),
        ("roles", json!(["admin"]), |principal| principal.scopes.contains("admin")),
        ("scope", Value::Null, |principal| principal.scopes.is_empty()),
        ("client_id", Value::Null, |principal| principal.client_id.is_none()),
        ("cid", json!("other"), |principal| principal.client_id.as_deref() == Some("c")),
        ("exp", json!(NOW as f64 + 0.5), |principal| principal.expires_at.is_some()),
        ("exp", json!(NOW - 59), |_| true),
        ("nbf", json!(NOW + 60), |_| true),
        ("act", json!({"sub": "agent", "act": {"sub": "inner"}}), |principal| {
            principal
                .actor
                .as_ref()
                .and_then(|actor| actor.actor.as_ref())
                .is_some_and(|inner| inner.subject == "inner")
        }),
    ] {
        let mut claims = changed(name, &value);
        if name != "aud" {
            claims["aud"] = json!("a");
        }
        let principal = check(&jwt, &signer.token("any", &claims)).await.unwrap();
        assert!(test(&principal), "{name} {value}: {principal:?}");
    }
}

#[tokio::test]
async fn the_client_is_read_from_the_first_claim_that_is_present() {
    let jwt = at_test_time(Jwt::hs256(ISSUER, SECRET).unwrap().client_claim("cid").client_claim("appid"));
    let signer = Signer::Secret(SECRET);
    for (members, expected) in [
        (json!({"client_id": "a", "azp": "b", "cid": "c"}), Ok(Some("a"))),
        (json!({"azp": "b", "cid": "c"}), Ok(Some("b"))),
        (json!({"cid": "c", "appid": "d"}), Ok(Some("c"))),
        (json!({"cid": null, "appid": "d"}), Ok(Some("d"))),
        (json!({}), Ok(None)),
        (json!({"cid": 1}), Err(Rejection::Invalid)),
        (json!({"client_id": "a", "cid": ["c"]}), Err(Rejection::Invalid)),
    ] {
        let mut claims = changed("client_id", &Value::Null);
        claims.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let got = check(&jwt, &signer.token("any", &claims)).await.map(|principal| principal.client_id);
        assert_eq!(got, expected.map(|id| id.map(str::to_owned)), "{members}");
    }
}

#[test]
fn invalid_settings_are_errors() {
    let few = "the key set has no usable key";
    for (result, expected) in [
        (Jwt::hs256(ISSUER, b"short"), "the secret must have at least 32 bytes"),
        (Jwt::issuer("as.example"), "the URL of the issuer or its keys is invalid"),
        (Jwt::issuer("http://as.example"), "the URL of the issuer or its keys must begin with `https://`"),
        (
            Jwt::issuer("https://ann:hunter2@as.example"),
            "the URL of the issuer or its keys must not have a user or a fragment",
        ),
        (
            Jwt::issuer("https://:hunter2@as.example"),
            "the URL of the issuer or its keys must not have a user or a fragment",
        ),
        (
            Jwt::jwks(ISSUER, "https://as.example/#k"),
            "the URL of the issuer or its keys must not have a user or a fragment",
        ),
        (Jwt::issuer("https://as.example/?tenant=a"), "the URL of the issuer must not have a query or dot segments"),
        (Jwt::hs256(ISSUER, SECRET).unwrap().algorithms([]), "the list of algorithms is empty"),
        (
            Jwt::hs256(ISSUER, SECRET).unwrap().clock_skew(Duration::from_secs(601)),
            "the clock skew must be at most ten minutes",
        ),
        (Jwt::jwks(ISSUER, "file:///keys"), "the URL of the issuer or its keys must begin with `https://`"),
        (Jwt::keys(ISSUER, "{}"), "the key set has no list `keys`"),
        (Jwt::keys(ISSUER, "x"), "the key set is not valid JSON"),
        (Jwt::keys(ISSUER, r#"{"keys":[]}"#), few),
        // A shared secret must not come from a key set.
        (Jwt::keys(ISSUER, &json!({"keys": [Signer::Secret(SECRET).jwk("a")]}).to_string()), few),
        (
            Jwt::hs256(ISSUER, SECRET).unwrap().algorithms(["RS256"]),
            "the algorithm `RS256` is unknown or does not fit the keys",
        ),
        (Jwt::issuer(ISSUER).unwrap().algorithms(["none"]), "the algorithm `none` is unknown or does not fit the keys"),
        (
            Jwt::issuer(ISSUER).unwrap().algorithms(["HS256"]),
            "the algorithm `HS256` is unknown or does not fit the keys",
        ),
    ] {
        assert_eq!(result.map(|_| ()).unwrap_err().to_string(), expected);
    }
    assert!(Jwt::hs256(ISSUER, SECRET).unwrap().clock_skew(Duration::from_secs(600)).is_ok());
    for (count, is_accepted) in [(100, true), (101, false)] {
        let keys = json!({"keys": vec![Signer::es256().jwk("a"); count]}).to_string();
        assert_eq!(Jwt::keys(ISSUER, &keys).is_ok(), is_accepted, "{count}");
    }
    let mut encryption = Signer::es256().jwk("a");
    encryption["use"] = json!("enc");
    let mut private = Signer::es256().jwk("a");
    private["d"] = json!("AA");
    let mut other_algorithm = Signer::es256().jwk("a");
    other_algorithm["alg"] = json!("RS256");
    for key in [encryption, private, other_algorithm, json!({"kty": "EC"}), json!(1)] {
        let set = json!({"keys": [key]}).to_string();
        assert_eq!(Jwt::keys(ISSUER, &set).map(|_| ()).unwrap_err().to_string(), few, "{set}");
    }
}

#[tokio::test]
async fn null_claims_are_absent_unless_a_check_needs_them() {
    let jwt = at_test_time(Jwt::hs256(ISSUER, SECRET).unwrap());
    for (name, expected) in [
        ("nbf", true),
        ("iat", true),
        ("jti", true),
        ("scope", true),
        ("client_id", true),
        ("act", true),
        ("at_hash", true),
        ("token_use", true),
        ("iss", false),
        ("aud", false),
        ("exp", false),
        ("cnf", false),
        ("sub", false),
    ] {
        let mut claims = claims();
        claims[name] = Value::Null;
        let got = check(&jwt, &Signer::Secret(SECRET).token("any", &claims)).await;
        assert_eq!(got.is_ok(), expected, "{name}: {got:?}");
    }
}

#[tokio::test]
async fn a_required_type_excludes_other_tokens() {
    let jwt = at_test_time(Jwt::hs256(ISSUER, SECRET).unwrap().require_type("at+jwt"));
    for (header, expected) in [
        (r#"{"alg":"HS256","typ":"at+jwt"}"#, true),
        (r#"{"alg":"HS256","typ":"application/AT+JWT"}"#, true),
        (r#"{"alg":"HS256","typ":"JWT"}"#, false),
        (r#"{"alg":"HS256"}"#, false),
    ] {
        let got = check(&jwt, &Signer::Secret(SECRET).token_of(header, &claims().to_string())).await;
        assert_eq!(got.is_ok(), expected, "{header}");
    }
}

#[tokio::test]
async fn keys_with_one_id_and_tokens_without_an_id_are_tried() {
    let signers = [Signer::es256(), Signer::es256(), Signer::es256()];
    let keys: Vec<Value> = signers.iter().zip(["a", "a", "b"]).map(|(signer, id)| signer.jwk(id)).collect();
    let jwt = at_test_time(Jwt::keys(ISSUER, &json!({"keys": keys}).to_string()).unwrap());
    for (signer, id, expected) in [(0, "a", true), (1, "a", true), (2, "b", true), (2, "a", false), (0, "b", false)] {
        assert_eq!(check(&jwt, &signers[signer].token(id, &claims())).await.is_ok(), expected, "{signer} {id}");
        let without = signers[signer].token_of(r#"{"alg":"ES256"}"#, &claims().to_string());
        assert!(check(&jwt, &without).await.is_ok(), "{signer}");
    }
}
