//! The lines of a recording.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The name of the format in the first line.
pub(super) const FORMAT: &str = "mcp-recording";
/// The version of the format.
pub(super) const VERSION: u64 = 1;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) format: String,
    pub(super) version: u64,
}

/// Another line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    pub(super) connection: u64,
    pub(super) at: u64,
    pub(super) event: Event,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) server: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) streams: Option<bool>,
    /// The id of a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) route: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) raw: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Event {
    Opened,
    Unreachable,
    Sent,
    Received,
    Fault,
    Ended,
    Truncated,
}

impl Line {
    pub(super) fn new(connection: u64, event: Event) -> Self {
        Self {
            connection,
            at: 0,
            event,
            server: None,
            streams: None,
            route: None,
            message: None,
            raw: None,
            text: None,
        }
    }
}
