//! Requests to a token endpoint, with the crate `oauth2` over guarded requests.

mod redaction;
mod wire;

use std::{fmt, time::Duration};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use http::{HeaderValue, Method, StatusCode, header};
use mcp_fetch::Fetch;
use mcp_protocol::auth::{OAuthError, Secret, TokenResponse, client_assertion_type, grant_type};
use oauth2::{
    AccessToken, AsyncHttpClient as _, AuthType, AuthorizationCode, ClientId, ClientSecret, EndpointNotSet,
    EndpointSet, HttpRequest, HttpResponse, PkceCodeVerifier, RedirectUrl, RefreshToken, RequestTokenError,
    StandardRevocableToken, TokenUrl,
    basic::{BasicRevocationErrorResponse, BasicTokenIntrospectionResponse, BasicTokenType},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use url::form_urlencoded;

use self::wire::{Wire, WireError};
use crate::{
    client_key::ClientKey,
    dpop::Proofs,
    error::{Error, ErrorKind},
    registration::{AuthMethod, Registration},
    tokens::{is_valid, now},
};

type Client = oauth2::Client<
    Refused,
    Granted,
    BasicTokenIntrospectionResponse,
    StandardRevocableToken,
    BasicRevocationErrorResponse,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointSet,
>;

/// The name of a token endpoint in texts.
pub(crate) const TOKEN_ENDPOINT: &str = "token endpoint";

/// A token endpoint, and the client that asks it.
#[derive(Clone, Copy)]
pub(crate) struct TokenEndpoint<'a> {
    pub(crate) fetch: &'a Fetch,
    pub(crate) url: &'a str,
    /// The name in texts: [`TOKEN_ENDPOINT`], or that of another endpoint of the authorization server.
    pub(crate) name: &'static str,
    pub(crate) client: &'a Registration,
    /// The key of a client that authenticates with assertions, and the issuer that reads them.
    pub(crate) key: Option<(&'a ClientKey, &'a str)>,
    /// The resource of the tokens, unless the authorization server rejects the parameter.
    pub(crate) resource: Option<&'a str>,
    /// The key to which the tokens are bound.
    pub(crate) proofs: Option<Proofs<'a>>,
}

