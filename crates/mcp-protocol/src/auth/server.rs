//! The document that describes an authorization server (RFC 8414, OpenID Connect Discovery 1.0).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::secret::Names;
use crate::JsonObject;

/// The metadata of an authorization server (RFC 8414 §2, OpenID Connect Discovery 1.0 §3).
///
/// ```
/// use mcp_protocol::auth::AuthorizationServerMetadata;
///
/// let document = r#"{"issuer":"https://as.example","token_endpoint":"https://as.example/token",
///     "code_challenge_methods_supported":["S256"],"vendor":1}"#;
/// let metadata: AuthorizationServerMetadata = serde_json::from_str(document)?;
/// assert!(metadata.is_issued_by("https://as.example") && metadata.supports_s256());
/// assert_eq!(metadata.extra["vendor"], 1);
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct AuthorizationServerMetadata {
    /// The identifier of the authorization server. A client must compare it ([`is_issued_by`](Self::is_issued_by)).
    pub issuer: String,
    /// The URL at which a user logs in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization_endpoint: Option<String>,
    /// The URL that issues tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_endpoint: Option<String>,
    /// The URL of the keys that sign tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwks_uri: Option<String>,
    /// The URL at which a client registers (RFC 7591).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registration_endpoint: Option<String>,
    /// The scopes that a client may request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scopes_supported: Option<Vec<String>>,
    /// The response types, such as `code`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_types_supported: Option<Vec<String>>,
    /// The response modes, such as `query`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_modes_supported: Option<Vec<String>>,
    /// The grant types; [`grant_types`](Self::grant_types) has the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant_types_supported: Option<Vec<String>>,
    /// The profiles of grants, such as [`grant_profile::ID_JAG`](super::grant_profile::ID_JAG).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization_grant_profiles_supported: Option<Vec<String>>,
    /// How clients authenticate at the token endpoint; [`token_auth_methods`](Self::token_auth_methods) has the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// The algorithms of client assertions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_endpoint_auth_signing_alg_values_supported: Option<Vec<String>>,
    /// The methods of PKCE (RFC 7636), such as `S256`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code_challenge_methods_supported: Option<Vec<String>>,
    /// Whether authorization responses have the parameter `iss` (RFC 9207).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization_response_iss_parameter_supported: Option<bool>,
    /// Whether a client id may be the URL of a metadata document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id_metadata_document_supported: Option<bool>,
    /// The algorithms of DPoP proofs (RFC 9449 §5.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dpop_signing_alg_values_supported: Option<Vec<String>>,
    /// The URL that revokes tokens (RFC 7009).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revocation_endpoint: Option<String>,
    /// How clients authenticate at the revocation endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revocation_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// The URL that describes tokens (RFC 7662).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub introspection_endpoint: Option<String>,
    /// How clients authenticate at the introspection endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub introspection_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// The URL that starts the device flow (RFC 8628).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_authorization_endpoint: Option<String>,
    /// The URL of pushed authorization requests (RFC 9126).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pushed_authorization_request_endpoint: Option<String>,
    /// Whether each authorization request must be pushed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_pushed_authorization_requests: Option<bool>,
    /// The resources that the authorization server issues tokens for (RFC 9728 §4).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protected_resources: Option<Vec<String>>,
    /// The URL of the documentation for developers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_documentation: Option<String>,
    /// The languages of the user interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ui_locales_supported: Option<Vec<String>>,
    /// The URL of the data policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub op_policy_uri: Option<String>,
    /// The URL of the terms of service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub op_tos_uri: Option<String>,
    /// The URL that describes a user (OpenID Connect).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub userinfo_endpoint: Option<String>,
    /// The URL that ends the session of a user (OpenID Connect).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_session_endpoint: Option<String>,
    /// The kinds of subject identifiers (OpenID Connect).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject_types_supported: Option<Vec<String>>,
    /// The algorithms of id tokens (OpenID Connect).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_token_signing_alg_values_supported: Option<Vec<String>>,
    /// The claims that tokens may have (OpenID Connect).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claims_supported: Option<Vec<String>>,
    /// Members that are unknown to this library.
    #[serde(flatten)]
    pub extra: JsonObject,
}

