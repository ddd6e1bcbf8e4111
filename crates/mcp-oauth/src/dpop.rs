//! Proofs of the possession of a key (DPoP, RFC 9449), to which tokens are bound.

use std::{collections::HashMap, fmt, sync::Arc};

use base64::prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD, Engine as _};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use mcp_protocol::auth::Secret;
use parking_lot::Mutex;
use ring::{
    digest,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

use crate::{
    error::{Error, ErrorKind},
    signed::{no_random, sign},
    tokens::now,
};

/// The header of a proof.
pub(crate) const DPOP: HeaderName = HeaderName::from_static("dpop");
const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");
/// The algorithm of proofs.
pub(crate) const ALGORITHM: &str = "ES256";
/// The error code of a server that requires its nonce in the proof (RFC 9449 §8, §9).
pub(crate) const USE_NONCE: &str = "use_dpop_nonce";
/// The largest number of URLs with a nonce. One session has the MCP server and its authorization server.
const MAX_NONCES: usize = 16;
/// The longest nonce, in bytes.
const MAX_NONCE: usize = 1 << 10;

/// A private key of the curve P-256, to which tokens are bound. It is stored together with its tokens.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "Secret", into = "Secret")]
pub(crate) struct DpopKey(Arc<Pair>);

struct Pair {
    key: EcdsaKeyPair,
    /// The public key.
    jwk: Value,
    /// The private key for the store: PKCS#8 in base64.
    encoded: Secret,
}

impl DpopKey {
    /// Returns a new random key.
    pub(crate) fn generate() -> Result<Self, Error> {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        Self::from_der(document.map_err(|_| no_random())?.as_ref()).ok_or_else(no_random)
    }

    fn from_der(der: &[u8]) -> Option<Self> {
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &SystemRandom::new()).ok()?;
        // An uncompressed point: a byte 4, and the two coordinates.
        let (x, y) = key.public_key().as_ref().get(1..)?.split_at_checked(32)?;
        let [x, y] = [x, y].map(|coordinate| BASE64_URL_SAFE_NO_PAD.encode(coordinate));
        let jwk = json!({"kty": "EC", "crv": "P-256", "x": x, "y": y});
        let encoded = Secret::new(BASE64_STANDARD_NO_PAD.encode(der));
        Some(Self(Arc::new(Pair { key, jwk, encoded })))
    }

    /// Returns the thumbprint of the public key (RFC 7638), with which a server names the key.
    pub(crate) fn thumbprint(&self) -> String {
        let Value::Object(members) = &self.0.jwk else { return String::new() };
        // The members are in the order of their names, without spaces.
        let member = |name: &str| format!("\"{name}\":{}", members[name]);
        let text = format!("{{{}}}", ["crv", "kty", "x", "y"].map(member).join(","));
        BASE64_URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, text.as_bytes()))
    }

    /// Returns a proof for one request.
    fn proof(
        &self,
        method: &Method,
        target: &str,
        token: Option<&Secret>,
        nonce: Option<&str>,
    ) -> Result<String, Error> {
        let header = json!({"typ": "dpop+jwt", "alg": ALGORITHM, "jwk": self.0.jwk});
        let id = oauth2::CsrfToken::new_random().into_secret();
        let mut claims = json!({"jti": id, "htm": method.as_str(), "htu": target, "iat": now()});
        if let Some(token) = token {
            let hash = digest::digest(&digest::SHA256, token.expose().as_bytes());
            claims["ath"] = BASE64_URL_SAFE_NO_PAD.encode(hash).into();
        }
        if let Some(nonce) = nonce {
            claims["nonce"] = nonce.into();
        }
        sign(&self.0.key, &header, &claims)
    }
}

impl PartialEq for DpopKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.encoded == other.0.encoded
    }
}

impl TryFrom<Secret> for DpopKey {
    type Error = Error;

    fn try_from(encoded: Secret) -> Result<Self, Error> {
        let der = BASE64_STANDARD_NO_PAD.decode(encoded.expose()).ok();
        let key = der.and_then(|der| Self::from_der(&der));
        key.ok_or_else(|| Error::new(ErrorKind::Store, "the stored key of a token is invalid"))
    }
}

impl From<DpopKey> for Secret {
    fn from(key: DpopKey) -> Self {
        key.0.encoded.clone()
    }
}

impl fmt::Debug for DpopKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DpopKey").finish_non_exhaustive()
    }
}

/// The latest nonce of each server, by the URL of the requests without their query.
#[derive(Default)]
pub(crate) struct Nonces(Mutex<HashMap<String, String>>);

