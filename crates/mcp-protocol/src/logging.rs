//! Log levels and log messages (server, utilities/logging).

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{JsonObject, Meta};

/// How severe a log message is: the syslog levels, ordered from `Debug` to `Emergency`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "the eight levels of RFC 5424")]
pub enum LoggingLevel {
    /// Details for who debugs.
    Debug,
    /// Progress of ordinary operation.
    Info,
    /// Ordinary, but worth a look.
    Notice,
    /// Something may go wrong.
    Warning,
    /// Something went wrong.
    Error,
    /// A part does not work.
    Critical,
    /// A condition that requires immediate action.
    Alert,
    /// Nothing works.
    Emergency,
}

impl LoggingLevel {
    /// Every level, from the least severe on.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// Returns the name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }
}

impl fmt::Display for LoggingLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text does not name a log level.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownLevel;

impl fmt::Display for UnknownLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a log level: one of debug, info, notice, warning, error, critical, alert, emergency")
    }
}

impl std::error::Error for UnknownLevel {}

impl FromStr for LoggingLevel {
    type Err = UnknownLevel;
    fn from_str(text: &str) -> Result<Self, UnknownLevel> {
        Self::ALL.into_iter().find(|level| level.as_str() == text).ok_or(UnknownLevel)
    }
}

/// Parameters of `logging/setLevel` (up to 2025-11-25).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SetLevelParams {
    /// The least severe level that is sent.
    pub level: LoggingLevel,
    /// Metadata of the request.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl SetLevelParams {
    /// Asks for messages of this level and above.
    #[must_use]
    pub fn new(level: LoggingLevel) -> Self {
        Self { level, meta: None }
    }
}

setters! {
    SetLevelParams {
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// Parameters of `notifications/message`: one log message. It must not hold secrets or personal data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LoggingMessageParams {
    /// How severe it is.
    pub level: LoggingLevel,
    /// The name of the logger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logger: Option<String>,
    /// The message: a string or any other JSON value.
    pub data: Value,
    /// Metadata of the notification.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
    /// Members that are unknown to this library. They are kept.
    #[serde(flatten)]
    pub extra: JsonObject,
}

impl LoggingMessageParams {
    /// Returns a message of a level.
    pub fn new(level: LoggingLevel, data: impl Into<Value>) -> Self {
        Self { level, logger: None, data: data.into(), meta: None, extra: JsonObject::new() }
    }

    /// Sets the name of the logger.
    #[must_use]
    pub fn with_logger(mut self, logger: impl Into<String>) -> Self {
        self.logger = Some(logger.into());
        self
    }
}

setters! {
    LoggingMessageParams {
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_round_trip_and_are_ordered_by_severity() {
        for level in LoggingLevel::ALL {
            assert_eq!(level.as_str().parse(), Ok(level));
            assert_eq!(serde_json::to_value(level).unwrap(), level.as_str());
            assert_eq!(serde_json::from_value::<LoggingLevel>(level.as_str().into()).unwrap(), level);
        }
        assert!(LoggingLevel::ALL.is_sorted());
        assert_eq!("Debug".parse::<LoggingLevel>(), Err(UnknownLevel));
        assert!(serde_json::from_str::<SetLevelParams>(r#"{"level":"loud"}"#).is_err());
    }
}
