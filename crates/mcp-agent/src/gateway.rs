//! A gateway: a server for the tools, resources and prompts of all servers of a host.
#![cfg_attr(not(test), expect(dead_code, reason = "the source of the gateway uses these rooms"))]

mod parked;
mod seal;
