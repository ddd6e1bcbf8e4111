//! Sources: definitions and raw results of a server that come from outside, instead of from registered handlers.

mod ask;
mod call;
mod definition;
mod page;
mod page_notifier;
mod session;
mod subscription;
mod task_notifier;
mod turns;
mod update_notifier;

use std::{fmt, sync::Arc, time::Duration};

use mcp_protocol::{Method as _, Principal, RpcError, method};
use mcp_transport::BoxFuture;

#[doc(hidden)]
pub use self::turns::SubscriptionTurn;
pub(crate) use self::{ask::answer_inputs, call::CallClock, turns::StreamTurns, update_notifier::Subscriber};
pub use self::{
    call::SourceCall, definition::SourceDefinition, page::SourcePage, page_notifier::PageNotifier,
    session::SourceSession, subscription::SourceSubscription, task_notifier::TaskNotifier,
    update_notifier::UpdateNotifier,
};
pub use crate::request::SourceResult;

/// The definitions and results of a server, for example of other servers behind a gateway.
///
/// [`ServerBuilder::source`](crate::ServerBuilder::source) takes it in place of registered handlers. The server keeps the
/// protocol: eras, sessions, transports, limits, cancellation, the access rule of the server, layers, spans and the access log.
///
/// # Forms
/// Definitions have the newest form, and results have the form of a revision that the source names
/// ([`SourceResult::new`]). Callers of this revision receive the bytes unchanged. For callers of other revisions, the server
/// removes and adds the members that differ, as it does for registered handlers. Unknown members always stay.
///
/// Parameters arrive as the client sent them, with `_meta`, `inputResponses` and `requestState`. In revisions without input
/// responses, the server removes the last two.
///
/// # Input requests
/// A source returns input requests as [`SourceOutcome::InputRequired`]. A caller of 2026-07-28 receives this result. In a
/// session, the server sends the input requests to the client, and calls the source again with the responses. A source that
/// asks while it waits uses [`SourceCall::ask`].
///
/// # Tasks
/// A source with the feature [`SourceFeatures::with_tasks`] can answer a call with a task ([`SourceOutcome::Task`]), if the caller
/// accepts one ([`SourceCall::accepts_task`]). The server checks the capability of the caller and the task support of the
/// definition (`execution`) as it does for registered tools. It then passes all requests about tasks to the source. Their
/// results have the dialect of the caller: 2025-11-25, or the extension of 2026-07-28. A `subscriptions/listen` stream follows
/// tasks by [`Source::subscribe_task`].
///
/// # Calls
/// Each function receives a [`SourceCall`] with the context of the caller: its principal, revision and capabilities, progress
/// and log records. The server drops the future when the client cancels the request, or when the time limit is over
/// ([`Source::time_limit`]). The time in which the client answers does not count.
///
/// # Changes
/// A source announces changes by [`Server::notify`](crate::Server::notify): changes of lists and updates of resources.
///
/// ```
/// use mcp_protocol::{ProtocolVersion, RpcError};
/// use mcp_server_core::{
///     Server,
///     source::{Source, SourceCall, SourceDefinition, SourceFeatures, SourceList, SourceOutcome, SourcePage, SourceResult},
/// };
/// use mcp_transport::BoxFuture;
/// use serde_json::json;
///
/// /// Serves one tool, whose definition and result it does not decode.
/// struct Weather(SourceDefinition);
///
/// impl Source for Weather {
///     fn features(&self) -> SourceFeatures {
///         SourceFeatures::NONE.with_tools()
///     }
///
///     fn list(&self, _list: SourceList, call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
///         println!("{:?} lists from {:?}", call.context().principal(), call.cursor());
///         Box::pin(async { Ok(SourcePage::new([self.0.clone()])) })
///     }
///
///     fn call_tool(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
///         Box::pin(async move {
///             println!("{} {}", call.name(), call.params());
///             let json = r#"{"content":[{"type":"text","text":"It rains."}]}"#;
///             Ok(SourceOutcome::Complete(SourceResult::new(json, ProtocolVersion::V2025_11_25)))
///         })
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let tool = json!({ "name": "weather", "inputSchema": { "type": "object" }, "vendor": 7 });
/// let server = Server::builder::<()>("weather", "1.0").source(Weather(SourceDefinition::of(&tool)?)).build();
/// assert_eq!(server.call_tool("weather", json!({})).await?.content[0].as_text(), Some("It rains."));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub trait Source: Send + Sync + 'static {
    /// Returns the lists and methods that the source serves. The server declares their capabilities, and rejects other
    /// requests. The value must not change while the server runs.
    fn features(&self) -> SourceFeatures {
        SourceFeatures::ALL
    }

    /// Returns the instructions for the model, for a server without instructions of its own
    /// ([`ServerBuilder::instructions`](crate::ServerBuilder::instructions)). The server sends them to each client that connects.
    /// `caller` is the authenticated principal of the client.
    fn instructions(&self, _caller: Option<&Principal>) -> Option<String> {
        None
    }

    /// Returns a known tool or prompt of a caller, without waiting. `None` if the source has not seen it.
    ///
    /// The server uses the definition before a call: it names spans and access events after the item, and compares the HTTP
    /// headers that mirror arguments (`x-mcp-header`, 2026-07-28).
    fn find(&self, _list: SourceList, _name: &str, _caller: Option<&Principal>) -> Option<SourceDefinition> {
        None
    }

    /// Returns the time limit of a request. `None`: the limit of the server, which is `Limits::tool_timeout` for tools, and
    /// `Limits::read_timeout` for other requests.
    ///
    /// A source that limits its own requests returns a longer time.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use mcp_server_core::source::{Source, SourceCall};
    ///
    /// struct SlowPrompts;
    ///
    /// impl Source for SlowPrompts {
    ///     fn time_limit(&self, call: &SourceCall) -> Option<Duration> {
    ///         (call.method() == "prompts/get").then_some(Duration::from_secs(600))
    ///     }
    /// }
    /// ```
    fn time_limit(&self, _call: &SourceCall) -> Option<Duration> {
        None
    }

    /// Returns a page of a list for the caller. The first page has no cursor. Other cursors are those of earlier pages.
    ///
    /// # Errors
    /// The error for the client: `-32602` for an invalid cursor.
    fn list(&self, list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        unsupported(list.method())
    }

    /// Calls a tool (`tools/call`).
    ///
    /// # Errors
    /// The error for the client: `-32602` for an unknown tool.
    fn call_tool(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        unsupported(method::CallTool::NAME)
    }

    /// Reads a resource (`resources/read`).
    ///
    /// # Errors
    /// The error for the client: [`RpcError::resource_not_found`] for an unknown resource.
    fn read_resource(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        unsupported(method::ReadResource::NAME)
    }

    /// Gets a prompt (`prompts/get`).
    ///
    /// # Errors
    /// The error for the client: `-32602` for an unknown prompt.
    fn get_prompt(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        unsupported(method::GetPrompt::NAME)
    }

    /// Completes an argument (`completion/complete`). [`SourceCall::name`] is the name of the argument.
    ///
    /// # Errors
    /// The error for the client: `-32602` for an unknown reference.
    fn complete(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        unsupported(method::Complete::NAME)
    }

    /// Returns the state of a task (`tasks/get`). [`SourceCall::name`] is the id of the task.
    ///
    /// # Errors
    /// The error for the client: `-32602` for an unknown task, and for a task of another caller.
    fn get_task(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        unsupported(method::GetTask::NAME)
    }

    /// Waits for the end of a task, and returns the result of its call (`tasks/result`, 2025-11-25). The server sets no time
    /// limit, so the source bounds the wait.
    ///
    /// The source adds the metadata of the related task. It can ask the client meanwhile ([`SourceCall::ask`]).
    ///
    /// # Errors
    /// The error of the call, or that of [`Source::get_task`].
    fn task_result(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        unsupported(method::GetTaskPayload::NAME)
    }

    /// Returns a page of the tasks of the caller (`tasks/list`, 2025-11-25). The server rejects callers that it cannot
    /// distinguish.
    ///
    /// # Errors
    /// The error for the client: `-32602` for an invalid cursor.
    fn list_tasks(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        unsupported(method::ListTasks::NAME)
    }

    /// Cancels a task (`tasks/cancel`).
    ///
    /// # Errors
    /// As for [`Source::get_task`]. In 2025-11-25 also `-32602` for a task that has ended.
    fn cancel_task(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        unsupported(method::CancelTask::NAME)
    }

    /// Answers the input requests of a task (`tasks/update`, 2026-07-28). The responses are in [`SourceCall::params`].
    ///
    /// # Errors
    /// As for [`Source::get_task`].
    fn update_task(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        unsupported(method::UpdateTask::NAME)
    }

    /// Begins a subscription of a caller to a resource. The subscription ends when the server drops the returned value.
    ///
    /// The server sends an update to each client that subscribed to the URI
    /// ([`Notices::resource_updated`](crate::Notices::resource_updated)). [`SourceCall::update_notifier`] notifies this subscriber
    /// alone. The subscriptions of a stream begin at the same time, at most eight at once.
    ///
    /// # Errors
    /// The error for the client. In 2026-07-28, the server leaves the URI out of the acknowledged subscriptions.
    fn subscribe(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceSubscription, RpcError>> {
        Box::pin(std::future::ready(Ok(SourceSubscription::default())))
    }

    /// Begins to follow a task for a `subscriptions/listen` stream (2026-07-28). [`SourceCall::name`] is the id of the task. The
    /// subscriptions of a stream begin at the same time, at most eight at once, under one time limit.
    ///
    /// [`SourceCall::update_notifier`] notifies this stream of a change. At the beginning and after each notice, the stream requests the
    /// state ([`Source::get_task`]), and sends it as `notifications/tasks` if it differs from the state before. Unknown members stay.
    /// A request that fails with `-32603` is repeated after a pause, which doubles from 1 to 30 seconds. Each other error ends the
    /// subscription, and so does a final state: the server drops the returned value. It drops the value at the end of the stream, too.
    ///
    /// ```
    /// use mcp_protocol::RpcError;
    /// use mcp_server_core::source::{Source, SourceCall, SourceSubscription};
    /// use mcp_transport::BoxFuture;
    ///
    /// /// Has a task whose changes it receives from another program.
    /// struct Builds(tokio::sync::watch::Sender<u64>);
    ///
    /// impl Source for Builds {
    ///     fn subscribe_task(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceSubscription, RpcError>> {
    ///         let (notifier, mut changes) = (call.update_notifier(), self.0.subscribe());
    ///         // The drop of the set ends its task.
    ///         let mut follower = tokio::task::JoinSet::new();
    ///         follower.spawn(async move {
    ///             while changes.changed().await.is_ok() {
    ///                 notifier.updated();
    ///             }
    ///         });
    ///         Box::pin(async { Ok(SourceSubscription::new(follower)) })
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// The server leaves the id out of the acknowledged subscriptions. Default: an error.
    fn subscribe_task(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceSubscription, RpcError>> {
        unsupported(method::Listen::NAME)
    }

    /// Whether the source bounds the requests of subscriptions by turns ([`SourceCall::turn_at`]). All subscriptions of a stream then
    /// begin at once, so that one that waits for a server delays no subscription at another server.
    #[doc(hidden)]
    fn has_turns(&self) -> bool {
        false
    }
}

fn unsupported<T: Send + 'static>(method: &'static str) -> BoxFuture<'static, Result<T, RpcError>> {
    Box::pin(std::future::ready(Err(RpcError::method_not_found(method))))
}

