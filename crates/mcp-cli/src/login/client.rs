//! The OAuth settings of an entry of a configuration file.

use mcp_agent::config::{Endpoint, ServerDefinition};
use mcp_client::oauth::OAuthBuilder;
use mcp_protocol::auth::Secret;

use crate::{failure::Failure, text::line};

/// The member of `x-mcp` with the issuer that may receive the client secret.
const ISSUER: &str = "oauthIssuer";

/// The registered client and the scopes of an entry. The default is a client without a registration.
#[derive(Default)]
pub(crate) struct OAuthSettings {
    id: Option<String>,
    secret: Option<Secret>,
    issuer: Option<String>,
    scopes: Vec<String>,
}

impl OAuthSettings {
    /// Returns the settings of an entry.
    ///
    /// # Errors
    /// If the entry has a secret and no issuer. The server could otherwise choose the receiver of the secret.
    pub(crate) fn of(server: &ServerDefinition) -> Result<Self, Failure> {
        let Endpoint::Http(http) = &server.endpoint else { return Ok(Self::default()) };
        let invalid = |fault: &str| Failure::usage(format!("the entry of the server `{}` {fault}", line(&server.name)));
        let issuer = match server.extra.get(ISSUER) {
            Some(value) => {
                let text = value.as_str().ok_or_else(|| invalid("has an `oauthIssuer` that is not a text"))?;
                Some(text.to_owned())
            }
            None => None,
        };
        let (id, secret) = (http.oauth_client_id.clone(), http.oauth_client_secret.clone());
        if secret.is_some() && (id.is_none() || issuer.is_none()) {
            return Err(invalid(
                "has a client secret; it also needs a client id, and the URL of the authorization server in the member \
                 `oauthIssuer` of `x-mcp`",
            ));
        }
        Ok(Self { id, secret, issuer, scopes: http.oauth_scopes.clone() })
    }

    /// Adds the settings to those of an authorizer.
    pub(super) fn apply(self, mut builder: OAuthBuilder) -> OAuthBuilder {
        if let Some(id) = self.id {
            builder = builder.client_id(id);
        }
        if let Some(secret) = self.secret {
            builder = builder.client_secret(secret);
        }
        if let Some(issuer) = self.issuer {
            builder = builder.issuer(issuer);
        }
        builder.scopes(self.scopes)
    }
}
