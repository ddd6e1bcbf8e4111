//! An agent: a loop between a model and the tools of many servers.
//!
//! ```text
//! cargo run -p agent -- [.mcp.json] [PROVIDER]
//! ```
//!
//! The program starts the servers of the configuration file. Without a file it starts two servers of its own as child processes.
//! The model is a script, so the program needs no account of a provider. The requests and responses have the shapes of the
//! provider: `anthropic`, `openai` (also `openai-chat`), `openai-responses`, `gemini`, `bedrock`, `mistral` or `ollama`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the program has its output on the terminal")]

mod conversation;
mod model;
mod response;
mod servers;

use std::{error::Error, process::ExitCode};

use mcp_agent::{
    Host,
    config::{ConfigFile, Environment, Scope},
};
use mcp_client::ChildProcess;
use mcp_tool_format::Provider;

use crate::model::ScriptedModel;

const TASK: &str = "What does my shopping list cost?";

const USAGE: &str = "\
Usage: agent [FILE.json] [PROVIDER]

Runs a scripted model with the tools of the servers of a configuration file. Without a file it starts two servers of its own.

PROVIDER is anthropic (default), openai, openai-responses, gemini, bedrock, mistral or ollama.";

#[tokio::main]
async fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--help" || argument == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if(|argument| argument == "--serve").is_some() {
        return servers::serve(&arguments.next().unwrap_or_default()).await;
    }
    let file = arguments.next_if(|argument| argument.ends_with(".json"));
    let provider = provider(arguments.next().as_deref().unwrap_or("anthropic"))?;
    let host = start(file.as_deref()).await?;
    let mut model = ScriptedModel::new(provider);
    let outcome = tokio::select! {
        answer = conversation::run(&host, provider, &mut model, TASK) => answer,
        ended = host.shutdown_on_signal() => ended.map(|()| "interrupted".to_owned()).map_err(Into::into),
    };
    host.shutdown().await;
    println!("{}", outcome?);
    Ok(())
}

fn provider(name: &str) -> Result<Provider, String> {
    // `mcp` has the shorter name for the Chat Completions of OpenAI.
    let name = if name == "openai" { "openai-chat" } else { name };
    let found = Provider::ALL.into_iter().find(|provider| provider.as_str() == name);
    found.ok_or_else(|| format!("{name} is not a provider: {}", Provider::ALL.map(Provider::as_str).join(", ")))
}

/// Starts the servers of a configuration file, or those of this program.
async fn start(file: Option<&str>) -> Result<Host, Box<dyn Error>> {
    let mut builder = Host::builder("agent-example", "1.0");
    if let Some(file) = file {
        let file = ConfigFile::read(file, Scope::Named, &Environment::of_process())?;
        for error in &file.errors {
            eprintln!("{error}");
        }
        for definition in &file.servers {
            builder = builder.definition(definition);
        }
    } else {
        let program = std::env::current_exe()?;
        for name in servers::NAMES {
            builder = builder.server(name, ChildProcess::new(&program).args(["--serve", name]));
        }
    }
    Ok(builder.start().await?)
}
