//! Secrets of the file: the file names an environment variable or another file, and never contains the secret.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use mcp_protocol::auth::Secret;
use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};

use super::{Fault, file::read_text};

/// The forms of a secret, for errors.
const FORMS: &str = "a secret is `{ env = \"NAME\" }` or `{ file = \"PATH\" }`, because the file must not contain it";

/// The place of a secret.
pub(super) enum SecretSource {
    Variable(String),
    File(PathBuf),
}

impl<'de> Deserialize<'de> for SecretSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Forms)
    }
}

/// Reads the forms of a secret. The errors do not contain the value, because it may be the secret.
struct Forms;

impl<'de> Visitor<'de> for Forms {
    type Value = SecretSource;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the place of a secret")
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<SecretSource, E> {
        Err(E::custom(FORMS))
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<SecretSource, E> {
        Err(E::custom(FORMS))
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<SecretSource, E> {
        Err(E::custom(FORMS))
    }

    fn visit_i128<E: de::Error>(self, _: i128) -> Result<SecretSource, E> {
        Err(E::custom(FORMS))
    }

    fn visit_u128<E: de::Error>(self, _: u128) -> Result<SecretSource, E> {
        Err(E::custom(FORMS))
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<SecretSource, E> {
        Err(E::custom(FORMS))
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<SecretSource, E> {
        Err(E::custom(FORMS))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<SecretSource, A::Error> {
        Err(de::Error::custom(FORMS))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SecretSource, A::Error> {
        let invalid = || <A::Error as de::Error>::custom(FORMS);
        let table = toml::Table::deserialize(MapAccessDeserializer::new(map)).map_err(|_| invalid())?;
        let mut members = table.into_iter();
        match (members.next(), members.next()) {
            (Some((key, toml::Value::String(name))), None) if key == "env" => Ok(SecretSource::Variable(name)),
            (Some((key, toml::Value::String(path))), None) if key == "file" => Ok(SecretSource::File(path.into())),
            _ => Err(invalid()),
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
