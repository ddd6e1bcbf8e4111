//! The registration of the client at an authorization server, in the order of the specification: a registration of the
//! application, a client id metadata document, a dynamic registration (RFC 7591).

use http::HeaderMap;
use mcp_fetch::Fetch;
use mcp_protocol::auth::{ClientInformation, ClientMetadata, OAuthError, Secret, grant_type};
use serde::{Deserialize, Serialize};

use crate::{
    client_key::ClientKey,
    discovery::{Server, is_same_issuer},
    error::{Error, ErrorKind},
    quirks::Quirk,
};

/// How a client authenticates at the token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AuthMethod {
    None,
    ClientSecretBasic,
    ClientSecretPost,
    PrivateKeyJwt,
}

impl AuthMethod {
    const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
            Self::PrivateKeyJwt => "private_key_jwt",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::None, Self::ClientSecretBasic, Self::ClientSecretPost].into_iter().find(|method| method.as_str() == text)
    }
}

/// The origin of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Source {
    Application,
    Document,
    Dynamic,
}

/// A client as one authorization server knows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Registration {
    pub(crate) client_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client_secret: Option<Secret>,
    /// The end of the secret, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret_expires_at: Option<u64>,
    pub(crate) method: AuthMethod,
    /// The registered redirect URIs. Empty if the client does not know them.
    #[serde(default)]
    pub(crate) redirect_uris: Vec<String>,
    pub(crate) source: Source,
}

impl Registration {
    /// Returns the registration of a workload, which has no client id.
    pub(crate) fn none() -> Self {
        Self::of_application("")
    }

    /// Returns the registration of a public client that the application names.
    pub(crate) fn of_application(client_id: impl Into<String>) -> Self {
        Self {
            client_id: client_id.into(),
            client_secret: None,
            secret_expires_at: None,
            method: AuthMethod::None,
            redirect_uris: Vec::new(),
            source: Source::Application,
        }
    }

    /// Sets the secret of the client, for `client_secret_basic`.
    pub(crate) fn with_secret(mut self, secret: impl Into<Secret>) -> Self {
        (self.client_secret, self.method) = (Some(secret.into()), AuthMethod::ClientSecretBasic);
        self
    }

    /// Whether a login with this redirect URI can use the registration. The device flow has no redirect URI.
    pub(crate) fn is_usable(&self, redirect_uri: Option<&str>, now: u64) -> bool {
        let is_alive = self.secret_expires_at.is_none_or(|end| end == 0 || now < end);
        let has_uri = |wanted: &str| self.redirect_uris.iter().any(|uri| uri == wanted);
        is_alive && (self.source != Source::Dynamic || redirect_uri.is_none_or(has_uri))
    }
}

/// The client of the application.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientSettings {
    pub(crate) name: Option<String>,
    pub(crate) uri: Option<String>,
    pub(crate) registered: Option<Registered>,
    pub(crate) document: Option<String>,
    /// The issuer of all tokens. Absent: each that the MCP server names.
    pub(crate) issuer: Option<String>,
    /// Whether each authorization server gets the rules of the specification.
    pub(crate) ignores_quirks: bool,
}

impl ClientSettings {
    /// Returns the quirks of an issuer, unless the application turned them off.
    pub(crate) fn quirks(&self, issuer: &str) -> Vec<Quirk> {
        if self.ignores_quirks { Vec::new() } else { Quirk::of_issuer(issuer) }
    }

    /// Checks that the client uses an issuer. `identity` is that of its metadata.
    ///
    /// # Errors
    /// If the application configured another issuer.
    pub(crate) fn check_issuer(&self, identity: &str) -> Result<(), Error> {
        match &self.issuer {
            Some(issuer) if !is_same_issuer(identity, issuer, &self.quirks(issuer)) => {
                // The name may be that of an MCP server, with any characters.
                let text = format!("the configured issuer is {issuer}, and the server uses {identity:?}");
                Err(Error::new(ErrorKind::Registration, text))
            }
            _ => Ok(()),
        }
    }
}

/// A registration that the application has from the operator of an authorization server.
#[derive(Debug, Clone)]
pub(crate) struct Registered {
    pub(crate) client_id: String,
    pub(crate) client_secret: Option<Secret>,
    pub(crate) key: Option<ClientKey>,
}

/// The next step towards a registration.
#[derive(Debug, PartialEq)]
pub(crate) enum Plan {
    Use(Registration),
    /// Register at this endpoint.
    Register(String),
}

/// Decides how the client becomes known to an authorization server.
pub(crate) fn plan(
    client: &ClientSettings,
    server: &Server,
    stored: Option<Registration>,
    redirect_uri: Option<&str>,
    now: u64,
) -> Result<Plan, Error> {
    client.check_issuer(&server.identity)?;
    if let Some(registered) = &client.registered {
        return Ok(Plan::Use(application(registered, server)));
    }
    let metadata = &server.metadata;
    let methods = metadata.token_endpoint_auth_methods_supported.as_deref();
    let accepts_public = methods.is_none_or(|methods| methods.iter().any(|method| method == "none"));
    if let Some(document) = &client.document
        && metadata.client_id_metadata_document_supported == Some(true)
        && accepts_public
    {
        if !ClientMetadata::default().with_client_id(document).is_at(document) {
            let text = format!("the client metadata URL {document:?} is not an `https` URL with a path");
            return Err(Error::new(ErrorKind::Configuration, text));
        }
        return Ok(Plan::Use(Registration {
            client_id: document.clone(),
            client_secret: None,
            secret_expires_at: None,
            method: AuthMethod::None,
            redirect_uris: Vec::new(),
            source: Source::Document,
        }));
    }
    if let Some(stored) = stored.filter(|stored| stored.is_usable(redirect_uri, now)) {
        return Ok(Plan::Use(stored));
    }
    match server.registration_url()? {
        Some(endpoint) => Ok(Plan::Register(endpoint.to_owned())),
        None => Err(Error::new(
            ErrorKind::Registration,
            format!(
                "the issuer {} has no dynamic registration: register a client there and configure its id",
                server.identity
            ),
        )),
    }
}

