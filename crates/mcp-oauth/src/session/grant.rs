//! New tokens: a login of a user, or the client credentials of a client that acts for itself.

use std::time::{Duration, Instant};

use mcp_protocol::auth::{Secret, TokenResponse};
use tokio::{sync::watch, time::timeout};

use super::{
    Session, Work,
    record::Kept,
    refusal::Found,
    scopes::{self, union},
};
use crate::{
    assertion::AssertionRequest,
    caught::caught,
    device::DeviceAttempt,
    discovery::Server,
    dpop::DpopKey,
    error::{Error, ErrorKind},
    login::{Attempt, Failure, Redirect},
    registration::{self, Plan, Registration, Source},
    token_endpoint::is_bound,
    tokens::{self, Grant, Tokens, now},
    trail::Trail,
    user_agent::UserAgent,
};

/// The wait for the lock of a login is longer than the limit of the login by this time.
const LOCK_MARGIN: Duration = Duration::from_secs(60);

/// The time in which a user is asked to log in.
struct Asking<'a>(&'a watch::Sender<bool>);

impl<'a> Asking<'a> {
    fn new(asking: &'a watch::Sender<bool>) -> Self {
        asking.send_replace(true);
        Self(asking)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}

impl Session {
    /// Replaces the tokens. The server chose the scopes `required`, and `earlier` are those of earlier logins. `refused` is the
    /// token that the server refused.
    pub(super) async fn log_in(
        &self,
        work: &mut Work,
        found: &Found,
        required: &[String],
        earlier: &[String],
        refused: Option<&Secret>,
    ) -> Result<bool, Error> {
        let settings = &self.settings;
        let agent = settings.agent.as_deref().filter(|_| !settings.is_machine);
        if agent.is_none() && !settings.is_machine {
            let issuer = &found.server.identity;
            let text = format!("a user must log in at {issuer}, and the application has no user agent");
            return Err(Error::new(ErrorKind::LoginRequired, text));
        }
        let scopes = self.scopes_of_login(found, required, earlier, agent.is_some())?;
        work.logins.begin(Instant::now(), agent.is_some())?;
        for quirk in &found.server.quirks {
            tracing::debug!(issuer = %found.server.identity, %quirk, source = quirk.source, "the client applies a quirk");
        }
        let asking = agent.map(|_| Asking::new(&self.asking));
        let result = self.log_in_alone(agent, found, scopes, refused).await;
        drop(asking);
        if result.is_ok() {
            work.pause = None;
        }
        result.map(|()| true)
    }

    /// Returns the scopes of a login.
    pub(super) fn scopes_of_login(
        &self,
        found: &Found,
        required: &[String],
        earlier: &[String],
        asks_user: bool,
    ) -> Result<Vec<String>, Error> {
        let settings = &self.settings;
        if found.resource.is_none() {
            let checked = scopes::check_resource(required, &settings.scopes, &self.endpoint);
            checked.map_err(|error| error.with_quirks(&found.server.quirks))?;
        }
        let mut scopes = union([earlier, required, &settings.scopes])?;
        let offered = found.server.metadata.scopes_supported.as_deref().unwrap_or_default();
        // Alone, the scope would replace the default scopes of the authorization server.
        if asks_user && !scopes.is_empty() && offered.iter().any(|scope| scope == "offline_access") {
            scopes = union([&scopes, &["offline_access".to_owned()]])?;
        }
        Ok(scopes)
    }