impl AuthorizationServerMetadata {
    /// The well-known path of RFC 8414.
    pub const WELL_KNOWN: &'static str = "/.well-known/oauth-authorization-server";
    /// The well-known path of OpenID Connect Discovery.
    pub const OPENID_WELL_KNOWN: &'static str = "/.well-known/openid-configuration";

    /// Returns a document with an issuer only.
    pub fn new(issuer: impl Into<String>) -> Self {
        Self { issuer: issuer.into(), ..Self::default() }
    }

    /// Returns the URLs at which the document of an issuer may be, in the order in which a client must try them. `None`
    /// if the issuer is not an `http` or `https` URL without query and fragment, or its path has dot segments, with which a
    /// URL leaves the well-known path.
    ///
    /// ```
    /// use mcp_protocol::auth::AuthorizationServerMetadata;
    ///
    /// let urls = AuthorizationServerMetadata::well_known_urls("https://as.example/t").unwrap();
    /// assert_eq!(urls, [
    ///     "https://as.example/.well-known/oauth-authorization-server/t",
    ///     "https://as.example/.well-known/openid-configuration/t",
    ///     "https://as.example/t/.well-known/openid-configuration",
    /// ]);
    /// ```
    #[must_use]
    pub fn well_known_urls(issuer: &str) -> Option<Vec<String>> {
        let (scheme, rest) = issuer.split_once("://")?;
        let is_http = scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http");
        if !is_http || rest.contains(['?', '#', '\\', '@', ' ']) || rest.contains(char::is_control) {
            return None;
        }
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if host.is_empty() || path.split('/').any(is_dot_segment) {
            return None;
        }
        let origin = format!("{scheme}://{host}");
        let path = path.trim_end_matches('/');
        let mut urls =
            vec![format!("{origin}{}{path}", Self::WELL_KNOWN), format!("{origin}{}{path}", Self::OPENID_WELL_KNOWN)];
        if !path.is_empty() {
            urls.push(format!("{origin}{path}{}", Self::OPENID_WELL_KNOWN));
        }
        Some(urls)
    }

    /// Whether the document belongs to this issuer: both texts must be identical (RFC 8414 §3.3).
    #[must_use]
    pub fn is_issued_by(&self, issuer: &str) -> bool {
        self.issuer == issuer
    }

    /// Whether the authorization server declares PKCE with `S256`.
    #[must_use]
    pub fn supports_s256(&self) -> bool {
        self.code_challenge_methods_supported.iter().flatten().any(|method| method == "S256")
    }

    /// Returns the grant types. Without a declaration these are `authorization_code` and `implicit` (RFC 8414 §2).
    pub fn grant_types(&self) -> impl Iterator<Item = &str> {
        or_default(self.grant_types_supported.as_deref(), &["authorization_code", "implicit"])
    }

    /// Returns how clients authenticate at the token endpoint. Without a declaration this is `client_secret_basic`
    /// (RFC 8414 §2).
    pub fn token_auth_methods(&self) -> impl Iterator<Item = &str> {
        or_default(self.token_endpoint_auth_methods_supported.as_deref(), &["client_secret_basic"])
    }
}

/// Whether a URL parser removes a segment of a path, and the segment before it.
fn is_dot_segment(segment: &str) -> bool {
    matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..")
}

fn or_default<'a>(declared: Option<&'a [String]>, default: &'static [&'static str]) -> impl Iterator<Item = &'a str> {
    let default = if declared.is_some() { &[] } else { default };
    declared.unwrap_or_default().iter().map(String::as_str).chain(default.iter().copied())
}

