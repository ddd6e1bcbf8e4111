//! The members of the file.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::{Fault, secret::SecretSource};

/// The largest file, in bytes.
const LARGEST: u64 = 1 << 20;

/// The content of the file. Each kind of provider has a table of its own, so that an error has the line of its member.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AuthFile {
    /// The URL at which clients reach the gateway. A gateway beyond loopback needs it.
    pub(super) public_url: Option<String>,
    /// The scopes that each caller needs.
    #[serde(default)]
    pub(super) required_scopes: Vec<String>,
    /// The scopes that a client may request.
    #[serde(default)]
    pub(super) scopes_supported: Vec<String>,
    #[serde(default)]
    pub(super) allowed_hosts: Vec<String>,
    #[serde(default)]
    pub(super) allowed_origins: Vec<String>,
    pub(super) max_failures_per_minute: Option<u32>,
    /// Patterns for the subjects that may read the status.
    #[serde(default)]
    pub(super) operators: Vec<String>,
    #[serde(default)]
    pub(super) jwt: Vec<JwtTable>,
    #[serde(default)]
    pub(super) introspection: Vec<IntrospectionTable>,
    #[serde(default)]
    pub(super) github: Vec<GitHubTable>,
    #[serde(default)]
    pub(super) api_keys: ApiKeysTable,
    #[serde(default)]
    pub(super) api_key: Vec<KeyTable>,
    #[serde(default)]
    pub(super) basic: Vec<UserTable>,
    #[serde(rename = "static", default)]
    pub(super) fixed: Vec<TokenTable>,
}

/// An issuer of signed tokens.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JwtTable {
    pub(super) issuer: String,
    pub(super) jwks: Option<String>,
    pub(super) secret: Option<SecretSource>,
    #[serde(default)]
    pub(super) audience: Vec<String>,
    #[serde(default)]
    pub(super) algorithms: Vec<String>,
    pub(super) scope_claim: Option<String>,
    /// Further hosts in private networks.
    #[serde(default)]
    pub(super) allow_hosts: Vec<String>,
    /// A PEM file with the certificates of a private authority.
    pub(super) root_certificates: Option<PathBuf>,
}

/// An issuer that checks opaque tokens.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IntrospectionTable {
    pub(super) issuer: String,
    pub(super) endpoint: Option<String>,
    pub(super) client_id: String,
    pub(super) client_secret: SecretSource,
    #[serde(default)]
    pub(super) audience: Vec<String>,
    pub(super) scope_claim: Option<String>,
    /// Further hosts in private networks.
    #[serde(default)]
    pub(super) allow_hosts: Vec<String>,
    /// A PEM file with the certificates of a private authority.
    pub(super) root_certificates: Option<PathBuf>,
}

/// An application on GitHub.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GitHubTable {
    pub(super) client_id: String,
    pub(super) client_secret: SecretSource,
}

/// The settings of all API keys.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct ApiKeysTable {
    pub(super) header: Option<String>,
    pub(super) pepper: Option<SecretSource>,
}

/// An API key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeyTable {
    pub(super) principal: String,
    #[serde(default)]
    pub(super) scopes: Vec<String>,
    pub(super) key: Option<SecretSource>,
    /// The hash of the key, which is not a secret.
    pub(super) hash: Option<String>,
}

/// A user with a password.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UserTable {
    pub(super) user: String,
    /// The identity of the user. The name of the user if it is absent.
    pub(super) principal: Option<String>,
    #[serde(default)]
    pub(super) scopes: Vec<String>,
    pub(super) digest: SecretSource,
}

/// A fixed bearer token.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenTable {
    pub(super) principal: String,
    #[serde(default)]
    pub(super) scopes: Vec<String>,
    pub(super) token: SecretSource,
}

impl AuthFile {
    pub(super) fn read(path: &Path) -> Result<Self, Fault> {
        let text = read_text(path).map_err(|error| Fault::new("", error))?;
        Self::parse(&text)
    }

    /// Parses the text. The error does not contain the text of the line, because it may be a secret in the wrong place.
    pub(super) fn parse(text: &str) -> Result<Self, Fault> {
        toml::from_str(text).map_err(|error| {
            let at = error.span().map(|span| place(text, span.start)).unwrap_or_default();
            Fault::new(at, error.message().trim_end())
        })
    }
}

/// Reads a regular file as text.
pub(in crate::serving) fn read_text(path: &Path) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("the file cannot be read: {error}");
    // The open of a pipe would wait for a writer.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err("the file cannot be read: it is not a regular file".to_owned());
    }
    let mut text = String::new();
    File::open(path).map_err(failed)?.take(LARGEST + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > LARGEST {
        return Err(format!("the file has more than {LARGEST} bytes"));
    }
    Ok(text)
}

/// Returns the line and the column of a byte, from 1.
fn place(text: &str, byte: usize) -> String {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
    format!("{line}:{column}")
}