    /// Requests tokens while no other process does. The tokens of another process serve this one too.
    async fn log_in_alone(
        &self,
        agent: Option<&dyn UserAgent>,
        found: &Found,
        scopes: Vec<String>,
        refused: Option<&Secret>,
    ) -> Result<(), Error> {
        let limit = self.settings.login_limit.saturating_add(LOCK_MARGIN);
        let ended = self.logouts.notified();
        tokio::pin!(ended);
        let logged_out = || Error::new(ErrorKind::LoginRequired, "a logout ended the login");
        let declined = if agent.is_some() { self.declined().await } else { None };
        let _lock = tokio::select! {
            biased;
            () = &mut ended => return Err(logged_out()),
            lock = self.settings.store.lock(&self.key, limit) => lock?,
        };
        let (stored, record) = self.stored_with_record().await?;
        let serves = |stored: &Tokens| {
            refused != Some(&stored.access_token)
                && !stored.is_expired(now())
                && scopes.iter().all(|scope| stored.requested.contains(scope))
        };
        if let Some(stored) = stored
            && serves(&stored)
            && (self.is_news(&stored) || self.is_current(&stored) && stored.issuer == found.server.identity)
        {
            self.adopt(stored);
            return Ok(());
        }
        if agent.is_some() {
            self.check_declined(declined.as_ref()).await?;
        }
        let dpop_key = if found.uses_dpop { Some(DpopKey::generate()?) } else { None };
        let asked = async {
            match agent {
                Some(agent) => self.ask_user(agent, found, &scopes, dpop_key.as_ref()).await,
                None => self.ask_server(found, &scopes, dpop_key.as_ref()).await,
            }
        };
        let answer = tokio::select! {
            biased;
            answer = asked => answer,
            () = &mut ended => Err(logged_out()),
        };
        if let (Some(_), Err(error)) = (agent, &answer) {
            self.note_declined(error).await;
        }
        let (client_id, answer) = answer.map_err(|error| found.explained(error).with_quirks(&found.server.quirks))?;
        let now = now();
        let expires_at = tokens::end(&answer, now);
        let granted = tokens::granted_of_login(&answer, &scopes);
        let tokens = Tokens {
            issuer: found.server.identity.clone(),
            is_legacy: found.server.is_legacy,
            client_id,
            dpop_key: dpop_key.filter(|_| is_bound(&answer)),
            resource: found.resource.clone(),
            access_token: answer.access_token,
            refresh_token: answer.refresh_token,
            is_revoked: false,
            obtained_at: now,
            logged_in_at: now,
            expires_at,
            requested: scopes.clone(),
            granted,
            grant: Grant::Login,
        };
        // The login of another process serves this one too.
        let is_useless = |stored: Option<&Tokens>| {
            !stored.is_some_and(|stored| serves(stored) && stored.issuer == found.server.identity)
        };
        if let Kept::Other(Some(other)) = self.keep(tokens, record, is_useless).await {
            self.adopt(*other);
        }
        if agent.is_some() {
            self.forget_declined().await;
        }
        Ok(())
    }

    /// Requests tokens for the client itself. Returns the id of the client and the tokens.
    async fn ask_server(
        &self,
        found: &Found,
        scopes: &[String],
        dpop_key: Option<&DpopKey>,
    ) -> Result<(String, TokenResponse), Error> {
        let (server, resource) = (&*found.server, found.resource.as_deref());
        let client = match (&self.settings.client.registered, &self.settings.assertion) {
            (Some(registered), _) => registration::application(registered, server),
            (None, Some(_)) => Registration::none(),
            (None, None) => {
                return Err(Error::new(ErrorKind::Configuration, "a client that acts for itself needs a client id"));
            }
        };
        let endpoint = self.token_endpoint(server, &client, resource, dpop_key)?;
        let answer = match &self.settings.assertion {
            Some(assertion) => {
                let request = AssertionRequest::new(&server.metadata.issuer, resource, scopes);
                let limit = self.settings.login_limit;
                let assertion =
                    timeout(limit, caught("the source of assertions", async { assertion.assertion(&request).await }))
                        .await
                        .map_err(|_| {
                            let text = format!("the application returned no assertion in {} seconds", limit.as_secs());
                            Error::new(ErrorKind::Unavailable, text)
                        })??;
                endpoint.redeem_assertion(&assertion, scopes).await?
            }
            None => endpoint.client_credentials(scopes, server.audience(resource, &[])).await?,
        };
        Ok((client.client_id, answer))
    }

