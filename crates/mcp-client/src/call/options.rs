//! The options of one call.

use std::{pin::Pin, sync::Arc, time::Duration};

use mcp_protocol::{ClientCapabilities, LoggingLevel, Meta, ProgressParams};

use crate::{
    Handler,
    connection::{InputResponses, RunningCall},
};

/// Receives the progress of a call.
pub(crate) type ProgressCallback = Box<dyn FnMut(ProgressParams) + Send>;

/// The options of one call.
#[derive(Default)]
pub(crate) struct CallOptions {
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) total_timeout: Option<Duration>,
    /// The time without activity of the server before the end of the last attempt.
    pub(crate) quiet: Duration,
    pub(crate) wants_progress: bool,
    pub(crate) on_progress: Option<ProgressCallback>,
    pub(crate) log_level: Option<LoggingLevel>,
    pub(crate) meta: Option<Meta>,
    /// Completes when the application cancels the call.
    pub(crate) cancel: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Cached results are not used.
    pub(crate) is_fresh: bool,
    /// Answers the input requests of the call, instead of the handlers of the client.
    pub(crate) answers: Option<Arc<dyn Handler>>,
    /// The call that the request belongs to, if the server can ask it for input.
    pub(crate) questions: Option<Arc<RunningCall>>,
    /// The caller answers the input requests in results.
    pub(crate) raw_inputs: bool,
    /// The caller receives a created task as the outcome: whether the call may become one. `None`: the client follows tasks.
    pub(crate) relayed_task: Option<bool>,
    /// The input responses of the caller for the first request.
    pub(crate) resume: Option<Box<InputResponses>>,
    /// The number of the only connection that the call uses.
    pub(crate) connection: Option<u64>,
    /// The capabilities that the call declares, instead of those of the client.
    pub(crate) capabilities: Option<Arc<ClientCapabilities>>,
}
