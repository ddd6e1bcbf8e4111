//! The documents that describe a client: its metadata (RFC 7591) and the answer to its registration.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::secret::{Names, Secret};
use crate::JsonObject;

/// The metadata of a client: the body of a dynamic registration (RFC 7591 §2), and the client id metadata document.
///
/// ```
/// use mcp_protocol::auth::ClientMetadata;
///
/// let mut client = ClientMetadata::new("Example", ["http://127.0.0.1/callback"]);
/// client.application_type = Some("native".into());
/// let document = client.with_client_id("https://app.example/client.json");
/// assert!(document.is_at("https://app.example/client.json"));
/// ```
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ClientMetadata {
    /// The identifier of the client. A metadata document has it, and it is the URL of the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The name of the client, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_name: Option<String>,
    /// The URLs to which an authorization server may send the user back.
    #[serde(deserialize_with = "crate::json::null_default", skip_serializing_if = "Vec::is_empty")]
    pub redirect_uris: Vec<String>,
    /// How the client authenticates at the token endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_endpoint_auth_method: Option<String>,
    /// The algorithm of the client's assertions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_endpoint_auth_signing_alg: Option<String>,
    /// The grant types that the client uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant_types: Option<Vec<String>>,
    /// The response types that the client uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_types: Option<Vec<String>>,
    /// `native` for a program on the user's machine, `web` for an application on a server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application_type: Option<String>,
    /// The scopes that the client may request, separated by spaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The URL of a page about the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_uri: Option<String>,
    /// The URL of the client's logo.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logo_uri: Option<String>,
    /// The e-mail addresses of the people who are responsible for the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contacts: Option<Vec<String>>,
    /// The URL of the terms of service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tos_uri: Option<String>,
    /// The URL of the data policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_uri: Option<String>,
    /// The URL of the client's public keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwks_uri: Option<String>,
    /// The client's public keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwks: Option<Value>,
    /// The identifier of the software.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub software_id: Option<String>,
    /// The version of the software.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub software_version: Option<String>,
    /// A signed statement about the software.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub software_statement: Option<Secret>,
    /// Whether the tokens of the client must be bound by DPoP (RFC 9449 §5.2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dpop_bound_access_tokens: Option<bool>,
    /// Members that are unknown to this library.
    #[serde(flatten)]
    pub extra: JsonObject,
}

impl ClientMetadata {
    /// Returns the metadata of a client with a name and redirect URIs.
    pub fn new(name: impl Into<String>, redirect_uris: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            client_name: Some(name.into()),
            redirect_uris: redirect_uris.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// Sets the identifier of the client.
    #[must_use]
    pub fn with_client_id(mut self, id: impl Into<String>) -> Self {
        self.client_id = Some(id.into());
        self
    }

    /// Whether this is the metadata document of a URL: the URL has `https` and a path, and `client_id` is equal to it.
    #[must_use]
    pub fn is_at(&self, url: &str) -> bool {
        let host_and_path = url.strip_prefix("https://").and_then(|rest| rest.split_once('/'));
        let has_path = host_and_path.is_some_and(|(host, path)| !host.is_empty() && !path.is_empty());
        has_path && self.client_id.as_deref() == Some(url)
    }
}

impl fmt::Debug for ClientMetadata {
    /// Shows the members that identify the client, and the names of unknown members.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientMetadata")
            .field("client_id", &self.client_id)
            .field("client_name", &self.client_name)
            .field("redirect_uris", &self.redirect_uris)
            .field("token_endpoint_auth_method", &self.token_endpoint_auth_method)
            .field("grant_types", &self.grant_types)
            .field("application_type", &self.application_type)
            .field("scope", &self.scope)
            .field("extra", &Names(&self.extra))
            .finish_non_exhaustive()
    }
}

/// The answer to a dynamic registration (RFC 7591 §3.2.1).
///
/// ```
/// use mcp_protocol::auth::ClientInformation;
///
/// let answer = r#"{"client_id":"c1","client_secret":"hunter2","redirect_uris":["http://127.0.0.1/callback"]}"#;
/// let client: ClientInformation = serde_json::from_str(answer)?;
/// assert_eq!(client.client_secret.as_ref().unwrap().expose(), "hunter2");
/// assert!(!format!("{client:?}").contains("hunter2"));
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClientInformation {
    /// The secret of a confidential client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<Secret>,
    /// The time of the registration, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id_issued_at: Option<u64>,
    /// The time at which the secret expires, in seconds since 1970. 0 means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret_expires_at: Option<u64>,
    /// The token that reads and changes the registration (RFC 7592).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration_access_token: Option<Secret>,
    /// The URL of the registration (RFC 7592).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration_client_uri: Option<String>,
    /// The metadata as the authorization server stored it, with the client id.
    #[serde(flatten)]
    pub metadata: ClientMetadata,
}

impl ClientInformation {
    /// Returns the registration of a client with an id and without a secret.
    pub fn new(client_id: impl Into<String>) -> Self {
        Self {
            client_secret: None,
            client_id_issued_at: None,
            client_secret_expires_at: None,
            registration_access_token: None,
            registration_client_uri: None,
            metadata: ClientMetadata::default().with_client_id(client_id),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn client_documents_round_trip_with_unknown_members() {
        let json = json!({
            "client_secret": "hunter2", "client_secret_expires_at": 0, "registration_access_token": "hunter3",
            "client_id": "c", "client_name": "n", "redirect_uris": ["https://a.example/cb"],
            "jwks": {"keys": []}, "software_statement": "hunter4", "vendor_secret": "hunter5"
        });
        let read: ClientInformation = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), json);
        let shown = format!("{read:?}");
        assert!(shown.contains("vendor_secret") && !shown.contains("hunter"), "{shown}");
        let sparse: ClientInformation =
            serde_json::from_value(json!({"client_id": "c", "redirect_uris": null})).unwrap();
        assert_eq!(sparse, ClientInformation::new("c"));
    }

    #[test]
    fn a_metadata_document_must_name_its_own_url() {
        for (id, url, expected) in [
            ("https://a.example/c.json", "https://a.example/c.json", true),
            ("https://a.example/c.json", "https://a.example/d.json", false),
            ("https://a.example/", "https://a.example/", false),
            ("https://a.example", "https://a.example", false),
            ("http://a.example/c.json", "http://a.example/c.json", false),
            ("https:///c.json", "https:///c.json", false),
        ] {
            let document = ClientMetadata::new("n", ["https://a.example/cb"]).with_client_id(id);
            assert_eq!(document.is_at(url), expected, "{id} {url}");
        }
    }
}
