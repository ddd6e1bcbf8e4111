//! The tests of the store against Redis servers of their own. Without the program `redis-server` they are skipped.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

mod cluster;
mod common;
mod failures;
mod histories;
mod history;
mod linearizable;
mod server;
mod suite;
