//! Child processes with a time limit on each wait.

use std::{
    io::{self, Read},
    net::TcpStream,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Error};

mod descendants;

/// The interval between two checks of a running child or of a listener.
const POLL: Duration = Duration::from_millis(20);
/// The kept bytes of a captured stream; the rest is read and discarded.
const CAPTURE_CAP: usize = 16 * 1024 * 1024;
/// The time that a stream may stay open after its process has exited: a grandchild can hold it.
const STREAM_GRACE: Duration = Duration::from_secs(5);
const VERSION_LIMIT: Duration = Duration::from_secs(30);

/// The `cargo` that runs this tool, in the workspace's folder.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    remove_own_variables(&mut command);
    command
}

/// Removes the variables of the cargo that runs this tool. A change of them causes a rebuild of dependencies such as `ring`.
pub(crate) fn remove_own_variables(command: &mut Command) {
    for (variable, _) in std::env::vars_os() {
        let name = variable.to_string_lossy();
        if name == "CARGO" || name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&variable);
        }
    }
}

/// Removes the variables that change the optimizations of a build, its time, or the program that compiles it. Builds that are compared
/// have the profiles of their manifests. The build writes to `target`, which a removed variable may have selected.
pub(crate) fn use_own_profiles(command: &mut Command, target: &Path) {
    for (variable, _) in std::env::vars_os() {
        if changes_builds(&variable.to_string_lossy()) {
            command.env_remove(&variable);
        }
    }
    command.env("CARGO_TARGET_DIR", target);
}

