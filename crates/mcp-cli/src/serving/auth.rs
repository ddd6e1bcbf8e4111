//! The authentication of a gateway, as a TOML file.

mod file;
mod providers;
mod secret;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

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
    path: PathBuf,
    chain: Chain,
    public_url: Option<String>,
    metadata: ProtectedResourceMetadata,
    allowed_hosts: Vec<String>,
    allowed_origins: Vec<String>,
    max_failures_per_minute: Option<u32>,
    required_scopes: Vec<String>,
    operators: Vec<Glob>,
    /// The operators that no provider can authenticate, with their places.
    unused: Vec<(usize, String)>,
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

    fn in_file(self, path: &Path) -> Failure {
        let Self { place, text } = self;
        let path = path.display();
        Failure::usage(line(&match place.starts_with(|c: char| c.is_ascii_digit()) {
            true => format!("{path}:{place}: {text}"),
            false if place.is_empty() => format!("{path}: {text}"),
            false => format!("{path}: {place}: {text}"),
        }))
    }
}

impl Auth {
    /// Reads a file, and the secrets that it names.
    ///
    /// `keeps_tokens`: the tokens of clients are kept for token exchanges.
    pub(super) fn load(path: &Path, keeps_tokens: bool) -> Result<Self, Failure> {
        Self::read(path, keeps_tokens).map_err(|fault| fault.in_file(path))
    }

    fn read(path: &Path, keeps_tokens: bool) -> Result<Self, Fault> {
        let file = AuthFile::read(path)?;
        check(&file)?;
        let directory = path.parent().unwrap_or(Path::new("."));
        let chain = providers::chain(&file, directory, keeps_tokens)?;
        let mut operators: Vec<Glob> = Vec::new();
        for pattern in &file.operators {
            let invalid = |error| Fault::new("operators", format!("the pattern `{pattern}` is invalid: {error}"));
            operators.push(pattern.parse().map_err(invalid)?);
        }
        let unused = unused_operators(&file, &operators);
        let metadata = ProtectedResourceMetadata::default().with_scopes(&file.scopes_supported);
        Ok(Self {
            path: path.to_owned(),
            chain,
            public_url: file.public_url,
            metadata,
            allowed_hosts: file.allowed_hosts,
            allowed_origins: file.allowed_origins,
            max_failures_per_minute: file.max_failures_per_minute,
            required_scopes: file.required_scopes,
            operators,
            unused,
        })
    }

    /// Returns a warning for each operator that no provider of the file can authenticate.
    pub(super) fn warnings(&self) -> Vec<String> {
        let file = self.path.display();
        let warning = |(at, pattern): &(usize, String)| {
            line(&format!(
                "{file}: operators[{at}]: no caller of the file has the name `{pattern}`, so it has no effect"
            ))
        };
        self.unused.iter().map(warning).collect()
    }

    /// Returns whether the file has the URL at which clients reach the gateway.
    pub(super) fn has_public_url(&self) -> bool {
        self.public_url.is_some()
    }

    /// Returns the failure of a member of the file.
    pub(super) fn fault(&self, member: &str, text: &str) -> Failure {
        Fault::new(member, text).in_file(&self.path)
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

/// Checks the members that the endpoint would reject later, without the place.
fn check(file: &AuthFile) -> Result<(), Fault> {
    let check =
        |place: String, config: HttpConfig| config.check().map_err(|error| Fault::new(place, error.to_string()));
    if let Some(url) = &file.public_url {
        check("public_url".to_owned(), HttpConfig::new().public_url(url))?;
    }
    for (at, host) in file.allowed_hosts.iter().enumerate() {
        check(format!("allowed_hosts[{at}]"), HttpConfig::new().allowed_hosts([host]))?;
    }
    for (at, origin) in file.allowed_origins.iter().enumerate() {
        check(format!("allowed_origins[{at}]"), HttpConfig::new().allowed_origins([origin]))?;
    }
    if file.max_failures_per_minute == Some(0) {
        return Err(Fault::new("max_failures_per_minute", "the number is zero: no caller could authenticate"));
    }
    for (name, scopes) in [("required_scopes", &file.required_scopes), ("scopes_supported", &file.scopes_supported)] {
        if let Some(at) = scopes.iter().position(|scope| !is_scope(scope)) {
            let text = "a scope is one or more visible ASCII characters without spaces, `\"` and `\\`";
            return Err(Fault::new(format!("{name}[{at}]"), text));
        }
    }
    Ok(())
}

/// Returns the operators that no provider can authenticate, with their places. An identity provider can have further callers.
fn unused_operators(file: &AuthFile, operators: &[Glob]) -> Vec<(usize, String)> {
    let Some(callers) = providers::identities(file) else { return Vec::new() };
    let all = file.operators.iter().zip(operators).enumerate();
    let unused = all.filter(|(_, (_, pattern))| !callers.iter().any(|caller| pattern.matches(caller)));
    unused.map(|(at, (text, _))| (at, text.clone())).collect()
}

/// Whether a text can be a scope of a token (RFC 6749, section 3.3).
fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'))
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
