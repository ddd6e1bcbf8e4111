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
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program. It accepts `--port` before all other arguments, and prints its URL to stderr.
    pub program: PathBuf,
    /// The arguments after the port.
    pub args: Vec<String>,
    /// The file to which the text of all its starts is appended.
    pub log: PathBuf,
}

/// A node. The drop of this value kills it.
#[derive(Debug)]
pub struct Node {
    /// The address that it serves.
    pub address: SocketAddr,
    launch: Launch,
    child: Child,
}

impl Node {
    /// Starts a node on a free port.
    ///
    /// # Errors
    /// If the program is missing, or does not print its URL in time.
    pub async fn start(launch: Launch) -> Result<Self, Error> {
        let (child, address) = spawn(&launch, 0).await?;
        Ok(Self { address, launch, child })
    }

    /// The URL of this node alone.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// The number of the process. `None` after its end.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Kills the process with SIGKILL.
    ///
    /// # Errors
    /// If the system refuses the signal.
    pub async fn kill(&mut self) -> Result<(), Error> {
        Ok(self.child.kill().await?)
    }

    /// Starts the process again, on the port of the former one.
    ///
    /// # Errors
    /// As [`Node::start`].
    pub async fn restart(&mut self) -> Result<(), Error> {
        let (child, _) = spawn(&self.launch, self.address.port()).await?;
        self.child = child;
        Ok(())
    }

    /// Sends SIGTERM, and waits for the end of the process.
    ///
    /// # Errors
    /// If the process has ended before, or does not end in time.
    pub async fn stop(&mut self) -> Result<ExitStatus, Error> {
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
