//! The integration tests of this crate, in one program: one module per topic.
#![allow(clippy::unwrap_used, clippy::panic, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

mod authorization;
mod common;
mod exchanges;
mod faults;
mod get_stream;
mod legacy_sse;
mod messages;
mod real_server;
mod resuming;
mod secrets;
mod sessions;
mod tls;
