//! The compact form of a signed token (RFC 7515 §7.1), before its signature is checked.

use std::sync::Arc;

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use jsonwebtoken::{Algorithm, Header};
use serde_json::{Map, Value};

use super::{Fault, keys::Key};
use crate::json;

/// The longest token, in bytes.
const MAX_TOKEN: usize = 16 << 10;
/// The longest key id, in bytes.
const MAX_KEY_ID: usize = 512;
/// The types of access tokens (RFC 9068 §2.1). A token of any other type has another purpose.
const TYPES: [&str; 3] = ["jwt", "at+jwt", "application/at+jwt"];

/// A token in its parts. Its claims count only after the signature is checked.
pub(crate) struct Token<'t> {
    pub(crate) algorithm: Algorithm,
    /// The header with the members that no field has.
    pub(crate) header: Header,
    /// The bytes that are signed.
    pub(crate) message: &'t [u8],
    pub(crate) signature: Vec<u8>,
    claims: Vec<u8>,
}

impl<'t> Token<'t> {
    /// Parses an access token. It may have any type of access tokens, or no type, unless one type is required.
    pub(crate) fn parse(text: &'t str, required: Option<&str>) -> Result<Self, Fault> {
        let token = Self::parse_any(text)?;
        let typ = token.header.typ.as_deref().map(str::to_ascii_lowercase);
        let is_access_token = match (typ.as_deref(), required) {
            (Some(typ), Some(required)) => media_type(typ).eq_ignore_ascii_case(media_type(required)),
            (None, Some(_)) => false,
            (Some(typ), None) => TYPES.contains(&typ),
            (None, None) => true,
        };
        if is_access_token { Ok(token) } else { Err(Fault::Invalid("the type is not that of an access token")) }
    }

    /// Parses a token of any type.
    pub(crate) fn parse_any(text: &'t str) -> Result<Self, Fault> {
        if text.len() > MAX_TOKEN {
            return Err(Fault::Invalid("the token is too long"));
        }
        let (message, signature) = text.rsplit_once('.').ok_or(Fault::Invalid("the token has too few parts"))?;
        let (header, claims) = message.split_once('.').ok_or(Fault::Invalid("the token has too few parts"))?;
        if claims.contains('.') {
            return Err(Fault::Invalid("the token has too many parts"));
        }
        let decode = |part: &str| {
            BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_| Fault::Invalid("a part is not valid base64url"))
        };
        let header = json::object(&decode(header)?).ok_or(Fault::Invalid("the header is not a valid object"))?;
        for name in ["crit", "zip", "enc", "b64"] {
            if header.contains_key(name) {
                return Err(Fault::Invalid("the header has a member that this library does not support"));
            }
        }
        let header: Header = serde_json::from_value(Value::Object(header))
            .map_err(|_| Fault::Invalid("the header has an unknown algorithm or an invalid member"))?;
        if header.kid.as_ref().is_some_and(|id| id.len() > MAX_KEY_ID) {
            return Err(Fault::Invalid("the key id is too long"));
        }
        Ok(Self {
            algorithm: header.alg,
            header,
            message: message.as_bytes(),
            signature: decode(signature)?,
            claims: decode(claims)?,
        })
    }

    /// Returns the id of the key that signed the token.
    pub(crate) fn key_id(&self) -> Option<&str> {
        self.header.kid.as_deref()
    }

    /// Whether one of the keys signed the token.
    pub(crate) fn is_signed_by(&self, keys: &[Arc<Key>]) -> bool {
        keys.iter().any(|key| key.verify(self.algorithm, self.message, &self.signature))
    }

    /// Returns the claims. They count only after the signature is checked.
    pub(crate) fn claims(&self) -> Result<Map<String, Value>, Fault> {
        json::object(&self.claims).ok_or(Fault::Invalid("the claims are not a valid object"))
    }
}

/// Returns a type without its optional prefix (RFC 7515 §4.1.9).
fn media_type(typ: &str) -> &str {
    match typ.split_once('/') {
        Some((prefix, rest)) if prefix.eq_ignore_ascii_case("application") => rest,
        _ => typ,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_of_a_type_is_optional() {
        for (typ, expected) in [
            ("at+jwt", "at+jwt"),
            ("application/at+jwt", "at+jwt"),
            ("Application/at+jwt", "at+jwt"),
            ("text/at+jwt", "text/at+jwt"),
        ] {
            assert_eq!(media_type(typ), expected);
        }
    }

    #[test]
    fn the_length_of_a_token_is_limited() {
        let header = BASE64_URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#);
        for (length, is_accepted) in [(MAX_TOKEN, true), (MAX_TOKEN + 1, false)] {
            let rest = length - header.len() - "..".len();
            // A part of base64 does not have the length 4n + 1.
            let signature = if rest % 4 == 1 { "AAA" } else { "AAAA" };
            let claims = "A".repeat(rest - signature.len());
            let token = format!("{header}.{claims}.{signature}");
            assert_eq!((token.len(), Token::parse_any(&token).is_ok()), (length, is_accepted));
        }
    }
}