impl TokenEndpoint<'_> {
    /// Redeems the code of a login.
    pub(crate) async fn redeem(
        &self,
        code: &Secret,
        verifier: PkceCodeVerifier,
        redirect_uri: &str,
    ) -> Result<TokenResponse, Error> {
        let redirect = RedirectUrl::new(redirect_uri.to_owned())
            .map_err(|_| Error::new(ErrorKind::Configuration, "the redirect URI is not a URL"))?;
        let client = self.client()?.set_redirect_uri(redirect);
        let mut request =
            client.exchange_code(AuthorizationCode::new(code.expose().to_owned())).set_pkce_verifier(verifier);
        for (name, value) in self.extra_params()? {
            request = request.add_extra_param(name, value);
        }
        self.read(request.request_async(&self.wire()).await)
    }

    /// Redeems a refresh token.
    pub(crate) async fn refresh(&self, token: &Secret) -> Result<TokenResponse, Error> {
        let (client, token) = (self.client()?, RefreshToken::new(token.expose().to_owned()));
        let mut request = client.exchange_refresh_token(&token);
        for (name, value) in self.extra_params()? {
            request = request.add_extra_param(name, value);
        }
        self.read(request.request_async(&self.wire()).await)
    }

    /// Returns another endpoint of the authorization server, for the same client. Its requests have no proof.
    pub(crate) fn beside<'b>(&'b self, url: &'b str, name: &'static str) -> TokenEndpoint<'b> {
        TokenEndpoint { url, name, proofs: None, ..*self }
    }

    /// Redeems the code of a device (RFC 8628 §3.4).
    pub(crate) async fn redeem_device_code(&self, code: &Secret) -> Result<TokenResponse, Error> {
        let answer = self.grant(&[("grant_type", grant_type::DEVICE_CODE), ("device_code", code.expose())]).await?;
        self.check_type(answer)
    }

    /// Requests a token for the client, without a user. `audience` is the resource in a parameter that some servers read.
    pub(crate) async fn client_credentials(
        &self,
        scopes: &[String],
        audience: Option<&str>,
    ) -> Result<TokenResponse, Error> {
        let client = self.client()?;
        let scopes = scopes.iter().cloned().map(oauth2::Scope::new);
        let mut request = client.exchange_client_credentials().add_scopes(scopes);
        if let Some(audience) = audience {
            request = request.add_extra_param("audience", audience.to_owned());
        }
        for (name, value) in self.extra_params()? {
            request = request.add_extra_param(name, value);
        }
        self.read(request.request_async(&self.wire()).await)
    }

    /// Redeems an assertion of another issuer (RFC 7523 §2.1).
    pub(crate) async fn redeem_assertion(&self, assertion: &Secret, scopes: &[String]) -> Result<TokenResponse, Error> {
        let scope = scopes.join(" ");
        let mut params = vec![("grant_type", grant_type::JWT_BEARER), ("assertion", assertion.expose())];
        if !scope.is_empty() {
            params.push(("scope", &scope));
        }
        let answer = self.grant(&params).await?;
        self.check_type(answer)
    }

    /// Sends a request of a grant that the crate `oauth2` does not know. The token may have any type.
    pub(crate) async fn grant(&self, params: &[(&str, &str)]) -> Result<TokenResponse, Error> {
        self.post(params).await
    }

    /// Revokes a token (RFC 7009 §2.1).
    pub(crate) async fn revoke(&self, token: &Secret, hint: &str) -> Result<(), Error> {
        self.send(&[("token", token.expose()), ("token_type_hint", hint)]).await.map(drop)
    }

    /// Sends a form with the credentials of the client, and reads the answer.
    pub(crate) async fn post<T: DeserializeOwned>(&self, params: &[(&str, &str)]) -> Result<T, Error> {
        let response = self.send(params).await?;
        serde_json::from_slice(response.body()).map_err(|_| self.not_a_response())
    }

    /// Sends a form with the credentials of the client. The response is a success.
    async fn send(&self, params: &[(&str, &str)]) -> Result<HttpResponse, Error> {
        let response = self.wire().call(self.request(params)?).await.map_err(|error| self.wire_error(error))?;
        if response.status() != StatusCode::OK {
            let refusal = serde_json::from_slice(response.body());
            return Err(refusal.map_or_else(|_| self.not_a_response(), |refusal| self.refused(refusal)));
        }
        Ok(response)
    }

    fn request(&self, params: &[(&str, &str)]) -> Result<HttpRequest, Error> {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(params).extend_pairs(self.extra_params()?);
        let mut request = HttpRequest::new(Vec::new());
        *request.method_mut() = Method::POST;
        let invalid = || Error::new(ErrorKind::Discovery, format!("the {} of the issuer is not a URL", self.name));
        *request.uri_mut() = self.url.parse().map_err(|_| invalid())?;
        let Registration { client_id, client_secret, method, .. } = self.client;
        match (method, client_secret) {
            (AuthMethod::ClientSecretBasic, Some(secret)) => {
                let [id, secret] = [client_id, secret.expose()]
                    .map(|text| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>());
                let value = format!("Basic {}", BASE64_STANDARD.encode(format!("{id}:{secret}")));
                let value = HeaderValue::try_from(value).map_err(|_| invalid())?;
                request.headers_mut().insert(header::AUTHORIZATION, value);
            }
            // A workload has no client id.
            _ if client_id.is_empty() => {}
            (AuthMethod::ClientSecretPost, Some(secret)) => {
                form.append_pair("client_id", client_id).append_pair("client_secret", secret.expose());
            }
            _ => _ = form.append_pair("client_id", client_id),
        }
        let form_type = HeaderValue::from_static("application/x-www-form-urlencoded");
        request.headers_mut().insert(header::CONTENT_TYPE, form_type);
        *request.body_mut() = form.finish().into_bytes();
        Ok(request)
    }

    /// Returns the parameters that the crate `oauth2` does not know: the resource, and the assertion of the client.
    fn extra_params(&self) -> Result<Vec<(&'static str, String)>, Error> {
        let mut params = Vec::new();
        if let Some(resource) = self.resource {
            params.push(("resource", resource.to_owned()));
        }
        if self.client.method == AuthMethod::PrivateKeyJwt
            && let Some((key, issuer)) = self.key
        {
            let assertion = key.assertion(&self.client.client_id, issuer, now())?;
            params.push(("client_assertion_type", client_assertion_type::JWT_BEARER.to_owned()));
            params.push(("client_assertion", assertion.expose().to_owned()));
        }
        Ok(params)
    }

    fn client(&self) -> Result<Client, Error> {
        let url = TokenUrl::new(self.url.to_owned())
            .map_err(|_| Error::new(ErrorKind::Discovery, "the token endpoint of the issuer is not a URL"))?;
        let client = oauth2::Client::new(ClientId::new(self.client.client_id.clone())).set_token_uri(url);
        let method = match self.client.method {
            AuthMethod::ClientSecretBasic => AuthType::BasicAuth,
            AuthMethod::ClientSecretPost | AuthMethod::PrivateKeyJwt | AuthMethod::None => AuthType::RequestBody,
        };
        let client = client.set_auth_type(method);
        Ok(match &self.client.client_secret {
            Some(secret)
                if matches!(self.client.method, AuthMethod::ClientSecretBasic | AuthMethod::ClientSecretPost) =>
            {
                client.set_client_secret(ClientSecret::new(secret.expose().to_owned()))
            }
            _ => client,
        })
    }

    fn wire(&self) -> Wire<'_> {
        Wire { fetch: self.fetch, proofs: self.proofs }
    }

    /// Checks that the client can use a token of this type.
    pub(crate) fn check_type(&self, answer: TokenResponse) -> Result<TokenResponse, Error> {
        if !is_valid(answer.access_token.expose()) {
            return Err(Error::new(ErrorKind::Token, "the token has characters that no token may have"));
        }
        if answer.token_type.eq_ignore_ascii_case("bearer") || self.proofs.is_some() && is_bound(&answer) {
            return Ok(answer);
        }
        let text = match self.proofs {
            None => "the token endpoint issued a token that is not a bearer token",
            Some(_) => "the token endpoint issued a token that is neither a bearer token nor bound by DPoP",
        };
        Err(Error::new(ErrorKind::Token, text))
    }

    fn read(&self, result: Result<Granted, RequestTokenError<WireError, Refused>>) -> Result<TokenResponse, Error> {
        match result {
            Ok(Granted { answer, .. }) => self.check_type(answer),
            Err(RequestTokenError::ServerResponse(Refused(error))) => Err(self.refused(error)),
            Err(RequestTokenError::Request(error)) => Err(self.wire_error(error)),
            // The sources may quote the answer, which contains tokens.
            Err(RequestTokenError::Parse(..) | RequestTokenError::Other(_)) => Err(self.not_a_response()),
        }
    }

    fn not_a_response(&self) -> Error {
        let expected = if self.name == TOKEN_ENDPOINT { "a token response" } else { "valid" };
        Error::new(ErrorKind::Token, format!("the answer of the {} is not {expected}", self.name))
    }

    fn wire_error(&self, error: WireError) -> Error {
        match error {
            WireError::Fetch(error) => {
                Error::fetch(ErrorKind::Token, &format!("the request to the {} failed", self.name), error)
            }
            WireError::Status { status, retry_after } => {
                let is_outage = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
                let text = format!("the {} answered with the status {status}", self.name);
                if is_outage { Error::outage(text, retry_after) } else { Error::new(ErrorKind::Token, text) }
            }
            WireError::Proof(error) => error,
        }
    }

    /// Returns the error of an authorization server that refused a request.
    fn refused(&self, error: OAuthError) -> Error {
        let kind = match error.error.as_str() {
            "server_error" | "temporarily_unavailable" | "slow_down" => ErrorKind::Unavailable,
            "access_denied" => ErrorKind::Denied,
            _ => ErrorKind::Token,
        };
        Error::with_source(kind, format!("the {} refused the request: {error}", self.name), error)
    }
}

