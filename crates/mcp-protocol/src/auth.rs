//! Authenticated callers, and the documents by which a server describes its authorization (RFC 9728, RFC 6750).

use std::{collections::BTreeSet, fmt, time::SystemTime};

use serde::{Deserialize, Serialize};

use crate::{JsonObject, json};

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

    /// Returns a text that is equal for two principals exactly if issuer, client and subject are equal. Scopes,
    /// claims and time change within a session and do not count.
    #[must_use]
    pub fn key(&self) -> String {
        // A JSON array quotes its members, so no choice of texts runs into another; and `null` is not a text.
        serde_json::Value::from(vec![
            self.issuer.as_deref().into(),
            self.client_id.as_deref().into(),
            serde_json::Value::from(self.subject.as_str()),
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

/// The document with the issuers of tokens for a server (RFC 9728).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProtectedResourceMetadata {
    /// The server: the identifier that tokens are issued for.
    pub resource: String,
    /// The issuers of those tokens.
    #[serde(default, deserialize_with = "json::null_default", skip_serializing_if = "Vec::is_empty")]
    pub authorization_servers: Vec<String>,
    /// The URL of the server's keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_uri: Option<String>,
    /// The scopes that a client may request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes_supported: Option<Vec<String>>,
    /// How a token may be sent: `header`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer_methods_supported: Option<Vec<String>>,
    /// The name of the server, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_name: Option<String>,
    /// The URL of the server's documentation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_documentation: Option<String>,
    /// The URL of the server's data policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_policy_uri: Option<String>,
    /// The terms of service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_tos_uri: Option<String>,
    /// The algorithms of DPoP proofs that the server checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dpop_signing_alg_values_supported: Option<Vec<String>>,
    /// Whether a token must be bound by DPoP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dpop_bound_access_tokens_required: Option<bool>,
    /// Members that are unknown to this library.
    #[serde(flatten)]
    pub extra: JsonObject,
}

impl ProtectedResourceMetadata {
    /// The well-known path of the document; the path of the server follows it (RFC 9728 §3.1).
    pub const WELL_KNOWN: &'static str = "/.well-known/oauth-protected-resource";

    /// Returns the document of a server, with the issuers of its tokens.
    pub fn new(
        resource: impl Into<String>,
        authorization_servers: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            resource: resource.into(),
            authorization_servers: authorization_servers.into_iter().map(Into::into).collect(),
            bearer_methods_supported: Some(vec!["header".into()]),
            ..Self::default()
        }
    }

    /// Sets the scopes that a client may request.
    #[must_use]
    pub fn with_scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes_supported = Some(scopes.into_iter().map(Into::into).collect());
        self
    }

    /// Returns the path of the document for a server at a path: `/.well-known/oauth-protected-resource/mcp` for `/mcp`.
    #[must_use]
    pub fn path_for(server_path: &str) -> String {
        format!("{}{}", Self::WELL_KNOWN, server_path.trim_end_matches('/'))
    }
}

/// The value of a `WWW-Authenticate` header: what was wrong, and how to do better. [`fmt::Display`] writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Challenge {
    /// The scheme, such as `Bearer`: a token (RFC 9110 §5.6.2).
    pub scheme: String,
    /// The realm.
    pub realm: Option<String>,
    /// `invalid_request`, `invalid_token` or `insufficient_scope` (RFC 6750 §3.1).
    pub error: Option<String>,
    /// A description of the status.
    pub error_description: Option<String>,
    /// The scopes that the operation needs, all of them.
    pub scope: Option<String>,
    /// The URL of the [`ProtectedResourceMetadata`].
    pub resource_metadata: Option<String>,
}

impl Challenge {
    /// Returns a challenge of a scheme.
    pub fn new(scheme: impl Into<String>) -> Self {
        Self {
            scheme: scheme.into(),
            realm: None,
            error: None,
            error_description: None,
            scope: None,
            resource_metadata: None,
        }
    }

    /// Returns a challenge for a bearer token.
    #[must_use]
    pub fn bearer() -> Self {
        Self::new("Bearer")
    }

