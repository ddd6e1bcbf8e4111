//! The keys that verify signatures (RFC 7517), and the verification with ring.
//!
//! `jsonwebtoken` reads the keys. Its own functions for verification use the crypto provider of the process, which any
//! other crate can replace or remove, so this module never calls them.

use std::sync::Arc;

use jsonwebtoken::{
    Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse},
};
use ring::{hmac, signature};
use serde_json::Value;

/// The largest number of keys of an issuer.
const MAX_KEYS: usize = 100;
/// The largest number of keys that are tried for one token.
const MAX_TRIED: usize = 4;

/// One key.
pub(crate) struct Key {
    id: Option<String>,
    /// The algorithms that the key may verify.
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

impl Key {
    /// Returns a shared secret for HS256.
    pub(crate) fn secret(secret: &[u8]) -> Self {
        Self { id: None, algorithms: vec![Algorithm::HS256], key: DecodingKey::from_secret(secret) }
    }

    /// Returns the public key of a JWK. `None` for a key that cannot verify a signature of a supported algorithm, and for
    /// a key with private parts.
    pub(crate) fn from_jwk(value: &Value) -> Option<Self> {
        if value.get("d").is_some() {
            return None;
        }
        let jwk: Jwk = serde_json::from_value(value.clone()).ok()?;
        if jwk.common.public_key_use.as_ref().is_some_and(|usage| *usage != PublicKeyUse::Signature)
            || jwk.common.key_operations.as_ref().is_some_and(|uses| !uses.contains(&KeyOperations::Verify))
        {
            return None;
        }
        let (mut algorithms, key) = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => {
                let key = DecodingKey::from_jwk(&jwk).ok()?;
                let DecodingKeyKind::RsaModulusExponent { n, e } = key.kind() else { return None };
                // ring rejects numbers with leading zeros, which some issuers send.
                let strip = |number: &[u8]| number.iter().copied().skip_while(|byte| *byte == 0).collect::<Vec<_>>();
                (RSA.to_vec(), DecodingKey::from_rsa_raw_components(&strip(n), &strip(e)))
            }
            AlgorithmParameters::EllipticCurve(parameters) => {
                let algorithm = match parameters.curve {
                    EllipticCurve::P256 => Algorithm::ES256,
                    EllipticCurve::P384 => Algorithm::ES384,
                    _ => return None,
                };
                (vec![algorithm], DecodingKey::from_jwk(&jwk).ok()?)
            }
            AlgorithmParameters::OctetKeyPair(parameters) if parameters.curve == EllipticCurve::Ed25519 => {
                (vec![Algorithm::EdDSA], DecodingKey::from_jwk(&jwk).ok()?)
            }
            _ => return None,
        };
        if let Some(declared) = jwk.common.key_algorithm {
            let declared = Algorithm::try_from(declared).ok()?;
            algorithms.retain(|algorithm| *algorithm == declared);
        }
        (!algorithms.is_empty()).then_some(Self { id: jwk.common.key_id, algorithms, key })
    }

    /// Whether a signature is valid. The key must allow the algorithm.
    pub(crate) fn verify(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        self.algorithms.contains(&algorithm) && verify(algorithm, &self.key, message, signature)
    }
}

const RSA: [Algorithm; 6] =
    [Algorithm::RS256, Algorithm::RS384, Algorithm::RS512, Algorithm::PS256, Algorithm::PS384, Algorithm::PS512];

fn verify(algorithm: Algorithm, key: &DecodingKey, message: &[u8], signature: &[u8]) -> bool {
    if key.family() != algorithm.family() {
        return false;
    }
    if let DecodingKeyKind::RsaModulusExponent { n, e } = key.kind() {
        let parameters = match algorithm {
            Algorithm::RS256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Algorithm::RS384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Algorithm::RS512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            Algorithm::PS256 => &signature::RSA_PSS_2048_8192_SHA256,
            Algorithm::PS384 => &signature::RSA_PSS_2048_8192_SHA384,
            Algorithm::PS512 => &signature::RSA_PSS_2048_8192_SHA512,
            _ => return false,
        };
        return signature::RsaPublicKeyComponents { n, e }.verify(parameters, message, signature).is_ok();
    }
    let Ok(bytes) = key.try_get_as_bytes() else { return false };
    let algorithm: &'static dyn signature::VerificationAlgorithm = match algorithm {
        Algorithm::HS256 => {
            return hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, bytes), message, signature).is_ok();
        }
        Algorithm::ES256 => &signature::ECDSA_P256_SHA256_FIXED,
        Algorithm::ES384 => &signature::ECDSA_P384_SHA384_FIXED,
        Algorithm::EdDSA => &signature::ED25519,
        _ => return false,
    };
    signature::UnparsedPublicKey::new(algorithm, bytes).verify(message, signature).is_ok()
}

/// The keys of an issuer.
#[derive(Clone, Default)]
pub(crate) struct KeySet {
    keys: Arc<[Arc<Key>]>,
}

impl KeySet {
    pub(crate) fn new(keys: impl IntoIterator<Item = Key>) -> Self {
        Self { keys: keys.into_iter().map(Arc::new).collect() }
    }

    /// Parses a JWK set. Keys that this library cannot use are skipped, so that the result may be empty.
    ///
    /// # Errors
    /// If the text is not a JWK set, or it has more than 100 keys.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let document: Value = serde_json::from_slice(bytes).map_err(|_| "the key set is not valid JSON")?;
        let keys = document.get("keys").and_then(Value::as_array).ok_or("the key set has no list `keys`")?;
        if keys.len() > MAX_KEYS {
            return Err("the key set has too many keys");
        }
        Ok(Self::new(keys.iter().filter_map(Key::from_jwk)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the keys that may verify a token, at most four. Keys with the id of the token come alone. A key without an
    /// id, for example a shared secret, serves tokens with any id, and each key serves tokens without an id.
    pub(crate) fn select(&self, algorithm: Algorithm, id: Option<&str>) -> Vec<Arc<Key>> {
        let tried = |has_id: &dyn Fn(&Key) -> bool| -> Vec<Arc<Key>> {
            let allowed = self.keys.iter().filter(|key| key.algorithms.contains(&algorithm) && has_id(key));
            allowed.take(MAX_TRIED).cloned().collect()
        };
        let exact = tried(&|key| id.is_some() && key.id.as_deref() == id);
        if exact.is_empty() { tried(&|key| id.is_none() || key.id.is_none()) } else { exact }
    }

    /// Whether an algorithm verifies signatures with a shared secret.
    pub(crate) fn is_symmetric(algorithm: Algorithm) -> bool {
        algorithm.family() == AlgorithmFamily::Hmac
    }
}
