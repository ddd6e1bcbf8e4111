//! The answers of a token endpoint (RFC 6749 §5), and the registered URNs of OAuth.

use std::{
    error::Error,
    fmt,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::secret::{Names, Secret};
use crate::JsonObject;

/// Values of `grant_type`.
pub mod grant_type {
    /// A code that a user's login produced (RFC 6749 §4.1.3).
    pub const AUTHORIZATION_CODE: &str = "authorization_code";
    /// The client acts for itself (RFC 6749 §4.4).
    pub const CLIENT_CREDENTIALS: &str = "client_credentials";
    /// A refresh token (RFC 6749 §6).
    pub const REFRESH_TOKEN: &str = "refresh_token";
    /// A code of the device flow (RFC 8628 §3.4).
    pub const DEVICE_CODE: &str = "urn:ietf:params:oauth:grant-type:device_code";
    /// A signed assertion (RFC 7523 §2.1).
    pub const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
    /// A token in exchange for another token (RFC 8693 §2.1).
    pub const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
}

/// Types of tokens in a token exchange (RFC 8693 §3).
pub mod token_type {
    /// An access token.
    pub const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
    /// A refresh token.
    pub const REFRESH_TOKEN: &str = "urn:ietf:params:oauth:token-type:refresh_token";
    /// An id token (OpenID Connect).
    pub const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
    /// A signed JWT.
    pub const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";
    /// An assertion of SAML 2.0.
    pub const SAML2: &str = "urn:ietf:params:oauth:token-type:saml2";
    /// An identity assertion authorization grant (ID-JAG).
    pub const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
}

/// Values of `client_assertion_type`.
pub mod client_assertion_type {
    /// A signed JWT (RFC 7523 §2.2).
    pub const JWT_BEARER: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
}

/// Values of `authorization_grant_profiles_supported`.
pub mod grant_profile {
    /// Identity assertion authorization grants (ID-JAG).
    pub const ID_JAG: &str = "urn:ietf:params:oauth:grant-profile:id-jag";
}

/// The answer of a token endpoint to a valid request (RFC 6749 §5.1).
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use mcp_protocol::auth::TokenResponse;
///
/// let answer = r#"{"access_token":"hunter2","token_type":"Bearer","expires_in":3600}"#;
/// let tokens: TokenResponse = serde_json::from_str(answer)?;
/// let now = SystemTime::now();
/// assert_eq!(tokens.expires_at(now), Some(now + Duration::from_secs(3600)));
/// assert!(!format!("{tokens:?}").contains("hunter2"));
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TokenResponse {
    /// The token.
    pub access_token: Secret,
    /// The scheme of the token: `Bearer` or `DPoP`. Case does not count.
    pub token_type: String,
    /// The lifetime of the token in seconds. Some authorization servers send a text, which is read as well.
    #[serde(default, deserialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<u64>,
    /// The token that renews the access token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<Secret>,
    /// The granted scopes, separated by spaces. Absent if they are the requested scopes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The id token (OpenID Connect).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_token: Option<Secret>,
    /// The type of the token in a token exchange: a constant of [`token_type`](mod@token_type).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issued_token_type: Option<String>,
    /// Members that are unknown to this library.
    #[serde(flatten)]
    pub extra: JsonObject,
}

impl TokenResponse {
    /// Returns an answer with a token and its scheme.
    pub fn new(access_token: impl Into<Secret>, token_type: impl Into<String>) -> Self {
        Self {
            access_token: access_token.into(),
            token_type: token_type.into(),
            expires_in: None,
            refresh_token: None,
            scope: None,
            id_token: None,
            issued_token_type: None,
            extra: JsonObject::new(),
        }
    }

    /// Returns the time at which the token expires, from the time at which the answer arrived. `None` if the lifetime is
    /// unknown or not representable.
    #[must_use]
    pub fn expires_at(&self, received: SystemTime) -> Option<SystemTime> {
        received.checked_add(Duration::from_secs(self.expires_in?))
    }
}

impl fmt::Debug for TokenResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenResponse")
            .field("token_type", &self.token_type)
            .field("expires_in", &self.expires_in)
            .field("has_refresh_token", &self.refresh_token.is_some())
            .field("scope", &self.scope)
            .field("extra", &Names(&self.extra))
            .finish_non_exhaustive()
    }
}

