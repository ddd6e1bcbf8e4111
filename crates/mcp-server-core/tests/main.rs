//! The tests of this crate from the outside, in one program: one topic a module.

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
mod hostile;
mod inputs;
mod kit;
mod lifecycle;
mod logs;
mod pagination;
mod progress;
mod prompts;
mod registration;
mod resources;
mod results;
mod runtime;
mod stateless;
mod templates;
mod tools;
mod validation;
