//! The discovery of a login with a record of its steps, and without the login.

mod challenge;

use serde_json::{Map, Value, json};

use self::challenge::Asked;
use super::{
    Session,
    refusal::{Found, Refused},
};
use crate::{
    error::Error,
    quirks::QuirkKind,
    registration::{self, Plan, Source},
    settings::RedirectSetting,
    tokens::now,
    trail::{DiscoveryRule, DiscoveryStep, Explanation, StepKind, Trail},
};

/// The redirect URI of the explanation. A login has a port.
const REDIRECT: &str = "http://127.0.0.1/callback";

impl Session {
    pub(crate) async fn explain(&self) -> Explanation {
        let trail = Trail::recording();
        let error = self.examine(&trail).await.err();
        Explanation { steps: trail.into_steps(), error }
    }

    /// Checks the rules of a login, in its order. The first error is that of the login.
    async fn examine(&self, trail: &Trail) -> Result<(), Error> {
        self.examine_settings(trail).await?;
        let Asked { refused, status, outage } = self.challenge(trail).await?;
        let found = self.discover(&refused, trail).await?;
        if let Some(outage) = outage {
            return Err(outage);
        }
        let is_open = status.is_some_and(|status| status.is_success());
        let opens_page = !self.settings.is_machine && !self.settings.uses_device_flow;
        if found.server.has_default_endpoints && opens_page && !is_open {
            self.check_default_page(&found, trail).await?;
        }
        self.prepare(&refused, &found, trail).await
    }

    /// Checks the settings of the application. Without settings there is no step.
    async fn examine_settings(&self, trail: &Trail) -> Result<(), Error> {
        let settings = &self.settings;
        let asks_user = !settings.is_machine && !settings.uses_device_flow;
        let configured_uri = match &settings.redirect {
            RedirectSetting::Loopback => None,
            RedirectSetting::Port(port) => Some(format!("http://127.0.0.1:{port}/callback")),
            RedirectSetting::Application(uri) => Some(uri.clone()),
        };
        let client = &settings.client;
        let mut shown = Map::new();
        for (name, value) in [
            ("client_id", settings.client_id().map(Value::from)),
            ("client_metadata_url", client.document.as_deref().map(Value::from)),
            ("issuer", client.issuer.as_deref().map(Value::from)),
            ("redirect_uri", configured_uri.clone().map(Value::from)),
            ("scopes", Some(&settings.scopes).filter(|scopes| !scopes.is_empty()).map(|scopes| json!(scopes))),
        ] {
            shown.extend(value.map(|value| (name.to_owned(), value)));
        }
        if shown.is_empty() && !settings.has_credentials() {
            return Ok(());
        }
        trail.add(|| {
            let mut step = DiscoveryStep::new(StepKind::Settings, None);
            step.document = Some(shown.into());
            step
        });
        let mut failure = None;
        let mut note = |rule, result: Result<(), Error>, assumption: Option<&str>| {
            let error = trail.check_or_assume(rule, result, assumption.map(str::to_owned)).err();
            failure = failure.take().or(error);
        };
        if settings.has_credentials() {
            note(DiscoveryRule::Credentials, settings.check_credentials(), None);
        }
        if settings.client_id().is_some() {
            note(DiscoveryRule::ClientId, settings.check_client_id(), None);
        }
        if !settings.scopes.is_empty() {
            note(DiscoveryRule::ScopeSyntax, settings.check_scopes(), None);
        }
        if asks_user && (configured_uri.is_some() || settings.client_id().is_some()) {
            let any_port = "the registration of the client must allow http://127.0.0.1 with each port (RFC 8252 §7.3)";
            let assumption = configured_uri.is_none().then_some(any_port);
            // The port is open for a moment only.
            note(DiscoveryRule::RedirectUri, settings.redirect(None).await.map(drop), assumption);
        }
        failure.map_or(Ok(()), Err)
    }

