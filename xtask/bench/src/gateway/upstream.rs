//! The gateway under test as a process, and the servers behind it.

use std::thread;

use mcp_agent::{Host, HostBuilder};
use mcp_client::ChildProcess;
use mcp_server::{http::HttpConfig, prelude::*};
use tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
};

use crate::{case::Revision, error::Error, peer, server};

/// The servers behind a gateway.
#[derive(Debug, Default)]
pub(crate) struct Upstream {
    /// A URL, `stdio` for child processes, or `local` for servers of the same process.
    target: String,
    /// The number of servers, if it is not 1.
    servers: usize,
    /// The revision of the connections to the servers. Default: the newest one.
    revision: Option<Revision>,
    /// The core of the child processes.
    cpu: Option<String>,
}

impl Upstream {
    /// Sets an option of the command line. Returns false for an unknown option.
    pub(crate) fn set(&mut self, flag: &str, value: &str) -> Result<bool, Error> {
        match flag {
            "--upstream" => self.target = value.to_owned(),
            "--servers" => self.servers = value.parse()?,
            "--revision" => self.revision = Some(Revision::parse(value)?),
            "--upstream-cpu" => self.cpu = Some(value.to_owned()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(crate) fn target(&self) -> &str {
        &self.target
    }

    pub(crate) fn cpu(&self) -> Option<&str> {
        self.cpu.as_deref()
    }

    /// Returns the builder of a host with the servers, which have `tools` tools each.
    fn host(&self, tools: usize) -> Result<HostBuilder, Error> {
        let mut host = Host::builder("bench-gateway", "1.0.0");
        if let Some(revision) = self.revision {
            host = host.clients(move |_, client| client.versions([revision.version()]));
        }
        let local = server::server(tools);
        for number in 0..self.servers.max(1) {
            let name = if self.servers > 1 { format!("s{number:03}") } else { "s".to_owned() };
            host = match &*self.target {
                "local" => host.server(name, &local),
                "stdio" => {
                    let mut child = ChildProcess::new(std::env::current_exe()?).args(["peer", "ours-stdio"]);
                    if let Some(cpu) = &self.cpu {
                        child = child.args(["--cpu", cpu]);
                    }
                    host.server(name, child)
                }
                url => host.server(name, url),
            };
        }
        Ok(host)
    }

    async fn server(&self, tools: usize) -> Result<(Host, Server), Error> {
        let host = self.host(tools)?.start().await?;
        let server = host.clone().into_server()?.build();
        Ok((host, server))
    }
}

/// Returns the runtime that `mcp gateway` has on the cores of this process: one thread on one core.
fn runtime() -> Result<Runtime, Error> {
    let mut runtime = match thread::available_parallelism()?.get() {
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    Ok(runtime.enable_all().build()?)
}

/// Serves the gateway over HTTP on a free port until stdin ends. It prints the address.
pub(crate) fn serve_http(upstream: &Upstream, tools: usize) -> Result<(), Error> {
    runtime()?.block_on(async {
        let (host, server) = upstream.server(tools).await?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        let running = server.clone();
        thread::spawn(move || {
            peer::wait_for_end();
            running.shutdown();
        });
        server.serve_http_on(listener, HttpConfig::new()).await?;
        host.shutdown().await;
        Ok(())
    })
}

/// Serves the gateway over stdin and stdout.
pub(crate) fn serve_stdio(upstream: &Upstream, tools: usize) -> Result<(), Error> {
    runtime()?.block_on(async {
        let (host, server) = upstream.server(tools).await?;
        server.serve_stdio().await?;
        host.shutdown().await;
        Ok(())
    })
}
