//! `sqlite-server FILE` serves an SQLite database over stdio.

#![expect(clippy::print_stderr, reason = "over stdio, stdout carries protocol messages only")]

use std::{env, error::Error, io, process::ExitCode};

use sqlite_server::database::{Database, Limits};

#[tokio::main]
async fn main() -> ExitCode {
    // Over stdio, stdout carries messages, so logs go to stderr.
    tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(false).init();
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> Result<(), Box<dyn Error>> {
    let file = env::args_os().nth(1).ok_or("name the database: sqlite-server FILE")?;
    let name = file.display().to_string();
    let database = Database::open(file, Limits::default()).map_err(|error| {
        let error = error.to_string();
        // The text for a missing file ends with its name.
        let reason = error.strip_suffix(&format!(": {name}")).unwrap_or(&error);
        format!("cannot open {name}: {reason}")
    })?;
    sqlite_server::server(database).serve_stdio().await?;
    Ok(())
}
