//! A tool that is a program: run without a shell, given its arguments as JSON, bounded in time and in output.

use std::{ffi::OsString, path::PathBuf, process::Stdio, sync::Arc};

use mcp_protocol::{CallToolResult, ContentBlock};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, Command},
    sync::Semaphore,
};

use super::manifest::OutputForm;
use crate::ToolError;

/// Bytes of what a program says on stderr that are kept for the log.
const KEPT_STDERR: usize = 16 * 1024;
/// Variables that every program gets: without them few can start.
const ALWAYS: &[&str] =
    if cfg!(windows) { &["PATH", "PATHEXT", "SYSTEMROOT", "TEMP", "TMP", "USERPROFILE"] } else { &["PATH"] };

/// A program that serves a tool.
#[derive(Debug)]
pub(super) struct CommandTool {
    pub(super) name: String,
    pub(super) program: OsString,
    pub(super) arguments: Vec<String>,
    pub(super) cwd: PathBuf,
    pub(super) env: Vec<String>,
    pub(super) output: OutputForm,
    pub(super) max_output: usize,
    /// A place for each that may run at once.
    pub(super) running: Semaphore,
}

impl CommandTool {
    /// Runs the program once. Dropping the future ends it, and everything that it started.
    pub(super) async fn run(self: Arc<Self>, arguments: Value) -> Result<CallToolResult, ToolError> {
        let _place = self.running.acquire().await?;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).current_dir(&self.cwd).env_clear().kill_on_drop(true);
        let wanted = ALWAYS.iter().copied().chain(self.env.iter().map(String::as_str));
        command.envs(wanted.filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn()?;
        let group = Group::of(&child);
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let feed = async move {
            let Some(mut stdin) = stdin else { return Ok(()) };
            // A program need not read what it is given, so that a closed pipe is no failure.
            let _ = stdin.write_all(arguments.to_string().as_bytes()).await;
            drop(stdin);
            Ok(())
        };
        let ended = async move {
            let status = child.wait().await.map_err(ToolError::from);
            // What it started and left behind could hold the pipes open for ever.
            drop(group);
            status
        };
        let told = async { Ok(kept(stderr).await) };
        let (status, output, told, ()) = tokio::try_join!(ended, capped(stdout, self.max_output), told, feed)?;
        if !told.is_empty() {
            tracing::info!(tool = self.name, stderr = %String::from_utf8_lossy(&told), "a command wrote to stderr");
        }
        let Ok(text) = String::from_utf8(output) else {
            return Err(ToolError::new("the command wrote something that is not UTF-8"));
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

/// All that a program writes, if it is not too much.
async fn capped(pipe: Option<impl AsyncRead + Unpin>, limit: usize) -> Result<Vec<u8>, ToolError> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(limit as u64 + 1).read_to_end(&mut bytes).await?;
    }
    if bytes.len() > limit {
        return Err(ToolError::new(format!("the command wrote more than {limit} bytes")));
    }
    Ok(bytes)
}

/// The beginning of what a program writes; the rest is read so that it can go on.
async fn kept(pipe: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let Some(mut pipe) = pipe else { return bytes };
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
        let room = KEPT_STDERR - bytes.len();
        bytes.extend_from_slice(&buffer[..read.min(room)]);
    }
    bytes
}

/// The processes of a call: the program and what it starts. They end with this value.
#[derive(Debug)]
struct Group {
    #[cfg(unix)]
    leader: Option<rustix::process::Pid>,
}

impl Group {
    #[cfg(unix)]
    fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self { leader: id.and_then(rustix::process::Pid::from_raw) }
    }

    /// Elsewhere the program alone is ended, by the handle of it.
    #[cfg(not(unix))]
    fn of(_child: &Child) -> Self {
        Self {}
    }
}

#[cfg(unix)]
impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.leader {
            // Mostly nobody of the group is left, which is an error that says nothing.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }
}
