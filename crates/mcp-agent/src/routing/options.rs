//! The options that all requests of a host have.

use std::{pin::Pin, sync::Arc, time::Duration};

use mcp_client::{Call, Handler};
use mcp_protocol::{Meta, ProgressParams};

use super::CallError;
use crate::registry::Caller;

type OnProgress = Box<dyn FnMut(ProgressParams) + Send>;
type Signal = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The options of a call, a read, a prompt or a completion.
pub(super) struct RequestOptions {
    pub(super) caller: Arc<Caller>,
    pub(super) answers: Option<Arc<dyn Handler>>,
    pub(super) on_progress: Option<OnProgress>,
    pub(super) timeout: Option<Duration>,
    pub(super) cancel: Option<Signal>,
    pub(super) meta: Option<Meta>,
}

impl RequestOptions {
    pub(super) fn new(caller: &Arc<Caller>) -> Self {
        Self { caller: Arc::clone(caller), answers: None, on_progress: None, timeout: None, cancel: None, meta: None }
    }

    /// Runs a step of a request until the application cancels the request.
    pub(super) async fn until_cancelled<T>(
        &mut self,
        name: &str,
        step: impl Future<Output = T>,
    ) -> Result<T, CallError> {
        let cancelled = async {
            match &mut self.cancel {
                Some(cancel) => cancel.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = cancelled => Err(CallError::Cancelled { tool: name.to_owned() }),
            done = step => Ok(done),
        }
    }

    /// Returns a request of the client with these options. `limit` is the time that is left.
    pub(super) fn apply<T>(self, mut call: Call<T>, limit: Option<Duration>) -> Call<T> {
        if let Some(limit) = limit {
            let limit = limit.max(Duration::from_millis(1));
            call = call.total_timeout(limit).idle_timeout(limit);
        }
        if let Some(handler) = self.answers.or_else(|| self.caller.handler.clone()) {
            call = call.answers(handler);
        }
        if let Some(callback) = self.on_progress {
            call = call.on_progress(callback);
        }
        if let Some(signal) = self.cancel {
            call = call.cancelled_by(signal);
        }
        if let Some(meta) = self.meta {
            call = call.meta(meta);
        }
        call
    }
}

/// The methods for the options of a request.
macro_rules! request_options {
    () => {
        /// Answers the input requests of this request: elicitation, sampling and roots. See [`mcp_client::Call::answers`].
        pub fn answers(mut self, handler: std::sync::Arc<dyn mcp_client::Handler>) -> Self {
            self.options.answers = Some(handler);
            self
        }

        /// Calls `callback` with each progress notification of this request.
        ///
        /// See the example of the [type](Self).
        pub fn on_progress(mut self, callback: impl FnMut(mcp_protocol::ProgressParams) + Send + 'static) -> Self {
            self.options.on_progress = Some(Box::new(callback));
            self
        }

        /// Sets the time limit, instead of the limits of the tool, the server and the host. The time in which handlers answer the
        /// server does not count.
        ///
        /// See the example of the [type](Self).
        pub fn timeout(mut self, limit: std::time::Duration) -> Self {
            self.options.timeout = Some(limit);
            self
        }

        /// Cancels the request when a future completes, for example the cancellation of a token.
        pub fn cancelled_by(mut self, signal: impl Future<Output = ()> + Send + 'static) -> Self {
            self.options.cancel = Some(Box::pin(signal));
            self
        }

        /// Adds metadata of the request.
        pub fn meta(mut self, meta: mcp_protocol::Meta) -> Self {
            self.options.meta = Some(meta);
            self
        }

        /// Sets the caller, instead of the caller of the host ([`Host::for_caller`](crate::Host::for_caller)).
        pub fn caller(mut self, caller: crate::Caller) -> Self {
            self.options.caller = std::sync::Arc::new(caller);
            self
        }

        /// Sets the identity of the caller: for its connections, and for the rules of policies with `principal`.
        ///
        /// ```
        /// # async fn example(host: mcp_agent::Host) -> Result<(), mcp_agent::CallError> {
        /// host.call("files:write", serde_json::json!({ "path": "a.txt" })).principal("guest-7").await?;
        /// # Ok(())
        /// # }
        /// ```
        pub fn principal(mut self, identity: impl Into<std::sync::Arc<str>>) -> Self {
            let caller = crate::Caller::clone(&self.options.caller).principal(identity);
            self.options.caller = std::sync::Arc::new(caller);
            self
        }
    };
}
pub(super) use request_options;
