//! The locks and atomic values of the code that has models. A model replaces them.

#[cfg(test)]
pub(crate) use mcp_schedule::model::{AtomicBool, AtomicU64, Mutex, MutexGuard};
#[cfg(not(test))]
pub(crate) use parking_lot::{Mutex, MutexGuard};
#[cfg(not(test))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64};
