//! The errors of calls and connections.

mod http_status;

use std::{fmt, sync::Arc, time::Duration};

use mcp_protocol::{ErrorCode, ProtocolVersion, RpcError, UrlElicitParams};
use mcp_schema::ValidationErrors;
use mcp_transport::TransportError;

pub(crate) use self::http_status::HttpStatus;
use crate::slow_start::SlowStart;

/// Why a call, or the connection below it, failed. Opaque: ask the predicates; the text is for people and may change.
///
/// [`Display`](fmt::Display) tells one level; [`source`](std::error::Error::source) is the next one.
#[derive(Clone)]
pub struct Error {
    kind: Arc<Kind>,
}

pub(crate) enum Kind {
    /// No revision was negotiated within this time.
    NotOpened(SlowStart),
    /// The peer of the connection is not an MCP server.
    NotAServer { peer: Box<str>, act: Box<str>, cause: Error },
    /// The server was silent for this long.
    Timeout { what: Box<str>, after: Duration },
    /// This client was closed.
    Closed,
    /// The connection ended while the call ran; the server may or may not have done what was asked.
    Lost(Option<TransportError>),
    /// No connection could be opened.
    Unreachable { peer: Box<str>, source: TransportError },
    /// The transport could not bring the answer of one request.
    Transport(TransportError),
    /// The caller's token fired.
    Cancelled,
    /// The server answered with an error.
    Rpc(RpcError),
    /// The answer of the server is invalid.
    Invalid(Box<str>),
    /// The answer of the server is nested deeper than this limit.
    TooDeep(usize),
    /// No revision is common.
    Version { ours: Vec<ProtocolVersion>, theirs: Vec<String> },
    /// The server, or its revision, does not have what was asked for.
    Unsupported(Box<str>),
    /// The tool ran and failed.
    Tool(Box<str>),
    /// A question of the server could not be answered.
    Input(RpcError),
    /// The server asked again and again.
    Rounds(usize),
    /// A list has more pages than are read.
    Pages(usize),
    /// A list has more bytes than are gathered.
    ListBytes(usize),
    /// The request cannot be made as it was given.
    Request(Box<str>),
    /// The address is none that can be connected to.
    #[cfg(feature = "http")]
    Address(mcp_client_http::ConfigError),
    /// The transport cannot carry the request as it was given.
    Unsendable(TransportError),
    /// The arguments do not fit the schema of the tool.
    Arguments(ValidationErrors),
    /// The structured content does not fit the schema of the tool.
    Output(ValidationErrors),
    /// A skill is not what the server said of it.
    #[cfg(feature = "skills")]
    Unverified(Box<str>),
}

impl Error {
    /// Returns true if the connection was opened, but its peer is not an MCP server: it returned the client's own messages, or it
    /// only sent text that is not JSON-RPC.
    #[must_use]
    pub fn is_not_a_server(&self) -> bool {
        matches!(*self.kind, Kind::NotAServer { .. })
    }

