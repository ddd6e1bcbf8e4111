//! The tests of this crate from the outside, in one program: one topic a module.

mod caching;
mod cancellation;
mod cancellation_over;
mod common;
mod eras;
mod faults;
mod faults_of_peers;
mod faults_of_processes;
mod faults_of_requests;
mod faults_on_the_way;
mod mirroring;
mod over_http;
mod pages;
mod questions;
mod reaching;
mod reconnecting;
mod revisions;
#[cfg(feature = "skills")]
mod skills;
mod subscriptions;
mod tasks;
mod transport_faults;
mod wire;
