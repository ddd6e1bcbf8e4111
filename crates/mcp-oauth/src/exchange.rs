//! The exchange of the token of a caller for a token of another server (RFC 8693).

use std::{fmt, sync::Arc, time::Duration};

use mcp_fetch::Fetch;
use mcp_protocol::auth::{Secret, TokenResponse, grant_type, token_type};
use tokio::sync::OnceCell;

use crate::{
    discovery,
    error::{Error, ErrorKind},
    quirks::Quirk,
    registration::Registration,
    token_endpoint::{TOKEN_ENDPOINT, TokenEndpoint},
    trail::Reader,
};

/// Exchanges the token of a caller for a token of another server, for a server that calls the other server on behalf of its
/// caller.
///
/// A server must not send the token of its caller to another server. The token endpoint receives it, and issues a token for the
/// other server.
///
/// ```no_run
/// # async fn example(token_of_caller: mcp_oauth::Secret) -> Result<(), mcp_oauth::Error> {
/// use mcp_oauth::TokenExchange;
///
/// let exchange = TokenExchange::new("https://idp.example.com/token", "gateway", "hunter2")
///     .resource("https://search.example.com/mcp")
///     .scopes(["search"]);
/// let exchanged = exchange.exchange(&token_of_caller).await?;
/// assert!(exchanged.lifetime.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TokenExchange {
    place: Place,
    client: Registration,
    resource: Option<String>,
    audience: Option<String>,
    scopes: Vec<String>,
    requested: String,
    fetch: Fetch,
}

/// The place of the token endpoint.
#[derive(Debug, Clone)]
enum Place {
    Url(String),
    /// The URL is in the metadata of the issuer. Clones share it.
    Issuer(String, Arc<OnceCell<String>>),
}

/// A bearer token for another server.
///
/// See the example of [`TokenExchange`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ExchangedToken {
    /// The token.
    pub token: Secret,
    /// The time from the answer to the end of the token. `None` if the authorization server did not send it.
    pub lifetime: Option<Duration>,
}

impl TokenExchange {
    /// Returns an exchange at a token endpoint, for a client with a secret. The secret is sent with `client_secret_basic`.
    pub fn new(
        token_endpoint: impl Into<String>,
        client_id: impl Into<String>,
        client_secret: impl Into<Secret>,
    ) -> Self {
        Self::at(Place::Url(token_endpoint.into()), client_id, client_secret)
    }

    /// Returns an exchange as [`TokenExchange::new`] does, at the token endpoint of an issuer. The first request reads the metadata
    /// of the issuer (RFC 8414, OpenID Connect Discovery). After a failure, the next request reads it again.
    ///
    /// ```
    /// let exchange = mcp_oauth::TokenExchange::of_issuer("https://idp.example.com", "gateway", "hunter2");
    /// # let _ = exchange;
    /// ```
    pub fn of_issuer(
        issuer: impl Into<String>,
        client_id: impl Into<String>,
        client_secret: impl Into<Secret>,
    ) -> Self {
        Self::at(Place::Issuer(issuer.into(), Arc::default()), client_id, client_secret)
    }

    fn at(place: Place, client_id: impl Into<String>, client_secret: impl Into<Secret>) -> Self {
        Self {
            place,
            client: Registration::of_application(client_id).with_secret(client_secret),
            resource: None,
            audience: None,
            scopes: Vec::new(),
            requested: token_type::ACCESS_TOKEN.to_owned(),
            fetch: Fetch::new(),
        }
    }

    /// Sets the URL of the other server (the parameter `resource`).
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn resource(mut self, url: impl Into<String>) -> Self {
        self.resource = Some(url.into());
        self
    }

    /// Sets the name of the other server at the authorization server (the parameter `audience`).
    #[must_use]
    pub fn audience(mut self, name: impl Into<String>) -> Self {
        self.audience = Some(name.into());
        self
    }

    /// Adds scopes of the new token. Without scopes, the authorization server chooses them.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes.extend(scopes.into_iter().map(Into::into));
        self
    }

    /// Sets the type of the new token, such as [`token_type::JWT`]. Default: [`token_type::ACCESS_TOKEN`].
    #[must_use]
    pub fn requested_token_type(mut self, kind: impl Into<String>) -> Self {
        self.requested = kind.into();
        self
    }

    /// Sets the requests to the token endpoint. The default allows public hosts only.
    #[must_use]
    pub fn fetch(mut self, fetch: Fetch) -> Self {
        self.fetch = fetch;
        self
    }

    /// Exchanges the access token of a caller.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if the token endpoint or the issuer is away, [`ErrorKind::Discovery`] if the issuer has no valid
    /// metadata with a token endpoint, and [`ErrorKind::Token`] or [`ErrorKind::Denied`] if it refuses
    /// the exchange. [`ErrorKind::Token`] also if the answer has another type of token, or contains the token of the caller.
    pub async fn exchange(&self, token_of_caller: &Secret) -> Result<ExchangedToken, Error> {
        let endpoint = self.endpoint().await?;
        let scope = self.scopes.join(" ");
        let mut params = vec![
            ("grant_type", grant_type::TOKEN_EXCHANGE),
            ("subject_token", token_of_caller.expose()),
            ("subject_token_type", token_type::ACCESS_TOKEN),
            ("requested_token_type", &*self.requested),
        ];
        params.extend(self.audience.as_deref().map(|audience| ("audience", audience)));
        if !scope.is_empty() {
            params.push(("scope", &scope));
        }
        let answer = endpoint.check_type(endpoint.grant(&params).await?)?;
        if answer.issued_token_type.as_deref() != Some(&*self.requested) {
            return Err(Error::new(
                ErrorKind::Token,
                "the token endpoint issued another type of token than the requested",
            ));
        }
        if answer.access_token == *token_of_caller {
            return Err(Error::new(ErrorKind::Token, "the token endpoint returned the token of the caller"));
        }
        Ok(answer.into())
    }

    /// Requests a token of the other server for the client itself (the client credentials grant).
    ///
    /// # Errors
    /// As [`TokenExchange::exchange`].
    pub async fn for_client(&self) -> Result<ExchangedToken, Error> {
        let answer = self.endpoint().await?.client_credentials(&self.scopes, self.audience.as_deref()).await?;
        Ok(answer.into())
    }

    async fn endpoint(&self) -> Result<TokenEndpoint<'_>, Error> {
        let url = match &self.place {
            Place::Url(url) => url,
            Place::Issuer(issuer, url) => url.get_or_try_init(|| self.discover(issuer)).await?,
        };
        Ok(TokenEndpoint {
            fetch: &self.fetch,
            url,
            name: TOKEN_ENDPOINT,
            client: &self.client,
            key: None,
            resource: self.resource.as_deref(),
            proofs: None,
        })
    }

    async fn discover(&self, issuer: &str) -> Result<String, Error> {
        let reader = Reader::unrecorded(&self.fetch);
        let server = discovery::server(reader, issuer, &Quirk::of_issuer(issuer)).await?;
        server.token_url().map(ToOwned::to_owned)
    }
}

impl From<TokenResponse> for ExchangedToken {
    fn from(answer: TokenResponse) -> Self {
        Self { lifetime: answer.expires_in.map(Duration::from_secs), token: answer.access_token }
    }
}

impl fmt::Debug for TokenExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenExchange")
            .field("place", &self.place)
            .field("client_id", &self.client.client_id)
            .field("resource", &self.resource)
            .field("audience", &self.audience)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}
