//! An MCP server with everything: a demo of the library, and the server that the official conformance suites are run
//! against. `everything --help` says how it is started.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program speaks through its streams")]

use std::{error::Error, io, net::Ipv4Addr, process::ExitCode};

use mcp_server::prelude::*;

use self::{
    app::App,
    cli::{Command, Options, Transport},
};

mod app;
mod asking;
mod cli;
mod conformance;
mod jobs;
mod media;
mod notes;
mod observed;
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
    // Over stdio the client owns stdout, so logs go to stderr always.
    tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(false).init();
    match serve(&options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(options: &Options) -> Result<(), Box<dyn Error>> {
    let app = App::default();
    let server = server(options, &app);
    tokio::select! {
        served = serve_over(options, &server) => served,
        () = app.beat(&server) => Ok(()),
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

/// The whole server.
fn server(options: &Options, app: &App) -> Server {
    let mut builder = Server::builder("everything", env!("CARGO_PKG_VERSION"))
        .title("Everything")
        .description("A demo of every feature, and the fixtures of the conformance suites.")
        .instructions("Tools named `test_…` are fixtures. Keep notes with `write_note`, and read them as `note:///…`.")
        .page_size(options.page_size);
    // The fixtures come first: some of the suites' scenarios take the first tool of the list.
    builder = conformance::register(builder);
    builder = asking::register(builder);
    builder = jobs::register(builder);
    builder = tools::register(builder);
    builder = tools::register_generated(builder, options.tools);
    builder = resources::register(builder);
    builder = skills::register(builder);
    builder = prompts::register(builder);
    builder = observed::register(builder, app);
    let server = builder.with_state(app.clone()).build();
    app.serve_as(&server);
    server
}

#[cfg(test)]
mod tests;
