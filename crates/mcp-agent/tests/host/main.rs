//! The host: life cycle of servers, catalog, calls and faults.

mod calls;
mod children;
mod common;
mod faults;
mod life_cycle;
mod lists;
mod logins;
mod policies;
mod requirements;
mod sharing;
