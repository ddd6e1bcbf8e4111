//! Runs `subscriptions/listen`: a request that stays open and sends changes. It does not count as a running handler.

use std::convert::Infallible;

use mcp_protocol::{ListenParams, Method, RpcError, SubscriptionFilter, jsonrpc::decode_params, method};
use mcp_transport::{BoxFuture, TransportError};
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};
use tokio::task::JoinSet;

use super::{
    Prepared,
    listen_source::{SOURCE_FETCHES, SOURCE_PAUSES, SourceStream, SourceSubscriptions},
    prepare::Place,
    task_requests::{ListenTarget, find_for_listener},
};
use crate::{
    Server,
    publisher::{Fetches, Filter, ListenStream, Listening, Offered, PAUSES, TaskState},
    request::{Refusal, Reply, Scope},
    store::{STORE_TIMEOUT, unavailable},
    trace::Ending,
};

/// A prepared subscription.
pub(super) struct ListenWork {
    /// The accepted subscriptions, for the acknowledgement.
    accepted: SubscriptionFilter,
    /// The subscriptions, until the stream is registered with the publisher.
    filter: Filter,
    /// The tasks that the client named.
    tasks: Vec<String>,
    listening: Option<Listening>,
}

impl ListenWork {
    pub(super) fn prepare(server: &Server, params: Option<&RawValue>, scope: &Scope) -> Result<Self, Refusal> {
        /// Accepts objects only. Derived structs would also accept an array.
        #[derive(Deserialize)]
        struct Form {
            #[serde(rename = "notifications")]
            _notifications: Map<String, Value>,
        }
        let name = method::Listen::NAME;
        decode_params::<Form>(name, params)?;
        let requested = decode_params::<ListenParams>(name, params)?.notifications;
        for uri in &requested.resource_subscriptions {
            server.check_resource_access(scope, uri)?;
        }
        if scope.surroundings.sink().is_none() {
            let text = "subscriptions/listen is answered by a stream, which the request does not accept";
            return Err(RpcError::invalid_request(text).into());
        }
        let offered = Offered {
            tools: server.has_tools(),
            prompts: server.has_prompts(),
            resources: server.has_resources(),
            tasks: server.has_tasks(),
        };
        let (accepted, mut filter) = Filter::accept(&requested, offered, server.limits(), scope.client.capabilities())?;
        let tasks = filter.take_tasks();
        Ok(Self { accepted, filter, tasks, listening: None })
    }

    /// Whether the client named tasks, whose states the stream fetches.
    pub(super) fn has_tasks(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Registers the stream with the publisher. Returns false when the limit is reached.
    pub(super) fn enter(&mut self, server: &Server, scope: &Scope) -> bool {
        let filter = std::mem::take(&mut self.filter);
        server.data.extensions.start(server);
        self.listening = server.data.publisher.listen(filter, scope.principal.as_deref(), server.limits());
        self.listening.is_some()
    }
}

impl Prepared {
    /// Whether the request is a stream that stays open.
    pub(crate) fn is_listen(&self) -> bool {
        matches!(self.work, super::prepare::Work::Listen(_))
    }
}

/// Sends changes until the client cancels or disconnects (no response then), or the server ends the stream.
pub(super) async fn run(prepared: Box<Prepared>, work: Box<ListenWork>) -> Option<Reply> {
    // The guard ends a subscription that the client cancels.
    let Prepared { server, id, scope, place, context, .. } = *prepared;
    let _place: Option<Place> = place;
    let has_tasks = work.has_tasks();
    let ListenWork { mut accepted, tasks, listening, .. } = *work;
    let (listening, sink) = (listening?, scope.surroundings.sink()?);
    let stream = ListenStream { id: &id, sink: &**sink };
    let ending = scope.ending(&server.data.shutdown);
    let (registered, of_source, most, pauses) = match SourceStream::source_of_tasks(&server) {
        Some(_) => (Vec::new(), tasks, SOURCE_FETCHES, SOURCE_PAUSES),
        // A slow reader holds one outcome at most.
        None => (tasks, Vec::new(), Fetches { all: 1, of_server: 1 }, PAUSES),
    };
    let run = async {
        // The tasks that run on other nodes. Dropping it ends the subscriptions to them.
        let mut elsewhere = JoinSet::new();
        let find = async {
            let mut found = Vec::new();
            for task in registered {
                match find_for_listener(&server, &scope, &id, &task).await? {
                    Some(ListenTarget::Running(running_task)) => listening.add_task(&running_task),
                    Some(ListenTarget::Elsewhere(stored)) => {
                        let (table, changes) = (server.data.tasks.clone(), listening.add_stored(&task));
                        elsewhere.spawn(Box::pin(async move {
                            table.watch_elsewhere(&stored.record, || changes.notify()).await
                        }) as BoxFuture<'static, ()>);
                    }
                    // The outcome may be large, so the stream fetches it when it sends it.
                    Some(ListenTarget::Ended(_)) => drop(listening.add_stored(&task)),
                    // An unknown or foreign task is not acknowledged.
                    None => continue,
                }
                found.push(task);
            }
            Ok::<_, RpcError>(found)
        };
        let deliver = async {
            // One timeout covers all lookups, because the store may be failing.
            let late = |_| Err(unavailable());
            accepted.task_ids = tokio::time::timeout(STORE_TIMEOUT, find).await.unwrap_or_else(late)?;
            // The drop of the value ends the subscriptions at the source.
            let at_source = SourceSubscriptions::default();
            let of_stream =
                SourceStream { server: &server, scope: &scope, context: &context, id: &id, listening: &listening };
            at_source.begin(of_stream, &mut accepted, of_source).await;
            let fetch = async |task: Box<str>| {
                if SourceStream::source_of_tasks(&server).is_some() {
                    return at_source.state(of_stream, &task).await;
                }
                let state = match find_for_listener(&server, &scope, &id, &task).await? {
                    None => return Ok(None),
                    Some(ListenTarget::Running(running_task)) => running_task.detailed(),
                    Some(ListenTarget::Elsewhere(stored)) if stored.is_current => stored.record.into_detailed(),
                    // The stream repeats the request, because no other change may follow.
                    Some(ListenTarget::Elsewhere(_)) => return Err(unavailable()),
                    Some(ListenTarget::Ended(task)) => *task,
                };
                Ok(Some(TaskState::Registered(state.into())))
            };
            let broken: Result<Infallible, TransportError> = async {
                stream.acknowledge(accepted).await?;
                match has_tasks {
                    true => listening.run(&stream, most, pauses, fetch).await,
                    false => listening.run_without_tasks(&stream).await,
                }
            }
            .await;
            tracing::debug!(?broken, "a subscription broke off");
            Ok::<_, RpcError>(())
        };
        tokio::select! {
            biased;
            outcome = deliver => {
                let error = outcome.err()?;
                context.end(Ending::Error(error.code));
                return Some(Reply::error(Some(&id), &error));
            }
            () = ending.wait() => {}
            // The client continues with fresh credentials.
            () = scope.authentication_ended() => {}
        }
        drop(listening);
        // On a shared stream no other message shows the end of this subscription.
        if scope.surroundings.peer().is_some() {
            stream.send_end().await;
        }
        context.end(Ending::Done);
        Some(Reply::result(&server.data.identity, &id, scope.version, stream.result(), 256))
    };
    tokio::select! {
        biased;
        () = scope.cancel.cancelled() => None,
        reply = run => reply,
    }
}