/// The lists of a source.
///
/// ```
/// use mcp_server_core::source::SourceList;
///
/// assert_eq!((SourceList::Tools.method(), SourceList::Tools.member()), ("tools/list", "tools"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SourceList {
    /// The tools.
    Tools,
    /// The resources.
    Resources,
    /// The resource templates.
    ResourceTemplates,
    /// The prompts.
    Prompts,
}

impl SourceList {
    /// Returns the method that lists it.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn method(self) -> &'static str {
        match self {
            Self::Tools => method::ListTools::NAME,
            Self::Resources => method::ListResources::NAME,
            Self::ResourceTemplates => method::ListResourceTemplates::NAME,
            Self::Prompts => method::ListPrompts::NAME,
        }
    }

    /// Returns the member of the result that contains it.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::ResourceTemplates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }
}

/// The outcome of a call of a source.
///
/// See the example of [`Source`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum SourceOutcome {
    /// The result of the method.
    Complete(SourceResult),
    /// The result of 2026-07-28 with `inputRequests` or `requestState`. It must have the form of 2026-07-28, with its
    /// `resultType`.
    InputRequired(SourceResult),
    /// The call became a task. The result has the dialect and the revision of the caller: `{"task": …}` in 2025-11-25, and a
    /// flat task with its `resultType` in 2026-07-28. Only tools can become tasks, and only if the caller accepts a task
    /// ([`SourceCall::accepts_task`]).
    Task(SourceResult),
}

