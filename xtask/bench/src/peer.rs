//! A server as a child process: started, pinned, watched, and ended with its handle.

use std::{
    io::{self, Read},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::{
    auth::{Auth, Credential, Issued},
    cpu,
    error::{Error, within},
};

/// The time limit of the first output of a server.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(20);

/// The longest line that a program prints about itself.
const LONGEST_LINE: u64 = 64 << 10;

/// The command line of a program that the system kills when this process ends. A stopped process cannot read the end of its stdin.
pub(crate) fn ended_with_parent(program: &Path) -> Result<Command, Error> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["peer", "exec"]).arg(program);
    Ok(command)
}

/// A child process that serves. The drop of this value kills it. The child also exits when its stdin ends.
pub(crate) struct Peer {
    child: Child,
    pid: u32,
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: BufReader<ChildStdout>,
}

/// The parameters of a child process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Start {
    pub(crate) kind: &'static str,
    /// A program of another library. Without it, this program is the server.
    pub(crate) program: Option<PathBuf>,
    /// The argument of the program of another library: its form.
    pub(crate) form: Option<&'static str>,
    pub(crate) cpu: Option<usize>,
    pub(crate) tools: usize,
    pub(crate) auth: Option<Auth>,
    /// The URL of the shared store.
    pub(crate) redis: Option<String>,
    /// The file with the response of a bare peer.
    pub(crate) answer: Option<PathBuf>,
    /// The options of a gateway.
    pub(crate) gateway: Vec<String>,
}

impl Peer {
    /// Starts a program as a server.
    pub(crate) fn start(start: &Start) -> Result<Self, Error> {
        let command = match &start.program {
            Some(program) => {
                let mut command = ended_with_parent(program)?;
                command.args(start.form);
                command
            }
            None => Self::own(start)?,
        };
        Self::spawn(command, start.cpu)
    }

    /// The command line of this program as a server.
    fn own(start: &Start) -> Result<Command, Error> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["peer", start.kind]);
        if let Some(cpu) = start.cpu {
            command.args(["--cpu", &cpu.to_string()]);
        }
        if start.tools > 0 {
            command.args(["--tools", &start.tools.to_string()]);
        }
        if let Some(auth) = start.auth {
            command.args(["--auth", auth.name()]);
        }
        if let Some(redis) = &start.redis {
            command.args(["--redis", redis]);
        }
        if let Some(answer) = &start.answer {
            command.arg("--answer").arg(answer);
        }
        command.args(&start.gateway);
        Ok(command)
    }

    /// Starts a child process on a core.
    pub(crate) fn spawn(mut command: Command, core: Option<usize>) -> Result<Self, Error> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = cpu::on(core, || command.spawn())??;
        let lost = || Error::new("a server has no pipes");
        let pid = child.id().ok_or_else(lost)?;
        let stdin = child.stdin.take().ok_or_else(lost)?;
        let stdout = BufReader::with_capacity(64 << 10, child.stdout.take().ok_or_else(lost)?);
        Ok(Self { child, pid, stdin, stdout })
    }

    /// The address that a server over HTTP prints when it listens.
    pub(crate) async fn address(&mut self) -> Result<SocketAddr, Error> {
        let line = self.line(START_LIMIT).await?;
        line.trim().parse().map_err(|_| Error::new(format!("a server printed `{}` for its address", line.trim())))
    }

    /// The credential that a server with authentication prints after its address.
    pub(crate) async fn credential(&mut self) -> Result<Credential, Error> {
        Credential::new(&Issued::from_line(&self.line(START_LIMIT).await?)?)
    }

    /// Reads a line of the output within a time limit. The line is empty if the output has ended.
    pub(crate) async fn line(&mut self, limit: Duration) -> Result<String, Error> {
        let mut line = String::new();
        let mut output = (&mut self.stdout).take(LONGEST_LINE);
        within(limit, "the output of a program", output.read_line(&mut line)).await?;
        if line.len() as u64 == LONGEST_LINE && !line.ends_with('\n') {
            return Err(Error::new(format!("the output of a program: a line of more than {LONGEST_LINE} bytes")));
        }
        Ok(line)
    }

    /// The time on a core that the server has used.
    pub(crate) fn used(&self) -> Option<Duration> {
        cpu::used(self.pid)
    }

    /// The number of its process.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Ends the process, and waits for its end.
    pub(crate) async fn end(mut self) -> Result<(), Error> {
        within(START_LIMIT, "the end of a server", self.child.kill()).await
    }

    /// How the server ended, when it did.
    pub(crate) fn ended(&mut self) -> Option<String> {
        self.child.try_wait().ok().flatten().map(|status| status.to_string())
    }
}

/// Waits until stdin ends, which means that the parent process has exited.
pub(crate) fn wait_for_end() {
    let mut buffer = [0; 64];
    let mut stdin = io::stdin().lock();
    while matches!(stdin.read(&mut buffer), Ok(1..)) {}
}
