//! A server over an SQLite database. A model queries the database, and cannot change it.

use mcp_server::prelude::*;

use self::database::Database;

pub mod database;
pub mod prompts;
pub mod resources;
pub mod tools;

/// Builds the server of a database.
pub fn server(database: Database) -> Server {
    let mut builder = Server::builder("sqlite", env!("CARGO_PKG_VERSION"));
    builder = tools::add_to(builder);
    builder = resources::add_to(builder);
    builder = prompts::add_to(builder);
    builder.with_state(database).build()
}
