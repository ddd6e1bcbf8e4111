//! Runs a test of this program in a process of its own, for a test that needs the global `tracing` subscriber.

#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    io::Read,
    process::{Command, Output, Stdio},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// The longest that the process may run.
const DEADLINE: Duration = Duration::from_secs(60);

/// Runs the test with this variable, and returns the output of the process.
pub(crate) fn run(test: &str, variable: &str, value: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(variable, value);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (stdout, stderr) = (read(child.stdout.take().unwrap()), read(child.stderr.take().unwrap()));
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > DEADLINE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the process of {test} did not end");
        }
        thread::sleep(Duration::from_millis(5));
    };
    Output { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

/// Reads on a thread of its own, so that the process does not wait for a reader.
fn read(mut source: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        source.read_to_end(&mut bytes).unwrap();
        bytes
    })
}
