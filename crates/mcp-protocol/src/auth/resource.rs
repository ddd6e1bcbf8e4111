//! The document that describes a protected resource (RFC 9728).

use serde::{Deserialize, Serialize};

use crate::{JsonObject, json};

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
    /// Whether the server accepts tokens that are bound to a client certificate (RFC 8705).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_client_certificate_bound_access_tokens: Option<bool>,
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_documents_round_trip() {
        let document =
            ProtectedResourceMetadata::new("https://a.example/mcp", ["https://as.example"]).with_scopes(["r"]);
        let json = json!({
            "resource": "https://a.example/mcp", "authorization_servers": ["https://as.example"],
            "bearer_methods_supported": ["header"], "scopes_supported": ["r"]
        });
        assert_eq!(serde_json::to_value(&document).unwrap(), json);
        let mut wider = json;
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
}
