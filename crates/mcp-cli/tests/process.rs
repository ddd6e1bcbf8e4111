//! Child processes whose every wait has a limit.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

/// The limit of each wait. A test reaches it only if it fails.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs a command, as [`Command::output`] does, with a limit.
pub(crate) trait BoundedOutput {
    /// Returns the output of the command after its exit.
    fn bounded_output(&mut self) -> Output;
}

impl BoundedOutput for Command {
    fn bounded_output(&mut self) -> Output {
        finish(self.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }
}

/// Waits until a program exits, and returns the output that it wrote to its pipes.
pub(crate) fn finish(mut child: Child) -> Output {
    drop(child.stdin.take());
    let (stdout, stderr) = (child.stdout.take().map(bytes), child.stderr.take().map(bytes));
    let status = wait(&mut child);
    let rest = |pipe: Option<Receiver<Vec<u8>>>| pipe.map(|pipe| pipe.recv_timeout(TIMEOUT).unwrap());
    Output { status, stdout: rest(stdout).unwrap_or_default(), stderr: rest(stderr).unwrap_or_default() }
}

/// Reads a pipe to its end on a thread, so that a test can limit its wait.
fn bytes(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, bytes) = channel();
    std::thread::spawn(move || {
        let mut read = Vec::new();
        pipe.read_to_end(&mut read).unwrap();
        // After a failed test, the receiver does not exist.
        let _ = sender.send(read);
    });
    bytes
}

/// The lines of a pipe. A thread reads them, so that a test can limit its wait.
pub(crate) struct Lines(Receiver<String>);

impl Lines {
    pub(crate) fn of(pipe: impl Read + Send + 'static) -> Self {
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(pipe).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self(lines)
    }
}

impl Iterator for Lines {
    type Item = String;

    /// Returns the next line, or `None` at the end of the pipe and after the limit.
    fn next(&mut self) -> Option<String> {
        self.0.recv_timeout(TIMEOUT).ok()
    }
}

/// Sends a signal. Returns false on a system without `kill`.
pub(crate) fn signal(child: &mut Child, name: &str) -> bool {
    let sent = Command::new("kill").args([format!("-{name}"), child.id().to_string()]).status();
    let is_sent = sent.is_ok_and(|status| status.success());
    if !is_sent {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    is_sent
}

/// Waits until the program exits.
pub(crate) fn wait(child: &mut Child) -> ExitStatus {
    wait_for(child, TIMEOUT)
}

/// Waits until the program exits, with a limit of its own.
pub(crate) fn wait_for(child: &mut Child, limit: Duration) -> ExitStatus {
    ready_in(limit, || child.try_wait().unwrap()).unwrap_or_else(|| {
        child.kill().unwrap();
        panic!("the program does not exit");
    })
}

/// Returns the first value of a state that another process changes.
pub(crate) fn ready<T>(what: &str, value: impl FnMut() -> Option<T>) -> T {
    ready_in(TIMEOUT, value).unwrap_or_else(|| panic!("{what} in time"))
}

/// Asks for a value until there is one. A system call that waits for it does not exist for each state.
fn ready_in<T>(limit: Duration, mut value: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        match value() {
            None if start.elapsed() <= limit => std::thread::sleep(Duration::from_millis(10)),
            found => return found,
        }
    }
}

/// Returns the command of a server that is a shell script. `answer RESULT` returns the result of the request in `$line`.
#[cfg(unix)]
pub(crate) fn script(body: &str) -> [String; 3] {
    let answer = r#"answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')" "$1"; }"#;
    ["sh".to_owned(), "-c".to_owned(), format!("{answer}\n{body}")]
}
