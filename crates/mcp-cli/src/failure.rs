//! Failed commands: the message on stderr and the exit code.

use std::{error::Error, fmt, io, process::ExitCode};

use mcp_client::oauth::ErrorKind;
use mcp_protocol::{Challenge, ErrorChain, ErrorCode, Excerpt, ProtocolVersion, RpcError};
use serde_json::{Map, Value};

use crate::{
    logs,
    screen::note,
    style::{self, Style},
    text::printable,
};

/// The reason why a command failed. The exit code names the component at fault.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    /// Empty if there is nothing to print.
    message: String,
    /// The kind of a question to the user that this client has not declared.
    question: Option<Question>,
    /// Whether the server rejected the request as wrong. The log of the server then explains nothing more.
    is_rejected: bool,
}

/// A kind of questions of the server to the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    Form,
    Page,
}

impl Question {
    /// Returns the kind of questions among the capabilities that a request requires.
    fn among(required: &Map<String, Value>) -> Option<Self> {
        let is_page = required.get("elicitation")?.get("url").is_some();
        Some(if is_page { Self::Page } else { Self::Form })
    }

    fn exists_in(self, version: ProtocolVersion) -> bool {
        match self {
            Self::Form => version.has_elicitation(),
            Self::Page => version.has_elicitation_modes(),
        }
    }

    /// Returns how the user can answer.
    fn hint(self) -> &'static str {
        match self {
            Self::Form => {
                "; the server asks the user: run `mcp` with stdin and stderr at a terminal, or give --answer, --yes or --decline"
            }
            Self::Page => {
                "; the server wants the user to open a page: run `mcp` with stdin and stderr at a terminal, or decline with --decline"
            }
        }
    }
}

/// How the user can log in or pass credentials.
const CREDENTIALS: &str = "; log in with `mcp login URL`, or pass credentials with --header 'Authorization: @FILE', where FILE contains `Bearer …`. \
                           If the server requires another header, write its name: --header 'x-api-key: @FILE'";
/// How the user can pass a name and a password.
const BASIC: &str = "; pass the name and the password with --header 'Authorization: @FILE', where FILE contains `Basic ` and the Base64 form \
                     of NAME:PASSWORD";
/// How the user can pass credentials to a server without logins, if its challenge does not name a header.
const OTHER_CREDENTIALS: &str = "; pass the credentials in the header that the server requires, for example with --header 'x-api-key: @FILE' or \
                                 --header 'Authorization: @FILE'";

/// A tool ran and failed, a check found faults, or a local operation failed.
const FAILED: u8 = 1;
/// The command line is wrong.
const USAGE: u8 = 2;
/// The server cannot be reached, or does not answer in time.
const CONNECTION: u8 = 3;
/// The server answered with an error or with invalid data.
const SERVER: u8 = 4;
/// Shells add the number of a signal to this value.
const SIGNAL: u8 = 128;

