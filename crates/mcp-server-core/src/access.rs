//! The access rules of the server, its entries and its tasks.

use mcp_protocol::Principal;
use serde::{Deserialize, Serialize};

/// The access rule of the server, or of a tool, resource, template, prompt or method.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Access {
    /// The scopes that a caller over a network needs.
    pub(crate) scopes: Vec<String>,
    /// Whether a caller over a network must be authenticated, also without scopes.
    needs_caller: bool,
}

impl Access {
    /// The rule that allows each caller.
    pub(crate) const PUBLIC: Self = Self { scopes: Vec::new(), needs_caller: false };

    /// Adds scopes.
    pub(crate) fn require<T: Into<String>>(&mut self, scopes: impl IntoIterator<Item = T>) {
        self.scopes.extend(scopes.into_iter().map(Into::into));
    }

    /// Requires an authenticated caller.
    pub(crate) fn require_caller(&mut self) {
        self.needs_caller = true;
    }

    /// Whether the rule allows a caller over a network.
    pub(crate) fn allows(&self, caller: Option<&Principal>) -> bool {
        let granted = |caller: &Principal| self.scopes.iter().all(|needed| caller.scopes.contains(needed));
        self.is_public() || caller.is_some_and(granted)
    }

    /// Whether the rule allows each caller.
    pub(crate) fn is_public(&self) -> bool {
        !self.needs_caller && self.scopes.is_empty()
    }
}
