//! Routing: a call finds its server by the name of its tool, with valid arguments and within its limits.

mod call;
mod error;
mod permit;
mod rest;

use std::sync::Arc;

pub(crate) use self::rest::{REST_URI_PREFIX, Rests};
pub use self::{
    call::{HostCall, HostResult},
    error::CallError,
};
use crate::{policy::Gate, registry::Registry};

/// The parts of a host that calls need.
pub(crate) struct Shared {
    pub(crate) registry: Arc<Registry>,
    pub(crate) rests: Rests,
    pub(crate) gate: Gate,
}
