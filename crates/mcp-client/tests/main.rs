//! The tests of this crate from the outside, in one program: one topic a module.

mod back_off;
mod caching;
mod cancellation;
mod cancellation_transports;
mod common;
mod era_detection;
mod faults;
mod faults_of_peers;
mod faults_of_processes;
mod faults_of_requests;
mod input_requests;
mod mirroring;
mod network_faults;
mod over_http;
mod reconnecting;
mod revisions;
mod schemas;
#[cfg(feature = "skills")]
mod skills;
mod subscriptions;
mod task_cancellation;
mod tasks;
mod transport_faults;
mod url_elicitation;
