//! Signed tokens of the client: ES256 (RFC 7515).

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use ring::{rand::SystemRandom, signature::EcdsaKeyPair};
use serde_json::Value;

use crate::error::{Error, ErrorKind};

/// Signs claims. The header must name the algorithm ES256.
pub(crate) fn sign(key: &EcdsaKeyPair, header: &Value, claims: &Value) -> Result<String, Error> {
    let encode = |part: &Value| BASE64_URL_SAFE_NO_PAD.encode(part.to_string());
    let message = format!("{}.{}", encode(header), encode(claims));
    let signature = key.sign(&SystemRandom::new(), message.as_bytes()).map_err(|_| no_random())?;
    Ok(format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
}

pub(crate) fn no_random() -> Error {
    Error::new(ErrorKind::Unavailable, "the system has no random numbers")
}
