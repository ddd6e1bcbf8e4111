//! Logins at the servers of definitions.
//!
//! Without the feature `oauth`, a host has no logins of its own, and the types here do nothing.

#[cfg(feature = "oauth")]
use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use mcp_client::http::Http;
#[cfg(feature = "oauth")]
use mcp_client::{
    http::Authorizer,
    oauth::{OAuth, OAuthBuilder},
};
#[cfg(feature = "oauth")]
use parking_lot::Mutex;
#[cfg(feature = "oauth")]
use url::Url;

use super::{DefinitionError, definition::ConnectorOfCaller};
use crate::{
    ServerOptions,
    config::{HttpServer, ServerDefinition},
};
#[cfg(feature = "oauth")]
use crate::{
    config::Endpoint,
    registry::{Exchanges, OfHost},
};

/// The longest wait of a shutdown for renewals of tokens. A lost renewal requires a new login.
#[cfg(feature = "oauth")]
const RENEWAL_LIMIT: Duration = Duration::from_secs(30);

/// Adds the OAuth settings of a definition to those of the application. They are the client id, the client secret, the issuer, the
/// scopes, and the port for the response of a login. Only the issuer receives the secret.
///
/// It is for an application that builds the [`OAuth`] of a server itself. [`HostBuilder::oauth`](crate::HostBuilder::oauth) and
/// [`connector_with_oauth`](crate::connector_with_oauth) call it.
///
/// ```
/// use mcp_agent::{config::{Endpoint, ServerDefinition}, oauth_settings};
/// use mcp_client::oauth::OAuth;
///
/// let mut definition = ServerDefinition::http("search", "https://search.example/mcp");
/// if let Endpoint::Http(http) = &mut definition.endpoint {
///     http.oauth_client_id = Some("my-app".to_owned());
///     http.oauth_redirect_port = Some(8123);
/// }
/// let auth = oauth_settings(&definition, OAuth::builder().client_name("my-app"))?.build();
/// # let _ = auth;
/// # Ok::<_, mcp_agent::DefinitionError>(())
/// ```
///
/// # Errors
/// [`DefinitionError`] if the definition has a client secret, and no client id or no issuer. Without an issuer, the server could
/// choose the receiver of the secret.
#[cfg(feature = "oauth")]
pub fn oauth_settings(
    definition: &ServerDefinition,
    mut builder: OAuthBuilder,
) -> Result<OAuthBuilder, DefinitionError> {
    let Endpoint::Http(http) = &definition.endpoint else { return Ok(builder) };
    if let Some(secret) = &http.oauth_client_secret {
        if http.oauth_client_id.is_none() || http.oauth_issuer.is_none() {
            let fault = "it has a client secret; it also needs a client id, and the URL of the authorization server in the \
                         member `oauthIssuer` of `x-mcp`";
            return Err(DefinitionError { server: definition.name.clone(), fault: fault.to_owned() });
        }
        builder = builder.client_secret(secret.clone());
    }
    if let Some(id) = &http.oauth_client_id {
        builder = builder.client_id(id);
    }
    if let Some(issuer) = &http.oauth_issuer {
        builder = builder.issuer(issuer);
    }
    if let Some(port) = http.oauth_redirect_port {
        builder = builder.redirect_port(port);
    }
    Ok(builder.scopes(&http.oauth_scopes))
}

/// Whether the requests to a server have credentials that a login would replace.
#[cfg(feature = "oauth")]
fn has_credentials(http: &HttpServer) -> bool {
    let has_user = Url::parse(&http.url).is_ok_and(|url| !url.username().is_empty() || url.password().is_some());
    has_user || http.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
}

/// Returns the authorizer of a server. `None` if the definition has credentials of its own.
#[cfg(feature = "oauth")]
pub(super) fn authorizer(
    definition: &ServerDefinition,
    http: &HttpServer,
    builder: impl FnOnce() -> OAuthBuilder,
) -> Result<Option<Arc<OAuth>>, DefinitionError> {
    if has_credentials(http) {
        return Ok(None);
    }
    Ok(Some(Arc::new(oauth_settings(definition, builder())?.build())))
}

/// Returns the authorizer of a server with a token exchange ([`TokenExchange`](crate::config::TokenExchange)), for the connection
/// that lists the items. It requests a token for the host itself (the client credentials grant). `None` without an exchange, or if
/// the definition has credentials of its own.
///
/// It is for an application that builds the connector of a server itself ([`Host::add_definition_with`](crate::Host::add_definition_with)).
///
/// ```
/// use mcp_agent::{config::ServerDefinition, token_exchange_authorizer};
///
/// let definition = ServerDefinition::http("search", "https://search.example/mcp");
/// assert!(token_exchange_authorizer(&definition)?.is_none());
/// # Ok::<_, mcp_agent::DefinitionError>(())
/// ```
///
/// # Errors
/// [`DefinitionError`] if a permitted host of the exchange is invalid.
#[cfg(feature = "oauth")]
pub fn token_exchange_authorizer(
    definition: &ServerDefinition,
) -> Result<Option<Arc<dyn Authorizer>>, DefinitionError> {
    let Endpoint::Http(http) = &definition.endpoint else { return Ok(None) };
    Ok(exchange_authorizer(definition, http)?.map(|own| Arc::new(own) as Arc<dyn Authorizer>))
}

#[cfg(feature = "oauth")]
fn exchange_authorizer(definition: &ServerDefinition, http: &HttpServer) -> Result<Option<OfHost>, DefinitionError> {
    let Some(settings) = http.token_exchange.as_ref().filter(|_| !has_credentials(http)) else { return Ok(None) };
    OfHost::new(&http.url, settings).map(Some).map_err(|error| exchange_fault(definition, &error))
}