impl fmt::Debug for AuthorizationServerMetadata {
    /// Shows the issuer, the endpoints, and the names of unknown members.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationServerMetadata")
            .field("issuer", &self.issuer)
            .field("authorization_endpoint", &self.authorization_endpoint)
            .field("token_endpoint", &self.token_endpoint)
            .field("jwks_uri", &self.jwks_uri)
            .field("registration_endpoint", &self.registration_endpoint)
            .field("introspection_endpoint", &self.introspection_endpoint)
            .field("extra", &Names(&self.extra))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_urls_follow_the_order_of_the_specification() {
        for (issuer, expected) in [
            (
                "https://as.example",
                Some(
                    &[
                        "https://as.example/.well-known/oauth-authorization-server",
                        "https://as.example/.well-known/openid-configuration",
                    ][..],
                ),
            ),
            (
                "https://as.example:8443/",
                Some(&[
                    "https://as.example:8443/.well-known/oauth-authorization-server",
                    "https://as.example:8443/.well-known/openid-configuration",
                ]),
            ),
            (
                "https://as.example/a/b/",
                Some(&[
                    "https://as.example/.well-known/oauth-authorization-server/a/b",
                    "https://as.example/.well-known/openid-configuration/a/b",
                    "https://as.example/a/b/.well-known/openid-configuration",
                ]),
            ),
            ("https://", None),
            ("as.example", None),
            ("ftp://as.example", None),
            ("https://as.example/?a=b", None),
            ("https://as.example/#a", None),
            ("https://user@as.example/", None),
            ("https://as.example/../a", None),
            ("https://as.example/a/..", None),
            ("https://as.example/a/./b", None),
            ("https://as.example/%2E%2e/a", None),
            ("https://as.example/a/.%2E/../", None),
            ("https://as.example/a\t/b", None),
            ("https://as.example/.\n./b", None),
            ("https://as\r.example", None),
            ("https://as.example/a b", None),
            (
                "https://as.example/...",
                Some(&[
                    "https://as.example/.well-known/oauth-authorization-server/...",
                    "https://as.example/.well-known/openid-configuration/...",
                    "https://as.example/.../.well-known/openid-configuration",
                ]),
            ),
        ] {
            let urls = AuthorizationServerMetadata::well_known_urls(issuer);
            assert_eq!(
                urls.as_deref(),
                expected.map(|urls| urls.iter().map(|url| (*url).to_owned()).collect::<Vec<_>>()).as_deref(),
                "{issuer}"
            );
        }
    }

    #[test]
    fn metadata_round_trips_with_unknown_members() {
        let json = json!({
            "issuer": "https://as.example", "token_endpoint": "https://as.example/token",
            "authorization_response_iss_parameter_supported": true, "claims_supported": ["sub"],
            "mtls_endpoint_aliases": {"token_endpoint": "https://mtls.example"}
        });
        let read: AuthorizationServerMetadata = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), json);
        let empty: AuthorizationServerMetadata = serde_json::from_value(json!({"jwks_uri": null})).unwrap();
        assert_eq!(empty, AuthorizationServerMetadata::default());
    }

    #[test]
    fn absent_lists_have_the_defaults_of_the_specification() {
        let mut metadata = AuthorizationServerMetadata::new("https://as.example");
        assert!(metadata.grant_types().eq(["authorization_code", "implicit"]));
        assert!(metadata.token_auth_methods().eq(["client_secret_basic"]));
        assert!(!metadata.supports_s256());
        metadata.grant_types_supported = Some(vec![]);
        metadata.token_endpoint_auth_methods_supported = Some(vec!["none".into()]);
        metadata.code_challenge_methods_supported = Some(vec!["plain".into()]);
        assert_eq!(metadata.grant_types().count(), 0);
        assert!(metadata.token_auth_methods().eq(["none"]));
        assert!(!metadata.supports_s256());
    }

    #[test]
    fn issuers_are_compared_without_normalization() {
        let metadata = AuthorizationServerMetadata::new("https://as.example");
        for (issuer, expected) in [
            ("https://as.example", true),
            ("https://as.example/", false),
            ("https://AS.example", false),
            ("https://as.example:443", false),
        ] {
            assert_eq!(metadata.is_issued_by(issuer), expected, "{issuer}");
        }
    }
}
