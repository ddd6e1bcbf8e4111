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
//! A host can check the arguments of a model before it calls a tool. The text of the errors is for the model:
//!
//! ```
//! use mcp_schema::{Schema, ValidationErrorKind, check_tool_input_schema};
//! use serde_json::json;
//!
//! let input_schema = json!({
//!     "type": "object",
//!     "properties": { "city": { "type": "string" }, "days": { "type": "integer", "maximum": 7 } },
//!     "required": ["city"],
//!     "additionalProperties": false,
//! });
//! check_tool_input_schema(&input_schema)?;
//! let schema = Schema::compile(&input_schema)?;
//! let errors = schema.validate(&json!({ "town": "Bern", "days": "three" })).unwrap_err();
//!
//! let found: Vec<_> = errors.iter().map(|error| (error.instance_pointer(), error.kind())).collect();
//! assert!(found.contains(&("/days", ValidationErrorKind::Type)));
//! assert!(found.contains(&("", ValidationErrorKind::Required)));
//! assert!(errors.to_string().contains(r#"unexpected property "town", known are "city", "days""#));
//! # Ok::<(), mcp_schema::SchemaError>(())
//! ```
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
