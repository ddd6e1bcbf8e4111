//! Roots: where a client lets a server work (client, roots; deprecated since 2026-07-28).

use serde::{Deserialize, Serialize};

use crate::Meta;

/// A place that a client lets a server work in.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Root {
    /// A `file://` URI.
    pub uri: String,
    /// The name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Metadata of the root.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl Root {
    /// Returns a root at a URI.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), ..Self::default() }
    }

    /// Sets a name for people.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

setters! {
    Root {
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// The result of `roots/list`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListRootsResult {
    /// The roots.
    pub roots: Vec<Root>,
    /// Metadata of the result.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ListRootsResult {
    /// Returns a result with these roots.
    #[must_use]
    pub fn new(roots: Vec<Root>) -> Self {
        Self { roots, meta: None }
    }
}

setters! {
    ListRootsResult {
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}