/// Whether a token is bound to the key of the client.
pub(crate) fn is_bound(answer: &TokenResponse) -> bool {
    answer.token_type.eq_ignore_ascii_case("dpop")
}

/// The refusal of a token endpoint, for the crate `oauth2`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
struct Refused(OAuthError);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl oauth2::ErrorResponse for Refused {}

/// The answer of a token endpoint, for the crate `oauth2`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "TokenResponse", into = "TokenResponse")]
struct Granted {
    answer: TokenResponse,
    access_token: AccessToken,
    refresh_token: Option<RefreshToken>,
    token_type: BasicTokenType,
}

impl From<TokenResponse> for Granted {
    fn from(answer: TokenResponse) -> Self {
        Self {
            access_token: AccessToken::new(answer.access_token.expose().to_owned()),
            refresh_token: answer.refresh_token.as_ref().map(|token| RefreshToken::new(token.expose().to_owned())),
            token_type: BasicTokenType::Extension(answer.token_type.clone()),
            answer,
        }
    }
}

impl From<Granted> for TokenResponse {
    fn from(granted: Granted) -> Self {
        granted.answer
    }
}

impl oauth2::TokenResponse for Granted {
    type TokenType = BasicTokenType;

    fn access_token(&self) -> &AccessToken {
        &self.access_token
    }

    fn token_type(&self) -> &BasicTokenType {
        &self.token_type
    }

    fn expires_in(&self) -> Option<Duration> {
        self.answer.expires_in.map(Duration::from_secs)
    }

    fn refresh_token(&self) -> Option<&RefreshToken> {
        self.refresh_token.as_ref()
    }

    fn scopes(&self) -> Option<&Vec<oauth2::Scope>> {
        None
    }
}

#[cfg(test)]
mod secret_tests;
#[cfg(test)]
mod tests;
