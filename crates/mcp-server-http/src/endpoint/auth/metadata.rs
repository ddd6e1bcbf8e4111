//! The metadata document of a protected resource (RFC 9728).

use bytes::Bytes;
use http::{HeaderValue, Method, Response, header};
use mcp_auth::Authenticator;
use mcp_protocol::ProtectedResourceMetadata;

use crate::{
    answer::{body::Body, respond},
    config::{HttpConfig, PublicUrl},
};

const METHODS: &str = "GET, HEAD, OPTIONS";

/// The document, and the paths at which it is served.
pub(crate) struct Metadata {
    document: Bytes,
    url: String,
    paths: Vec<String>,
}

impl Metadata {
    /// Writes the document. `None` if there is no authorization server that issues tokens.
    pub(super) fn new(
        config: &HttpConfig,
        public_url: &PublicUrl,
        authenticator: &dyn Authenticator,
        scopes: &[String],
    ) -> Option<Self> {
        let mut metadata = ProtectedResourceMetadata::new(public_url.as_str(), authenticator.authorization_servers());
        if !scopes.is_empty() {
            metadata = metadata.with_scopes(scopes);
        }
        authenticator.describe(&mut metadata);
        if !config.has_client_certificates {
            // Without the certificates of its clients the endpoint rejects each bound token.
            metadata.tls_client_certificate_bound_access_tokens = None;
        }
        if let Some(configured) = &config.protected_resource {
            metadata = merged(metadata, configured.clone());
        }
        public_url.as_str().clone_into(&mut metadata.resource);
        if let Some(scopes) = &mut metadata.scopes_supported {
            // A server should not ask for refresh tokens.
            scopes.retain(|scope| scope != "offline_access");
        }
        if metadata.authorization_servers.is_empty() {
            return None;
        }
        let document = serde_json::to_vec(&metadata).ok()?.into();
        let inserted = ProtectedResourceMetadata::path_for(public_url.path());
        let url = format!("{}{inserted}", public_url.origin());
        let mut paths = vec![inserted];
        // A proxy may have removed a prefix from the path.
        let behind = ProtectedResourceMetadata::path_for(&config.path);
        let root = ProtectedResourceMetadata::WELL_KNOWN.to_owned();
        for path in [Some(behind), Some(root).filter(|_| config.has_root_metadata)].into_iter().flatten() {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        Some(Self { document, url, paths })
    }

    /// Returns the URL of the document, at the path that the path of the endpoint follows.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn paths(&self) -> &[String] {
        &self.paths
    }

    pub(crate) fn has_path(&self, path: &str) -> bool {
        self.paths.iter().any(|own| own == path)
    }

    /// Answers a request for the document. Each web page may read it, because it is public.
    pub(crate) fn answer(&self, method: &Method) -> Response<Body> {
        let mut response = match *method {
            Method::GET => respond::json(Body::whole(self.document.clone())),
            Method::HEAD => respond::json(Body::empty()),
            Method::OPTIONS => {
                let response = respond::empty(http::StatusCode::NO_CONTENT);
                let response = respond::with_header(response, header::ALLOW, HeaderValue::from_static(METHODS));
                let methods = header::ACCESS_CONTROL_ALLOW_METHODS;
                let response = respond::with_header(response, methods, HeaderValue::from_static(METHODS));
                let headers = header::ACCESS_CONTROL_ALLOW_HEADERS;
                respond::with_header(response, headers, HeaderValue::from_static("mcp-protocol-version"))
            }
            _ => return respond::wrong_method(METHODS),
        };
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
        response
    }
}

/// Returns the members of the configured document, and those of the authenticator where it has none.
fn merged(own: ProtectedResourceMetadata, configured: ProtectedResourceMetadata) -> ProtectedResourceMetadata {
    let mut merged = configured;
    if merged.authorization_servers.is_empty() {
        merged.authorization_servers = own.authorization_servers;
    }
    merged.scopes_supported = merged.scopes_supported.or(own.scopes_supported);
    merged.bearer_methods_supported = merged.bearer_methods_supported.or(own.bearer_methods_supported);
    merged.jwks_uri = merged.jwks_uri.or(own.jwks_uri);
    let algorithms = own.dpop_signing_alg_values_supported;
    merged.dpop_signing_alg_values_supported = merged.dpop_signing_alg_values_supported.or(algorithms);
    let required = own.dpop_bound_access_tokens_required;
    merged.dpop_bound_access_tokens_required = merged.dpop_bound_access_tokens_required.or(required);
    let bound = own.tls_client_certificate_bound_access_tokens;
    merged.tls_client_certificate_bound_access_tokens = merged.tls_client_certificate_bound_access_tokens.or(bound);
    merged
}
