//! A server as a child process: spoken to over its standard input and output, ended with everything it started.

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

/// A command that starts a server which speaks MCP over its standard input and output.
///
/// [`Connect::connect`] starts a fresh process each time. There is no shell: what is given as an argument arrives as one
/// argument. On Unix the process leads a process group of its own, on Windows (written, not tested) it has a job object:
/// what it started ends with it.
///
/// The transport closes when its last sender is dropped or by [`FrameSender::shutdown`](crate::FrameSender::shutdown).
/// Then the standard input is closed; a process that is still there after [`ChildProcess::end_within`] gets SIGTERM, and
/// after the same time again SIGKILL. When the runtime itself goes away, the group is killed at once.
///
/// What the process writes to its standard error goes to `tracing` (target `mcp_transport::child`, level debug), line by
/// line; the last lines are kept, and the error that ends the transport quotes them.
///
/// ```
/// use mcp_transport::child::ChildProcess;
///
/// let git = ChildProcess::new("uvx").args(["mcp-server-git", "--repository", "."]).env("GIT_PAGER", "cat");
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

/// How long a process has to end by itself before the next, harder, step.
const END_WITHIN: Duration = Duration::from_secs(2);

impl ChildProcess {
    /// The program to start: a path, or a name that is looked up in `PATH`.
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

    /// Adds one argument.
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

    /// The directory that the process starts in. A program given by a relative path is better made absolute then: which
    /// of the two directories it is relative to differs between systems.
    #[must_use]
    pub fn current_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Sets a variable of its environment.
    ///
    /// Of our own environment the process sees only what a program needs to run: on Unix `HOME`, `LANG`, `LC_ALL`,
    /// `LC_CTYPE`, `LOGNAME`, `PATH`, `SHELL`, `TERM`, `TMPDIR`, `TZ`, `USER`; on Windows the names that programs need
    /// there. Secrets of the host do not reach servers by accident.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.set(name.as_ref(), value.as_ref());
        self
    }

    /// Sets variables of its environment, as [`ChildProcess::env`] does.
    #[must_use]
    pub fn envs<N: AsRef<OsStr>, V: AsRef<OsStr>>(mut self, variables: impl IntoIterator<Item = (N, V)>) -> Self {
        for (name, value) in variables {
            self.environment.set(name.as_ref(), value.as_ref());
        }
        self
    }

    /// Lets it see a variable of our own environment, if that is set when the process starts.
    #[must_use]
    pub fn inherit_env(mut self, name: impl AsRef<OsStr>) -> Self {
        self.environment.inherit(name.as_ref());
        self
    }

    /// Lets it see the whole of our own environment, with every secret that is in it.
    #[must_use]
    pub fn dangerous_inherit_all_env(mut self) -> Self {
        self.environment.inherit_all();
        self
    }

    /// How long the process has to end after its input was closed, and again after SIGTERM. Two seconds.
    ///
    /// Shutting the transport down takes until the process is gone, whatever of this that needs: four times as long and a little
    /// more at worst, when it ignores both and has left others behind that do.
    #[must_use]
    pub fn end_within(mut self, time: Duration) -> Self {
        self.end_within = time;
        self
    }

    /// Limits of the lines and of the queue. Those of [`Options::default`].
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

    /// The program, without its arguments: those may hold secrets.
    fn describe(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }
}

impl fmt::Debug for ChildProcess {
    /// Leaves out the values of arguments and variables, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildProcess")
            .field("program", &self.program)
            .field("args", &self.args.len())
            .field("directory", &self.directory)
            .field("environment", &self.environment)
            .finish_non_exhaustive()
    }
}

/// The system did not start the program.
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
            // The system says "not found" of either.
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