#[cfg(feature = "oauth")]
fn exchange_fault(definition: &ServerDefinition, error: &dyn std::error::Error) -> DefinitionError {
    DefinitionError { server: definition.name.clone(), fault: format!("its token exchange is invalid: {error}") }
}

/// Adds the token exchange of a definition to the options of its server. The connections of callers then have the tokens of the
/// callers, and no other credentials.
///
/// # Errors
/// If a permitted host of the exchange is invalid, or the host has no token exchanges.
#[cfg(feature = "oauth")]
pub(super) fn with_exchange(
    definition: &ServerDefinition,
    http: &HttpServer,
    of_caller: impl FnOnce() -> Result<ConnectorOfCaller, DefinitionError>,
    mut options: ServerOptions,
) -> Result<ServerOptions, DefinitionError> {
    let Some(settings) = &http.token_exchange else { return Ok(options) };
    let exchanges = Exchanges::new(&definition.name, &http.url, settings);
    let exchanges = exchanges.map_err(|error| exchange_fault(definition, &error))?;
    options.exchanges = Some(Arc::clone(&exchanges));
    let of_caller = of_caller()?;
    Ok(options.connector_of(move |authority| Some(of_caller(Arc::new(exchanges.of_caller(authority))))))
}

#[cfg(not(feature = "oauth"))]
pub(super) fn with_exchange(
    definition: &ServerDefinition,
    http: &HttpServer,
    _: impl FnOnce() -> Result<ConnectorOfCaller, DefinitionError>,
    options: ServerOptions,
) -> Result<ServerOptions, DefinitionError> {
    if http.token_exchange.is_none() {
        return Ok(options);
    }
    let fault = "it has a token exchange, and this host has none (feature `oauth` of `mcp-agent`)".to_owned();
    Err(DefinitionError { server: definition.name.clone(), fault })
}

/// The logins of a host.
#[derive(Clone, Default)]
pub(super) struct Logins {
    #[cfg(feature = "oauth")]
    application: Option<Arc<Application>>,
}

/// The settings of the application for logins.
#[cfg(feature = "oauth")]
struct Application {
    builder_of: Box<dyn Fn(&ServerDefinition) -> OAuthBuilder + Send + Sync>,
    /// The authorizers of all connectors.
    authorizers: Mutex<Vec<Weak<OAuth>>>,
}

/// The authorizers of a host that ends.
pub(super) struct Renewals {
    #[cfg(feature = "oauth")]
    authorizers: Vec<Arc<OAuth>>,
}

#[cfg(feature = "oauth")]
impl Logins {
    pub(super) fn new(builder_of: impl Fn(&ServerDefinition) -> OAuthBuilder + Send + Sync + 'static) -> Self {
        let application = Application { builder_of: Box::new(builder_of), authorizers: Mutex::default() };
        Self { application: Some(Arc::new(application)) }
    }

    /// Adds the login of a server to its endpoint.
    pub(super) fn authorize(
        &self,
        definition: &ServerDefinition,
        http: &HttpServer,
        endpoint: Http,
    ) -> Result<Http, DefinitionError> {
        if let Some(own) = exchange_authorizer(definition, http)? {
            return Ok(endpoint.authorizer(own));
        }
        let Some(application) = &self.application else {
            warn_about_settings(definition, http);
            return Ok(endpoint);
        };
        let Some(auth) = authorizer(definition, http, || (application.builder_of)(definition))? else {
            return Ok(endpoint);
        };
        let mut authorizers = application.authorizers.lock();
        authorizers.retain(|auth| auth.strong_count() > 0);
        authorizers.push(Arc::downgrade(&auth));
        Ok(endpoint.authorizer(auth))
    }

    /// Returns the authorizers whose renewals a shutdown finishes. The end of a server drops its authorizer.
    pub(super) fn renewals(&self) -> Renewals {
        let authorizers = self.application.as_ref().map(|application| application.authorizers.lock().clone());
        Renewals { authorizers: authorizers.iter().flatten().filter_map(Weak::upgrade).collect() }
    }
}

#[cfg(feature = "oauth")]
impl Renewals {
    /// Waits within a limit until no renewal of tokens runs. Otherwise a refresh token could be lost that the authorization
    /// server has replaced already.
    pub(super) async fn finish(self) {
        let finished = async {
            for auth in self.authorizers {
                auth.finish_renewals(RENEWAL_LIMIT).await;
            }
        };
        if tokio::time::timeout(RENEWAL_LIMIT, finished).await.is_err() {
            tracing::warn!("a renewal of tokens did not end in time: the next start may require a login");
        }
    }
}

#[cfg(not(feature = "oauth"))]
#[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "the feature `oauth` uses them")]
impl Logins {
    pub(super) fn authorize(
        &self,
        definition: &ServerDefinition,
        http: &HttpServer,
        endpoint: Http,
    ) -> Result<Http, DefinitionError> {
        warn_about_settings(definition, http);
        Ok(endpoint)
    }

    pub(super) fn renewals(&self) -> Renewals {
        Renewals {}
    }
}

#[cfg(not(feature = "oauth"))]
#[expect(clippy::unused_async, reason = "the feature `oauth` waits")]
impl Renewals {
    pub(super) async fn finish(self) {}
}

/// Warns of settings that have no effect.
fn warn_about_settings(definition: &ServerDefinition, http: &HttpServer) {
    if http.has_oauth_settings() {
        tracing::warn!(server = definition.name, "the definition has OAuth settings, and the host has no logins");
    }
}
