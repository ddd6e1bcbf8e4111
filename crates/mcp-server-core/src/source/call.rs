//! One request to a source, and the clock of its time limit.

use std::{fmt, pin::Pin, sync::Arc, time::Duration};

use mcp_protocol::{InputRequest, InputRequests, JsonObject, LoggingMessageParams, ProgressParams, RpcError};
use mcp_transport::PauseClock;
use serde_json::{Value, value::RawValue};
use tokio::time::{Instant, sleep};

use super::{
    PageNotifier, SourceDefinition, SourceSession, StreamTurns, TaskNotifier, UpdateNotifier, ask,
    update_notifier::Subscriber,
};
use crate::{
    context::Context,
    inputs::{InputLimits, InputRound},
    session::ProgressListener,
};

/// A request that a source serves.
///
/// See the example of [`Source`](super::Source).
#[derive(Clone)]
pub struct SourceCall {
    pub(crate) method: &'static str,
    pub(crate) name: Arc<str>,
    pub(crate) params: Arc<RawValue>,
    pub(crate) cursor: Option<Box<str>>,
    /// The definition that the server used to check the request.
    pub(crate) definition: Option<SourceDefinition>,
    pub(crate) accepts_task: bool,
    pub(crate) context: Context,
    pub(crate) clock: CallClock,
    /// The stream whose subscription begins.
    pub(crate) stream: Option<Subscriber>,
    /// The requests of this stream, and the number of the subscription in it.
    pub(crate) turns: Option<(Arc<StreamTurns>, usize)>,
}

