//! Secrets of the file: the file names an environment variable or another file, and never contains the secret.

use std::path::{Path, PathBuf};

use mcp_protocol::auth::Secret;
use serde::{Deserialize, Deserializer, de::Error as _};

use super::{Fault, file::read_text};

/// The forms of a secret, for errors.
const FORMS: &str = "a secret is `{ env = \"NAME\" }` or `{ file = \"PATH\" }`, because the file must not contain it";

/// The place of a secret.
pub(super) enum SecretSource {
    Variable(String),
    File(PathBuf),
}

impl<'de> Deserialize<'de> for SecretSource {
    /// The errors do not contain the value, because it may be the secret.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = toml::Value::deserialize(deserializer).map_err(|_| D::Error::custom(FORMS))?;
        let toml::Value::Table(table) = value else { return Err(D::Error::custom(FORMS)) };
        let mut members = table.into_iter();
        match (members.next(), members.next()) {
            (Some((key, toml::Value::String(name))), None) if key == "env" => Ok(Self::Variable(name)),
            (Some((key, toml::Value::String(path))), None) if key == "file" => Ok(Self::File(path.into())),
            _ => Err(D::Error::custom(FORMS)),
        }
    }
}

impl SecretSource {
    /// Reads the secret. A relative path belongs to `directory`. `place` is the path of the member in the file.
    pub(super) fn read(&self, directory: &Path, place: &str) -> Result<Secret, Fault> {
        let text = match self {
            Self::Variable(name) => match std::env::var(name) {
                Ok(text) => text,
                Err(std::env::VarError::NotPresent) => {
                    return Err(Fault::new(place, format!("the variable `{name}` is not set: set it for the gateway")));
                }
                Err(std::env::VarError::NotUnicode(_)) => {
                    return Err(Fault::new(place, format!("the variable `{name}` is not UTF-8")));
                }
            },
            Self::File(path) => {
                let path = directory.join(path);
                let failed = |error| Fault::new(place, format!("the secret of {}: {error}", path.display()));
                read_text(&path).map_err(failed)?
            }
        };
        let secret = text.trim_end_matches(['\r', '\n']);
        if secret.is_empty() {
            return Err(Fault::new(place, format!("{} is empty", self.describe())));
        }
        Ok(Secret::new(secret))
    }

    fn describe(&self) -> String {
        match self {
            Self::Variable(name) => format!("the variable `{name}`"),
            Self::File(path) => format!("the file {}", path.display()),
        }
    }
}
