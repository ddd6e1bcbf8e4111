//! Tools that run a program without a shell. The program receives its arguments as JSON; its time and output are bounded.

use std::{
    ffi::OsString,
    io,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use mcp_protocol::{CallToolResult, ContentBlock};
use mcp_server_core::ToolError;
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    sync::Semaphore,
};
use tokio_util::sync::CancellationToken;

use crate::manifest::OutputForm;

/// The size of the stderr output that is kept for the log, in bytes.
const KEPT_STDERR: usize = 16 * 1024;
/// The time for reading the pipes after the end of a program, while a process outside of its group holds them open.
const GRACE: Duration = Duration::from_secs(1);
/// The environment variables of every program. Most programs cannot start without them.
const ALWAYS: &[&str] =
    if cfg!(windows) { &["PATH", "PATHEXT", "SYSTEMROOT", "TEMP", "TMP", "USERPROFILE"] } else { &["PATH"] };

/// A program that serves a tool.
#[derive(Debug)]
pub(crate) struct CommandTool {
    pub(crate) name: String,
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<String>,
    pub(crate) cwd: PathBuf,
    pub(crate) env: Vec<String>,
    pub(crate) output: OutputForm,
    pub(crate) max_output: usize,
    /// A permit for each program that may run at the same time.
    pub(crate) running: Semaphore,
}

impl CommandTool {
    /// Runs the program once. Dropping the future kills it, together with its process group.
    pub(crate) async fn run(self: Arc<Self>, arguments: Value) -> Result<CallToolResult, ToolError> {
        let _place = self.running.acquire().await?;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).current_dir(&self.cwd).env_clear().kill_on_drop(true);
        let wanted = ALWAYS.iter().copied().chain(self.env.iter().map(String::as_str));
        command.envs(wanted.filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut group = Group::spawn(&mut command).map_err(|error| {
            let (program, cwd) = (self.program.display(), self.cwd.display());
            io::Error::new(error.kind(), format!("`{program}` cannot be started in `{cwd}`: {error}"))
        })?;
        let (stdin, stdout, stderr) = group.streams();
        let (mut output, mut stderr_bytes) = (Vec::new(), Vec::new());
        let feed = async {
            let Some(mut stdin) = stdin else { return Ok(()) };
            // A program may ignore its input. A closed pipe is not a failure.
            let _ = stdin.write_all(arguments.to_string().as_bytes()).await;
            drop(stdin);
            Ok(())
        };
        let capture_stderr = async {
            keep(stderr, &mut stderr_bytes).await;
            Ok(())
        };
        let exited = CancellationToken::new();
        let ended = async {
            let status = group.end().await;
            exited.cancel();
            status.map_err(ToolError::from)
        };
        let pipes = async {
            let used = async { tokio::try_join!(read(stdout, self.max_output, &mut output), capture_stderr, feed) };
            tokio::select! {
                done = used => done.map(|_| ()),
                () = async {
                    exited.cancelled().await;
                    tokio::time::sleep(GRACE).await;
                } => Ok(()),
            }
        };
        let (status, ()) = tokio::try_join!(ended, pipes)?;
        if !stderr_bytes.is_empty() {
            // Subscribers quote a text field, so that its line breaks do not begin lines of the log.
            tracing::info!(
                tool = self.name,
                stderr = &*String::from_utf8_lossy(&stderr_bytes),
                "a command wrote to stderr"
            );
        }
        let Ok(text) = String::from_utf8(output) else {
            return Err(ToolError::new("the output of the command is not UTF-8"));
        };
        let text = text.strip_suffix('\n').map_or(text.as_str(), |text| text.strip_suffix('\r').unwrap_or(text));
        if !status.success() {
            tracing::warn!(tool = self.name, %status, "a command failed");
            let reason =
                if text.trim().is_empty() { format!("the command failed ({status})") } else { text.to_owned() };
            return Err(ToolError::new(reason));
        }
        let mut result = CallToolResult::new(vec![ContentBlock::text(text)]);
        if self.output == OutputForm::Json {
            let value: Value = serde_json::from_str(text).map_err(|error| {
                tracing::error!(tool = self.name, %error, "a command did not write JSON");
                ToolError::new("the command did not write JSON")
            })?;
            result.structured_content = Some(value);
        }
        Ok(result)
    }
}

/// Reads the output of a program. More output than the limit is an error.
async fn read(pipe: Option<impl AsyncRead + Unpin>, limit: usize, bytes: &mut Vec<u8>) -> Result<(), ToolError> {
    if let Some(pipe) = pipe {
        pipe.take((limit as u64).saturating_add(1)).read_to_end(bytes).await?;
    }
    if bytes.len() > limit {
        return Err(ToolError::new(format!("the command wrote more than {limit} bytes")));
    }
    Ok(())
}

/// Keeps the beginning of the output of a program. It reads and drops the rest, because a full pipe would block the program.
async fn keep(pipe: Option<impl AsyncRead + Unpin>, bytes: &mut Vec<u8>) {
    let Some(mut pipe) = pipe else { return };
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
        let room = KEPT_STDERR - bytes.len();
        bytes.extend_from_slice(&buffer[..read.min(room)]);
    }
}

/// The processes of a call: the program and what it starts. They end with this value.
#[derive(Debug)]
struct Group {
    child: Child,
    /// The program's id names the group; `None` once it is killed, since the id may then be given again.
    #[cfg(unix)]
    leader: Option<rustix::process::Pid>,
    /// Tells that some child of this process has ended.
    #[cfg(unix)]
    children: tokio::signal::unix::Signal,
}

impl Group {
    #[cfg(unix)]
    fn spawn(command: &mut Command) -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};

        // Before there is a child, so that its end is not missed.
        let children = signal(SignalKind::child())?;
        let child = command.process_group(0).spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Ok(Self { child, leader: id.and_then(rustix::process::Pid::from_raw), children })
    }

    /// Elsewhere the program alone is ended, by the handle of it.
    #[cfg(not(unix))]
    fn spawn(command: &mut Command) -> io::Result<Self> {
        Ok(Self { child: command.spawn()? })
    }

    fn streams(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take())
    }

    /// Waits for the end of the program, and ends what it started and left behind.
    async fn end(&mut self) -> io::Result<ExitStatus> {
        #[cfg(unix)]
        {
            use rustix::process::{WaitId, WaitIdOptions, waitid};

            // The group is killed before the program is reaped: until then no other process can have its id.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            while let Some(leader) = self.leader
                && let Ok(None) = waitid(WaitId::Pid(leader), options)
                && self.children.recv().await.is_some()
            {}
            self.kill();
        }
        self.child.wait().await
    }

    #[cfg(unix)]
    fn kill(&mut self) {
        if let Some(leader) = self.leader.take() {
            // The call fails if the group has no process left, which is the usual case.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }
}

#[cfg(unix)]
impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