/// Returns the registration of the application at a server.
pub(crate) fn application(registered: &Registered, server: &Server) -> Registration {
    Registration {
        client_id: registered.client_id.clone(),
        client_secret: registered.client_secret.clone(),
        secret_expires_at: None,
        method: match (&registered.key, &registered.client_secret) {
            (Some(_), _) => AuthMethod::PrivateKeyJwt,
            (None, Some(_)) => secret_method(server),
            (None, None) => AuthMethod::None,
        },
        redirect_uris: Vec::new(),
        source: Source::Application,
    }
}

/// Returns how a client sends its secret. Without a declaration this is `client_secret_basic` (RFC 8414 §2).
fn secret_method(server: &Server) -> AuthMethod {
    let has = |method: AuthMethod| server.metadata.token_auth_methods().any(|declared| declared == method.as_str());
    if has(AuthMethod::ClientSecretPost) && !has(AuthMethod::ClientSecretBasic) {
        AuthMethod::ClientSecretPost
    } else {
        AuthMethod::ClientSecretBasic
    }
}

/// Returns the document of a dynamic registration. Without a redirect URI it is for the device flow.
pub(crate) fn request(client: &ClientSettings, server: &Server, redirect_uri: Option<&str>) -> ClientMetadata {
    let is_public = server.metadata.token_auth_methods().any(|method| method == "none");
    let method = if is_public { AuthMethod::None } else { secret_method(server) };
    let mut document = ClientMetadata::new(client.name.as_deref().unwrap_or("MCP client"), redirect_uri);
    document.client_uri = client.uri.clone();
    document.token_endpoint_auth_method = Some(method.as_str().to_owned());
    let grant = if redirect_uri.is_some() { grant_type::AUTHORIZATION_CODE } else { grant_type::DEVICE_CODE };
    document.grant_types = Some(vec![grant.into(), grant_type::REFRESH_TOKEN.into()]);
    // The device flow has no response type. Without the member, the default is `code` (RFC 7591 §2).
    document.response_types = Some(redirect_uri.iter().map(|_| "code".into()).collect());
    let is_web = redirect_uri.is_some_and(|uri| uri.starts_with("https://"));
    document.application_type = Some(if is_web { "web" } else { "native" }.into());
    document
}

/// Registers the client.
pub(crate) async fn register(fetch: &Fetch, endpoint: &str, document: &ClientMetadata) -> Result<Registration, Error> {
    let failed = |text: &str| Error::new(ErrorKind::Registration, text.to_owned());
    let body = serde_json::to_value(document).map_err(|_| failed("the registration cannot be written as JSON"))?;
    let response = fetch.post_json(endpoint, &body, HeaderMap::new()).await;
    let response =
        response.map_err(|error| Error::fetch(ErrorKind::Registration, "the dynamic registration failed", error))?;
    let status = response.status();
    if !status.is_success() {
        if let Ok(error) = response.json::<OAuthError>().map_err(|_| ()) {
            let text = format!("the authorization server refused the registration: {error}");
            return Err(Error::with_source(ErrorKind::Registration, text, error));
        }
        let kind = if status.is_server_error() { ErrorKind::Unavailable } else { ErrorKind::Registration };
        return Err(Error::new(kind, format!("the registration endpoint answered with the status {status}")));
    }
    let information = response.json::<ClientInformation>();
    let information =
        information.map_err(|_| failed("the answer of the registration endpoint is not a registration"))?;
    known(information, document).ok_or_else(|| failed("the answer of the registration endpoint has no client id"))
}

/// Returns the registration of an answer. The answer counts where it differs from the request.
fn known(answer: ClientInformation, asked: &ClientMetadata) -> Option<Registration> {
    let ClientInformation { client_secret, client_secret_expires_at, metadata, .. } = answer;
    let client_id = metadata.client_id.filter(|id| !id.is_empty())?;
    let method = metadata.token_endpoint_auth_method.as_deref().or(asked.token_endpoint_auth_method.as_deref());
    let method = match (method.and_then(AuthMethod::parse), client_secret.is_some()) {
        (Some(method), true) => method,
        (None, true) => AuthMethod::ClientSecretBasic,
        (_, false) => AuthMethod::None,
    };
    let mut redirect_uris = metadata.redirect_uris;
    if redirect_uris.is_empty() {
        redirect_uris.clone_from(&asked.redirect_uris);
    }
    Some(Registration {
        client_id,
        client_secret,
        secret_expires_at: client_secret_expires_at,
        method,
        redirect_uris,
        source: Source::Dynamic,
    })
}

#[cfg(test)]
mod tests;