    /// Checks the rules of the login, in its order, and returns the first error.
    async fn prepare(&self, refused: &Refused, found: &Found, trail: &Trail) -> Result<(), Error> {
        let (settings, server) = (&self.settings, &*found.server);
        let asks_user = !settings.is_machine;
        let scopes = self.scopes_of_login(found, &found.required(refused), &[], asks_user);
        trail.add(|| DiscoveryStep::new(StepKind::Login, None));
        let mut failure = None;
        let mut note = |rule, result: Result<(), Error>, assumption: Option<String>| {
            let error = trail.check_or_assume(rule, result, assumption).err();
            failure = failure.take().or(error);
        };
        let of_default = |path: &str| {
            let text = format!("no document names the endpoint, so the client uses {}{path}", server.identity);
            server.has_default_endpoints.then_some(text)
        };
        if scopes.as_ref().map_or(true, |scopes| !scopes.is_empty()) {
            let assumption = scopes.as_ref().ok().and_then(|scopes| unlisted(scopes, found.offered()));
            note(DiscoveryRule::Scopes, scopes.clone().map(drop), assumption);
        }
        let mut client = "the client acts for itself".to_owned();
        if asks_user {
            if settings.uses_device_flow {
                note(DiscoveryRule::DeviceFlow, server.device_url().map(drop), None);
            }
            let planned = self.planned(found).await;
            client = planned.as_ref().map(|planned| planned.client.clone()).unwrap_or_default();
            let is_new = planned.as_ref().is_ok_and(|planned| planned.is_new);
            let unread = planned.as_ref().ok().and_then(|planned| planned.unread.clone());
            let assumption = unread.or_else(|| of_default("/register").filter(|_| is_new));
            note(DiscoveryRule::Registration, planned.map(drop), assumption);
        }
        note(DiscoveryRule::TokenEndpoint, server.token_url().map(drop), of_default("/token"));
        if asks_user && !settings.uses_device_flow {
            note(DiscoveryRule::LoginPage, server.page_url().map(drop), of_default("/authorize"));
            let declared = server.metadata.supports_s256();
            let assumed = (!declared).then(|| {
                let replacement = if server.has_quirk(QuirkKind::AssumesS256) {
                    "the known authorization server supports it"
                } else {
                    "the revision 2025-03-26 requires it"
                };
                format!("no document declares it, and {replacement}")
            });
            note(DiscoveryRule::Pkce, server.check_pkce(), assumed);
        }
        trail.edit(|step| {
            step.document = Some(json!({
                "issuer": server.identity,
                "client": client,
                "resource": found.resource,
                "scopes": scopes.as_deref().unwrap_or_default(),
                "uses_dpop": found.uses_dpop,
                "has_device_flow": server.metadata.device_authorization_endpoint.is_some(),
                "has_revocation": server.metadata.revocation_endpoint.is_some(),
            }));
        });
        failure.map_or(Ok(()), |error| Err(error.with_quirks(&server.quirks)))
    }

    /// Returns how the client becomes known to the authorization server.
    async fn planned(&self, found: &Found) -> Result<Planned, Error> {
        let is_configured = self.settings.client.registered.is_some();
        let (stored, unread) = if is_configured {
            (None, None)
        } else {
            match self.registration(&found.server).await {
                // `OAuth::log_in` replaces such a record.
                Err(error) if error.is_unreadable_record() => {
                    let text =
                        format!("a stored registration cannot be read ({error}), and a login can register again");
                    (None, Some(text))
                }
                stored => (stored?, None),
            }
        };
        let uri = stored.as_ref().and_then(|stored| stored.redirect_uris.first()).cloned();
        let uri = uri.unwrap_or_else(|| REDIRECT.to_owned());
        let uri = (!self.settings.uses_device_flow).then_some(uri.as_str());
        let (client, is_new) = match registration::plan(&self.settings.client, &found.server, stored, uri, now())? {
            Plan::Register(_) => ("a dynamic registration".to_owned(), true),
            Plan::Use(client) => {
                let source = match client.source {
                    Source::Application => "the configured client",
                    Source::Document => "the client id metadata document",
                    Source::Dynamic => "the registered client",
                };
                (format!("{source} {}", client.client_id), false)
            }
        };
        Ok(Planned { client, is_new, unread: unread.filter(|_| is_new) })
    }
}

/// The client of a login.
struct Planned {
    client: String,
    /// Whether the client registers itself.
    is_new: bool,
    /// The reason why a stored registration was not read.
    unread: Option<String>,
}

/// Returns why it is not sure that the authorization server has the scopes. Servers may omit scopes in their lists (RFC 8414 §2).
fn unlisted(scopes: &[String], offered: Option<&[String]>) -> Option<String> {
    let Some(offered) = offered else { return Some("no document lists scopes".to_owned()) };
    let missing: Vec<&String> = scopes.iter().filter(|scope| !offered.contains(scope)).collect();
    (!missing.is_empty()).then(|| format!("the metadata does not list {missing:?}, which the server may refuse"))
}
