//! The status document of a gateway.

use std::time::{SystemTime, UNIX_EPOCH};

use mcp_agent::{DroppedItem, Gateway, Host, InvalidItem, ServerState, ServerStatus};
use serde_json::{Value, json};

use super::{logins::Renewable, unusable::Unusable};
use crate::connection::VERSION;

/// The most dropped items of a document, and the most invalid ones.
const DROPPED: usize = 1000;

/// Returns the states of all servers, and the items that the gateway does not serve. The lines of their stderr are not a part of it,
/// because they may contain secrets.
pub(super) fn document(gateway: &Gateway, unusable: &Unusable, renewable: &Renewable) -> Value {
    let host = gateway.host();
    let servers: Vec<Value> =
        host.statuses().iter().map(|status| server(host, renewable, status)).chain(unusable.states()).collect();
    let faults: Vec<String> = host.file_faults().into_iter().chain(unusable.faults().iter().cloned()).collect();
    // A request must not wait for the merge of a large catalog.
    let (circular, left_out, faulty) = gateway.newest_diagnostics(DROPPED);
    let dropped: Vec<Value> = left_out.iter().map(dropped).collect();
    let invalid: Vec<Value> = faulty.iter().map(invalid).collect();
    json!({
        "version": VERSION,
        "servers": servers,
        "faults": faults,
        "circular": circular,
        "dropped": dropped,
        "invalid": invalid,
    })
}

fn dropped(item: &DroppedItem) -> Value {
    json!({ "kind": item.kind.to_string(), "name": item.name, "server": item.server, "winner": item.winner })
}

fn invalid(item: &InvalidItem) -> Value {
    json!({ "kind": item.kind.to_string(), "name": item.name, "server": item.server })
}

fn server(host: &Host, renewable: &Renewable, status: &ServerStatus) -> Value {
    let needs_login = status.state == ServerState::NeedsLogin;
    json!({
        "name": status.name,
        "state": status.state,
        "since": seconds(status.since),
        "reason": status.reason,
        "remedy": needs_login.then(|| renewable.remedy(host, &status.name)),
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
