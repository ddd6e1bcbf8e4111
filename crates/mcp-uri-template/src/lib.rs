//! URI templates of [RFC 6570](https://www.rfc-editor.org/rfc/rfc6570): parse, expand, and match in linear time.
//!
//! A server uses a template to describe a family of resources, and matches the URI of a request against it:
//!
//! ```
//! use mcp_uri_template::UriTemplate;
//!
//! let template = UriTemplate::parse("db://{table}/rows{/id}{?columns*}")?;
//! let vars = template.matches("db://users/rows/7?columns=name&columns=e%2Dmail").ok_or("no match")?;
//! assert_eq!(vars.text("table"), Some("users"));
//! assert_eq!(vars.text("id"), Some("7"));
//! assert_eq!(vars.list("columns"), Some(&["name".to_owned(), "e-mail".to_owned()][..]));
//! assert!(template.matches("db://users/7").is_none());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A client fills a template of the server in:
//!
//! ```
//! use mcp_uri_template::{UriTemplate, Vars};
//!
//! let template = UriTemplate::parse_for_expansion("db://{table}/rows{/id}{?columns*}")?;
//! let vars = Vars::new().with("table", "order items").with("columns", vec!["name", "price"]);
//! assert_eq!(template.expand(&vars), "db://order%20items/rows?columns=name&columns=price");
//! # Ok::<(), mcp_uri_template::TemplateError>(())
//! ```
//!
//! Expansion supports RFC 6570 up to level 3, and of level 4 the prefix modifier (`{a:3}`) and lists (`{list*}`).
//! Associative arrays are not supported.
//!
//! # Bounds
//!
//! A template has at most 1,024 bytes and 32 variables. A URI over 8 KiB does not match. Matching runs an automaton
//! over the URI without backtracking: its time and memory are linear in the length of the URI for each template.
//!
//! The crate has no dependencies.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod error;
mod expand;
mod matcher;
mod parse;
mod percent;
mod template;
mod vars;

pub use self::{
    error::{TemplateError, TemplateErrorKind},
    template::UriTemplate,
    vars::{VarValue, Vars},
};
