//! A node of a fleet: several processes serve one server behind any balancer, and share their state in Redis.
//!
//! `fleet --help` lists the options. `docs/fleet.md` starts three nodes.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program prints to its streams")]

use std::{error::Error, io, process::ExitCode, sync::Arc};

use mcp_server::{
    auth::BearerTokens,
    inputs::StateKeys,
    prelude::*,
    protocol::ErrorChain,
    store::{MemoryStore, Store},
};
use mcp_store_redis::{RedisOptions, RedisStore};

use self::cli::{Command, Options};

mod cli;
mod tools;

#[tokio::main]
async fn main() -> ExitCode {
    let options = match cli::parse(lexopt::Parser::from_env()) {
        Ok(Command::Run(options)) => options,
        Ok(Command::Help) => {
            println!("{}", cli::USAGE);
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("error: {error}\n\n{}", cli::USAGE);
            return ExitCode::from(2);
        }
    };
    tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(false).init();
    match serve(&options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", ErrorChain::new(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn serve(options: &Options) -> Result<(), Box<dyn Error>> {
    if options.redis.is_some() && options.state_key.is_none() {
        return Err("--redis needs --state-key, with the same key on all nodes: openssl rand -hex 32".into());
    }
    let store: Arc<dyn Store> = match &options.redis {
        Some(url) => Arc::new(RedisStore::connect(RedisOptions::from_url(url)?).await?),
        None => Arc::new(MemoryStore::new()),
    };
    let server = server(options, store);
    let mut config = HttpConfig::new()
        .health("/health")
        .readiness("/ready")
        .allowed_hosts(options.allowed_hosts.iter().map(String::as_str))
        .on_listening(|address| eprintln!("the node serves http://{address}/mcp"));
    if let Some(token) = &options.token {
        config = config.authenticate(BearerTokens::new().token(token, Principal::new("caller"))?);
    }
    server.serve_http_with((options.host, options.port), config).await?;
    Ok(())
}

/// Builds the server of the node. All nodes of a fleet have the same name, the same store and the same keys. A node without a key
/// runs alone.
fn server(options: &Options, store: Arc<dyn Store>) -> Server {
    let mut builder = Server::builder("fleet", env!("CARGO_PKG_VERSION"));
    if let Some(key) = options.state_key {
        builder = builder.store(store.clone()).state_keys(StateKeys::new([key]));
    }
    tools::register(builder).with_state(tools::Shop(store)).build()
}

#[cfg(test)]
mod tests;
