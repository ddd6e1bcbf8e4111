//! Tools of the Model Context Protocol in the formats of LLM providers.
//!
//! - [`render`] writes tool definitions for a [`Provider`]. It rewrites each schema until the [`Rules`] of the provider
//!   accept it, or leaves the tool out. Every loss is a [`Diagnostic`].
//! - [`Call::parse`] reads a call of a model, in the shape of any provider. [`Rendered::call_messages`] writes calls of a
//!   stored history.
//! - [`Rendered::result_messages`] writes the results of calls. [`Messages`] writes prompts and resources.
//! - [`qualified_name`] returns the name of a tool for models, independent of all other servers and tools.
//!
//! ```
//! use mcp_protocol::{JsonObject, Tool};
//! use mcp_tool_format::{Options, Provider, render};
//! use serde_json::json;
//!
//! let schema = JsonObject::from_value(json!({ "type": "object", "properties": { "city": { "type": "string" } } }));
//! let tool = Tool::new("get_weather", schema.unwrap_or_default()).with_description("Returns the weather of a city.");
//!
//! let rendered = render([("weather__get_weather", &tool)], &Options::new(Provider::Anthropic));
//! assert_eq!(rendered.value[0]["name"], "weather__get_weather");
//! assert_eq!(rendered.value[0]["input_schema"]["properties"]["city"]["type"], "string");
//! assert!(rendered.diagnostics.is_empty());
//! ```
//!
//! The crate is pure: no I/O, no clock, no async, no provider SDK. The cost of a schema is bounded.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod block;
mod call;
mod check;
mod content;
mod content_options;
mod diagnostic;
mod history;
mod keys;
mod media;
mod message;
mod name;
mod nulls;
mod options;
mod pattern;
mod provider;
mod render;
mod rendered;
mod result;
mod rules;
mod schema;
mod shape;
mod strict;
mod text;

pub use self::{
    call::{Call, CallError, CallErrorKind},
    check::Violation,
    content::Rest,
    content_options::ContentOptions,
    diagnostic::{Diagnostic, DiagnosticKind},
    history::call_id,
    media::MediaRules,
    message::Messages,
    name::{qualified_name, safe_name},
    options::Options,
    provider::Provider,
    render::render,
    rendered::Rendered,
    rules::{CharRule, FormatRule, NullForm, PatternRule, Rules, StrictBudget},
};
