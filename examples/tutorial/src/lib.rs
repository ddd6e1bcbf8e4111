//! A server of notes. `docs/tutorial.md` builds it step by step.

use mcp_server::prelude::*;

use self::notes::Notes;

pub mod app;
pub mod delete;
pub mod import;
pub mod notes;
pub mod prompts;
pub mod resources;
pub mod templates;
pub mod tools;

/// Builds the server.
pub fn server(notes: Notes) -> Server {
    let mut builder = Server::builder("notes", env!("CARGO_PKG_VERSION"));
    builder = tools::add_to(builder);
    builder = resources::add_to(builder);
    builder = templates::add_to(builder);
    builder = prompts::add_to(builder);
    builder = import::add_to(builder);
    builder = delete::add_to(builder);
    builder.with_state(notes).build()
}
