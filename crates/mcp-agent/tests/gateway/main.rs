//! The gateway: clients of each revision in front of servers of each revision.

mod common;
mod lists;
mod questions;
mod relay;
mod rounds;
