//! `sqlite-server FILE` serves an SQLite database over stdio.

use std::{env, error::Error, io};

use sqlite_server::database::{Database, Limits};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Over stdio, stdout carries messages, so logs go to stderr.
    tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(false).init();
    let file = env::args_os().nth(1).ok_or("name the database: sqlite-server FILE")?;
    let database = Database::open(file, Limits::default())?;
    sqlite_server::server(database).serve_stdio().await?;
    Ok(())
}