impl SourceCall {
    /// Returns the method, such as `tools/call`.
    ///
    /// ```
    /// use mcp_server_core::source::SourceCall;
    ///
    /// fn show(call: &SourceCall) -> String {
    ///     format!("{} {} {:?} in {}", call.method(), call.name(), call.cursor(), call.context().version())
    /// }
    /// # let _ = show;
    /// ```
    #[must_use]
    pub fn method(&self) -> &'static str {
        self.method
    }

    /// Returns the name of the tool or the prompt, the URI of the resource, the id of the task, or the name of the argument to
    /// complete. It is empty for a list.
    ///
    /// See the example of [`SourceCall::method`].
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the parameters as the client sent them, or `{}` if it sent none.
    ///
    /// See the example of [`Source`](super::Source).
    #[must_use]
    pub fn params(&self) -> &RawValue {
        &self.params
    }

    /// Returns the cursor of a list request; `None` for the first page.
    ///
    /// See the example of [`SourceCall::method`].
    #[must_use]
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// Whether the server compared the HTTP headers of a call with this definition of its tool
    /// ([`Source::find`](super::Source::find)). True for each definition without mirrored arguments, and for a revision without such
    /// headers.
    ///
    /// A source whose tools change checks the definition that it calls.
    ///
    /// ```
    /// use mcp_protocol::RpcError;
    /// use mcp_server_core::source::{SourceCall, SourceDefinition};
    ///
    /// fn check(call: &SourceCall, current: &SourceDefinition) -> Result<(), RpcError> {
    ///     let changed = || RpcError::invalid_params("the tool changed during the call: list the tools again");
    ///     call.has_checked_headers_of(current).then_some(()).ok_or_else(changed)
    /// }
    /// # let _ = check;
    /// ```
    #[must_use]
    pub fn has_checked_headers_of(&self, definition: &SourceDefinition) -> bool {
        let is_checked = |checked: &SourceDefinition| checked.header_params() == definition.header_params();
        !self.context.version().is_stateless()
            || definition.header_params().is_empty()
            || self.definition.as_ref().is_some_and(is_checked)
    }

    /// Returns true if the call of the tool may become a task ([`SourceOutcome::Task`](super::SourceOutcome::Task)).
    ///
    /// In 2025-11-25 the client has requested the task, and its parameters are the member `task` of [`SourceCall::params`]. In
    /// 2026-07-28 the client has declared the extension, and the source decides.
    ///
    /// ```
    /// use mcp_server_core::source::SourceCall;
    ///
    /// fn runs_in_background(call: &SourceCall, seconds: u64) -> bool {
    ///     call.accepts_task() && seconds > 10
    /// }
    /// # let _ = runs_in_background;
    /// ```
    #[must_use]
    pub fn accepts_task(&self) -> bool {
        self.accepts_task
    }

    /// Returns the context: the caller, its revision and capabilities, progress, log records and cancellation.
    ///
    /// See the example of [`Source`](super::Source).
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Returns the responses and the request state of this round, and the binding for the request state of the next round.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use mcp_protocol::RpcError;
    /// use mcp_server_core::{StateKeys, source::SourceCall};
    ///
    /// /// Returns the request state for the client, which contains the state of another server.
    /// fn seal(call: &SourceCall, keys: &StateKeys, state: &str) -> Result<String, RpcError> {
    ///     keys.seal_text(state, Duration::from_secs(600), call.round()?.binding())
    /// }
    /// # let _ = seal;
    /// ```
    ///
    /// # Errors
    /// `-32602` when the parameters cannot be read.
    pub fn round(&self) -> Result<InputRound, RpcError> {
        InputRound::read(self.method, Some(&self.params), self.context.principal())
    }

    /// Sends an input request to the client of a session on the stream of the call, and waits for the answer. The waiting time
    /// does not count towards the time limit of the call.
    ///
    /// The request has the newest form, and the server sends it in the form of the session's revision.
    ///
    /// ```
    /// use mcp_protocol::{InputRequest, LoggingMessageParams, ProgressParams, RpcError};
    /// use mcp_server_core::source::SourceCall;
    ///
    /// async fn roots(call: &SourceCall) -> Result<serde_json::Value, RpcError> {
    ///     call.ask(InputRequest::list_roots()).await
    /// }
    /// # let _ = roots;
    /// ```
    ///
    /// # Errors
    /// The error of the client. `-32600` in 2026-07-28 and in sessionless mode, where input requests are a part of results
    /// ([`SourceOutcome::InputRequired`](super::SourceOutcome::InputRequired)). `-32601` if the client did not declare the
    /// capability. `-32603` if the client does not answer in time. `-32603` with the reason `call_ended` if the call has ended.
    pub async fn ask(&self, request: InputRequest) -> Result<Value, RpcError> {
        let _pause = self.clock.clock.pause();
        ask::ask(&self.context, &self.clock.limits, request, None).await
    }

    /// Sends an input request as [`SourceCall::ask`] does, with a progress token of the server. `on_progress` receives each progress
    /// that the client reports before its answer. It must not block.
    ///
    /// ```
    /// use mcp_protocol::{InputRequest, RpcError};
    /// use mcp_server_core::source::SourceCall;
    ///
    /// async fn sample(call: &SourceCall, request: InputRequest) -> Result<serde_json::Value, RpcError> {
    ///     call.ask_with_progress(request, |notice| println!("{}", notice.progress)).await
    /// }
    /// # let _ = sample;
    /// ```
    ///
    /// # Errors
    /// As for [`SourceCall::ask`].
    pub async fn ask_with_progress(
        &self,
        request: InputRequest,
        on_progress: impl Fn(ProgressParams) + Send + Sync + 'static,
    ) -> Result<Value, RpcError> {
        let _pause = self.clock.clock.pause();
        let listener = ProgressListener::new(on_progress);
        ask::ask(&self.context, &self.clock.limits, request, Some(listener)).await
    }

    /// Sends input requests at the same time, and returns the answers with the keys of their requests. The first error ends the
    /// others. For relays with a limit of their own for the number of requests.
    ///
    /// # Errors
    /// As for [`SourceCall::ask`].
    #[doc(hidden)]
    pub async fn ask_all(&self, requests: InputRequests) -> Result<JsonObject, RpcError> {
        ask::ask_all(self, requests).await
    }

    /// Checks that the client declared the capability that an input request needs.
    ///
    /// ```
    /// use mcp_protocol::{InputRequest, LoggingMessageParams, ProgressParams, RpcError};
    /// use mcp_server_core::source::SourceCall;
    ///
    /// fn check(call: &SourceCall) -> Result<(), RpcError> {
    ///     call.check_input_request(&InputRequest::list_roots())
    /// }
    /// # let _ = check;
    /// ```
    ///
    /// # Errors
    /// `-32601` if the client did not declare the capability, or if the method is not that of an input request.
    pub fn check_input_request(&self, request: &InputRequest) -> Result<(), RpcError> {
        ask::check_declared(request, self.context.client_capabilities())
    }

    /// Forwards a progress notification of another server, with its metadata and unknown members. The server sets the token of the
    /// client, and sends nothing without one.
    ///
    /// ```
    /// use mcp_protocol::{LoggingMessageParams, ProgressParams};
    /// use mcp_server_core::source::SourceCall;
    ///
    /// async fn forward(call: &SourceCall, progress: ProgressParams, record: &LoggingMessageParams) {
    ///     call.forward_progress(progress).await;
    ///     call.forward_log(record).await;
    /// }
    /// # let _ = forward;
    /// ```
    pub async fn forward_progress(&self, notice: ProgressParams) {
        self.context.forward_progress(notice).await;
    }

    /// Forwards a log record of another server, with its metadata and unknown members, if the client receives records of its level.
    ///
    /// See the example of [`SourceCall::forward_progress`].
    pub async fn forward_log(&self, record: &LoggingMessageParams) {
        self.context.forward_log(record).await;
    }

    /// Returns the notifier of the session of the call, for the task that the call becomes. `task` is its id for the client. `None`
    /// without a session of 2025-11-25, because the extension has no such notifications. It does not keep the session.
    ///
    /// See the example of [`TaskNotifier`].
    #[must_use]
    pub fn task_notifier(&self, task: &str) -> Option<TaskNotifier> {
        TaskNotifier::new(&self.context, task)
    }

    /// Keeps a value until the session of the call ends, and then drops it. Returns false if the call has no session, or if the
    /// session has ended: the value is dropped at once.
    ///
    /// ```
    /// use mcp_server_core::source::SourceCall;
    ///
    /// /// Closes the connection of a session to another server.
    /// struct Connection;
    ///
    /// impl Drop for Connection {
    ///     fn drop(&mut self) {
    ///         println!("closed");
    ///     }
    /// }
    ///
    /// fn keep(call: &SourceCall, connection: Connection) -> bool {
    ///     call.keep_until_session_ends(connection)
    /// }
    /// # let _ = keep;
    /// ```
    pub fn keep_until_session_ends(&self, value: impl Send + Sync + 'static) -> bool {
        self.context.session().is_some_and(|session| session.keep(Box::new(value)))
    }

    /// Returns the notifier of the subscriber whose subscription begins ([`Source::subscribe`](super::Source::subscribe),
    /// [`Source::subscribe_task`](super::Source::subscribe_task)).
    ///
    /// See the example of [`UpdateNotifier`].
    #[must_use]
    pub fn update_notifier(&self) -> UpdateNotifier {
        UpdateNotifier::new(&self.name, self.stream.as_ref(), self.context.shared_session())
    }

    /// Returns the notifier of the session of the call, for the end of visits to pages ([`SourceCall::ask`] with a URL). It does
    /// not keep the session.
    ///
    /// See the example of [`PageNotifier`].
    #[must_use]
    pub fn page_notifier(&self) -> PageNotifier {
        PageNotifier::new(self.context.shared_session())
    }

    /// Returns the session of the call, also for later changes of its state; `None` without a session.
    ///
    /// See the example of [`SourceSession`].
    #[must_use]
    pub fn session(&self) -> Option<SourceSession> {
        self.context.shared_session().map(SourceSession::new)
    }
}