    /// Asks a user to log in. Returns the id of the client and the tokens.
    async fn ask_user(
        &self,
        agent: &dyn UserAgent,
        found: &Found,
        scopes: &[String],
        dpop_key: Option<&DpopKey>,
    ) -> Result<(String, TokenResponse), Error> {
        let server = &*found.server;
        let uses_device_flow = self.settings.uses_device_flow;
        if uses_device_flow {
            server.device_url()?;
        } else if server.has_default_endpoints && self.settings.client.registered.is_some() {
            // A server with another kind of credentials would show the user an error page.
            self.check_default_page(found, &Trail::off()).await?;
        }
        let stored = self.registration(server).await?;
        let redirect = if uses_device_flow { None } else { Some(self.settings.redirect(stored.as_ref()).await?) };
        let (mut client, mut is_stored) = self.client(server, stored, redirect.as_ref()).await?;
        loop {
            let attempt = self.attempt(agent, found, scopes, dpop_key, &client, redirect.as_ref());
            let Failure { error, is_timeout } = match attempt.await {
                Ok(answer) => return Ok((client.client_id, answer)),
                Err(failure) => failure,
            };
            let code = error.oauth_error().map(|error| error.error.as_str());
            let is_unknown = matches!(code, Some("invalid_client" | "unauthorized_client"));
            // An authorization server that forgot the client shows an error page, so the login does not end.
            if is_stored && (is_unknown || is_timeout) {
                self.forget_registration(server, &client.client_id).await?;
            }
            if !is_stored || !is_unknown {
                return Err(error);
            }
            tracing::info!(issuer = %server.identity, "the client registers again");
            (client, is_stored) = self.client(server, None, redirect.as_ref()).await?;
        }
    }

    /// Runs one login: with the page at the redirect URI, or with the device flow.
    async fn attempt(
        &self,
        agent: &dyn UserAgent,
        found: &Found,
        scopes: &[String],
        dpop_key: Option<&DpopKey>,
        client: &Registration,
        redirect: Option<&Redirect>,
    ) -> Result<TokenResponse, Failure> {
        let (settings, server, endpoint) = (&self.settings, &*found.server, &self.endpoint);
        let (params, limit) = (&*settings.params, settings.login_limit);
        let token_endpoint = self.token_endpoint(server, client, found.resource.as_deref(), dpop_key)?;
        match redirect {
            Some(redirect) => {
                Attempt { agent, endpoint, server, token_endpoint, redirect, scopes, params, limit }.run().await
            }
            None => {
                let attempt = DeviceAttempt { agent, endpoint, server, token_endpoint, scopes, params, limit };
                Ok(attempt.run().await?)
            }
        }
    }

    /// Returns the client, and whether its registration was stored before. Registers it if necessary.
    async fn client(
        &self,
        server: &Server,
        stored: Option<Registration>,
        redirect: Option<&Redirect>,
    ) -> Result<(Registration, bool), Error> {
        let settings = &self.settings.client;
        let uri = redirect.map(Redirect::uri);
        let uri = uri.as_deref();
        match registration::plan(settings, server, stored, uri, now())? {
            Plan::Use(client) => {
                let is_stored = client.source == Source::Dynamic;
                Ok((client, is_stored))
            }
            Plan::Register(endpoint) => {
                let _lock = self.registering(server).await?;
                let stored = self.registration(server).await?;
                if let Plan::Use(client) = registration::plan(settings, server, stored, uri, now())? {
                    return Ok((client, true));
                }
                let document = registration::request(settings, server, uri);
                let client = registration::register(self.fetch(), &endpoint, &document).await?;
                self.keep_registration(server, &client).await?;
                Ok((client, false))
            }
        }
    }
}
