//! The tests of this crate from the outside, in one program: one topic a module.

mod caching;
mod cancellation;
mod common;
mod eras;
mod faults;
mod mirroring;
mod over_http;
mod questions;
mod reconnecting;
mod revisions;
mod subscriptions;
mod tasks;
mod transport_faults;
