//! Routing: a call finds its server by the name of its tool, with valid arguments and within its limits.

mod call;
mod error;
mod options;
mod permit;
mod request;
mod rest;

use std::sync::Arc;

use mcp_protocol::ResourceContents;

pub(crate) use self::request::{ServerTarget, Target};
use self::rest::continues_in;
pub(crate) use self::rest::{REST_URI_PREFIX, Rests};
pub use self::{
    call::{HostCall, HostResult},
    error::CallError,
    request::HostRequest,
};
use crate::{policy::Gate, registry::Registry};

/// The parts of a host that calls need.
pub(crate) struct Shared {
    pub(crate) registry: Arc<Registry>,
    pub(crate) rests: Rests,
    pub(crate) gate: Gate,
}

impl Shared {
    /// Returns the error of a server that the host does not have.
    pub(crate) fn unknown_server(&self, server: &str) -> CallError {
        let known: Vec<String> = self.registry.catalog().servers().map(str::to_owned).collect();
        CallError::UnknownServer { server: server.to_owned(), known: known.join(", ") }
    }

    /// Returns the next part of the rest of a long result of a principal. The text ends with a note if there is more.
    pub(crate) fn rest(&self, uri: &str, principal: Option<&str>) -> Option<ResourceContents> {
        let (mut text, next) = self.rests.read(uri, self.registry.settings.max_text, principal)?;
        if let Some(next) = next {
            text.push_str(&continues_in(&next));
        }
        Some(ResourceContents::text(uri, text))
    }
}
