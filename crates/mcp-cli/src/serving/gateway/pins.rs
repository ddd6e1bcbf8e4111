//! The tools that a pin blocks: one warning for each change of a definition.

use std::{collections::BTreeMap, sync::Arc};

use mcp_agent::{CatalogTool, Host, pins::PinState};
use tokio_util::task::AbortOnDropHandle;

use crate::{args::Options, screen::warn, text::line};

/// Prints a warning for each blocked tool, until the drop of the returned value.
pub(super) fn watch(host: &Host, options: &Options) -> AbortOnDropHandle<()> {
    let mut changes = host.catalog_changes();
    let mut blocked = Blocked::new(options);
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut catalog = changes.current();
        loop {
            blocked.warnings(catalog.unaccepted()).iter().for_each(|text| warn(text));
            match changes.next().await {
                Some(next) => catalog = next,
                None => return,
            }
        }
    }))
}

/// The last warning of each blocked tool. A tool with a warning has a pin, so the limit of the pins holds.
struct Blocked {
    /// The options of a command that accepts a definition.
    options: String,
    warnings: BTreeMap<String, String>,
}

impl Blocked {
    fn new(options: &Options) -> Self {
        let files = [("--config", &options.config_file), ("--pins", &options.pins)];
        let given = files.into_iter().filter_map(|(name, file)| Some((name, file.as_ref()?)));
        let options = given.map(|(name, file)| format!(" {name} {}", shell_words::quote(&file.to_string_lossy())));
        Self { options: options.collect(), warnings: BTreeMap::new() }
    }

    /// Returns the warnings about changes since the last call. `tools` are those of the current catalog. If the definition of a tool
    /// equals its pin for a time, the next change has a warning again.
    fn warnings<'a>(&mut self, tools: impl Iterator<Item = &'a Arc<CatalogTool>>) -> Vec<String> {
        let former = std::mem::take(&mut self.warnings);
        let changed = tools.filter(|tool| matches!(tool.pin_state(), Some(PinState::Changed(_))));
        self.warnings = changed.filter_map(|tool| Some((tool.display_name().to_owned(), self.text(tool)?))).collect();
        let new = self.warnings.iter().filter(|(name, text)| former.get(*name) != Some(*text));
        new.map(|(_, text)| text.clone()).collect()
    }

    fn text(&self, tool: &CatalogTool) -> Option<String> {
        Some(line(&format!(
            "the pin of the tool `{}` of the server `{}` blocks the tool: {}; to accept the definition, run `mcp call {}{}` at a terminal",
            tool.name(),
            tool.server(),
            tool.pin_state()?,
            shell_words::quote(tool.display_name()),
            self.options,
        )))
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use mcp_agent::pins::{Drift, PinRules, Pins};
    use mcp_protocol::{JsonObject, Tool};
    use mcp_server::{Server, tool};

    use super::*;

    #[tokio::test]
    async fn a_change_has_one_warning() {
        let server = Server::builder("s", "1").tool(tool("open", async || "").description("Opens a window.")).build();
        let mut pins = Pins::new();
        let pinned = Tool::new("open", JsonObject::new()).with_description("Opens a door.");
        pins.accept("s", &pinned, SystemTime::now());
        let host = Host::builder("host", "1").server("s", &server);
        let host = host.pins(pins, PinRules::new().drift(Drift::Block)).start().await.unwrap();
        let options = Options { pins: Some("the pins".into()), ..Options::default() };
        let mut blocked = Blocked::new(&options);
        let warnings = blocked.warnings(host.catalog().unaccepted());
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        for part in [
            "the pin of the tool `open` of the server `s` blocks the tool: the definition changed: ",
            "`/description` was \"Opens a door.\" and is \"Opens a window.\"",
            "run `mcp call s:open --pins 'the pins'` at a terminal",
        ] {
            assert!(warnings[0].contains(part), "{warnings:?}");
        }
        let catalog = host.catalog();
        assert_eq!(blocked.warnings(catalog.unaccepted()), [""; 0]);
        host.accept_definition("s:open").await.unwrap();
        assert_eq!(blocked.warnings(host.catalog().unaccepted()), [""; 0]);
        // The server returns to the definition that the pin blocks.
        assert_eq!(blocked.warnings(catalog.unaccepted()), warnings);
        host.shutdown().await;
    }
}
