//! The locks of the code that has models. A model replaces them.

#[cfg(test)]
pub(crate) use mcp_schedule::model::{Mutex, MutexGuard};
#[cfg(not(test))]
pub(crate) use parking_lot::{Mutex, MutexGuard};
