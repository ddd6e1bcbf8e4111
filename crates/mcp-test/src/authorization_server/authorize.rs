//! The authorization endpoint (RFC 6749 §4.1, RFC 7636, RFC 8707, RFC 9207).

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use mcp_auth::jose;
use mcp_protocol::auth::grant_type;
use url::Url;

use super::{
    Inner, Misbehavior, clock,
    fault::Fault,
    message::{self, Parameters},
    page, redirect_uri,
    state::{AuthorizationRequest, ClientRecord, CodeRecord},
};

/// The longest `state`, in bytes.
const MAX_STATE: usize = 4_096;
/// The length of the challenge of PKCE with S256.
const CHALLENGE_LENGTH: usize = 43;
/// The largest number of resources of a request.
const MAX_RESOURCES: usize = 10;

/// The reason for which the authorization endpoint does not continue.
pub(super) enum Refusal {
    /// The client is not known, so the user sees a page (RFC 6749 §4.1.2.1).
    Page(Fault),
    /// The client receives the reason.
    Redirect { redirect_uri: String, state: Option<String>, fault: Fault },
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Page(fault)
    }
}

impl Inner {
    pub(super) async fn authorize(&self, request: &Request<Bytes>, now: SystemTime) -> Response<Bytes> {
        let result = match self.read_authorization(request, now).await {
            Ok((client, valid)) if self.config.is_auto_approved => {
                tracing::debug!(client = client.id(), "approved an authorization request");
                self.approve(valid, now).await
            }
            Ok((client, valid)) => self.ask(request.headers(), &client, valid, now).await,
            Err(refusal) => Err(refusal),
        };
        result.unwrap_or_else(|refusal| self.refuse(refusal))
    }

    pub(super) fn refuse(&self, refusal: Refusal) -> Response<Bytes> {
        match refusal {
            Refusal::Page(fault) => message::page(fault.status, page::error(&fault.description)),
            Refusal::Redirect { redirect_uri, state, fault } => {
                let parameters = [("error", fault.error), ("error_description", &*fault.description)];
                self.redirect_back(&redirect_uri, state.as_deref(), &parameters)
            }
        }
    }

    async fn read_authorization(
        &self,
        request: &Request<Bytes>,
        now: SystemTime,
    ) -> Result<(ClientRecord, AuthorizationRequest), Refusal> {
        let parameters = if request.method() == Method::POST {
            Parameters::of_form(request)?
        } else {
            Parameters::parse(request.uri().query().unwrap_or_default().as_bytes())?
        };
        let unknown = || Fault::new("invalid_client", "The client is not registered.");
        let client = self.client(parameters.require("client_id")?, now).await?.ok_or_else(unknown)?;
        let uri = requested_uri(&client, parameters.get("redirect_uri"))?;
        let state = parameters.get("state").map(str::to_owned);
        if state.as_ref().is_some_and(|state| state.len() > MAX_STATE) {
            return Err(Fault::invalid_request("The parameter `state` is too long.").into());
        }
        match self.check_authorization(&client, &parameters, uri.clone()) {
            Ok(mut valid) => {
                valid.state = state;
                Ok((client, valid))
            }
            Err(fault) => Err(Refusal::Redirect { redirect_uri: uri, state, fault }),
        }
    }

    fn check_authorization(
        &self,
        client: &ClientRecord,
        parameters: &Parameters,
        redirect_uri: String,
    ) -> Result<AuthorizationRequest, Fault> {
        if !client.may_use(grant_type::AUTHORIZATION_CODE) {
            return Err(Fault::new("unauthorized_client", "the client did not register the grant type"));
        }
        if parameters.require("response_type")? != "code" {
            return Err(Fault::new("unsupported_response_type", "the response type is not `code`"));
        }
        if parameters.get("response_mode").is_some_and(|mode| mode != "query") {
            return Err(Fault::invalid_request("the response mode is not `query`"));
        }
        // A missing method means `plain` (RFC 7636 §4.3).
        if parameters.get("code_challenge_method") != Some("S256") {
            return Err(Fault::invalid_request("the parameter `code_challenge_method` is not `S256`"));
        }
        let challenge = parameters.require("code_challenge")?;
        let is_base64url = challenge.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        if challenge.len() != CHALLENGE_LENGTH || !is_base64url {
            return Err(Fault::invalid_request("the parameter `code_challenge` is not a SHA-256 in base64url"));
        }
        Ok(AuthorizationRequest {
            client_id: client.id().to_owned(),
            names_redirect_uri: parameters.get("redirect_uri").is_some(),
            redirect_uri,
            state: None,
            challenge: challenge.to_owned(),
            scopes: self.granted_scopes(client, parameters.get("scope"))?,
            resources: self.audience(parameters)?,
            jkt: parameters.get("dpop_jkt").map(str::to_owned),
        })
    }

