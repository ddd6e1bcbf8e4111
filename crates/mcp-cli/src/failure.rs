//! How the program ends when something is wrong, and what it says.

use std::{error::Error, fmt, io, process::ExitCode};

use mcp_protocol::{ErrorCode, RpcError};

use crate::{output::printable, screen::note};

/// Why a command failed. Its exit code says who is at fault.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    /// Nothing is said when it is empty.
    message: String,
}

/// A tool ran and failed.
const TOOL: u8 = 1;
/// The command line is wrong.
const USAGE: u8 = 2;
/// The server cannot be reached, or does not answer in time.
const CONNECTION: u8 = 3;
/// The server answered with an error.
const SERVER: u8 = 4;
/// From here on a signal ended it, as shells say it.
const SIGNAL: u8 = 128;

impl Failure {
    pub(crate) fn tool() -> Self {
        Self { code: TOOL, message: String::new() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { code: USAGE, message: message.into() }
    }

    /// What was given on the command line is refused, and this is why.
    pub(crate) fn refused(error: &dyn Error) -> Self {
        Self::usage(chain(error))
    }

    pub(crate) fn other(message: impl Into<String>) -> Self {
        Self { code: TOOL, message: message.into() }
    }

    /// A signal ended it.
    pub(crate) fn stopped(code: u8) -> Self {
        Self { code, message: String::new() }
    }

    /// Whether a signal ended it.
    pub(crate) fn is_stopped(&self) -> bool {
        self.code > SIGNAL
    }

    /// Whoever read the output has left: there is nothing to say, and nobody to say it to.
    pub(crate) fn left() -> Self {
        Self { code: 0, message: String::new() }
    }

    /// Whether this is no failure of the command, but the end of whoever reads it.
    pub(crate) fn is_left(&self) -> bool {
        self.code == 0
    }

    /// Says what is wrong on stderr.
    pub(crate) fn tell(&self) {
        if !self.message.is_empty() {
            note(format!("mcp: {}", printable(&self.message)));
        }
    }

    pub(crate) fn report(&self) -> ExitCode {
        self.tell();
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<mcp_client::Error> for Failure {
    fn from(error: mcp_client::Error) -> Self {
        let mut message = chain(&error);
        if error.is_unauthorized() {
            message.push_str("; give credentials by --header 'Authorization: @FILE', whose file has `Bearer …`");
        }
        if let Some(hint) = error.rpc().and_then(missing) {
            message.push_str(hint);
        }
        let code = if error.is_tool_error() {
            TOOL
        } else if error.rpc().is_some()
            || error.is_invalid_response()
            || error.is_unsupported()
            || error.is_unanswered_input()
        {
            SERVER
        } else {
            CONNECTION
        };
        Self { code, message }
    }
}

/// An error with what caused it.
fn chain(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        source = cause.source();
        // Between what was tried and why it failed the layers of HTTP only say that they exist.
        if source.is_none() || !LAYERS.contains(&&*text) {
            message.push_str(": ");
            message.push_str(&text);
        }
    }
    message
}

/// What layers say of every error beneath them.
const LAYERS: &[&str] = &["error sending request", "client error (Connect)", "tcp connect error", "dns error"];

/// How the user could have offered what the server needs.
fn missing(error: &RpcError) -> Option<&'static str> {
    if error.code != ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY {
        return None;
    }
    let required = error.data.as_ref()?.get("requiredCapabilities")?.as_object()?;
    [
        ("elicitation", "; it asks the user, so run it where stdin and stderr are a terminal"),
        ("sampling", "; it asks a model: name a program that answers by --sample-with"),
        ("roots", "; it asks for directories: offer some by --root"),
    ]
    .into_iter()
    .find_map(|(name, hint)| required.contains_key(name).then_some(hint))
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::left() } else { Self::other(error.to_string()) }
    }
}
