//! The result of a negotiation, which can be stored and given to another client.

use mcp_protocol::{Implementation, ProtocolVersion, ServerCapabilities, skills, tasks::ext::IDENTIFIER};
use serde::{Deserialize, Serialize};

/// The result of a negotiation: the revision, and the name and the capabilities of the server.
///
/// It can be stored and given to another client of the same server
/// ([`ClientBuilder::known`](crate::ClientBuilder::known)), which then skips the negotiation.
///
/// ```
/// use mcp_client::{Client, Negotiated, protocol::ProtocolVersion};
///
/// let stored = serde_json::to_string(&Negotiated::new(ProtocolVersion::LATEST))?;
/// let known: Negotiated = serde_json::from_str(&stored)?;
/// let builder = Client::builder("my-app", "1.0").known(known);
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Negotiated {
    /// The negotiated revision.
    pub version: ProtocolVersion,
    /// The name and version of the server; empty if the server did not send them.
    pub server_info: Implementation,
    /// The capabilities of the server.
    pub capabilities: ServerCapabilities,
    /// Instructions of the server for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The revisions that the server listed; empty in revisions with a handshake.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supported_versions: Vec<String>,
}

impl Negotiated {
    /// Returns a result with this revision, and without facts about the server.
    #[must_use]
    pub fn new(version: ProtocolVersion) -> Self {
        Self {
            version,
            server_info: Implementation::default(),
            capabilities: ServerCapabilities::default(),
            instructions: None,
            supported_versions: Vec::new(),
        }
    }

    /// Returns the capability that a method needs and the server did not declare.
    pub(crate) fn lacks(&self, method: &str) -> Option<&'static str> {
        let capabilities = &self.capabilities;
        let (has, name) = match method.split_once('/')? {
            ("tools", _) => (capabilities.tools.is_some(), "tools"),
            ("prompts", _) => (capabilities.prompts.is_some(), "prompts"),
            ("resources", "subscribe" | "unsubscribe") => {
                (capabilities.resources.as_ref().is_some_and(|r| r.subscribe == Some(true)), "resources.subscribe")
            }
            ("resources", "list" | "templates/list" | "read") => (capabilities.resources.is_some(), "resources"),
            ("logging", _) => (capabilities.logging.is_some(), "logging"),
            ("tasks", method) if self.version.has_core_tasks() => {
                let tasks = capabilities.tasks.as_ref();
                match method {
                    "list" => (tasks.is_some_and(|tasks| tasks.list.is_some()), "tasks.list"),
                    "cancel" => (tasks.is_some_and(|tasks| tasks.cancel.is_some()), "tasks.cancel"),
                    _ => (tasks.is_some(), "tasks"),
                }
            }
            ("tasks", _) => (capabilities.supports_extension(IDENTIFIER), IDENTIFIER),
            ("skills", _) => (capabilities.supports_extension(skills::IDENTIFIER), skills::IDENTIFIER),
            // The first revision has the method without the capability.
            ("completion", _) => {
                (capabilities.completions.is_some() || !self.version.has_completions_capability(), "completions")
            }
            _ => return None,
        };
        (!has).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_negotiation_round_trips_through_json() {
        let json = json!({
            "version": "2025-06-18", "serverInfo": {"name": "s", "version": "1"}, "capabilities": {"tools": {}},
            "instructions": "be kind"
        });
        let read: Negotiated = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), json);
    }

    #[test]
    fn a_method_requires_its_capability() {
        let mut known = Negotiated::new(ProtocolVersion::V2025_11_25);
        known.capabilities = serde_json::from_value(json!({"tools": {}, "resources": {}})).unwrap();
        for (method, lacks) in [
            ("tools/call", None),
            ("resources/read", None),
            ("resources/subscribe", Some("resources.subscribe")),
            ("prompts/list", Some("prompts")),
            ("completion/complete", Some("completions")),
            ("logging/setLevel", Some("logging")),
            ("ping", None),
            ("skills/list", Some("io.modelcontextprotocol/skills")),
            ("elsewhere/list", None),
        ] {
            assert_eq!(known.lacks(method), lacks, "{method}");
        }
        known.version = ProtocolVersion::V2024_11_05;
        assert_eq!(known.lacks("completion/complete"), None);
    }
}