    /// Whether the server was silent for longer than the call was meant to take.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        match &*self.kind {
            Kind::Timeout { .. } | Kind::NotOpened(_) => true,
            Kind::NotAServer { cause, .. } => cause.is_timeout(),
            _ => false,
        }
    }

    /// Whether there is no connection any more: this client was closed, or the connection ended under the call.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(*self.kind, Kind::Closed | Kind::Lost(_)) || self.transport().is_some_and(TransportError::is_closed)
    }

    /// Whether no connection could be opened. The server has seen nothing of the call.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        matches!(*self.kind, Kind::Unreachable { .. }) || self.transport().is_some_and(TransportError::is_unreachable)
    }

    /// Whether the answer is longer than the transport takes, and was not read; or the pages of a list are more than are read
    /// ([`Limits`](crate::Limits)).
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        matches!(*self.kind, Kind::Pages(_) | Kind::ListBytes(_))
            || self.transport().is_some_and(TransportError::is_too_large)
    }

    /// Whether the call was cancelled by its own token.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(*self.kind, Kind::Cancelled)
    }

    /// Whether the server wants other credentials than it was given (HTTP status 401).
    #[must_use]
    pub fn is_unauthorized(&self) -> bool {
        self.http_status().map(HttpStatus::of) == Some(HttpStatus::Unauthorized)
    }

    /// Whether the same call may well succeed later: the server could not be reached, lost the connection or the session, or
    /// said itself that it fails for the moment (HTTP 408, 425, 429, 502, 503, 504). Not so when the next attempt would meet the
    /// same: a program that does not exist, a certificate that nobody vouches for, a redirect elsewhere, an answer that is too
    /// large.
    ///
    /// A call that ran may have had its effect all the same.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match &*self.kind {
            Kind::Lost(_) => true,
            Kind::Unreachable { source, .. } | Kind::Transport(source) => match source.http_status() {
                Some(status) => HttpStatus::of(status).is_temporary(),
                None => !source.is_lasting(),
            },
            Kind::Rpc(error) => is_busy(error),
            _ => false,
        }
    }

    /// Whether what the server sent makes no sense: no valid message, no result of this method, a kind of result that nobody
    /// knows, structured content that does not fit the schema of its tool.
    #[must_use]
    pub fn is_invalid_response(&self) -> bool {
        matches!(*self.kind, Kind::Invalid(_) | Kind::TooDeep(_) | Kind::Output(_))
    }

    /// Whether client and server have no revision in common.
    #[must_use]
    pub fn is_version_mismatch(&self) -> bool {
        matches!(*self.kind, Kind::Version { .. })
    }

    /// Whether the server does not have what was asked for: it did not declare the capability, its revision has no such method,
    /// or it answered that it knows none.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        matches!(*self.kind, Kind::Unsupported(_))
            || self.rpc().is_some_and(|error| error.code == ErrorCode::METHOD_NOT_FOUND)
    }

    /// Whether a tool ran and failed. The text says why, in words for the model.
    #[must_use]
    pub fn is_tool_error(&self) -> bool {
        matches!(*self.kind, Kind::Tool(_))
    }

    /// Whether the request cannot be made or sent as it was given: an address that does not parse, parameters that are no JSON
    /// object, a name that no header can carry. The server has seen nothing of it, and the connection goes on.
    #[must_use]
    pub fn is_invalid_request(&self) -> bool {
        match *self.kind {
            Kind::Request(_) | Kind::Unsendable(_) => true,
            #[cfg(feature = "http")]
            Kind::Address(_) => true,
            _ => false,
        }
    }

    /// Whether the arguments were found not to fit the schema of the tool, before anything was sent. The source says why.
    #[must_use]
    pub fn is_invalid_arguments(&self) -> bool {
        matches!(*self.kind, Kind::Arguments(_))
    }

    /// Whether the server asked for something that nobody here could answer, or asked too often.
    #[must_use]
    pub fn is_unanswered_input(&self) -> bool {
        matches!(*self.kind, Kind::Input(_) | Kind::Rounds(_))
    }

    /// Whether the user has to visit pages before the server does what was asked for (`-32042`, 2025-11-25), and did not agree
    /// to: nobody here shows pages ([`ClientBuilder::on_elicit_url`](crate::ClientBuilder::on_elicit_url)), the user said no, or
    /// the server goes on asking. [`Error::url_elicitations`] are the pages.
    #[must_use]
    pub fn is_url_elicitation_required(&self) -> bool {
        self.rpc().is_some_and(|error| error.code == ErrorCode::URL_ELICITATION_REQUIRED)
    }

    /// The pages that the user has to visit first; empty for other errors.
    #[must_use]
    pub fn url_elicitations(&self) -> Vec<UrlElicitParams> {
        self.rpc().map(RpcError::url_elicitations).unwrap_or_default()
    }

    /// Whether the server has no such resource, in the words of its revision: `-32002`, or `-32602` that names a URI.
    #[must_use]
    pub fn is_resource_not_found(&self) -> bool {
        self.rpc().is_some_and(|error| match error.code {
            ErrorCode::RESOURCE_NOT_FOUND => true,
            ErrorCode::INVALID_PARAMS => error.data.as_ref().is_some_and(|data| data["uri"].is_string()),
            _ => false,
        })
    }

    /// Whether a skill, or one of its files, is not what the server had said of it. Nothing of it may be used.
    #[cfg(feature = "skills")]
    #[must_use]
    pub fn is_unverified(&self) -> bool {
        matches!(*self.kind, Kind::Unverified(_))
    }

    /// The error that the server answered with.
    #[must_use]
    pub fn rpc(&self) -> Option<&RpcError> {
        match &*self.kind {
            Kind::Rpc(error) => Some(error),
            _ => None,
        }
    }

    /// The status of an HTTP answer that carried no message.
    #[must_use]
    pub fn http_status(&self) -> Option<u16> {
        self.transport().and_then(TransportError::http_status)
    }

    /// How long the server asked to wait before the next attempt (`Retry-After`).
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.transport().and_then(TransportError::retry_after)
    }

    pub(crate) fn transport(&self) -> Option<&TransportError> {
        match &*self.kind {
            Kind::Unreachable { source, .. } | Kind::Transport(source) | Kind::Lost(Some(source)) => Some(source),
            _ => None,
        }
    }

    pub(crate) fn timeout(what: impl Into<Box<str>>, after: Duration) -> Self {
        Kind::Timeout { what: what.into(), after }.into()
    }

    pub(crate) fn closed() -> Self {
        Kind::Closed.into()
    }

    pub(crate) fn invalid(text: impl Into<Box<str>>) -> Self {
        Kind::Invalid(text.into()).into()
    }

    pub(crate) fn unsupported(text: impl Into<Box<str>>) -> Self {
        Kind::Unsupported(text.into()).into()
    }

    pub(crate) fn request(text: impl Into<Box<str>>) -> Self {
        Kind::Request(text.into()).into()
    }
}