    /// Returns the challenge for an invalid token (401).
    #[must_use]
    pub fn invalid_token() -> Self {
        Self { error: Some("invalid_token".into()), ..Self::bearer() }
    }

    /// Returns the challenge for a token without the required scopes (403).
    pub fn insufficient_scope<'s>(scopes: impl IntoIterator<Item = &'s str>) -> Self {
        Self { error: Some("insufficient_scope".into()), ..Self::bearer() }.with_scopes(scopes)
    }

    /// Sets the realm.
    #[must_use]
    pub fn with_realm(mut self, realm: impl Into<String>) -> Self {
        self.realm = Some(realm.into());
        self
    }

    /// Sets a description for people.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.error_description = Some(description.into());
        self
    }

    /// Sets the required scopes.
    #[must_use]
    pub fn with_scopes<'s>(mut self, scopes: impl IntoIterator<Item = &'s str>) -> Self {
        let scopes: Vec<&str> = scopes.into_iter().collect();
        self.scope = (!scopes.is_empty()).then(|| scopes.join(" "));
        self
    }

    /// Sets the URL of the metadata document.
    #[must_use]
    pub fn with_resource_metadata(mut self, url: impl Into<String>) -> Self {
        self.resource_metadata = Some(url.into());
        self
    }
}

impl fmt::Display for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.scheme)?;
        let mut separator = " ";
        for (name, value) in [
            ("realm", &self.realm),
            ("error", &self.error),
            ("error_description", &self.error_description),
            ("scope", &self.scope),
            ("resource_metadata", &self.resource_metadata),
        ] {
            if let Some(value) = value {
                write!(f, "{separator}{name}=\"{}\"", Quoted(value))?;
                separator = ", ";
            }
        }
        Ok(())
    }
}

/// The inside of a quoted string, with the characters that RFC 6750 §3 allows there and `?` for any other.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        self.0.chars().try_for_each(|c| match c {
            '"' => f.write_char('\''),
            ' '..='[' | ']'..='~' => f.write_char(c),
            _ => f.write_char('?'),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

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
        assert_eq!(renewed.key(), all[0].key());
    }

    #[test]
    fn debug_shows_no_claims() {
        let mut principal = Principal::new("a");
        principal.claims.insert("email".into(), "secret@example.com".into());
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

    #[test]
    fn metadata_documents_round_trip() {
        let document =
            ProtectedResourceMetadata::new("https://a.example/mcp", ["https://as.example"]).with_scopes(["r"]);
        let wire = json!({
            "resource": "https://a.example/mcp", "authorization_servers": ["https://as.example"],
            "bearer_methods_supported": ["header"], "scopes_supported": ["r"]
        });
        assert_eq!(serde_json::to_value(&document).unwrap(), wire);
        let mut wider = wire;
        wider["signed_metadata"] = json!("jwt");
        let read: ProtectedResourceMetadata = serde_json::from_value(wider.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), wider);
        for (path, expected) in [
            ("/mcp", "/.well-known/oauth-protected-resource/mcp"),
            ("/a/b/", "/.well-known/oauth-protected-resource/a/b"),
            ("/", "/.well-known/oauth-protected-resource"),
            ("", "/.well-known/oauth-protected-resource"),
        ] {
            assert_eq!(ProtectedResourceMetadata::path_for(path), expected);
        }
    }

    #[test]
    fn challenges_are_written_as_header_values() {
        for (challenge, expected) in [
            (Challenge::bearer(), "Bearer"),
            (
                Challenge::bearer().with_resource_metadata("https://a.example/.well-known/oauth-protected-resource"),
                "Bearer resource_metadata=\"https://a.example/.well-known/oauth-protected-resource\"",
            ),
            (
                Challenge::insufficient_scope(["a", "b"]).with_description("say \"b\"\r\nX: y\\é").with_realm("r"),
                "Bearer realm=\"r\", error=\"insufficient_scope\", error_description=\"say 'b'??X: y??\", scope=\"a b\"",
            ),
            (Challenge::invalid_token().with_scopes([]), "Bearer error=\"invalid_token\""),
        ] {
            assert_eq!(challenge.to_string(), expected);
        }
    }
}