/// Whether a variable changes the programs that cargo builds, or the time of their builds.
fn changes_builds(name: &str) -> bool {
    const PREFIXES: [&str; 4] = ["CARGO_BUILD_", "CARGO_PROFILE_", "CARGO_TARGET_", "CARGO_UNSTABLE_"];
    const SUFFIXES: [&str; 3] = ["RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "RUSTFLAGS"];
    const NAMES: [&str; 3] = ["CARGO_INCREMENTAL", "RUSTC", "RUSTC_BOOTSTRAP"];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
        || NAMES.contains(&name)
}

/// Prints the command line, runs it with our streams, and fails unless it succeeds within `limit`.
pub(crate) fn run(command: &mut Command, limit: Duration) -> Result<(), Error> {
    let line = display(command);
    println!("$ {line}");
    let child = command.spawn().with_context(|| format!("cannot start `{line}`"))?;
    let status = Running(child).wait(limit).with_context(|| format!("`{line}`"))?;
    if status.success() { Ok(()) } else { Err(Error::msg(format!("`{line}` failed ({status})"))) }
}

/// The output of a finished child.
pub(crate) struct Captured {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a command to its end, within `limit`, and returns its output.
pub(crate) fn capture(command: &mut Command, limit: Duration) -> Result<Captured, Error> {
    let line = display(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{line}`"))?;
    let stdout = child.stdout.take().map(read_all);
    let stderr = child.stderr.take().map(read_all);
    let status = Running(child).wait(limit).with_context(|| format!("`{line}`"))?;
    Ok(Captured { status, stdout: received(stdout), stderr: received(stderr) })
}

/// Fails unless a program runs with `--version`. The error names the Debian packages of the program.
pub(crate) fn require(program: &str, packages: &str) -> Result<(), Error> {
    let probe = capture(Command::new(program).arg("--version"), VERSION_LIMIT);
    if probe.is_ok_and(|probe| probe.status.success()) {
        return Ok(());
    }
    Err(Error::msg(format!("`{program}` is missing. Install it, for example by `apt-get install {packages}`")))
}

/// A child process. The drop of this value kills it with its descendants. A child with a piped stdin has time to end its own children
/// before.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// Waits for the exit of the child. Kills the child and its descendants after `limit`.
    pub(crate) fn wait(mut self, limit: Duration) -> Result<ExitStatus, Error> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                return Err(Error::msg(format!("killed after {} s", limit.as_secs())));
            }
            thread::sleep(POLL);
        }
    }

    /// The exit status, if the child has ended already.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().ok().flatten()
    }
}

/// Connects to a server that may not listen yet. Before each attempt, `check` can end the wait with an error.
pub(crate) fn ready(
    address: &str,
    limit: Duration,
    mut check: impl FnMut() -> Result<(), Error>,
) -> Result<TcpStream, Error> {
    let deadline = Instant::now() + limit;
    loop {
        check()?;
        match TcpStream::connect(address) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && Instant::now() < deadline => {
                thread::sleep(POLL);
            }
            outcome => return outcome.with_context(|| format!("{address}, within {} s", limit.as_secs())),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.0.stdin.take().is_some() {
            let deadline = Instant::now() + STREAM_GRACE;
            while self.ended().is_none() && Instant::now() < deadline {
                thread::sleep(POLL);
            }
        }
        if self.ended().is_none() {
            descendants::kill(&mut self.0);
            // Fails only if the child has been waited for already.
            let _ = self.0.wait();
        }
    }
}

/// The command line, for display.
pub(crate) fn display(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut line = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
    for arg in command.get_args() {
        line.push(' ');
        line.push_str(&arg.to_string_lossy());
    }
    line
}

/// Reads a stream to its end on its own thread.
fn read_all(mut from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (done, bytes) = mpsc::channel();
    thread::spawn(move || {
        let mut kept = Vec::new();
        let mut chunk = [0; 8192];
        while let Ok(read @ 1..) = from.read(&mut chunk) {
            let room = CAPTURE_CAP.saturating_sub(kept.len());
            kept.extend_from_slice(&chunk[..read.min(room)]);
        }
        // The receiver is dropped if the child was killed.
        let _ = done.send(kept);
    });
    bytes
}

fn received(stream: Option<Receiver<Vec<u8>>>) -> String {
    let bytes = stream.and_then(|stream| stream.recv_timeout(STREAM_GRACE).ok()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn variables_of_the_caller_do_not_change_compared_builds() {
        for (name, expected) in [
            ("CARGO_INCREMENTAL", true),
            ("CARGO_PROFILE_RELEASE_LTO", true),
            ("CARGO_BUILD_JOBS", true),
            ("CARGO_BUILD_RUSTC_WRAPPER", true),
            ("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS", true),
            ("CARGO_ENCODED_RUSTFLAGS", true),
            ("RUSTC_WRAPPER", true),
            ("RUSTC", true),
            ("CARGO_HOME", false),
            ("CARGO_NET_OFFLINE", false),
            ("RUSTUP_TOOLCHAIN", false),
            ("PATH", false),
        ] {
            assert_eq!(changes_builds(name), expected, "{name}");
        }
    }

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn capture_returns_both_streams_and_the_status() {
        let got = capture(&mut sh("echo out; echo err >&2; exit 3"), Duration::from_secs(30)).unwrap();
        assert_eq!((got.stdout.as_str(), got.stderr.as_str(), got.status.code()), ("out\n", "err\n", Some(3)));
    }

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        assert!(require("sh-that-does-not-exist", "sh").is_err_and(|error| {
            error.to_string() == "`sh-that-does-not-exist` is missing. Install it, for example by `apt-get install sh`"
        }));
        assert!(require("cargo", "cargo").is_ok());
    }

    #[test]
    fn a_child_that_does_not_end_is_killed() {
        let started = Instant::now();
        let error = capture(&mut sh("exec sleep 600"), Duration::from_millis(50)).err().unwrap();
        assert!(format!("{error:#}").contains("killed"), "{error:#}");
        assert!(started.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn the_limit_of_a_child_ends_its_descendants() {
        let mut command = sh("sh -c 'sleep 600 & echo started; wait' & wait");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut [0; 8]).unwrap();
        assert!(Running(child).wait(Duration::ZERO).is_err());
        // The stream ends when the last process that writes to it has ended.
        assert_eq!(read_all(stdout).recv_timeout(Duration::from_secs(30)), Ok(Vec::new()));
    }
}
