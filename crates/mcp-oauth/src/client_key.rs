//! The key of a client that authenticates with signed assertions (`private_key_jwt`, RFC 7523 §2.2).

use std::{fmt, sync::Arc};

use mcp_protocol::auth::Secret;
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};
use serde_json::json;

use crate::{
    error::{Error, ErrorKind},
    signed::sign,
};

/// The time for which an assertion is valid, in seconds.
const LIFETIME: u64 = 60;

/// A private key of the curve P-256, which signs assertions with ES256. `Debug` shows no part of it.
///
/// ```no_run
/// use mcp_oauth::{ClientKey, OAuth};
///
/// let key = ClientKey::from_pem(&std::fs::read("client-key.pem")?)?.with_id("2026-01");
/// let auth = OAuth::builder().client_id("service").client_key(key).issuer("https://as.example");
/// let auth = auth.client_credentials().build();
/// # let _ = auth;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ClientKey {
    key: Arc<EcdsaKeyPair>,
    id: Option<String>,
}

impl ClientKey {
    /// Reads a key in the form PKCS#8 (PEM, `BEGIN PRIVATE KEY`).
    ///
    /// # Errors
    /// If the text has no private key of the curve P-256.
    pub fn from_pem(pem: &[u8]) -> Result<Self, Error> {
        let invalid = || Error::new(ErrorKind::Configuration, "the text has no PKCS#8 key of the curve P-256");
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem).map_err(|_| invalid())?;
        Self::from_der(der.secret_pkcs8_der())
    }

    /// Reads a key in the form PKCS#8 (DER).
    ///
    /// # Errors
    /// If the bytes are not a private key of the curve P-256.
    pub fn from_der(der: &[u8]) -> Result<Self, Error> {
        let invalid = |_| Error::new(ErrorKind::Configuration, "the key is not a PKCS#8 key of the curve P-256");
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &SystemRandom::new());
        Ok(Self { key: Arc::new(key.map_err(invalid)?), id: None })
    }

    /// Sets the id of the key, as the key set of the client has it (`kid`).
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Returns an assertion of a client for an authorization server.
    pub(crate) fn assertion(&self, client_id: &str, issuer: &str, now: u64) -> Result<Secret, Error> {
        let mut header = json!({"alg": "ES256", "typ": "JWT"});
        if let Some(id) = &self.id {
            header["kid"] = id.as_str().into();
        }
        let id = oauth2::CsrfToken::new_random().into_secret();
        let claims = json!({
            "iss": client_id, "sub": client_id, "aud": issuer, "jti": id, "iat": now, "exp": now + LIFETIME
        });
        sign(&self.key, &header, &claims).map(Secret::new)
    }
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientKey").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
    use ring::signature::{ECDSA_P256_SHA256_FIXED, KeyPair as _, UnparsedPublicKey};
    use serde_json::Value;

    use super::*;

    #[test]
    fn assertions_are_signed_for_one_issuer() {
        let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        let key = ClientKey::from_der(der.as_ref()).unwrap().with_id("k");
        let assertion = key.assertion("c", "https://as.example", 1_000).unwrap();
        let (message, signature) = assertion.expose().rsplit_once('.').unwrap();
        let decode = |part: &str| BASE64_URL_SAFE_NO_PAD.decode(part).unwrap();
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key.key.public_key().as_ref().to_vec());
        public.verify(message.as_bytes(), &decode(signature)).unwrap();
        let (header, claims) = message.split_once('.').unwrap();
        let [header, claims] = [header, claims].map(|part| serde_json::from_slice::<Value>(&decode(part)).unwrap());
        assert_eq!(header, json!({"alg": "ES256", "typ": "JWT", "kid": "k"}));
        let id = claims["jti"].as_str().unwrap();
        assert_eq!(
            claims,
            json!({"iss": "c", "sub": "c", "aud": "https://as.example", "jti": id, "iat": 1_000, "exp": 1_060})
        );
        let other = key.assertion("c", "https://as.example", 1_000).unwrap();
        assert!(other != assertion);
    }

    #[test]
    fn only_keys_of_p_256_are_read() {
        for text in ["", "key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
            let error = ClientKey::from_pem(text.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration);
        }
    }
}
