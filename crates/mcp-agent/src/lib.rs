//! A host for Model Context Protocol servers.
//!
//! An application that embeds a language model is a *host*: it connects to many servers, and offers their tools to the model.
//!
//! - [`config`] describes servers: [`ServerDefinition`](config::ServerDefinition) for each server, in a program or from the
//!   configuration file of any common client.
//!
//! ```
//! use mcp_agent::config::ServerDefinition;
//!
//! let files = ServerDefinition::stdio("files", "mcp-files").args(["--root", "."]).required();
//! let search = ServerDefinition::http("search", "https://search.example/mcp");
//! assert!(files.required && !search.required);
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod config;
