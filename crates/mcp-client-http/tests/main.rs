//! The tests of this crate from the outside, in one program: one topic a module.
#![allow(clippy::unwrap_used, clippy::panic, clippy::needless_pass_by_value, reason = "a test that cannot go on ends")]

mod authorization;
mod common;
mod faults;
mod get_stream;
mod legacy_sse;
mod messages;
mod real_server;
mod resuming;
mod secrets;
mod sessions;
mod tls;