/// Reads a number of seconds: a number, or a text with digits. Any other value is unknown.
fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    })
}

fn whole(number: f64) -> Option<u64> {
    // The cast is exact in this range.
    (0.0..9_007_199_254_740_992.0).contains(&number).then_some(number as u64)
}

/// The answer of a token endpoint to an invalid request (RFC 6749 §5.2). Authorization and registration endpoints use the
/// same members.
///
/// ```
/// use mcp_protocol::auth::OAuthError;
///
/// let error: OAuthError = serde_json::from_str(r#"{"error":"invalid_grant","error_description":"expired"}"#)?;
/// assert_eq!(error.to_string(), "invalid_grant: expired");
/// assert!(error.is_definitive());
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OAuthError {
    /// The error code, such as `invalid_grant`.
    pub error: String,
    /// A description for developers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_description: Option<String>,
    /// The URL of a page about the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_uri: Option<String>,
}

impl OAuthError {
    /// Returns an error with a code.
    pub fn new(error: impl Into<String>) -> Self {
        Self { error: error.into(), error_description: None, error_uri: None }
    }

    /// Sets the description for developers.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.error_description = Some(description.into());
        self
    }

    /// Whether the same credentials can never succeed: `invalid_grant`, `invalid_client` and `unauthorized_client`.
    #[must_use]
    pub fn is_definitive(&self) -> bool {
        matches!(self.error.as_str(), "invalid_grant" | "invalid_client" | "unauthorized_client")
    }
}

/// The longest part of a foreign text that is shown, in characters.
const LONGEST_SHOWN: usize = 200;

impl fmt::Display for OAuthError {
    /// Shows the code and the description, without control characters and shortened.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |text: &str| -> String {
            text.chars().take(LONGEST_SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect()
        };
        f.write_str(&shown(&self.error))?;
        match &self.error_description {
            Some(description) => write!(f, ": {}", shown(description)),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for OAuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OAuthError({self})")
    }
}

impl Error for OAuthError {}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lifetimes_are_read_leniently() {
        for (expires_in, expected) in [
            (json!(3600), Some(3600)),
            (json!(0), Some(0)),
            (json!("3600"), Some(3600)),
            (json!(3600.0), Some(3600)),
            (json!(-1), None),
            (json!("soon"), None),
            (json!(null), None),
            (json!(1e300), None),
        ] {
            let json = json!({"access_token": "a", "token_type": "Bearer", "expires_in": expires_in});
            let tokens: TokenResponse = serde_json::from_value(json).unwrap();
            assert_eq!(tokens.expires_in, expected, "{expires_in}");
        }
        let mut tokens = TokenResponse::new("a", "Bearer");
        for (expires_in, expected) in [(None, None), (Some(60), Some(Duration::from_secs(60))), (Some(u64::MAX), None)]
        {
            tokens.expires_in = expires_in;
            let received = SystemTime::UNIX_EPOCH;
            assert_eq!(tokens.expires_at(received), expected.map(|time| received + time));
        }
    }

    #[test]
    fn token_responses_round_trip_and_show_no_secrets() {
        let json = json!({
            "access_token": "hunter1", "token_type": "DPoP", "expires_in": 60, "refresh_token": "hunter2",
            "scope": "a b", "id_token": "hunter3", "issued_token_type": token_type::ID_JAG, "session": "hunter4"
        });
        let read: TokenResponse = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), json);
        let shown = format!("{read:?}");
        assert!(shown.contains("session") && !shown.contains("hunter"), "{shown}");
    }

    #[test]
    fn error_texts_are_shortened_and_have_one_line() {
        let error = OAuthError::new("invalid_scope").with_description("a\r\nb".repeat(1_000));
        let shown = error.to_string();
        assert!(shown.len() < 300 && !shown.contains(['\r', '\n']), "{shown}");
        assert_eq!(format!("{:?}", OAuthError::new("x")), "OAuthError(x)");
        for (code, expected) in
            [("invalid_grant", true), ("invalid_client", true), ("temporarily_unavailable", false), ("", false)]
        {
            assert_eq!(OAuthError::new(code).is_definitive(), expected, "{code}");
        }
    }
}