    /// Returns the scopes of a request. Without a request these are all scopes of the client, or of the server.
    pub(super) fn granted_scopes(&self, client: &ClientRecord, requested: Option<&str>) -> Result<Vec<String>, Fault> {
        let registered = client.metadata.scope.as_deref().map(message::scopes);
        let Some(requested) = requested.map(message::scopes) else {
            let all = registered.unwrap_or_else(|| self.config.scopes.clone());
            return Ok(all.into_iter().filter(|scope| scope != OFFLINE_ACCESS).collect());
        };
        self.check_scopes(&requested)?;
        if registered.is_some_and(|registered| !requested.iter().all(|scope| registered.contains(scope))) {
            return Err(Fault::new("invalid_scope", "the client did not register a requested scope"));
        }
        Ok(requested)
    }

    /// Checks that the server supports some scopes. A server without configured scopes supports each.
    pub(super) fn check_scopes(&self, scopes: &[String]) -> Result<(), Fault> {
        let is_supported = |scope: &String| self.config.scopes.is_empty() || self.config.scopes.contains(scope);
        if scopes.iter().all(is_supported) {
            Ok(())
        } else {
            Err(Fault::new("invalid_scope", "a requested scope is not supported"))
        }
    }

    /// Returns the audience of the tokens of a request (RFC 8707 §2).
    pub(super) fn audience(&self, parameters: &Parameters) -> Result<Vec<String>, Fault> {
        let invalid = |description: &'static str| Fault::new("invalid_target", description);
        let requested: Vec<String> = parameters.all("resource").map(str::to_owned).collect();
        if !requested.is_empty() && self.misbehaviors.occurs(&Misbehavior::ResourceRejected) {
            return Err(invalid("a deliberate rejection of the parameter `resource`"));
        }
        if requested.len() > MAX_RESOURCES {
            return Err(invalid("the request has too many resources"));
        }
        for resource in &requested {
            let is_uri = Url::parse(resource).is_ok_and(|url| url.fragment().is_none());
            if !is_uri || resource.contains('#') {
                return Err(invalid("a resource is not an absolute URI without a fragment"));
            }
            if !self.config.resources.is_empty() && !self.config.resources.contains(resource) {
                return Err(invalid("the resource is unknown"));
            }
        }
        if requested.is_empty() {
            let default = self.config.resources.first().unwrap_or(&self.config.issuer);
            return Ok(vec![default.clone()]);
        }
        Ok(requested)
    }

    /// Sends the user back to the client with a code.
    pub(super) async fn approve(
        &self,
        request: AuthorizationRequest,
        now: SystemTime,
    ) -> Result<Response<Bytes>, Refusal> {
        let code = jose::random_text().map_err(Fault::from)?;
        let record = CodeRecord {
            subject: self.config.subject.clone(),
            expires_at: clock::after(now, self.config.code_lifetime),
            grant: jose::random_text().map_err(Fault::from)?,
            is_used: false,
            request,
        };
        // The record lives longer than the code, so that the server recognizes a second use.
        let ttl = self.config.code_lifetime.saturating_add(REUSE_WINDOW);
        self.state.create(&code, &record, ttl).await.map_err(Fault::from)?;
        let CodeRecord { request, .. } = record;
        Ok(self.redirect_back(&request.redirect_uri, request.state.as_deref(), &[("code", &code)]))
    }

    /// Redirects to the client, with `state` and `iss` (RFC 9207 §2).
    fn redirect_back(&self, uri: &str, state: Option<&str>, parameters: &[(&str, &str)]) -> Response<Bytes> {
        let Ok(mut url) = Url::parse(uri) else {
            return message::page(StatusCode::BAD_REQUEST, page::error("The redirect URI is not a URL."));
        };
        {
            let mut query = url.query_pairs_mut();
            query.extend_pairs(parameters);
            if let Some(state) = state {
                let is_changed = self.misbehaviors.occurs(&Misbehavior::ChangedState);
                query.append_pair("state", if is_changed { "changed" } else { state });
            }
            if self.misbehaviors.occurs(&Misbehavior::WrongIss) {
                query.append_pair("iss", "https://wrong.example");
            } else if self.misbehaviors.occurs(&Misbehavior::IssWithSlash) {
                query.append_pair("iss", &format!("{}/", self.config.issuer));
            } else if !self.misbehaviors.occurs(&Misbehavior::NoIss) {
                query.append_pair("iss", &self.config.issuer);
            }
        }
        message::redirect(&url)
    }
}

/// Returns the redirect URI of a request. A client with one redirect URI may omit it.
fn requested_uri(client: &ClientRecord, requested: Option<&str>) -> Result<String, Fault> {
    let registered = &client.metadata.redirect_uris;
    match (requested, registered.as_slice()) {
        (Some(uri), _) if redirect_uri::is_registered(uri, registered) => Ok(uri.to_owned()),
        (Some(_), _) => Err(Fault::invalid_request("The redirect URI is not registered.")),
        (None, [only]) => Ok(only.clone()),
        (None, _) => Err(Fault::invalid_request("The redirect URI is missing.")),
    }
}

/// The scope that asks for a refresh token (OpenID Connect Core §11).
pub(super) const OFFLINE_ACCESS: &str = "offline_access";
/// The time for which the server recognizes a second use of an expired code.
const REUSE_WINDOW: Duration = Duration::from_secs(600);
