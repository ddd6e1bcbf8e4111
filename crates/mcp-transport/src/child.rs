//! A server as a child process, connected through its standard input and output.

mod environment;
mod group;
mod keeper;
mod stderr;
mod transport;

use std::{
    ffi::{OsStr, OsString},
    fmt, io,
    path::PathBuf,
    process::Stdio,
    time::Duration,
};

use tokio::process::Command;

use self::{environment::Environment, group::Group, transport::ChildTransport};
use crate::{BoxFuture, Connect, Transport, TransportError, ndjson::Options};

/// A command that starts an MCP server with stdio transport.
///
/// [`Connect::connect`] starts a new process each time. It does not use a shell: each argument reaches the program
/// unchanged. On Unix the process leads a process group, and on Windows (written, not tested) it has a job object.
/// The processes that the server started end with it.
///
/// The transport closes when its last sender is dropped, or by
/// [`FrameSender::shutdown`](crate::FrameSender::shutdown). It then closes the standard input of the process. A
/// process that still runs after [`ChildProcess::end_within`] gets SIGTERM, and after the same time again SIGKILL.
/// When the runtime shuts down, the group is killed at once.
///
/// Each line of the standard error goes to `tracing` (target `mcp_transport::child`, level debug). The error that
/// ends the transport quotes the last lines.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_transport::{child::ChildProcess, ndjson::Options};
///
/// let server = ChildProcess::new("/opt/server/bin/server")
///     .arg("--stdio")
///     .args(["--config", "server.toml"])
///     .env("PAGER", "cat")
///     .current_dir("/opt/server")
///     .envs([("LOG", "info"), ("REGION", "eu")])
///     .inherit_env("SERVER_TOKEN")
///     .end_within(Duration::from_secs(5))
///     .options(Options::default());
/// // The debug text has no values of the environment.
/// assert!(!format!("{server:?}").contains("info"));
/// ```
///
/// The program `cat` returns each message:
///
/// ```
/// use mcp_transport::{Connect, Frame, child::ChildProcess, recv};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_transport::TransportError> {
/// # if cfg!(windows) { return Ok(()); }
/// let mut transport = ChildProcess::new("cat").connect().await?;
/// let sender = transport.sender();
/// sender.send(Frame::new("{}")).await?;
/// assert_eq!(recv(&mut transport).await.unwrap()?.message, "{}");
/// sender.shutdown().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ChildProcess {
    program: OsString,
    args: Vec<OsString>,
    directory: Option<PathBuf>,
    environment: Environment,
    options: Options,
    end_within: Duration,
}

/// The time for each step of ending a process.
const END_WITHIN: Duration = Duration::from_secs(2);

impl ChildProcess {
    /// Returns a command for a program: a path, or a name that the system looks up in `PATH`.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            directory: None,
            environment: Environment::default(),
            options: Options::default(),
            end_within: END_WITHIN,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets the working directory of the process. Use an absolute path for the program then: systems differ in which
    /// directory a relative path belongs to.
    #[must_use]
    pub fn current_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Sets an environment variable of the process.
    ///
    /// The process inherits only the variables that programs need. On Unix these are `HOME`, `LANG`, `LC_ALL`,
    /// `LC_CTYPE`, `LOGNAME`, `PATH`, `SHELL`, `TERM`, `TMPDIR`, `TZ` and `USER`, and on Windows their counterparts.
    /// So secrets in the environment of the host do not reach a server by accident.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.set(name.as_ref(), value.as_ref());
        self
    }

    /// Sets environment variables of the process. See [`ChildProcess::env`].
    #[must_use]
    pub fn envs<N: AsRef<OsStr>, V: AsRef<OsStr>>(mut self, variables: impl IntoIterator<Item = (N, V)>) -> Self {
        for (name, value) in variables {
            self.environment.set(name.as_ref(), value.as_ref());
        }
        self
    }

    /// Passes an environment variable of the host to the process, if it is set when the process starts.
    #[must_use]
    pub fn inherit_env(mut self, name: impl AsRef<OsStr>) -> Self {
        self.environment.inherit(name.as_ref());
        self
    }

    /// Passes the whole environment of the host to the process, with all secrets in it.
    #[must_use]
    pub fn dangerous_inherit_all_env(mut self) -> Self {
        self.environment.inherit_all();
        self
    }

    /// Sets the time that the process has to end after its input is closed, and again after SIGTERM. Default: 2 s.
    ///
    /// The shutdown of the transport takes until the process has ended. In the worst case this is a little more than
    /// four times as long: when the process and its children ignore both requests.
    #[must_use]
    pub fn end_within(mut self, time: Duration) -> Self {
        self.end_within = time;
        self
    }

    /// Sets the limits of lines and of the send queue. Default: [`Options::default`].
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    fn command(&self) -> Command {
        let mut command = Command::new(group::resolve(&self.program));
        command.args(&self.args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        self.environment.apply(&mut command);
        command
    }

    fn start(&self) -> Result<ChildTransport, TransportError> {
        let group = Group::spawn(self.command()).map_err(|source| {
            let is_lasting = matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied);
            let directory = self.directory.clone();
            let fault = TransportError::unreachable(NotStarted { program: self.describe(), directory, source });
            if is_lasting { fault.lasting() } else { fault }
        })?;
        ChildTransport::new(group, self.describe(), &self.options, self.end_within)
    }
}

impl Connect for ChildProcess {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        Box::pin(async move { Ok(Box::new(self.start()?) as Box<dyn Transport>) })
    }

    /// Returns the program without its arguments, which may hold secrets.
    fn describe(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }

    fn identity(&self) -> String {
        format!("{:?} {:?} {:?} {:?}", self.program, self.args, self.directory, self.environment)
    }

    fn starts_process(&self) -> bool {
        true
    }
}

impl fmt::Debug for ChildProcess {
    /// Omits the values of arguments and variables, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildProcess")
            .field("program", &self.program)
            .field("args", &self.args.len())
            .field("directory", &self.directory)
            .field("environment", &self.environment)
            .finish_non_exhaustive()
    }
}

/// The operating system did not start the program.
#[derive(Debug)]
struct NotStarted {
    program: String,
    directory: Option<PathBuf>,
    source: io::Error,
}

impl fmt::Display for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot start `{}`", self.program)?;
        match (&self.directory, self.source.kind()) {
            // The error is the same for a missing program and a missing directory.
            (Some(directory), io::ErrorKind::NotFound) if !directory.is_dir() => {
                write!(f, ": there is no directory {}", directory.display())
            }
            (_, io::ErrorKind::NotFound) => f.write_str(": there is no such program in PATH or at that path"),
            (_, io::ErrorKind::PermissionDenied) => f.write_str(": it may not be executed"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for NotStarted {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}
