//! The gateway: clients of each revision in front of servers of each revision.

mod changes;
#[cfg(target_os = "linux")]
mod children;
mod common;
mod exchange;
mod faults;
mod isolation;
mod items;
mod lists;
mod policies;
mod questions;
mod relay;
mod rounds;
mod sessions;
mod tasks;
mod traces;
