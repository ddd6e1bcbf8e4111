//! A server that authenticates its callers.
//!
//! `protected --help` lists the options. When the server is ready, it prints one line of JSON with its URL and with
//! credentials for it.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program prints to its streams")]

mod cli;
mod credentials;
mod server;
#[cfg(test)]
mod tests;

use std::{
    error::Error,
    io,
    net::{Ipv4Addr, SocketAddr},
    process::ExitCode,
};

use mcp_server::prelude::*;
use tokio::net::TcpListener;

use self::{
    cli::{Command, Options},
    credentials::Authentication,
};

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
    // Stdout has the line with the credentials only.
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
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
    let listener = TcpListener::bind(address).await.map_err(|error| format!("cannot listen on {address}: {error}"))?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    let Authentication { config, credentials, authorization_server } = configured(options, &url).await?;
    let line = credentials.to_json(&url).to_string();
    let config = config.on_listening(move |_| println!("{line}"));
    server::server().serve_http_on(listener, config).await?;
    if let Some(server) = authorization_server {
        server.stop().await;
    }
    Ok(())
}

/// Returns the configuration of the endpoint, and credentials for it.
async fn configured(options: &Options, url: &str) -> Result<Authentication, Box<dyn Error>> {
    let mut authentication = credentials::authenticate(HttpConfig::new().public_url(url), options, url).await?;
    if options.anonymous {
        authentication.config = authentication.config.allow_anonymous();
    }
    Ok(authentication)
}
