//! A host for Model Context Protocol servers.
//!
//! An application that embeds a language model is a *host*: it connects to many servers, and offers their tools to the model.
//!
//! - [`characters`] finds and removes invisible characters in the texts of tools.
//! - [`config`] describes servers: [`ServerDefinition`](config::ServerDefinition) for each server, in a program or from the
//!   configuration file of any common client.
//! - [`filter`] selects the tools of a server, and changes their names and texts.
//! - [`pins`] detects definitions of tools that changed.
//! - [`policy`] decides which calls run, which need an approval, and which are denied.
//! - [`install`] adds servers to the configuration files of clients.
//! - [`search`] finds tools by words, and decides which tools a request contains.
//!
//! ```
//! use mcp_agent::config::ServerDefinition;
//!
//! let files = ServerDefinition::stdio("files", "mcp-files").args(["--root", "."]).required();
//! let search = ServerDefinition::http("search", "https://search.example/mcp");
//! assert!(files.required && !search.required);
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod characters;
pub mod config;
pub mod filter;
mod glob;
pub mod install;
pub mod pins;
pub mod policy;
pub mod search;

pub use self::glob::{Glob, GlobError};
