//! OAuth against the test authorization server.

#![expect(clippy::unwrap_used, reason = "a test ends at the first error")]

mod children;
mod common;
mod crash;
mod device;
mod dpop;
mod echo;
mod explanation;
mod faults;
mod fencing;
mod login;
mod logout;
mod machines;
mod outdated_records;
mod processes;
mod refresh;
mod rotation;
mod sealed;
mod secrets;
mod step_up;
mod stores;
