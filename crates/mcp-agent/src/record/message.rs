//! The parts of a message that a replay compares and changes.

use serde_json::{Map, Value};

/// The member of `_meta` that relates a notification to the request of its subscription (2026-07-28).
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
/// Methods whose parameters name the host: a later version of the host is not a difference.
const INTRODUCTIONS: &[&str] = &["initialize", "server/discover"];

/// The kind of a JSON-RPC message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Request,
    Response,
    Notification,
}

pub(super) fn kind(message: &Value) -> Kind {
    match (message.get("method"), message.get("id")) {
        (Some(_), Some(_)) => Kind::Request,
        (Some(_), None) => Kind::Notification,
        (None, _) => Kind::Response,
    }
}

pub(super) fn method(message: &Value) -> &str {
    message.get("method").and_then(Value::as_str).unwrap_or_default()
}

/// Returns the parameters without `_meta`, which differs from run to run. Empty for introductions.
pub(super) fn parameters(message: &Value) -> Map<String, Value> {
    let mut parameters = message.get("params").and_then(Value::as_object).cloned().unwrap_or_default();
    parameters.shift_remove("_meta");
    match method(message) {
        introduction if INTRODUCTIONS.contains(&introduction) => parameters.clear(),
        // The id of the request is mapped, and the reason is a text for people.
        "notifications/cancelled" => parameters.clear(),
        _ => {}
    }
    parameters
}

pub(super) fn progress_token(message: &Value) -> Option<&Value> {
    message.get("params")?.get("_meta")?.get("progressToken")
}

/// Returns the request that a message of a server names: by the token of its progress, or by its subscription.
pub(super) fn relation(message: &Value) -> Option<Relation<'_>> {
    let parameters = message.get("params")?;
    if let Some(token) = parameters.get("progressToken") {
        return Some(Relation::Progress(token));
    }
    parameters.get("_meta")?.get(SUBSCRIPTION).map(Relation::Subscription)
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Relation<'a> {
    Progress(&'a Value),
    Subscription(&'a Value),
}

/// Changes the id and the relation of a message of a server to those of the replay.
pub(super) fn rename(message: &mut Value, id: Option<&Value>, token: Option<&Value>, subscription: Option<&Value>) {
    if let Some(id) = id {
        message["id"] = id.clone();
    }
    if let Some(token) = token {
        message["params"]["progressToken"] = token.clone();
    }
    if let Some(id) = subscription {
        message["params"]["_meta"][SUBSCRIPTION] = id.clone();
    }
}
