//! The metadata document and the key set.

use bytes::Bytes;
use http::{Response, StatusCode};
use mcp_protocol::auth::{AuthorizationServerMetadata, grant_profile, grant_type};

use super::{Inner, Misbehavior, message};

/// The paths of the endpoints below the issuer.
pub(super) mod path {
    pub(in super::super) const KEYS: &str = "/jwks";
    pub(in super::super) const REGISTRATION: &str = "/register";
    pub(in super::super) const AUTHORIZATION: &str = "/authorize";
    pub(in super::super) const DECISION: &str = "/authorize/decision";
    pub(in super::super) const TOKEN: &str = "/token";
    pub(in super::super) const INTROSPECTION: &str = "/introspect";
    pub(in super::super) const REVOCATION: &str = "/revoke";
    pub(in super::super) const DEVICE_AUTHORIZATION: &str = "/device_authorization";
    pub(in super::super) const DEVICE: &str = "/device";
}

/// The algorithms of assertions and of DPoP proofs.
const ALGORITHMS: [&str; 5] = ["ES256", "ES384", "EdDSA", "RS256", "PS256"];

impl Inner {
    /// Returns the URL of an endpoint.
    pub(super) fn url_of(&self, path: &str) -> String {
        format!("{}{path}", self.config.issuer.trim_end_matches('/'))
    }

    pub(super) fn metadata(&self) -> Response<Bytes> {
        let list = |items: &[&str]| Some(items.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>());
        let mut metadata = AuthorizationServerMetadata::new(self.config.issuer.as_str());
        metadata.authorization_endpoint = Some(self.url_of(path::AUTHORIZATION));
        metadata.token_endpoint = Some(self.url_of(path::TOKEN));
        metadata.jwks_uri = Some(self.url_of(path::KEYS));
        metadata.registration_endpoint = self.config.registers.then(|| self.url_of(path::REGISTRATION));
        metadata.scopes_supported = (!self.config.scopes.is_empty()).then(|| self.config.scopes.clone());
        metadata.response_types_supported = list(&["code"]);
        metadata.response_modes_supported = list(&["query"]);
        metadata.grant_types_supported = list(&[
            grant_type::AUTHORIZATION_CODE,
            grant_type::REFRESH_TOKEN,
            grant_type::CLIENT_CREDENTIALS,
            grant_type::DEVICE_CODE,
            grant_type::TOKEN_EXCHANGE,
            grant_type::JWT_BEARER,
        ]);
        metadata.authorization_grant_profiles_supported = list(&[grant_profile::ID_JAG]);
        metadata.device_authorization_endpoint = Some(self.url_of(path::DEVICE_AUTHORIZATION));
        metadata.dpop_signing_alg_values_supported = list(&ALGORITHMS);
        let with_credentials = list(&["client_secret_basic", "client_secret_post", "private_key_jwt"]);
        let methods = list(&["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]);
        metadata.token_endpoint_auth_methods_supported.clone_from(&methods);
        metadata.token_endpoint_auth_signing_alg_values_supported = list(&ALGORITHMS);
        metadata.introspection_endpoint = Some(self.url_of(path::INTROSPECTION));
        metadata.introspection_endpoint_auth_methods_supported = with_credentials;
        metadata.revocation_endpoint = Some(self.url_of(path::REVOCATION));
        metadata.revocation_endpoint_auth_methods_supported = methods;
        metadata.client_id_metadata_document_supported = Some(self.config.reads_documents);
        metadata.code_challenge_methods_supported = list(&["S256"]);
        metadata.authorization_response_iss_parameter_supported = Some(true);
        metadata.subject_types_supported = list(&["public"]);
        if self.misbehaviors.occurs(&Misbehavior::WrongIssuer) {
            metadata.issuer = "https://wrong.example".to_owned();
        }
        if self.misbehaviors.occurs(&Misbehavior::NoPkceMethods) {
            metadata.code_challenge_methods_supported = None;
        }
        if self.misbehaviors.occurs(&Misbehavior::IssNotDeclared) {
            metadata.authorization_response_iss_parameter_supported = None;
        }
        message::json(StatusCode::OK, &metadata)
    }

    pub(super) fn key_set(&self) -> Response<Bytes> {
        let keys = if self.misbehaviors.occurs(&Misbehavior::NoKeys) {
            serde_json::json!({"keys": []})
        } else if self.misbehaviors.occurs(&Misbehavior::HugeKeySet) {
            self.keys.huge_key_set()
        } else {
            self.keys.key_set()
        };
        message::json(StatusCode::OK, &keys)
    }
}
