//! The errors of calls and connections.

mod authorization;
mod sent;

use std::{fmt, sync::Arc, time::Duration};

use mcp_protocol::{ErrorCode, ProtocolVersion, Rounded, RpcError, UrlElicitParams};
use mcp_schema::ValidationErrors;
use mcp_transport::{LONGEST_RETRY_AFTER, TransportError};

use crate::slow_start::SlowStart;
pub(crate) use mcp_transport::http_status::HttpStatus;

/// An error of a call or a connection. The predicates classify it; the text is for people and may change.
///
/// [`Display`](fmt::Display) writes one level, [`source`](std::error::Error::source) returns the next one.
///
/// # Example
/// ```
/// # use mcp_client::Client;
/// # use mcp_server::Server;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_client::Error> {
/// let client = Client::connect(&Server::builder("s", "1").build()).await?;
/// match client.call_tool("greet", ()).await {
///     Ok(result) => println!("{}", result.text()),
///     Err(error) if error.is_cancelled() || error.is_timeout() => println!("stopped: {error}"),
///     Err(error) if error.is_unauthorized() => println!("log in first: {:?}", error.http_status()),
///     Err(error) if error.is_forbidden() => println!("missing scopes: {:?}", error.required_scopes()),
///     Err(error) if error.is_url_elicitation_required() => println!("{:?}", error.url_elicitations()),
///     Err(error) if error.is_invalid_arguments() || error.is_too_large() => println!("change the request: {error}"),
///     Err(error) if error.is_unsupported() || error.is_version_mismatch() => println!("use another server: {error}"),
///     Err(error) if error.is_not_a_server() || error.is_unreachable() => println!("check the address: {error}"),
///     Err(error) if error.is_retryable() => println!("try again in {:?}: {error}", error.retry_after()),
///     Err(error) if error.is_resource_not_found() || error.is_tool_error() => println!("{:?}", error.rpc()),
///     Err(error) if error.is_unanswered_input() => println!("no handler answered: {error}"),
///     Err(error) if error.is_closed() => println!("the client was closed"),
///     Err(error) => println!("{error}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Error {
    kind: Arc<Kind>,
    /// The client sent the call before the error.
    is_after_sending: bool,
}

pub(crate) enum Kind {
    /// No revision was negotiated within this time.
    NotOpened(SlowStart),
    /// The peer of the connection is not an MCP server.
    NotAServer { peer: Box<str>, act: Box<str>, is_echo: bool, cause: Error },
    /// The server was silent for this long.
    Timeout { what: Box<str>, after: Duration },
    /// The client was closed.
    Closed,
    /// The connection ended during the call.
    Lost(Option<TransportError>),
    /// No connection could be opened.
    Unreachable { peer: Box<str>, source: TransportError },
    /// The transport failed the request.
    Transport(TransportError),
    /// The cancellation token of the call fired.
    Cancelled,
    /// The server answered with an error.
    Rpc(RpcError),
    /// The answer of the server is invalid.
    Invalid(Box<str>),
    /// The answer of the server is nested deeper than this limit.
    TooDeep(usize),
    /// Client and server have no common revision.
    Version { ours: Vec<ProtocolVersion>, theirs: Vec<String> },
    /// The server or its revision does not support the request.
    Unsupported(Box<str>),
    /// The tool failed.
    Tool(Box<str>),
    /// A handler could not answer a request of the server.
    Input(RpcError),
    /// The server requested input more often than this.
    Rounds(usize),
    /// The list has more pages than this.
    Pages(usize),
    /// The list has more bytes than this.
    ListBytes(usize),
    /// The request is invalid.
    Request(Box<str>),
    /// The address is invalid.
    #[cfg(feature = "http")]
    Address(mcp_client_http::ConfigError),
    /// The transport cannot carry the request.
    Unsendable(TransportError),
    /// The arguments do not fit the schema of the tool.
    Arguments(ValidationErrors),
    /// The structured content does not fit the schema of the tool.
    Output(ValidationErrors),
    /// A skill does not match its entry in the list.
    #[cfg(feature = "skills")]
    Unverified(Box<str>),
}

