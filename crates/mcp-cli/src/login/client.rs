//! The registered client of a login: that of the command line, or that of an earlier login.

use mcp_client::oauth::OAuthBuilder;
use mcp_protocol::auth::Secret;
use serde::{Deserialize, Serialize};

use crate::{
    args::{ClientOptions, read_secret},
    failure::Failure,
};

/// The variable with the secret of the client.
const SECRET: &str = "MCP_CLIENT_SECRET";

/// A client that the operator of an authorization server registered. `mcp` stores it beside the tokens, because a renewal of the
/// tokens needs it.
#[derive(Default, Clone, Serialize, Deserialize)]
pub(super) struct RegisteredClient {
    pub(super) id: Option<String>,
    issuer: Option<String>,
    redirect_port: Option<u16>,
    /// Whether the store has a secret, which is a record of its own.
    pub(super) has_secret: bool,
    #[serde(skip)]
    pub(super) secret: Option<Secret>,
}

impl RegisteredClient {
    /// Returns the client of a command line.
    ///
    /// # Errors
    /// If the secret is a part of the command line, cannot be read, or has no issuer.
    pub(super) fn of(options: &ClientOptions) -> Result<Self, Failure> {
        let secret = match &options.client_secret {
            Some(text) => {
                // The error does not show the text, because the text may be the secret.
                let file = text.strip_prefix('@').ok_or_else(|| {
                    Failure::usage(format!(
                        "--client-secret requires `@FILE`, because other users can read a command line; FILE contains the \
                         secret. The variable {SECRET} is the alternative"
                    ))
                })?;
                Some(read_secret(file).map_err(Failure::usage)?)
            }
            None => std::env::var(SECRET).ok().filter(|_| options.client_id.is_some()),
        };
        let secret = secret.map(|secret| secret.trim().to_owned()).filter(|secret| !secret.is_empty());
        if secret.is_none() && options.client_secret.is_some() {
            return Err(Failure::usage("the file of --client-secret is empty"));
        }
        if secret.is_some() && options.issuer.is_none() {
            let text = "a client secret requires --issuer, the URL of the authorization server that may receive it";
            return Err(Failure::usage(text));
        }
        Ok(Self {
            id: options.client_id.clone(),
            issuer: options.issuer.clone(),
            redirect_port: options.redirect_port,
            has_secret: secret.is_some(),
            secret: secret.map(Secret::new),
        })
    }

    /// Returns the client with the options of a command line. Another id replaces the whole client.
    pub(super) fn with(self, given: Self) -> Self {
        if given.id.is_some() {
            return given;
        }
        Self { issuer: given.issuer.or(self.issuer), redirect_port: given.redirect_port.or(self.redirect_port), ..self }
    }

    /// Adds the client to the settings of an authorizer.
    pub(super) fn apply(&self, mut builder: OAuthBuilder) -> OAuthBuilder {
        if let Some(id) = &self.id {
            builder = builder.client_id(id);
        }
        if let Some(secret) = &self.secret {
            builder = builder.client_secret(secret.clone());
        }
        if let Some(issuer) = &self.issuer {
            builder = builder.issuer(issuer);
        }
        match self.redirect_port {
            Some(port) => builder.redirect_port(port),
            None => builder,
        }
    }
}