impl Failure {
    fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), question: None, is_rejected: false }
    }

    /// A tool failed, or a check found faults. The output already contains the details.
    pub(crate) fn reported() -> Self {
        Self::new(FAILED, "")
    }

    /// The command line is wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }

    /// A library rejected a value of the command line.
    pub(crate) fn rejected(error: &(dyn Error + 'static)) -> Self {
        Self::usage(without_http_layers(error))
    }

    /// An operation of this program failed.
    pub(crate) fn local(message: impl Into<String>) -> Self {
        Self::new(FAILED, message)
    }

    /// No server of a configuration file is ready.
    pub(crate) fn no_server_ready(message: impl Into<String>) -> Self {
        Self::new(CONNECTION, message)
    }

    /// A configuration file is wrong. The output already contains the details.
    pub(crate) fn reported_refusal() -> Self {
        Self::new(USAGE, "")
    }

    /// The server sent data that the command cannot use.
    pub(crate) fn unusable(message: impl Into<String>) -> Self {
        Self::new(SERVER, message)
    }

    /// Returns the text of an error of the client, without hints about options of the command line.
    pub(crate) fn text_of(error: &mcp_client::Error) -> String {
        without_http_layers(error)
    }

    /// A signal ended the command.
    pub(crate) fn interrupted(code: u8) -> Self {
        Self::new(code, "")
    }

    /// Returns whether a signal ended the command.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.code > SIGNAL
    }

    /// The reader of stdout closed it. The program exits successfully and prints nothing.
    pub(crate) fn stdout_closed() -> Self {
        Self::new(0, "")
    }

    /// Returns whether the reader of stdout closed it.
    pub(crate) fn is_stdout_closed(&self) -> bool {
        self.code == 0
    }

    /// Adds how the user can answer the questions of the server in this revision.
    pub(crate) fn in_revision(mut self, version: ProtocolVersion) -> Self {
        match self.question.take() {
            Some(question) if question.exists_in(version) => self.message.push_str(question.hint()),
            Some(_) => self.message.push_str(&format!(
                "; the server asks the user, and the revision {version} has no such question: choose a later one with --revision"
            )),
            None => {}
        }
        self
    }

    /// Replaces the placeholder in the advice to log in by the server.
    pub(crate) fn at(mut self, server: &str) -> Self {
        self.message = self.message.replace("`mcp login URL`", &format!("`mcp login {server}`"));
        self
    }

    /// Adds the place of a fault before the message.
    pub(crate) fn within(mut self, place: &str) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// Adds a line to the message.
    pub(crate) fn with_line(mut self, line: &str) -> Self {
        self.message.push_str("\n     ");
        self.message.push_str(line);
        self
    }

    /// Adds a text at the end of the message.
    pub(crate) fn with_hint(mut self, hint: &str) -> Self {
        self.message.push_str(hint);
        self
    }

    /// The command line contains a name that the server does not list. Adds a text at the end of the message.
    pub(crate) fn wrong_name(mut self, hint: &str) -> Self {
        self.code = USAGE;
        self.with_hint(hint)
    }

    /// Prints the message on stderr.
    pub(crate) fn print(&self) {
        if !self.message.is_empty() {
            note(format!("{} {}", style::err(Style::Error, "mcp:"), printable(&self.message)));
        }
    }

    /// Returns whether the stderr of the server's command can explain the failure.
    pub(crate) fn may_have_stderr(&self) -> bool {
        matches!(self.code, FAILED | CONNECTION | SERVER)
    }

    /// Prints the last stderr lines of the server's command, if they can explain the failure and the message does not
    /// contain them. For a failed tool and a rejected request, which have their own text, only names the option that
    /// prints them.
    pub(crate) fn offer_server_stderr(&self) {
        if !self.may_have_stderr() {
            return;
        }
        let lines = logs::take_server_stderr();
        let is_in_message = |line: &String| self.message.contains(&Excerpt::new(line).to_string());
        if lines.is_empty() || lines.last().is_some_and(is_in_message) {
            return;
        }
        if self.code == FAILED || self.is_rejected {
            let lines = match lines.len() {
                1 => "1 line".to_owned(),
                count => format!("{count} lines"),
            };
            note(format!("mcp: the command wrote {lines} to stderr; --stderr prints them"));
            return;
        }
        note("mcp: the stderr of the command ends with:");
        lines.iter().for_each(|line| logs::note_server_stderr(line));
    }

    /// Prints the message on stderr, and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        self.print();
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
        let mut message = without_http_layers(&error);
        let login = login_error(&error);
        match login {
            Some(login) => message.push_str(&hint(login)),
            None if error.is_unauthorized() => message.push_str(&credentials(&error)),
            None => {}
        }
        let required = error.rpc().and_then(required_capabilities);
        if let Some(hint) = required.and_then(missing_capability) {
            message.push_str(hint);
        }
        let code = if error.is_tool_error() {
            FAILED
        } else if let Some(login) = login {
            login_code(login)
        } else if error.rpc().is_some()
            || error.is_invalid_response()
            || error.is_unsupported()
            || error.is_unanswered_input()
            || error.is_not_a_server()
            || error.is_unauthorized() && !error.is_retryable()
            || error.http_status().is_some() && !error.is_retryable()
        {
            SERVER
        } else {
            CONNECTION
        };
        let rejections = [ErrorCode::INVALID_PARAMS, ErrorCode::RESOURCE_NOT_FOUND];
        let is_rejected = error.rpc().is_some_and(|error| rejections.contains(&error.code));
        Self { code, message, question: required.and_then(Question::among), is_rejected }
    }
}

/// Returns how the user can pass the credentials that the server requires.
fn credentials(error: &mcp_client::Error) -> String {
    let has_scheme = |scheme: &str| error.challenges().iter().any(|challenge| challenge.is_scheme(scheme));
    match key_headers(error).first() {
        _ if accepts_login(error) => CREDENTIALS.to_owned(),
        Some(header) => format!("; pass the key with --header '{header}: @FILE', where FILE contains the key"),
        None if has_scheme("Basic") => BASIC.to_owned(),
        None => OTHER_CREDENTIALS.to_owned(),
    }
}

