//! The Secret Service of freedesktop.org, through the program `secret-tool`.
//!
//! Libraries for the Secret Service need libdbus, or an implementation of D-Bus with dozens of crates. The program is a part
//! of the desktop.

use std::{
    io::{Read as _, Write as _},
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use mcp_protocol::auth::Secret;

use super::keyring::LIMIT;
use crate::error::{Error, ErrorKind};

const PAUSE: Duration = Duration::from_millis(10);
/// The largest output that is read, in bytes.
const MAX_OUTPUT: u64 = 4096;

/// Returns the secret of an account.
///
/// If the user dismisses the prompt that unlocks the keyring, the program ends as if there were no entry: with the code 1 and
/// without a text. The search returns locked entries too, and does not unlock them.
pub(super) fn lookup(program: &Path, service: &str, account: &str) -> Result<Option<Secret>, Error> {
    // Another process may write the entry between the lookup and the search.
    for _ in 0..2 {
        let output = run(program, &["lookup", "service", service, "account", account], None)?;
        if output.status.success() {
            return Ok(Some(output.secret));
        }
        if !output.ended_silently(1) {
            return Err(output.error());
        }
        let output = run(program, &["search", "service", service, "account", account], None)?;
        if output.ended_silently(0) {
            return Ok(None);
        }
        if !output.status.success() || output.secret.expose().is_empty() {
            return Err(output.error());
        }
        // The search returns the secret of an entry that is not locked.
        if !output.secret.expose().lines().any(|line| line.starts_with("secret = ")) {
            break;
        }
    }
    Err(Error::new(ErrorKind::Unavailable, "the keyring is locked, and was not unlocked"))
}

/// Writes the secret of an account.
pub(super) fn store(program: &Path, service: &str, account: &str, secret: &Secret) -> Result<(), Error> {
    let label = format!("--label={account}: key of the stored logins");
    let output = run(program, &["store", &label, "service", service, "account", account], Some(secret))?;
    if output.status.success() { Ok(()) } else { Err(output.error()) }
}

struct Output {
    status: ExitStatus,
    secret: Secret,
    errors: String,
}

impl Output {
    /// Whether the program ended with this code, and without a text.
    fn ended_silently(&self, code: i32) -> bool {
        self.status.code() == Some(code) && self.errors.is_empty() && self.secret.expose().is_empty()
    }

    fn error(&self) -> Error {
        if let Some(signal) = self.status.signal() {
            return Error::new(ErrorKind::Unavailable, format!("`secret-tool` was ended by the signal {signal}"));
        }
        let cause = self.errors.lines().next().map_or_else(|| self.status.to_string(), str::to_owned);
        Error::new(ErrorKind::Store, format!("`secret-tool` failed: {cause}"))
    }
}

fn run(program: &Path, arguments: &[&str], input: Option<&Secret>) -> Result<Output, Error> {
    let failed = |action: &str, error: std::io::Error| {
        let text = format!("`secret-tool` {action}: {error}");
        Error::with_source(ErrorKind::Store, text, error)
    };
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = Ended(command.spawn().map_err(|error| failed("cannot be started", error))?);
    if let (Some(mut stdin), Some(input)) = (child.0.stdin.take(), input) {
        match stdin.write_all(input.expose().as_bytes()) {
            // The program ended without reading. Its errors name the cause.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            written => written.map_err(|error| failed("cannot be written to", error))?,
        }
    }
    // The outputs are short, so the pipes hold them until the end of the program.
    let start = Instant::now();
    let status = loop {
        match child.0.try_wait().map_err(|error| failed("cannot be waited for", error))? {
            Some(status) => break status,
            None if start.elapsed() > LIMIT => {
                return Err(Error::new(ErrorKind::Unavailable, "`secret-tool` did not end in 2 minutes"));
            }
            None => std::thread::sleep(PAUSE),
        }
    };
    let mut outputs = [Vec::new(), Vec::new()];
    let [secret, errors] = &mut outputs;
    let (stdout, stderr) = (child.0.stdout.take(), child.0.stderr.take());
    let read = stdout.map_or(Ok(0), |pipe| pipe.take(MAX_OUTPUT).read_to_end(secret));
    read.and_then(|_| stderr.map_or(Ok(0), |pipe| pipe.take(MAX_OUTPUT).read_to_end(errors)))
        .map_err(|error| failed("cannot be read", error))?;
    let [secret, errors] = outputs;
    let secret = String::from_utf8(secret)
        .map_err(|_| Error::new(ErrorKind::Store, "the entry of the keyring is not a text"))?;
    Ok(Output { status, secret: Secret::new(secret), errors: String::from_utf8_lossy(&errors).trim().to_owned() })
}

/// A program that is ended with its drop.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
