//! A host that connects to many servers and answers their sampling requests.
//!
//! ```text
//! cargo run -p host -- [.mcp.json] [NAME ARGUMENTS]
//! ```
//!
//! The program starts the servers of the configuration file and a server of its own. Without a tool it lists the catalog. With the
//! name of a tool and its arguments as JSON, it calls the tool.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the program has its output on the terminal")]

mod model;
mod notes;

use std::{error::Error, process::ExitCode, sync::Arc};

use mcp_agent::{
    Host,
    config::{ConfigFile, Environment, Scope},
};
use serde_json::Value;

use crate::model::Model;

const USAGE: &str = "\
Usage: host [FILE.json] [NAME [ARGUMENTS]]

Starts the servers of a configuration file and a server of its own. Without NAME it lists the tools. With the name of a tool
and its arguments as JSON, it calls the tool.";

#[tokio::main]
async fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--help" || argument == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    let mut builder = Host::builder("host-example", "1.0")
        .server("notes", &notes::server())
        // The model answers the sampling requests of all servers.
        .handlers(|server| Arc::new(Model::new(server)));
    if let Some(file) = arguments.next_if(|argument| argument.ends_with(".json")) {
        let file = ConfigFile::read(&file, Scope::Named, &Environment::of_process())?;
        for error in &file.errors {
            eprintln!("{error}");
        }
        for definition in &file.servers {
            builder = builder.definition(definition);
        }
    }
    let host = builder.start().await?;
    let outcome = tokio::select! {
        outcome = run(&host, arguments.next(), arguments.next()) => outcome,
        ended = host.shutdown_on_signal() => ended.map_err(Into::into),
    };
    host.shutdown().await;
    outcome
}

async fn run(host: &Host, name: Option<String>, arguments: Option<String>) -> Result<(), Box<dyn Error>> {
    for status in host.statuses() {
        eprintln!("{} is {} with {} tools", status.name, status.state, status.tools);
    }
    let Some(name) = name else {
        for tool in host.catalog().tools() {
            println!("{} (~{} tokens)", tool.display_name(), tool.estimated_tokens());
        }
        return Ok(());
    };
    let arguments: Value = arguments.as_deref().map_or(Ok(Value::Null), serde_json::from_str)?;
    let generation = host.catalog().generation();
    let result = host.call(name, arguments).generation(generation).await?;
    println!("{}", result.text());
    Ok(())
}
