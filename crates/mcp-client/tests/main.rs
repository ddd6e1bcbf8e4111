//! The integration tests of this crate, in one program: one module per topic.

mod authorization;
mod authorization_pauses;
mod back_off;
mod caching;
mod call_questions;
mod cancellation;
mod cancellation_transports;
mod common;
mod era_detection;
mod exchanges;
mod faults;
mod input_requests;
mod mirrored_headers;
mod network_faults;
mod over_http;
mod process_faults;
mod raw_inputs;
mod raw_tasks;
mod reconnecting;
mod records;
mod relay;
mod reports;
mod request_faults;
mod revisions;
mod schemas;
mod server_faults;
#[cfg(feature = "skills")]
mod skills;
mod subscriptions;
mod task_cancellation;
mod task_processes;
mod tasks;
mod token_renewal;
mod transport_faults;
mod url_elicitation;
