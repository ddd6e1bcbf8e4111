//! `gateway [SERVERS POLICY]` serves the servers of a configuration file at `http://127.0.0.1:8080/mcp`.

use std::{env, error::Error, io, path::PathBuf};

use mcp_agent::config::Environment;
use mcp_server::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(false).init();
    let mut files = env::args_os().skip(1).map(PathBuf::from);
    let servers = files.next().unwrap_or_else(|| "examples/gateway/servers.json".into());
    let policy = files.next().unwrap_or_else(|| "examples/gateway/policy.toml".into());
    let host = gateway::start(&servers, &policy, &Environment::of_process()).await?;
    let server = host.clone().into_server()?.build();
    // The server returns after SIGTERM or Ctrl-C. The host then ends the processes of its servers.
    let served = server.serve_http("127.0.0.1:8080").await;
    host.shutdown().await;
    Ok(served?)
}