/// The lists and methods that a source serves.
///
/// ```
/// use mcp_server_core::source::SourceFeatures;
///
/// let features = SourceFeatures::NONE.with_tools().with_resources().with_prompts().with_completions();
/// assert_eq!(features, SourceFeatures::ALL);
/// assert_ne!(features.with_tasks(), SourceFeatures::ALL);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each list is there or not")]
pub struct SourceFeatures {
    pub(crate) tools: bool,
    pub(crate) resources: bool,
    pub(crate) prompts: bool,
    pub(crate) completions: bool,
    pub(crate) tasks: bool,
}

impl SourceFeatures {
    /// No list and no method.
    pub const NONE: Self = Self { tools: false, resources: false, prompts: false, completions: false, tasks: false };
    /// All lists, and the methods of their items. Tasks are a feature of their own.
    pub const ALL: Self = Self { tools: true, resources: true, prompts: true, completions: true, tasks: false };

    /// Adds tools.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub const fn with_tools(mut self) -> Self {
        self.tools = true;
        self
    }

    /// Adds resources, resource templates and subscriptions.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub const fn with_resources(mut self) -> Self {
        self.resources = true;
        self
    }

    /// Adds prompts.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub const fn with_prompts(mut self) -> Self {
        self.prompts = true;
        self
    }

    /// Adds completions of arguments.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub const fn with_completions(mut self) -> Self {
        self.completions = true;
        self
    }

    /// Adds tasks: calls of tools that become tasks, and the requests about them.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub const fn with_tasks(mut self) -> Self {
        self.tasks = true;
        self
    }
}

/// The source of a server, with its features.
#[derive(Clone)]
pub(crate) struct InstalledSource {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) features: SourceFeatures,
}

impl fmt::Debug for InstalledSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InstalledSource").field("features", &self.features).finish_non_exhaustive()
    }
}
