//! The clients: those of the builder, and those that register (RFC 7591).

use std::time::SystemTime;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use mcp_auth::jose;
use mcp_protocol::auth::{ClientInformation, ClientMetadata, Secret, grant_type};
use serde_json::Value;

use super::{Inner, Misbehavior, client_document, clock, fault::Fault, message, redirect_uri, state::ClientRecord};

/// The methods of authentication that a client may register.
const METHODS: [&str; 4] = ["none", "client_secret_basic", "client_secret_post", "private_key_jwt"];
/// The largest number of redirect URIs of a client.
const MAX_REDIRECT_URIS: usize = 20;

/// A client that the authorization server knows from its start.
///
/// ```
/// use mcp_test::authorization_server::{AuthorizationServer, RegisteredClient};
///
/// let app = RegisteredClient::public("app").redirect_uri("http://127.0.0.1/callback");
/// let service = RegisteredClient::with_secret("service", "hunter2");
/// let server = AuthorizationServer::builder().client(app).client(service).build("http://127.0.0.1:8000")?;
/// assert_eq!(server.issuer(), "http://127.0.0.1:8000");
/// # Ok::<_, mcp_test::authorization_server::AuthorizationServerError>(())
/// ```
#[derive(Debug, Clone)]
pub struct RegisteredClient {
    metadata: ClientMetadata,
    secret: Option<Secret>,
}

impl RegisteredClient {
    /// Returns a client without a secret.
    pub fn public(id: impl Into<String>) -> Self {
        let mut client = Self::new(id);
        client.metadata.token_endpoint_auth_method = Some("none".to_owned());
        client
    }

    /// Returns a client that authenticates with a secret, in the header `Authorization` or in the form.
    pub fn with_secret(id: impl Into<String>, secret: impl Into<Secret>) -> Self {
        Self { secret: Some(secret.into()), ..Self::new(id) }
    }

    /// Returns a client that authenticates with signed assertions (RFC 7523 §2.2). The keys are a JWK set.
    ///
    /// ```
    /// use mcp_test::authorization_server::RegisteredClient;
    /// use serde_json::json;
    ///
    /// let key = json!({
    ///     "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
    /// });
    /// let client = RegisteredClient::with_keys("service", json!({"keys": [key]}));
    /// # let _ = client;
    /// ```
    pub fn with_keys(id: impl Into<String>, keys: Value) -> Self {
        let mut client = Self::new(id);
        client.metadata.token_endpoint_auth_method = Some("private_key_jwt".to_owned());
        client.metadata.jwks = Some(keys);
        client
    }

    fn new(id: impl Into<String>) -> Self {
        let id = id.into();
        let mut metadata = ClientMetadata::default().with_client_id(id.clone());
        metadata.client_name = Some(id);
        Self { metadata, secret: None }
    }

    /// Adds a redirect URI. The port of a URL to this machine does not count.
    #[must_use]
    pub fn redirect_uri(mut self, uri: impl Into<String>) -> Self {
        self.metadata.redirect_uris.push(uri.into());
        self
    }

    pub(super) fn id(&self) -> &str {
        self.metadata.client_id.as_deref().unwrap_or_default()
    }

    pub(super) fn into_record(self) -> ClientRecord {
        ClientRecord { secret: self.secret.map(|secret| digest(&secret)), metadata: self.metadata }
    }
}

impl ClientRecord {
    pub(super) fn id(&self) -> &str {
        self.metadata.client_id.as_deref().unwrap_or_default()
    }

    /// Returns the name for people.
    pub(super) fn name(&self) -> &str {
        self.metadata.client_name.as_deref().unwrap_or_else(|| self.id())
    }

    /// Whether the client may use a grant type.
    pub(super) fn may_use(&self, grant_type: &str) -> bool {
        self.metadata.grant_types.as_ref().is_none_or(|types| types.iter().any(|other| other == grant_type))
    }

    /// Whether the client may authenticate with a method.
    pub(super) fn may_authenticate_with(&self, method: &str) -> bool {
        self.metadata.token_endpoint_auth_method.as_deref().is_none_or(|registered| registered == method)
    }

    /// Whether the client has no credentials.
    pub(super) fn is_public(&self) -> bool {
        self.secret.is_none() && self.metadata.jwks.is_none() && self.metadata.jwks_uri.is_none()
    }

    pub(super) fn has_secret(&self, secret: &str) -> bool {
        self.secret.as_ref().is_some_and(|expected| jose::is_equal(expected, &digest(&Secret::new(secret))))
    }
}

