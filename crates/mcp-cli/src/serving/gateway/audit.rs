//! The file of audit events: one line of JSON for each decision about a call.

use std::{
    fs::{File, OpenOptions},
    io::Write as _,
    path::Path,
};

use mcp_agent::policy::AuditEvent;
use parking_lot::Mutex;
use serde_json::json;

use super::status::seconds;
use crate::{failure::Failure, screen::warn, text::line};

/// A file of audit events. Each event is one write, so that several gateways can share the file.
pub(super) struct AuditFile {
    file: Mutex<File>,
    name: String,
}

impl AuditFile {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let name = line(&path.display().to_string());
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        // The events name users and resources.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path);
        let file = file.map_err(|error| Failure::usage(format!("{name}: the file cannot be opened: {error}")))?;
        Ok(Self { file: Mutex::new(file), name })
    }

    /// Appends an event. A failed write is a warning.
    pub(super) fn record(&self, event: &AuditEvent) {
        let mut text = json!({
            "at": seconds(event.at),
            "action": format!("{:?}", event.action),
            "server": event.server,
            "name": event.tool,
            "principal": event.principal,
            "effect": event.effect.to_string(),
            "decidedBy": format!("{:?}", event.decided_by),
            "policy": event.policy,
            "outcome": format!("{:?}", event.outcome),
            "reason": event.reason,
            "waitedMs": u64::try_from(event.waited.as_millis()).unwrap_or(u64::MAX),
        })
        .to_string();
        text.push('\n');
        if let Err(error) = self.file.lock().write_all(text.as_bytes()) {
            warn(&format!("{}: an audit event is lost: {error}", self.name));
        }
    }
}
