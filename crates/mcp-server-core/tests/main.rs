//! The tests of this crate from the outside, in one program: one topic a module.

mod batches;
mod caching;
mod calls;
mod cancellation;
mod codes;
mod common;
mod completions;
mod concurrency;
mod connection;
mod context;
mod definitions;
mod error_locations;
mod extensions;
mod held;
mod hostile;
mod input_requests;
#[expect(clippy::duplicate_mod, reason = "the same table over another transport, see `pipes`")]
mod inputs;
mod kit;
mod layers;
mod lifecycle;
mod links;
#[cfg(feature = "log-layer")]
mod log_layer;
mod logs;
mod memory;
mod once;
mod pagination;
mod pipes;
mod progress;
mod prompts;
mod registration;
mod resources;
mod results;
mod runtime;
mod stateless;
mod stores;
mod subscriptions;
mod tasks;
mod tasks_extension;
mod tasks_external;
mod tasks_fixture;
mod tasks_stored;
mod tasks_subscriptions;
mod templates;
mod tools;
mod traces;
mod url_elicitation;
mod validation;

use self::links::Memory as Link;