/// Returns true if an error means that the server runs too many calls at the moment: `-32603` with `"reason": "busy"` in its data.
pub(crate) fn is_busy(error: &RpcError) -> bool {
    error.code == ErrorCode::INTERNAL_ERROR && error.data.as_ref().is_some_and(|data| data["reason"] == "busy")
}

impl From<Kind> for Error {
    fn from(kind: Kind) -> Self {
        Self { kind: Arc::new(kind) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.kind {
            Kind::Timeout { what, after } => write!(f, "{what} took longer than {after:?}"),
            Kind::NotOpened(start) => {
                write!(f, "opening the connection took longer than {:?}", start.waited())?;
                start.write_stderr(f)
            }
            Kind::NotAServer { peer, act, .. } => write!(f, "{peer} is not an MCP server: it {act}"),
            Kind::Closed => f.write_str("the client is closed"),
            Kind::Lost(_) => f.write_str("the connection ended before the answer came"),
            Kind::Unreachable { peer, .. } => write!(f, "{peer} cannot be reached"),
            // The status says more than that there is no answer.
            Kind::Transport(source) if source.http_status().is_some() => source.fmt(f),
            Kind::Transport(source) if source.is_unreachable() => f.write_str("the server cannot be reached"),
            Kind::Transport(_) => f.write_str("the answer to the request did not come"),
            Kind::Cancelled => f.write_str("the call was cancelled"),
            Kind::Rpc(error) => write!(f, "the server answered: {error}"),
            Kind::TooDeep(limit) => write!(f, "the answer of the server is nested deeper than {limit} levels"),
            Kind::Invalid(text) => write!(f, "the server sent what makes no sense: {text}"),
            Kind::Version { ours, theirs } => {
                let ours: Vec<&str> = ours.iter().map(|version| version.as_str()).collect();
                let theirs = if theirs.is_empty() { "none that it names".to_owned() } else { theirs.join(", ") };
                write!(f, "no common revision: this client speaks {}, the server {theirs}", ours.join(", "))
            }
            Kind::Unsupported(text) | Kind::Request(text) => f.write_str(text),
            Kind::Unsendable(_) => f.write_str("the request cannot be sent"),
            #[cfg(feature = "http")]
            Kind::Address(error) => error.fmt(f),
            Kind::Tool(text) => write!(f, "the tool failed: {text}"),
            Kind::Input(error) => write!(f, "a question of the server could not be answered: {error}"),
            Kind::Rounds(cap) => write!(f, "the server asked more than {cap} times"),
            Kind::Arguments(_) => f.write_str("the arguments do not fit the schema of the tool"),
            Kind::Output(_) => f.write_str("the structured content does not fit the schema of the tool"),
            #[cfg(feature = "skills")]
            Kind::Unverified(text) => write!(f, "the skill is not what the server said of it: {text}"),
            Kind::Pages(cap) => write!(f, "the list has more than {cap} pages"),
            Kind::ListBytes(cap) => write!(f, "the list has more than {cap} bytes"),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({self}")?;
        if let Some(source) = std::error::Error::source(self) {
            write!(f, ": {source}")?;
        }
        f.write_str(")")
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.kind {
            Kind::Transport(source) if source.http_status().is_some() => source.source(),
            Kind::Unreachable { source, .. }
            | Kind::Transport(source)
            | Kind::Unsendable(source)
            | Kind::Lost(Some(source)) => Some(source),
            Kind::NotAServer { cause, .. } => Some(cause),
            Kind::Arguments(errors) | Kind::Output(errors) => Some(errors),
            #[cfg(feature = "http")]
            Kind::Address(error) => error.source(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn each_fault_has_its_predicate() {
        let http = |status| Error::from(Kind::Transport(TransportError::http(status, None, "")));
        for (error, expected) in [
            (Error::timeout("the call", Duration::from_secs(1)), "timeout"),
            (Error::closed(), "closed"),
            (Kind::Lost(None).into(), "closed retryable"),
            (Kind::Cancelled.into(), "cancelled"),
            (http(401), "unauthorized"),
            (http(503), "retryable"),
            (http(500), ""),
            (Kind::Transport(TransportError::unanswered()).into(), "retryable"),
            (Kind::Transport(TransportError::too_large(1)).into(), "large"),
            (Kind::Transport(TransportError::unreachable("x")).into(), "unreachable retryable"),
            (Kind::Transport(TransportError::unreachable("x").lasting()).into(), "unreachable"),
            (Error::invalid("x"), "invalid"),
            (Kind::Version { ours: vec![], theirs: vec![] }.into(), "version"),
            (Error::unsupported("x"), "unsupported"),
            (Kind::Rpc(RpcError::method_not_found("x")).into(), "unsupported"),
            (Kind::Rpc(RpcError::internal("x")).into(), ""),
            (Kind::Tool("x".into()).into(), "tool"),
            (Kind::Pages(1).into(), "large"),
            (Kind::ListBytes(1).into(), "large"),
            (Error::request("x"), "request"),
            (Kind::Unsendable(TransportError::other("x").lasting()).into(), "request"),
        ] {
            let found: Vec<&str> = [
                (error.is_timeout(), "timeout"),
                (error.is_closed(), "closed"),
                (error.is_unreachable(), "unreachable"),
                (error.is_too_large(), "large"),
                (error.is_cancelled(), "cancelled"),
                (error.is_unauthorized(), "unauthorized"),
                (error.is_retryable(), "retryable"),
                (error.is_invalid_response(), "invalid"),
                (error.is_version_mismatch(), "version"),
                (error.is_unsupported(), "unsupported"),
                (error.is_tool_error(), "tool"),
                (error.is_invalid_request(), "request"),
            ]
            .into_iter()
            .filter_map(|(holds, name)| holds.then_some(name))
            .collect();
            assert_eq!(found.join(" "), expected, "{error}");
        }
    }

    #[test]
    fn display_is_one_level() {
        let source = TransportError::http(502, Some(Duration::from_secs(2)), "bad gateway");
        let error = Error::from(Kind::Unreachable { peer: "files".into(), source });
        assert_eq!(error.to_string(), "files cannot be reached");
        assert!(error.source().unwrap().to_string().contains("bad gateway"));
        assert_eq!((error.http_status(), error.retry_after()), (Some(502), Some(Duration::from_secs(2))));
        // There is nothing to say before a status.
        let error = Error::from(Kind::Transport(TransportError::http(503, None, "busy")));
        assert_eq!(error.to_string(), "the peer answered with HTTP status 503: busy");
        assert!(error.source().is_none());
    }
}
