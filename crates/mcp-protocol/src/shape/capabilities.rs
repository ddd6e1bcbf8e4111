//! Capabilities and identities in the form of a revision.

use super::Shape;
use crate::{
    ClientCapabilities, Implementation, InitializeParams, JsonObject, ProtocolVersion, ServerCapabilities, tasks::ext,
};

impl Shape for ServerCapabilities {
    fn shape(&mut self, version: ProtocolVersion) {
        if !version.has_completions_capability() {
            self.completions = None;
        }
        if !version.has_core_tasks() {
            self.tasks = None;
        }
        shape_extensions(&mut self.extensions, version);
    }
}

impl Shape for ClientCapabilities {
    fn shape(&mut self, version: ProtocolVersion) {
        if !version.has_handshake()
            && let Some(roots) = &mut self.roots
        {
            roots.list_changed = None;
        }
        if !version.has_sampling_tools()
            && let Some(sampling) = &mut self.sampling
        {
            sampling.context = None;
            sampling.tools = None;
        }
        if !version.has_elicitation() {
            self.elicitation = None;
        } else if !version.has_elicitation_modes()
            && let Some(elicitation) = &mut self.elicitation
        {
            // Without modes the bare object means forms, so a client that has URLs only must not show it.
            if elicitation.has_form() {
                *elicitation = crate::ElicitationCapability::new();
            } else {
                self.elicitation = None;
            }
        }
        if !version.has_core_tasks() {
            self.tasks = None;
        }
        shape_extensions(&mut self.extensions, version);
    }
}

/// Extensions stay where the revision does not name them: objects are open, and clients of 2025-11-25 negotiate by
/// them. The tasks extension alone does not exist there.
fn shape_extensions(extensions: &mut Option<JsonObject>, version: ProtocolVersion) {
    if version.has_extensions() {
        return;
    }
    if let Some(map) = extensions
        && map.remove(ext::IDENTIFIER).is_some()
        && map.is_empty()
    {
        *extensions = None;
    }
}

impl Shape for Implementation {
    fn shape(&mut self, version: ProtocolVersion) {
        if !version.has_titles() {
            self.title = None;
        }
        if !version.has_icons() {
            self.description = None;
            self.icons = Vec::new();
            self.website_url = None;
        }
    }
}

impl Shape for InitializeParams {
    fn shape(&mut self, version: ProtocolVersion) {
        self.capabilities.shape(version);
        self.client_info.shape(version);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::tests::check, *};

    #[test]
    fn server_capabilities_are_shaped() {
        let full = json!({
            "completions": {}, "tools": {"listChanged": true}, "tasks": {"list": {}}, "later": 1,
            "extensions": {"io.modelcontextprotocol/tasks": {}, "com.example/a": {}}
        });
        let kept = json!({"com.example/a": {}});
        let first = json!({"tools": {"listChanged": true}, "later": 1, "extensions": kept});
        let next = json!({"completions": {}, "tools": {"listChanged": true}, "later": 1, "extensions": kept});
        let tasks = json!({
            "completions": {}, "tools": {"listChanged": true}, "tasks": {"list": {}}, "later": 1, "extensions": kept
        });
        let modern = json!({
            "completions": {}, "tools": {"listChanged": true}, "later": 1, "extensions": full["extensions"]
        });
        check::<ServerCapabilities>(&full, [first, next.clone(), next, tasks, modern]);
        let only = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        check::<ServerCapabilities>(&only, [json!({}), json!({}), json!({}), json!({}), only.clone()]);
    }

    #[test]
    fn client_capabilities_are_shaped() {
        let full = json!({
            "roots": {"listChanged": true}, "sampling": {"tools": {}, "context": {}}, "elicitation": {"form": {}, "url": {}},
            "tasks": {"list": {}}, "later": 1
        });
        let first = json!({"roots": {"listChanged": true}, "sampling": {}, "later": 1});
        let third = json!({"roots": {"listChanged": true}, "sampling": {}, "elicitation": {}, "later": 1});
        let modern = json!({
            "roots": {}, "sampling": {"tools": {}, "context": {}}, "elicitation": {"form": {}, "url": {}}, "later": 1
        });
        check::<ClientCapabilities>(&full, [first.clone(), first, third, full.clone(), modern]);
        let url = json!({"elicitation": {"url": {}}});
        check::<ClientCapabilities>(&url, [json!({}), json!({}), json!({}), url.clone(), url.clone()]);
    }

    #[test]
    fn identities_are_shaped() {
        let full = json!({
            "name": "n", "version": "1", "title": "N", "description": "d", "icons": [{"src": "data:,"}],
            "websiteUrl": "https://a.example"
        });
        let first = json!({"name": "n", "version": "1"});
        let third = json!({"name": "n", "version": "1", "title": "N"});
        check::<Implementation>(&full, [first.clone(), first, third, full.clone(), full.clone()]);
    }
}