/// Returns whether the server can accept the tokens of a login. A server without a challenge may accept them.
pub(crate) fn accepts_login(error: &mcp_client::Error) -> bool {
    let takes_tokens = |challenge: &Challenge| challenge.is_scheme("Bearer") || challenge.is_scheme("DPoP");
    error.challenges().is_empty() || error.challenges().iter().any(takes_tokens)
}

/// The scheme of challenges that name the header of a key.
const API_KEY: &str = "ApiKey";

/// Returns the headers in which the server requires a key.
pub(crate) fn key_headers(error: &mcp_client::Error) -> Vec<&str> {
    let challenges = error.challenges().iter().filter(|challenge| challenge.is_scheme(API_KEY));
    let headers = challenges.flat_map(|challenge| &challenge.params).filter(|(name, _)| name == "header");
    let is_name = |text: &&str| http::HeaderName::from_bytes(text.as_bytes()).is_ok();
    headers.map(|(_, header)| header.as_str()).filter(is_name).collect()
}

/// Returns the error of the stored tokens or of a login, if it is among the causes. Its text names the fault and its remedy.
pub(crate) fn login_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e mcp_client::oauth::Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref() {
            return Some(error);
        }
        cause = error.source();
    }
    None
}

/// Returns how the user can pass credentials to a server without logins.
fn hint(error: &mcp_client::oauth::Error) -> String {
    match (error.kind(), error.credentials_header()) {
        (ErrorKind::NoLogin, Some(name)) => format!("; pass the credentials with --header '{name}: @FILE'"),
        (ErrorKind::NoLogin, None) => OTHER_CREDENTIALS.to_owned(),
        _ => String::new(),
    }
}

fn login_code(error: &mcp_client::oauth::Error) -> u8 {
    match error.kind() {
        ErrorKind::Store => FAILED,
        ErrorKind::Configuration => USAGE,
        ErrorKind::Unavailable => CONNECTION,
        _ => SERVER,
    }
}

/// Returns the text of an error and its causes, without the texts of the HTTP layers.
fn without_http_layers(error: &(dyn Error + 'static)) -> String {
    ErrorChain::new(error).without(HTTP_LAYERS).to_string()
}

/// The texts with which the HTTP layers wrap every error. They add nothing between the operation and its cause.
const HTTP_LAYERS: &[&str] = &["error sending request", "client error (Connect)", "tcp connect error", "dns error"];

/// Returns the capabilities that the client has not declared, if they are the reason of the error.
fn required_capabilities(error: &RpcError) -> Option<&Map<String, Value>> {
    if error.code != ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY {
        return None;
    }
    error.data.as_ref()?.get("requiredCapabilities")?.as_object()
}

/// Returns how the user can offer a capability that does not depend on the revision.
fn missing_capability(required: &Map<String, Value>) -> Option<&'static str> {
    [
        ("sampling", "; the server sends sampling requests: name a program that answers them with --sample-with"),
        ("roots", "; the server requests directories: offer them with --root"),
    ]
    .into_iter()
    .find_map(|(name, hint)| required.contains_key(name).then_some(hint))
}

impl From<mcp_client::oauth::Error> for Failure {
    fn from(error: mcp_client::oauth::Error) -> Self {
        let message = format!("{}{}", without_http_layers(&error), hint(&error));
        Self::new(login_code(&error), message)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::stdout_closed() } else { Self::local(error.to_string()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Layer>>);

    impl fmt::Display for Layer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Layer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|source| source as _)
        }
    }

    #[test]
    fn a_text_contains_each_cause_once() {
        for (layers, expected) in [
            (&["refused: invalid_target: unknown", "invalid_target: unknown"][..], "refused: invalid_target: unknown"),
            (
                &["cannot read: the request failed", "the request failed", "tcp connect error", "refused"],
                "cannot read: the request failed: refused",
            ),
            (&["a", "a", "b"], "a: b"),
            (&["a", "b", "tcp connect error"], "a: b: tcp connect error"),
        ] {
            let wrap = |source, text: &&'static str| Some(Box::new(Layer(text, source)));
            let error = layers.iter().rev().fold(None, wrap).unwrap();
            assert_eq!(without_http_layers(&*error), expected);
        }
    }
}
