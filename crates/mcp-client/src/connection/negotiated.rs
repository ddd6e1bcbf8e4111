//! What client and server agreed on, in a form that can be kept and given to another client.

use mcp_protocol::{Implementation, ProtocolVersion, ServerCapabilities, skills, tasks::ext::IDENTIFIER};
use serde::{Deserialize, Serialize};

/// What client and server agreed on: the revision, and who the server is and what it can do.
///
/// It can be stored and given to another client of the same server
/// ([`ClientBuilder::known`](crate::ClientBuilder::known)), which then need not find it out again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Negotiated {
    /// The revision that is spoken.
    pub version: ProtocolVersion,
    /// Who the server is; without a name when it did not say.
    pub server_info: Implementation,
    /// What the server can do.
    pub capabilities: ServerCapabilities,
    /// How to use the server, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The revisions that the server says it speaks; empty when it was not asked, as in the revisions with a handshake.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supported_versions: Vec<String>,
}

impl Negotiated {
    /// A revision, and nothing known about the server.
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

    /// Which capability a method needs that the server did not declare; `None` when it may be asked.
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
    fn it_can_be_kept() {
        let wire = json!({
            "version": "2025-06-18", "serverInfo": {"name": "s", "version": "1"}, "capabilities": {"tools": {}},
            "instructions": "be kind"
        });
        let read: Negotiated = serde_json::from_value(wire.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), wire);
    }

    #[test]
    fn a_method_needs_its_capability() {
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
