//! The host: life cycle of servers, catalog, calls and faults.

mod calls;
mod children;
mod clients;
mod common;
mod definitions;
mod faults;
mod life_cycle;
mod lists;
mod logins;
mod policies;
mod questions;
mod recordings;
mod requirements;
mod sharing;
mod watching;
