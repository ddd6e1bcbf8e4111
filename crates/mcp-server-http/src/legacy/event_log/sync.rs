//! The locks and atomic values of the event log. A model replaces them.

#[cfg(test)]
pub(super) use mcp_schedule::model::{AtomicBool, Mutex, MutexGuard};
#[cfg(not(test))]
pub(super) use parking_lot::{Mutex, MutexGuard};
#[cfg(not(test))]
pub(super) use std::sync::atomic::AtomicBool;