/// Omits the parameters, which may be secret.
impl fmt::Debug for SourceCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceCall").field("method", &self.method).field("name", &self.name).finish_non_exhaustive()
    }
}

/// Measures the time of a call, without the time in which the client answers.
#[derive(Debug, Clone)]
pub(crate) struct CallClock {
    clock: PauseClock,
    /// The times for answers of the client.
    limits: InputLimits,
}

impl CallClock {
    pub(crate) fn new(limits: &InputLimits) -> Self {
        Self { clock: PauseClock::new(), limits: limits.clone() }
    }

    /// Limits the time of a future. Returns `None` when the time is over.
    pub(crate) async fn within<T>(&self, limit: Duration, mut work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        // The clock counts the pauses of all rounds of the call.
        let (start, paused) = (Instant::now(), self.clock.paused());
        loop {
            if self.clock.is_paused() {
                tokio::select! {
                    biased;
                    done = work.as_mut() => return Some(done),
                    () = self.clock.until_running() => {}
                }
                continue;
            }
            let paused = self.clock.paused().saturating_sub(paused);
            let left = limit.saturating_sub(start.elapsed().saturating_sub(paused));
            if left.is_zero() {
                return None;
            }
            tokio::select! {
                biased;
                done = work.as_mut() => return Some(done),
                () = self.clock.until_paused() => {}
                () = sleep(left) => {}
            }
        }
    }
}
