//! The authentication of a gateway, as a TOML file.

mod file;
mod providers;
mod secret;

use std::{path::Path, time::Duration};

use mcp_agent::{Glob, policy};
use mcp_protocol::{Principal, ProtectedResourceMetadata};
use mcp_server::{auth::Chain, http::HttpConfig};

use self::file::AuthFile;
pub(super) use self::file::read_text;
use crate::{failure::Failure, text::line};

/// The period of `max_failures_per_minute`.
const MINUTE: Duration = Duration::from_secs(60);

/// The authentication of the clients of a gateway.
pub(super) struct Auth {
    chain: Chain,
    public_url: Option<String>,
    metadata: ProtectedResourceMetadata,
    allowed_hosts: Vec<String>,
    allowed_origins: Vec<String>,
    max_failures_per_minute: Option<u32>,
    required_scopes: Vec<String>,
    operators: Vec<Glob>,
}

/// The fault of a file: its place, and the remedy.
#[derive(Debug)]
struct Fault {
    /// The path of a member, or a line and a column.
    place: String,
    text: String,
}

impl Fault {
    fn new(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self { place: place.into(), text: text.into() }
    }
}

impl Auth {
    /// Reads a file, and the secrets that it names.
    ///
    /// `keeps_tokens`: the tokens of clients are kept for token exchanges.
    pub(super) fn load(path: &Path, keeps_tokens: bool) -> Result<Self, Failure> {
        Self::read(path, keeps_tokens).map_err(|fault| {
            let place = if fault.place.is_empty() { String::new() } else { format!("{}: ", fault.place) };
            Failure::usage(line(&format!("{}: {place}{}", path.display(), fault.text)))
        })
    }

    fn read(path: &Path, keeps_tokens: bool) -> Result<Self, Fault> {
        let file = AuthFile::read(path)?;
        let directory = path.parent().unwrap_or(Path::new("."));
        let chain = providers::chain(&file, directory, keeps_tokens)?;
        let mut operators = Vec::new();
        for pattern in &file.operators {
            let invalid = |error| Fault::new("operators", format!("the pattern `{pattern}` is invalid: {error}"));
            operators.push(pattern.parse().map_err(invalid)?);
        }
        let metadata = ProtectedResourceMetadata::default().with_scopes(&file.scopes_supported);
        Ok(Self {
            chain,
            public_url: file.public_url,
            metadata,
            allowed_hosts: file.allowed_hosts,
            allowed_origins: file.allowed_origins,
            max_failures_per_minute: file.max_failures_per_minute,
            required_scopes: file.required_scopes,
            operators,
        })
    }

    /// Returns the scopes that each caller needs.
    pub(super) fn required_scopes(&self) -> &[String] {
        &self.required_scopes
    }

    /// Returns the patterns of the principals that may read the status.
    pub(super) fn operators(&self) -> Operators {
        Operators(self.operators.clone())
    }

    /// Adds the authentication to the configuration of the endpoint.
    pub(super) fn apply_to(self, config: HttpConfig) -> HttpConfig {
        let mut config = config.authenticate(self.chain).protected_resource(self.metadata);
        config = config.allowed_hosts(self.allowed_hosts).allowed_origins(self.allowed_origins);
        if let Some(url) = self.public_url {
            config = config.public_url(url);
        }
        if let Some(count) = self.max_failures_per_minute {
            config = config.max_failed_authentications(count, MINUTE);
        }
        config
    }
}

/// The principals that may read the status of a gateway.
#[derive(Clone)]
pub(super) struct Operators(Vec<Glob>);

impl Operators {
    /// Returns whether no principal may read the status.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a caller may read the status.
    pub(super) fn include(&self, caller: Option<&Principal>) -> bool {
        caller.map(policy::identity).is_some_and(|name| self.0.iter().any(|pattern| pattern.matches(&name)))
    }
}

#[cfg(test)]
mod tests;
