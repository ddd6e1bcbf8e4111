//! The integration tests of this crate, in one program: one module per topic.

mod batches;
mod caching;
mod calls;
mod cancellation;
mod common;
mod completions;
mod concurrency;
mod connection;
mod context;
mod definitions;
mod error_codes;
mod error_locations;
mod extensions;
mod input_requests;
#[expect(clippy::duplicate_mod, reason = "the same table over another transport, see `inputs_over_ndjson`")]
mod inputs;
mod inputs_over_ndjson;
mod json_client;
mod layer_functions;
mod layers;
mod lifecycle;
#[cfg(feature = "log-layer")]
mod log_layer;
mod logs;
mod malformed_messages;
mod memory;
mod once;
mod once_store;
mod pagination;
mod progress;
mod prompts;
mod registration;
mod resources;
mod results;
mod runtime_changes;
mod stalling_store;
mod stateless;
mod stream_transports;
mod subscriptions;
mod tasks;
mod tasks_extension;
mod tasks_external;
mod tasks_fixture;
mod tasks_stored;
mod tasks_subscriptions;
mod templates;
mod tools;
mod tracing_spans;
mod url_elicitation;
mod validation;

use self::stream_transports::OverMemory as ClientTransport;
