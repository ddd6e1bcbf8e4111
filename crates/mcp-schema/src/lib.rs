//! JSON Schema for the Model Context Protocol: compile, validate, bound.
//!
//! - [`Schema`] compiles a JSON Schema of any dialect once and validates many values, with error sentences that a model
//!   can act on. It is bounded by [`Limits`] and never reads anything outside the schema.
//! - [`tool`] holds what the protocol demands of the schemas of a tool, and [`header`] the parameters that are mirrored
//!   in HTTP headers (`x-mcp-header`).
//! - [`elicitation`] is the flat subset of JSON Schema for forms.
//! - `FrontMatter` (feature `front-matter`) reads the YAML that Markdown begins with.
//! - [`safe_relative_path`] and [`is_canonical_relative_path`] check the relative path in a URI.
//!
//! The crate is pure: no I/O, no clock, no async.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod dialect;
mod effort;
pub mod elicitation;
mod error;
mod fragment;
#[cfg(feature = "front-matter")]
mod front_matter;
mod graph;
pub mod header;
mod keywords;
mod limits;
mod message;
mod path;
mod schema;
mod text;
pub mod tool;
mod validation;

#[cfg(feature = "front-matter")]
pub use self::front_matter::{FrontMatter, FrontMatterError, yaml_document};
pub use self::{
    dialect::Dialect,
    error::{SchemaError, SchemaErrorKind},
    limits::Limits,
    path::{PathError, PathErrorKind, is_canonical_relative_path, safe_relative_path},
    schema::Schema,
    tool::{check_tool_input_schema, has_object_root},
    validation::{ValidationError, ValidationErrorKind, ValidationErrors},
};
