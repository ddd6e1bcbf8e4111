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
#[cfg(any(feature = "fs", feature = "skills"))]
mod disk;
mod effects;
#[cfg(feature = "fs")]
mod from_dir;
mod held;
mod hostile;
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
mod pages;
mod pagination;
mod pipes;
mod places;
mod progress;
mod prompts;
mod questions;
mod registration;
#[cfg(feature = "fs")]
mod resource_dir;
mod resources;
mod results;
mod runtime;
#[cfg(feature = "skills")]
mod skills;
mod stateless;
mod stores;
mod subscriptions;
mod tasks;
mod tasks_extension;
mod tasks_fixture;
mod tasks_kept;
mod tasks_listening;
mod tasks_outside;
mod templates;
mod tools;
mod traces;
mod validation;

use self::links::Memory as Link;
