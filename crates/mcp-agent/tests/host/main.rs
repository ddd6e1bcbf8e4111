//! The host: life cycle of servers, catalog, calls and faults.

mod calls;
mod common;
mod life_cycle;
