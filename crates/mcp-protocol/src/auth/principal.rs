//! The authenticated identity of a caller.

use std::{collections::BTreeSet, fmt, time::SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::JsonObject;

/// The authenticated identity of a caller. It holds no token, and its `Debug` shows no claims.
///
/// ```
/// use mcp_protocol::Principal;
///
/// let principal = Principal::new("user-7").with_issuer("https://issuer.example").with_scopes(["files:read"]);
/// assert_ne!(principal.key(), Principal::new("user-7").key());
/// ```
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Principal {
    /// The issuer of the credentials; `None` for credentials that this server issues.
    pub issuer: Option<String>,
    /// The identifier of the caller at the issuer.
    pub subject: String,
    /// The client that it uses.
    pub client_id: Option<String>,
    /// The granted scopes.
    pub scopes: BTreeSet<String>,
    /// Further claims of the issuer.
    pub claims: JsonObject,
    /// When the authentication ends.
    pub expires_at: Option<SystemTime>,
    /// The servers that the credentials are valid for: the claim `aud`.
    pub audience: Vec<String>,
    /// The identifier of the token: the claim `jti`.
    pub token_id: Option<String>,
    /// The scheme of the credentials: `Bearer`, `DPoP`, `Basic` or `ApiKey`.
    pub scheme: Option<String>,
    /// The key that the client must have in order to use the token: the claim `cnf`.
    pub confirmation: Option<Confirmation>,
    /// The party that acts for the caller: the claim `act` (RFC 8693 §4.1).
    pub actor: Option<Box<Principal>>,
}

impl Principal {
    /// Returns a principal without issuer, client, scopes, claims and end.
    pub fn new(subject: impl Into<String>) -> Self {
        Self {
            issuer: None,
            subject: subject.into(),
            client_id: None,
            scopes: BTreeSet::new(),
            claims: JsonObject::new(),
            expires_at: None,
            audience: Vec::new(),
            token_id: None,
            scheme: None,
            confirmation: None,
            actor: None,
        }
    }

    /// Sets the issuer of the credentials.
    #[must_use]
    pub fn with_issuer(mut self, issuer: impl Into<String>) -> Self {
        self.issuer = Some(issuer.into());
        self
    }

    /// Sets the client that the caller uses.
    #[must_use]
    pub fn with_client_id(mut self, client_id: impl Into<String>) -> Self {
        self.client_id = Some(client_id.into());
        self
    }

    /// Adds scopes.
    #[must_use]
    pub fn with_scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes.extend(scopes.into_iter().map(Into::into));
        self
    }

    /// Sets the time at which the authentication expires.
    #[must_use]
    pub fn with_expires_at(mut self, at: SystemTime) -> Self {
        self.expires_at = Some(at);
        self
    }

    /// Adds servers that the credentials are valid for.
    #[must_use]
    pub fn with_audience(mut self, audience: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.audience.extend(audience.into_iter().map(Into::into));
        self
    }

    /// Sets the identifier of the token.
    #[must_use]
    pub fn with_token_id(mut self, id: impl Into<String>) -> Self {
        self.token_id = Some(id.into());
        self
    }

    /// Sets the scheme of the credentials.
    #[must_use]
    pub fn with_scheme(mut self, scheme: impl Into<String>) -> Self {
        self.scheme = Some(scheme.into());
        self
    }

    /// Sets the key that the client must have in order to use the token.
    #[must_use]
    pub fn with_confirmation(mut self, confirmation: Confirmation) -> Self {
        self.confirmation = Some(confirmation);
        self
    }

    /// Sets the party that acts for the caller.
    #[must_use]
    pub fn with_actor(mut self, actor: Principal) -> Self {
        self.actor = Some(Box::new(actor));
        self
    }

    /// Adds one claim. A later value replaces an earlier value.
    ///
    /// ```
    /// use mcp_protocol::Principal;
    ///
    /// let principal = Principal::new("user-7").with_claim("team", "blue").with_claim("floor", 3);
    /// assert_eq!(principal.claims["team"], "blue");
    /// ```
    #[must_use]
    pub fn with_claim(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.claims.insert(name.into(), value.into());
        self
    }

    /// Adds claims. A later value replaces an earlier value.
    #[must_use]
    pub fn with_claims(mut self, claims: impl IntoIterator<Item = (String, Value)>) -> Self {
        self.claims.extend(claims);
        self
    }

    /// Returns 16 hexadecimal digits that are equal for equal [keys](Self::key), for log records. The text is not a
    /// secret, and two principals may share it.
    ///
    /// ```
    /// use mcp_protocol::Principal;
    ///
    /// assert_eq!(Principal::new("user-7").fingerprint(), Principal::new("user-7").with_scopes(["a"]).fingerprint());
    /// assert_ne!(Principal::new("user-7").fingerprint(), Principal::new("user-8").fingerprint());
    /// ```
    #[must_use]
    pub fn fingerprint(&self) -> String {
        // FNV-1a: the same on every node and in every version of the program.
        let hash = self
            .key()
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        format!("{hash:016x}")
    }

    /// Returns a text that is equal for two principals exactly if issuer, client and subject are equal. Scopes,
    /// claims and time change within a session and do not count.
    #[must_use]
    pub fn key(&self) -> String {
        // A JSON array quotes its members, so no choice of texts runs into another; and `null` is not a text.
        Value::from(vec![
            self.issuer.as_deref().into(),
            self.client_id.as_deref().into(),
            Value::from(self.subject.as_str()),
        ])
        .to_string()
    }

    /// Whether the authentication has ended.
    #[must_use]
    pub fn is_expired(&self, now: SystemTime) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Principal")
            .field("issuer", &self.issuer)
            .field("subject", &self.subject)
            .field("client_id", &self.client_id)
            .field("scopes", &self.scopes)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

/// The key that the client of a token must have (RFC 7800): the claim `cnf`.
///
/// ```
/// use mcp_protocol::auth::Confirmation;
///
/// let confirmation: Confirmation = serde_json::from_str(r#"{"jkt":"0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}"#)?;
/// assert!(confirmation.jkt.is_some() && confirmation.x5t_s256.is_none());
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Confirmation {
    /// The thumbprint of the key that signs DPoP proofs (RFC 9449 §6.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jkt: Option<String>,
    /// The thumbprint of a client certificate (RFC 8705 §3.1).
    #[serde(default, rename = "x5t#S256", skip_serializing_if = "Option::is_none")]
    pub x5t_s256: Option<String>,
}

impl Confirmation {
    /// Returns the confirmation of a DPoP key by its thumbprint.
    pub fn jkt(thumbprint: impl Into<String>) -> Self {
        Self { jkt: Some(thumbprint.into()), x5t_s256: None }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn keys_of_different_principals_differ() {
        let all = [
            Principal::new("a"),
            Principal::new("b"),
            Principal::new("a").with_issuer("i"),
            Principal::new("a").with_client_id("i"),
            Principal::new("a").with_issuer(""),
            Principal::new("c").with_issuer("a\",\"b"),
            Principal::new("c").with_issuer("a").with_client_id("b"),
            Principal::new("b\",\"c").with_issuer("a"),
        ];
        let keys: BTreeSet<String> = all.iter().map(Principal::key).collect();
        assert_eq!(keys.len(), all.len());
        let mut renewed = Principal::new("a").with_scopes(["s"]).with_expires_at(SystemTime::UNIX_EPOCH);
        renewed.claims.insert("email".into(), "x".into());
        let renewed = renewed.with_audience(["aud"]).with_token_id("t").with_scheme("Bearer");
        let renewed = renewed.with_confirmation(Confirmation::jkt("k")).with_actor(Principal::new("agent"));
        assert_eq!(renewed.key(), all[0].key());
    }

    #[test]
    fn debug_shows_no_claims() {
        let mut principal = Principal::new("a");
        principal.claims.insert("email".into(), "secret@example.com".into());
        principal.actor = Some(Box::new(principal.clone()));
        let shown = format!("{principal:?}");
        assert!(shown.contains("subject: \"a\"") && !shown.contains("secret"), "{shown}");
    }

    #[test]
    fn an_authentication_expires_at_its_expiry_time() {
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(10);
        let principal = Principal::new("a").with_expires_at(end);
        assert!(!principal.is_expired(end - Duration::from_secs(1)));
        assert!(principal.is_expired(end));
        assert!(!Principal::new("a").is_expired(end));
    }
}