impl Error {
    /// Returns true if the connection was opened, but its peer is not an MCP server: it returned the client's own messages, or it
    /// only sent text that is not JSON-RPC.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_not_a_server(&self) -> bool {
        matches!(*self.kind, Kind::NotAServer { .. })
    }

    /// Returns true if the server did not answer within the time of the call.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        match &*self.kind {
            Kind::Timeout { .. } | Kind::NotOpened(_) => true,
            Kind::NotAServer { cause, .. } => cause.is_timeout(),
            _ => false,
        }
    }

    /// Returns true if the client was closed, or the connection ended during the call.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_closed(&self) -> bool {
        match &*self.kind {
            Kind::Closed | Kind::Lost(_) => true,
            Kind::NotAServer { cause, .. } => cause.is_closed(),
            _ => self.transport().is_some_and(TransportError::is_closed),
        }
    }

    /// Returns true if no connection could be opened. The server did not receive the request.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        matches!(*self.kind, Kind::Unreachable { .. }) || self.transport().is_some_and(TransportError::is_unreachable)
    }

    /// Returns true if the answer is longer than the limit of the transport, or the list is longer than the
    /// [`Limits`](crate::Limits).
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        matches!(*self.kind, Kind::Pages(_) | Kind::ListBytes(_))
            || self.transport().is_some_and(TransportError::is_too_large)
    }

    /// Returns true if the cancellation token of the call fired, or the task was cancelled.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(*self.kind, Kind::Cancelled)
    }

    /// Returns true if the same call can succeed later. The call may have had its effect already.
    ///
    /// - The server could not be reached.
    /// - The connection or the session was lost.
    /// - The authorization server is unavailable.
    /// - The server is overloaded: HTTP status 408, 425, 429, 502, 503 or 504, or the busy error of `mcp-server`.
    ///
    /// Returns false if another attempt would fail in the same way. Examples are a program that does not exist, an untrusted
    /// certificate, and a redirect to another origin.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match &*self.kind {
            Kind::Lost(_) => true,
            // A server may print text before it fails for a passing reason. A peer that echoes is not a server.
            Kind::NotAServer { is_echo, cause, .. } => !is_echo && cause.is_retryable(),
            Kind::Unreachable { source, .. } | Kind::Transport(source) => match source.http_status() {
                Some(status) => HttpStatus::of(status).is_temporary(),
                None => !source.is_lasting(),
            },
            Kind::Rpc(error) => is_busy(error),
            _ => false,
        }
    }

    /// Returns true if the answer of the server is invalid.
    ///
    /// For example it is not a valid message, has another form than the result of the method, or is nested too deep.
    ///
    /// ```
    /// use mcp_client::Client;
    /// use mcp_server::{Server, tool};
    /// use serde_json::json;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_client::Error> {
    /// # let server = Server::builder("s", "1").tool(tool("greet", async || "Hello!")).build();
    /// let client = Client::connect(&server).await?;
    /// // The program reads a number from a result that is a text.
    /// let error = client.call_tool("greet", json!({})).await?.structured::<u64>().unwrap_err();
    /// assert!(error.is_invalid_response());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_invalid_response(&self) -> bool {
        matches!(*self.kind, Kind::Invalid(_) | Kind::TooDeep(_) | Kind::Output(_))
    }

    /// Returns true if client and server have no common revision.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_version_mismatch(&self) -> bool {
        matches!(*self.kind, Kind::Version { .. })
    }

    /// Returns true if the server does not support the request. It did not declare the capability, or its revision has no such
    /// method, or it answered that the method does not exist.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        matches!(*self.kind, Kind::Unsupported(_))
            || self.rpc().is_some_and(|error| error.code == ErrorCode::METHOD_NOT_FOUND)
    }

    /// Returns true if a tool failed. The text is meant for the model.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_tool_error(&self) -> bool {
        matches!(*self.kind, Kind::Tool(_))
    }

    /// Returns true if the request or the address is invalid, for example if the parameters are not a JSON object. The
    /// server did not receive the request, and the connection stays open.
    ///
    /// ```
    /// use mcp_client::Client;
    /// use mcp_server::{Server, tool};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_client::Error> {
    /// # let server = Server::builder("s", "1").tool(tool("greet", async || "Hello!")).build();
    /// let client = Client::connect(&server).await?;
    /// // Arguments are an object.
    /// let error = client.call_tool("greet", 7).await.unwrap_err();
    /// assert!(error.is_invalid_request());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_invalid_request(&self) -> bool {
        match *self.kind {
            Kind::Request(_) | Kind::Unsendable(_) => true,
            #[cfg(feature = "http")]
            Kind::Address(_) => true,
            _ => false,
        }
    }

    /// Returns true if the arguments do not fit the schema of the tool. The client did not send the request. The source
    /// names the reason.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_invalid_arguments(&self) -> bool {
        matches!(*self.kind, Kind::Arguments(_))
    }

    /// Returns true if a handler could not answer a request of the server for input, or if the server requested input
    /// too often.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_unanswered_input(&self) -> bool {
        matches!(*self.kind, Kind::Input(_) | Kind::Rounds(_))
    }

    /// Returns true if the user must visit pages first (`-32042`, 2025-11-25). [`Error::url_elicitations`] returns the
    /// pages.
    ///
    /// The client has no handler for pages ([`ClientBuilder::on_elicit_url`](crate::ClientBuilder::on_elicit_url)), the
    /// user declined, or the server repeated the error.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_url_elicitation_required(&self) -> bool {
        self.rpc().is_some_and(|error| error.code == ErrorCode::URL_ELICITATION_REQUIRED)
    }

    /// Returns the pages that the user must visit first; empty for other errors.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn url_elicitations(&self) -> Vec<UrlElicitParams> {
        self.rpc().map(RpcError::url_elicitations).unwrap_or_default()
    }

    /// Returns true if the resource does not exist: `-32002`, or `-32602` with a URI in newer revisions.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_resource_not_found(&self) -> bool {
        self.rpc().is_some_and(|error| match error.code {
            ErrorCode::RESOURCE_NOT_FOUND => true,
            ErrorCode::INVALID_PARAMS => error.data.as_ref().is_some_and(|data| data["uri"].is_string()),
            _ => false,
        })
    }

    /// Returns true if a skill or one of its files does not match its entry in the list. Do not use its contents.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client, skill: mcp_client::protocol::skills::Skill) {
    /// match client.load_skill(skill).await {
    ///     Ok(loaded) => println!("{}", loaded.instructions()),
    ///     Err(error) if error.is_unverified() => println!("not trusted: {error}"),
    ///     Err(error) => println!("{error}"),
    /// }
    /// # }
    /// ```
    #[cfg(feature = "skills")]
    #[must_use]
    pub fn is_unverified(&self) -> bool {
        matches!(*self.kind, Kind::Unverified(_))
    }

    /// Returns the error that the server answered with.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn rpc(&self) -> Option<&RpcError> {
        match &*self.kind {
            Kind::Rpc(error) => Some(error),
            _ => None,
        }
    }

    /// Returns the HTTP status of an answer without a message.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn http_status(&self) -> Option<u16> {
        self.transport().and_then(TransportError::http_status)
    }

    /// Returns how long the server asked to wait before the next attempt: the header `Retry-After`, or the member
    /// `retryAfterMs` in the data of a busy error. A time of more than one day counts as one day.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let requested = match &*self.kind {
            Kind::Rpc(error) if is_busy(error) => {
                error.data.as_ref()?["retryAfterMs"].as_u64().map(Duration::from_millis)
            }
            _ => self.transport().and_then(TransportError::retry_after),
        };
        requested.map(|wait| wait.min(LONGEST_RETRY_AFTER))
    }

    /// Returns a text that names the fault of the transport without details, if it has one.
    #[doc(hidden)]
    #[must_use]
    pub fn summary(&self) -> Option<&'static str> {
        self.transport()?.summary()
    }

    pub(crate) fn transport(&self) -> Option<&TransportError> {
        match &*self.kind {
            Kind::Unreachable { source, .. } | Kind::Transport(source) | Kind::Lost(Some(source)) => Some(source),
            Kind::NotAServer { cause, .. } => cause.transport(),
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

/// Returns true if the server rejected the request because of a temporary limit: `-32603` with `"reason": "busy"` in its data.
///
/// Examples are the number of running calls, the rate of requests, and the number of open streams.
pub(crate) fn is_busy(error: &RpcError) -> bool {
    error.code == ErrorCode::INTERNAL_ERROR && error.data.as_ref().is_some_and(|data| data["reason"] == "busy")
}

/// Returns true if the text of the transport is more specific than the missing answer.
fn is_specific(source: &TransportError) -> bool {
    source.http_status().is_some() || source.is_unauthorized()
}

impl From<Kind> for Error {
    fn from(kind: Kind) -> Self {
        Self { kind: Arc::new(kind), is_after_sending: false }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.kind {
            Kind::Timeout { what, after } => write!(f, "{what} took longer than {}", Rounded(*after)),
            Kind::NotOpened(start) => {
                write!(f, "opening the connection took longer than {}", Rounded(start.waited()))?;
                start.write_stderr(f)
            }
            Kind::NotAServer { peer, act, .. } => write!(f, "{peer} is not an MCP server: it {act}"),
            Kind::Closed => f.write_str("the client is closed"),
            Kind::Lost(_) => f.write_str("the connection ended before the answer came"),
            Kind::Unreachable { peer, .. } => write!(f, "{peer} cannot be reached"),
            Kind::Transport(source) if is_specific(source) => source.fmt(f),
            Kind::Transport(source) if source.is_unreachable() => f.write_str("the server cannot be reached"),
            Kind::Transport(_) => f.write_str("the answer to the request did not come"),
            Kind::Cancelled => f.write_str("the call was cancelled"),
            Kind::Rpc(error) => write!(f, "the server answered: {error}"),
            Kind::TooDeep(limit) => write!(f, "the answer of the server is nested deeper than {limit} levels"),
            Kind::Invalid(text) => write!(f, "the answer of the server is invalid: {text}"),
            Kind::Version { ours, theirs } => {
                let ours: Vec<&str> = ours.iter().map(|version| version.as_str()).collect();
                let theirs = if theirs.is_empty() { "names none".to_owned() } else { theirs.join(", ") };
                write!(f, "no common revision: this client speaks {}, the server {theirs}", ours.join(", "))
            }
            Kind::Unsupported(text) | Kind::Request(text) => f.write_str(text),
            Kind::Unsendable(_) => f.write_str("the request cannot be sent"),
            #[cfg(feature = "http")]
            Kind::Address(error) => error.fmt(f),
            Kind::Tool(text) => write!(f, "the tool failed: {text}"),
            Kind::Input(error) => write!(f, "the client could not answer a request of the server: {error}"),
            Kind::Rounds(cap) => write!(f, "the server requested input more than {cap} times"),
            Kind::Arguments(_) => f.write_str("the arguments do not fit the schema of the tool"),
            Kind::Output(_) => f.write_str("the structured content does not fit the schema of the tool"),
            #[cfg(feature = "skills")]
            Kind::Unverified(text) => write!(f, "the skill does not match its entry: {text}"),
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
            Kind::Transport(source) if is_specific(source) => source.source(),
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
    fn each_error_has_one_predicate() {
        let http = |status| Error::from(Kind::Transport(TransportError::http(status, None, "")));
        for (error, expected) in [
            (Error::timeout("the call", Duration::from_secs(1)), "timeout"),
            (Error::closed(), "closed"),
            (Kind::Lost(None).into(), "closed retryable"),
            (Kind::Cancelled.into(), "cancelled"),
            (http(401), "unauthorized"),
            (http(403), "forbidden"),
            (Kind::Transport(TransportError::unauthorized("x").lasting()).into(), "unauthorized"),
            (Kind::Transport(TransportError::unauthorized("x")).into(), "unauthorized retryable"),
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
                (error.is_forbidden(), "forbidden"),
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
    fn the_rest_of_a_time_limit_has_few_digits() {
        let error = Error::timeout("tools/call", Duration::from_nanos(59_999_871_234));
        assert_eq!(error.to_string(), "tools/call took longer than 60s");
    }

    #[test]
    fn display_is_one_level() {
        let source = TransportError::http(502, Some(Duration::from_secs(2)), "bad gateway");
        let error = Error::from(Kind::Unreachable { peer: "files".into(), source });
        assert_eq!(error.to_string(), "files cannot be reached");
        assert!(error.source().unwrap().to_string().contains("bad gateway"));
        assert_eq!((error.http_status(), error.retry_after()), (Some(502), Some(Duration::from_secs(2))));
        let busy = serde_json::json!({ "reason": "busy", "retryAfterMs": 1500 });
        let error = Error::from(Kind::Rpc(RpcError::internal("busy").with_data(busy)));
        assert_eq!((error.is_retryable(), error.retry_after()), (true, Some(Duration::from_millis(1500))));
        // A server cannot request a longer wait than one day.
        let day = Some(Duration::from_secs(86_400));
        let busy = serde_json::json!({ "reason": "busy", "retryAfterMs": 1_u64 << 63 });
        assert_eq!(Error::from(Kind::Rpc(RpcError::internal("busy").with_data(busy))).retry_after(), day);
        let error = Error::from(Kind::Transport(TransportError::http(503, Some(Duration::MAX), "")));
        assert_eq!(error.retry_after(), day);
        // The status is the whole error.
        let error = Error::from(Kind::Transport(TransportError::http(503, None, "busy")));
        assert_eq!(error.to_string(), "the peer answered with HTTP status 503: busy");
        assert!(error.source().is_none());
    }
}