fn digest(secret: &Secret) -> String {
    jose::sha256(secret.expose().as_bytes())
}

impl Inner {
    /// Returns a client by its id.
    pub(super) async fn client(&self, id: &str, now: SystemTime) -> Result<Option<ClientRecord>, Fault> {
        if let Some(client) = self.config.clients.get(id) {
            return Ok(Some(client.clone()));
        }
        if self.config.reads_documents && client_document::is_document(id) {
            return self.client_of_document(id, now).await.map(Some);
        }
        if self.misbehaviors.occurs(&Misbehavior::ForgetsClients) {
            self.state.delete::<ClientRecord>(id).await?;
        }
        Ok(self.state.get::<ClientRecord>(id).await?.map(|stored| stored.record))
    }

    /// Registers a client.
    pub(super) async fn register(&self, request: &Request<Bytes>, now: SystemTime) -> Result<Response<Bytes>, Fault> {
        let invalid = |description: &'static str| Fault::new("invalid_client_metadata", description);
        if self.misbehaviors.occurs(&Misbehavior::RegistrationRejected) {
            return Err(invalid("a deliberate rejection"));
        }
        if !message::has_type(request.headers(), "application/json") {
            return Err(invalid("the body is not of the type application/json"));
        }
        let mut metadata: ClientMetadata =
            serde_json::from_slice(request.body()).map_err(|_| invalid("the body is not a valid metadata object"))?;
        // The members of `extra` are not registered, and the answer does not repeat them (RFC 7591 §2).
        metadata.extra.clear();
        self.complete(&mut metadata)?;
        if self.misbehaviors.occurs(&Misbehavior::OtherRedirectUris) {
            metadata.redirect_uris = vec!["https://wrong.example/callback".to_owned()];
        }
        let id = jose::random_text()?;
        metadata.client_id = Some(id.clone());
        let method = metadata.token_endpoint_auth_method.as_deref();
        let has_secret = method.is_some_and(|method| method.starts_with("client_secret"));
        let secret = if has_secret { Some(Secret::new(jose::random_text()?)) } else { None };
        let record = ClientRecord { secret: secret.as_ref().map(digest), metadata: metadata.clone() };
        self.state.create_lasting(&id, &record).await?;
        let mut information = ClientInformation::new(id);
        information.metadata = metadata;
        information.client_id_issued_at = Some(clock::seconds(now));
        information.client_secret_expires_at = secret.is_some().then_some(0);
        information.client_secret = secret;
        Ok(message::json(StatusCode::CREATED, &information))
    }

    /// Checks the metadata of a client and adds the defaults (RFC 7591 §2).
    fn complete(&self, metadata: &mut ClientMetadata) -> Result<(), Fault> {
        let invalid = |description: &'static str| Fault::new("invalid_client_metadata", description);
        let method = metadata.token_endpoint_auth_method.get_or_insert_with(|| "client_secret_basic".to_owned());
        if !METHODS.contains(&method.as_str()) {
            return Err(invalid("the value of `token_endpoint_auth_method` is not supported"));
        }
        if method == "private_key_jwt" && metadata.jwks.is_none() == metadata.jwks_uri.is_none() {
            return Err(invalid("the method private_key_jwt needs either `jwks` or `jwks_uri`"));
        }
        let grants = metadata.grant_types.get_or_insert_with(|| vec![grant_type::AUTHORIZATION_CODE.to_owned()]);
        let has_code = grants.iter().any(|grant| grant == grant_type::AUTHORIZATION_CODE);
        let responses = metadata.response_types.get_or_insert_with(|| vec!["code".to_owned()]);
        if has_code && !responses.iter().any(|response| response == "code") {
            return Err(invalid("the grant type authorization_code needs the response type code"));
        }
        let is_web = match metadata.application_type.as_deref() {
            None | Some("native") => false,
            Some("web") => true,
            Some(_) => return Err(invalid("`application_type` is neither `native` nor `web`")),
        };
        let uris = &metadata.redirect_uris;
        if uris.len() > MAX_REDIRECT_URIS || (has_code && uris.is_empty()) {
            return Err(Fault::new("invalid_redirect_uri", "the number of redirect URIs is not between 1 and 20"));
        }
        for uri in uris {
            redirect_uri::check(uri, is_web).map_err(|reason| Fault::new("invalid_redirect_uri", reason))?;
        }
        if let Some(scope) = &metadata.scope {
            self.check_scopes(&message::scopes(scope))
                .map_err(|_| invalid("`scope` has a scope that this server does not support"))?;
        }
        Ok(())
    }
}