impl Nonces {
    /// Stores the nonce of a response, if there is one. Servers change their nonces with any response (RFC 9449 §8.2).
    pub(crate) fn note(&self, url: &Url, headers: &HeaderMap) {
        let nonce = headers.get(DPOP_NONCE).and_then(|nonce| nonce.to_str().ok());
        let Some(nonce) = nonce.filter(|nonce| !nonce.is_empty() && nonce.len() <= MAX_NONCE) else { return };
        let mut nonces = self.0.lock();
        if nonces.len() >= MAX_NONCES {
            nonces.clear();
        }
        nonces.insert(target_of(url), nonce.to_owned());
    }

    fn of(&self, target: &str) -> Option<String> {
        self.0.lock().get(target).cloned()
    }
}

/// Whether a document declares the algorithm of the proofs.
pub(crate) fn is_declared(algorithms: Option<&[String]>) -> bool {
    algorithms.is_some_and(|algorithms| algorithms.iter().any(|algorithm| algorithm == ALGORITHM))
}

/// Whether a response has a nonce for the next proof.
pub(crate) fn has_nonce(headers: &HeaderMap) -> bool {
    headers.contains_key(DPOP_NONCE)
}

/// A key and the nonces for its proofs.
#[derive(Clone, Copy)]
pub(crate) struct Proofs<'a> {
    pub(crate) key: &'a DpopKey,
    pub(crate) nonces: &'a Nonces,
}

impl Proofs<'_> {
    /// Returns the header `DPoP` of one request. A request to an MCP server has an access token.
    pub(crate) fn header(&self, method: &Method, url: &Url, token: Option<&Secret>) -> Result<HeaderValue, Error> {
        let target = target_of(url);
        let proof = self.key.proof(method, &target, token, self.nonces.of(&target).as_deref())?;
        let value = HeaderValue::try_from(proof);
        let mut value =
            value.map_err(|_| Error::new(ErrorKind::Token, "the proof of the key is not a header value"))?;
        value.set_sensitive(true);
        Ok(value)
    }
}

/// Returns the claim `htu` of a URL: without query and fragment.
fn target_of(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    url.into()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use mcp_auth::jose;

    use super::*;

    const URL: &str = "https://as.example/token";

    #[test]
    fn each_request_has_its_own_proof() {
        let (key, nonces) = (DpopKey::generate().unwrap(), Nonces::default());
        let proofs = Proofs { key: &key, nonces: &nonces };
        let url = Url::parse(&format!("{URL}?key=hunter2#f")).unwrap();
        let check = |proof: &HeaderValue| {
            assert!(proof.is_sensitive());
            let window = Duration::from_secs(60);
            jose::check_proof(proof.to_str().unwrap(), &Method::POST, URL, window, SystemTime::now()).unwrap()
        };
        let first = check(&proofs.header(&Method::POST, &url, None).unwrap());
        let second = check(&proofs.header(&Method::POST, &url, None).unwrap());
        assert_ne!(first.id, second.id);
        assert_eq!(first.thumbprint, key.thumbprint());
        assert_eq!((&first.thumbprint, first.nonce), (&second.thumbprint, None));

        let with_token = proofs.header(&Method::POST, &url, Some(&"hunter2".into())).unwrap();
        let claims = jose::unverified_claims(with_token.to_str().unwrap()).unwrap();
        let hash = BASE64_URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, b"hunter2"));
        assert_eq!((&claims["ath"], &claims["htu"]), (&json!(hash), &json!(URL)));
    }

    #[test]
    fn a_nonce_is_used_for_its_url_alone() {
        let (key, nonces) = (DpopKey::generate().unwrap(), Nonces::default());
        let [token, other] = [URL, "https://as.example/mcp"].map(|url| Url::parse(url).unwrap());
        let nonce_of = |url: &Url| {
            let proof = Proofs { key: &key, nonces: &nonces }.header(&Method::POST, url, None).unwrap();
            let claims = jose::unverified_claims(proof.to_str().unwrap()).unwrap();
            claims.get("nonce").and_then(Value::as_str).map(str::to_owned)
        };
        for (nonce, expected) in [("a", "a"), ("b", "b"), ("", "b"), (&*"x".repeat(MAX_NONCE + 1), "b")] {
            nonces.note(&token, &HeaderMap::from_iter([(DPOP_NONCE, HeaderValue::from_str(nonce).unwrap())]));
            assert_eq!(nonce_of(&token).as_deref(), Some(expected));
        }
        assert_eq!(nonce_of(&other), None);
    }

    #[test]
    fn stored_keys_round_trip_and_print_no_secrets() {
        let key = DpopKey::generate().unwrap();
        let json = serde_json::to_value(&key).unwrap();
        assert_eq!(serde_json::from_value::<DpopKey>(json.clone()).unwrap(), key);
        assert!(!format!("{key:?}").contains(json.as_str().unwrap()));
        for invalid in ["", "hunter2", "aHVudGVyMg"] {
            let error = serde_json::from_value::<DpopKey>(json!(invalid)).unwrap_err();
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
