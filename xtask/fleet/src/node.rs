//! A node as a child process: started, killed and started again on the same port.

use std::{
    net::SocketAddr,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context, Error, anyhow};
use tokio::{
    fs::File,
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

const START_LIMIT: Duration = Duration::from_secs(30);
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// The parts of the command line that all starts of a node share.
#[derive(Clone)]
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    /// The file to which the text of all its starts is appended.
    pub(crate) log: PathBuf,
}

/// A node. The drop of this value kills it.
pub(crate) struct Node {
    pub(crate) address: SocketAddr,
    launch: Launch,
    child: Child,
}

impl Node {
    /// Starts a node on a free port.
    pub(crate) async fn start(launch: Launch) -> Result<Self, Error> {
        let (child, address) = spawn(&launch, 0).await?;
        Ok(Self { address, launch, child })
    }

    /// The URL of this node alone.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Kills the process with SIGKILL.
    pub(crate) async fn kill(&mut self) -> Result<(), Error> {
        Ok(self.child.kill().await?)
    }

    /// Starts the process again, on the port of the former one.
    pub(crate) async fn restart(&mut self) -> Result<(), Error> {
        let (child, _) = spawn(&self.launch, self.address.port()).await?;
        self.child = child;
        Ok(())
    }

    /// Sends SIGTERM, and waits for the end of the process.
    pub(crate) async fn stop(&mut self) -> Result<ExitStatus, Error> {
        let id = self.child.id().ok_or_else(|| anyhow!("the node has ended already"))?;
        let sent = Command::new("kill").arg(id.to_string()).status().await?;
        if !sent.success() {
            return Err(anyhow!("kill failed ({sent})"));
        }
        Ok(timeout(STOP_LIMIT, self.child.wait()).await.context("the node does not end after SIGTERM")??)
    }
}

async fn spawn(launch: &Launch, port: u16) -> Result<(Child, SocketAddr), Error> {
    let mut command = Command::new(&launch.program);
    command.args(["--port", &port.to_string()]).args(&launch.args);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().with_context(|| format!("cannot start {}", launch.program.display()))?;
    let stderr = child.stderr.take().ok_or_else(|| anyhow!("the node has no stderr"))?;
    let mut lines = BufReader::new(stderr).lines();
    let mut log = File::options().create(true).append(true).open(&launch.log).await?;
    let address = timeout(START_LIMIT, async {
        let mut last = String::new();
        while let Some(line) = lines.next_line().await? {
            if let Some(address) = address_in(&line) {
                return Ok(address);
            }
            log.write_all(format!("{line}\n").as_bytes()).await?;
            last = line;
        }
        Err(anyhow!("the node ended at its start: {last}"))
    });
    let address = address.await.context("the node does not start in time")??;
    // The rest of the text goes to the file. A full pipe would stop the node.
    tokio::spawn(async move { tokio::io::copy(&mut lines.into_inner(), &mut log).await });
    Ok((child, address))
}

/// The address in a line with a URL such as `http://127.0.0.1:8080/mcp`.
fn address_in(line: &str) -> Option<SocketAddr> {
    let (_, after) = line.split_once("http://")?;
    after.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_node_contains_its_address() {
        let address = address_in("the node serves http://127.0.0.1:4711/mcp");
        assert_eq!(address, Some(SocketAddr::from(([127, 0, 0, 1], 4711))));
        assert_eq!(address_in("http:/127.0.0.1/mcp"), None);
    }
}
