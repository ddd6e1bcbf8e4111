//! The status document of a gateway.

use std::time::{SystemTime, UNIX_EPOCH};

use mcp_agent::{Host, ServerStatus};
use serde_json::{Value, json};

use crate::connection::VERSION;

/// Returns the states of all servers. The lines of their stderr are not a part of it, because they may contain secrets.
pub(super) fn document(host: &Host) -> Value {
    let servers: Vec<Value> = host.statuses().iter().map(server).collect();
    json!({ "version": VERSION, "servers": servers, "faults": host.file_faults() })
}

fn server(status: &ServerStatus) -> Value {
    json!({
        "name": status.name,
        "state": status.state,
        "since": seconds(status.since),
        "reason": status.reason,
        "tools": status.tools,
        "estimatedTokens": status.estimated_tokens,
        "required": status.is_required,
        "diagnostics": status.diagnostics,
        "notes": status.notes,
    })
}

/// Returns the seconds since 1970.
pub(super) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
