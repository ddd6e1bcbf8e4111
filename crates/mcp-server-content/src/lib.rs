//! Content on disk for MCP servers: files as resources, directories that describe a server, and skills.
//!
//! Each of them is a [`ServerExtension`](mcp_server_core::extension::ServerExtension) that
//! [`ServerBuilder::extension`](mcp_server_core::ServerBuilder::extension) adds to a server:
//!
//! - [`ResourceDir`] (feature `fs`) serves the files of a directory as resources.
//! - [`ContentDir`] (feature `fs`) serves a directory of tools, prompts, resources and skills. [`server_from_dir`] makes a
//!   whole server of it.
//! - [`Skills`] (feature `skills`) serves directories of instructions for agents.
//!
//! Applications depend on `mcp-server`, which re-exports this crate as the module `content`.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "fs")]
mod command;
#[cfg(feature = "fs")]
mod content_dir;
#[cfg(any(feature = "fs", feature = "skills"))]
mod error;
#[cfg(any(feature = "fs", feature = "skills"))]
mod listing;
#[cfg(feature = "fs")]
mod load;
#[cfg(feature = "fs")]
mod manifest;
#[cfg(any(feature = "fs", feature = "skills"))]
mod mime;
#[cfg(feature = "fs")]
mod resource_dir;
#[cfg(any(feature = "fs", feature = "skills"))]
mod sandbox;
#[cfg(feature = "skills")]
mod skills;
#[cfg(any(feature = "fs", feature = "skills"))]
mod uri;
#[cfg(feature = "fs")]
mod watch;

#[cfg(any(feature = "fs", feature = "skills"))]
pub use self::error::ContentError;
#[cfg(feature = "skills")]
pub use self::skills::{Skill, Skills};
#[cfg(feature = "fs")]
pub use self::{
    content_dir::{ContentDir, server_from_dir, server_from_dir_report},
    resource_dir::ResourceDir,
};
