//! The file of audit events: one line of JSON for each decision about a call.

use std::{error::Error, path::Path};

use mcp_agent::policy::{Action, AuditEvent, AuditSink};
use mcp_transport::BoxFuture;
use serde_json::json;

use super::status::seconds;
use crate::{failure::Failure, line_file::LineFile};

/// A file of audit events.
#[derive(Clone)]
pub(super) struct AuditFile(LineFile);

impl AuditFile {
    /// Opens the file.
    pub(super) async fn open(path: &Path) -> Result<Self, Failure> {
        let file = LineFile::open(path, "an audit event").await;
        file.map(Self).map_err(|error| Failure::usage(error.to_string()))
    }

    /// Waits until the events are written, within a time limit.
    pub(super) async fn finish(&self) {
        self.0.finish().await;
    }
}

impl AuditSink for AuditFile {
    fn record(&self, event: &AuditEvent) {
        self.0.append(text(event));
    }

    fn store<'a>(&'a self, event: &'a AuditEvent) -> BoxFuture<'a, Result<(), Box<dyn Error + Send + Sync>>> {
        Box::pin(async { Ok(self.0.store(text(event)).await?) })
    }
}

/// Returns the line of an event.
fn text(event: &AuditEvent) -> String {
    let action = if event.is_completion { "Complete".to_owned() } else { format!("{:?}", event.action) };
    let mut line = json!({
        "at": seconds(event.at),
        "action": action,
        "server": event.server,
        "name": event.tool,
        "principal": event.principal,
        "effect": event.effect.to_string(),
        "decidedBy": format!("{:?}", event.decided_by),
        "policy": event.policy,
        "outcome": format!("{:?}", event.outcome),
        "reason": event.reason,
        "waitedMs": u64::try_from(event.waited.as_millis()).unwrap_or(u64::MAX),
    });
    if event.is_completion {
        line["of"] = if event.action == Action::GetPrompt { "prompt" } else { "resource" }.into();
    }
    let mut text = line.to_string();
    text.push('\n');
    text
}
