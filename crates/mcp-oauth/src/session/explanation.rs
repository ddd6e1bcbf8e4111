//! The discovery of a login with a record of its steps, and without the login.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use mcp_protocol::{Challenge, ProtocolVersion};
use serde_json::{Value, json};

use super::{
    Session,
    refusal::{Found, Refused},
};
use crate::{
    error::Error,
    registration::{self, Plan, Source},
    tokens::now,
    trail::{DiscoveryRule, DiscoveryStep, Explanation, StepKind, Trail},
};

/// The redirect URI of the explanation. A login has a port.
const REDIRECT: &str = "http://127.0.0.1/callback";

impl Session {
    pub(crate) async fn explain(&self) -> Explanation {
        let trail = Trail::recording();
        let refused = self.challenge(&trail).await;
        let error = match self.discover(&refused, &trail).await {
            Ok(found) => self.prepare(&refused, &found, &trail).await.err(),
            Err(error) => Some(error),
        };
        Explanation { steps: trail.into_steps(), error }
    }

    /// Sends a request without authorization, and returns the refusal of the server.
    async fn challenge(&self, trail: &Trail) -> Refused {
        let version = ProtocolVersion::LATEST.as_str();
        let headers = [
            (header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream")),
            (HeaderName::from_static("mcp-protocol-version"), HeaderValue::from_static(version)),
            (HeaderName::from_static("mcp-method"), HeaderValue::from_static("tools/list")),
        ];
        let body = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/list",
            "params": {"_meta": {
                "io.modelcontextprotocol/protocolVersion": version,
                "io.modelcontextprotocol/clientInfo": {"name": "mcp-oauth", "version": env!("CARGO_PKG_VERSION")},
                "io.modelcontextprotocol/clientCapabilities": {},
            }},
        });
        let response = self.fetch().post_json(self.endpoint.as_str(), &body, HeaderMap::from_iter(headers)).await;
        let mut step = DiscoveryStep::new(StepKind::Challenge, Some(self.endpoint.as_str()));
        let mut challenges = Vec::new();
        match response {
            Ok(response) => {
                let values = response.headers().get_all(header::WWW_AUTHENTICATE);
                challenges = Challenge::parse(values.iter().filter_map(|value| value.to_str().ok()));
                let status = response.status();
                step.status = Some(status);
                if challenges.is_empty() {
                    step.absence = Some(format!("the server answered with the status {status} and no challenge"));
                } else {
                    step.document = Some(json!({"challenges": challenges.iter().map(shown).collect::<Vec<_>>()}));
                }
            }
            Err(error) => step.absence = Some(error.to_string()),
        }
        trail.add(|| step);
        Refused { status: StatusCode::UNAUTHORIZED, challenges, token: None }
    }

    /// Checks the rules of the login, in its order, and returns the first error.
    async fn prepare(&self, refused: &Refused, found: &Found, trail: &Trail) -> Result<(), Error> {
        let (settings, server) = (&self.settings, &*found.server);
        let asks_user = !settings.is_machine;
        let scopes = self.scopes_of_login(found, &found.required(refused), &[], asks_user);
        trail.add(|| DiscoveryStep::new(StepKind::Login, None));
        let mut failure = None;
        let mut note = |rule, result: Result<(), Error>| {
            let error = trail.check(rule, result).err();
            failure = failure.take().or(error);
        };
        let mut client = "the client acts for itself".to_owned();
        if asks_user {
            if settings.uses_device_flow {
                note(DiscoveryRule::DeviceFlow, server.device_url().map(drop));
            }
            let planned = self.planned(found).await;
            client = planned.clone().unwrap_or_default();
            note(DiscoveryRule::Registration, planned.map(drop));
        }
        note(DiscoveryRule::TokenEndpoint, server.token_url().map(drop));
        if asks_user && !settings.uses_device_flow {
            note(DiscoveryRule::LoginPage, server.page_url().map(drop));
            note(DiscoveryRule::Pkce, server.check_pkce());
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
        // The scopes are the first check of a login.
        scopes?;
        failure.map_or(Ok(()), |error| Err(error.with_quirks(&server.quirks)))
    }

    /// Returns how the client becomes known to the authorization server.
    async fn planned(&self, found: &Found) -> Result<String, Error> {
        let stored = self.registration(&found.server).await?;
        let uri = stored.as_ref().and_then(|stored| stored.redirect_uris.first()).cloned();
        let uri = uri.unwrap_or_else(|| REDIRECT.to_owned());
        let uri = (!self.settings.uses_device_flow).then_some(uri.as_str());
        Ok(match registration::plan(&self.settings.client, &found.server, stored, uri, now())? {
            Plan::Register(_) => "a dynamic registration".to_owned(),
            Plan::Use(client) => match client.source {
                Source::Application => format!("the configured client {}", client.client_id),
                Source::Document => format!("the client id metadata document {}", client.client_id),
                Source::Dynamic => format!("the registered client {}", client.client_id),
            },
        })
    }
}

/// Returns the parts of a challenge that are not secret.
fn shown(challenge: &Challenge) -> Value {
    let mut shown = json!({"scheme": challenge.scheme});
    for (name, value) in [
        ("realm", &challenge.realm),
        ("error", &challenge.error),
        ("error_description", &challenge.error_description),
        ("scope", &challenge.scope),
        ("resource_metadata", &challenge.resource_metadata),
        ("algs", &challenge.algs),
    ] {
        if let Some(value) = value {
            shown[name] = value.as_str().into();
        }
    }
    shown
}
