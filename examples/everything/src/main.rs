//! An MCP server with every feature: a demo of the library, and the server of the official conformance suites.
//!
//! `everything --help` lists the options.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program prints to its streams")]

use std::{error::Error, io, net::Ipv4Addr, process::ExitCode, sync::Arc};

use mcp_server::{inputs::StateKeys, prelude::*, protocol::ErrorChain, store::Store};
use mcp_store_redis::{RedisOptions, RedisStore};

use self::{
    app::App,
    cli::{Command, Options, Transport},
};

mod app;
mod cli;
mod conformance;
mod dynamic_items;
mod input_requests;
mod jobs;
mod media;
mod notes;
mod observations;
mod prompts;
mod resources;
mod skills;
mod tools;

#[tokio::main]
async fn main() -> ExitCode {
    let options = match cli::parse(std::env::args().skip(1)) {
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
    // Over stdio, stdout carries messages. Logs therefore go to stderr.
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
    let store = match &options.redis {
        Some(url) => {
            let options = RedisOptions::from_url(url)?.namespace("everything");
            Some(Arc::new(RedisStore::connect(options).await?) as Arc<dyn Store>)
        }
        None => None,
    };
    let app = App::new(store.clone());
    let server = server(options, &app, store);
    tokio::select! {
        result = serve_over(options, &server) => result,
        () = app.change_periodically(&server) => Ok(()),
        () = app.follow_items(&server) => Ok(()),
    }
}

async fn serve_over(options: &Options, server: &Server) -> Result<(), Box<dyn Error>> {
    match options.transport {
        Transport::Stdio => server.serve_stdio().await?,
        Transport::Http { port } => {
            let scheme = if options.tls.is_some() { "https" } else { "http" };
            let config = HttpConfig::new()
                .sse("/sse", "/messages")
                .health("/health")
                .on_listening(move |address| eprintln!("everything listens on {scheme}://{address}/mcp"));
            let address = (Ipv4Addr::LOCALHOST, port);
            match &options.tls {
                Some((certificate, key)) => {
                    let tls = TlsConfig::from_files(certificate, key)?;
                    server.serve_https_with(address, tls, config).await?;
                }
                None => server.serve_http_with(address, config).await?,
            }
        }
    }
    Ok(())
}

/// Builds the server.
fn server(options: &Options, app: &App, store: Option<Arc<dyn Store>>) -> Server {
    let mut builder = Server::builder("everything", env!("CARGO_PKG_VERSION"))
        .title("Everything")
        .description("A demo of every feature, and the fixtures of the conformance suites.")
        .instructions("Tools named `test_…` are fixtures. Keep notes with `write_note`, and read them as `note:///…`.")
        .page_size(options.page_size);
    if let Some(versions) = &options.only {
        builder = builder.versions(versions.iter().copied());
    }
    if let Some(store) = store {
        builder = builder.store(store);
    }
    if let Some(key) = options.state_key {
        builder = builder.state_keys(StateKeys::new([key]));
    }
    // The fixtures come first, because some scenarios of the suites call the first tool of the list.
    builder = conformance::register(builder);
    builder = input_requests::register(builder);
    builder = jobs::register(builder);
    builder = tools::register(builder);
    builder = tools::register_generated(builder, options.tools);
    builder = resources::register(builder);
    builder = skills::register(builder);
    builder = prompts::register(builder);
    builder = observations::register(builder, app);
    let server = builder.with_state(app.clone()).build();
    app.set_server(&server);
    server
}

#[cfg(test)]
mod tests;
