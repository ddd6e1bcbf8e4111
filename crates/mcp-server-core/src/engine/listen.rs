//! Runs `subscriptions/listen`: a request that stays open and sends changes. It does not count as a running handler.

use std::convert::Infallible;

use mcp_protocol::{ListenParams, Method, RpcError, SubscriptionFilter, jsonrpc::decode_params, method};
use mcp_transport::{BoxFuture, TransportError};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout_at},
};

use super::{
    Prepared,
    prepare::Place,
    source_call::SourceWork,
    task_requests::{ListenTarget, find_for_listener},
};
use crate::{
    Server,
    context::Context,
    publisher::{Filter, ListenStream, Listening, Offered},
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

/// Begins the subscriptions of the stream at the source of the server, if it has one. The stream neither acknowledges resources
/// that the source does not accept in time, nor sends their updates.
async fn subscribe(
    server: &Server,
    context: &Context,
    listening: &Listening,
    accepted: &mut SubscriptionFilter,
) -> Vec<Box<dyn std::any::Any + Send + Sync>> {
    let Some(installed) = server.source() else { return Vec::new() };
    let deadline = Instant::now() + server.limits().read_timeout;
    let uris = Mutex::new(std::mem::take(&mut accepted.resource_subscriptions).into_iter().enumerate());
    // A slow subscription delays only those of its lane.
    let lane = || {
        Box::pin(async {
            let mut begun = Vec::new();
            loop {
                let next = uris.lock().next();
                let Some((at, uri)) = next else { return begun };
                let stream = Some(listening.stream());
                let subscribe = async {
                    SourceWork::subscription(&installed.source, &uri)?.subscribe(server, context, stream).await
                };
                match timeout_at(deadline, subscribe).await {
                    Ok(Ok(guard)) => begun.push((at, uri, guard)),
                    Ok(Err(error)) => tracing::debug!(%error, "the source rejected a subscription"),
                    Err(_) => tracing::debug!("the source exceeded the time limit of subscriptions"),
                }
            }
        })
    };
    let (a, b, c, d, e, f, g, h) = tokio::join!(lane(), lane(), lane(), lane(), lane(), lane(), lane(), lane());
    let mut begun: Vec<_> = [a, b, c, d, e, f, g, h].into_iter().flatten().collect();
    begun.sort_unstable_by_key(|(at, ..)| *at);
    let mut guards = Vec::new();
    for (_, uri, guard) in begun {
        guards.extend(guard);
        accepted.resource_subscriptions.push(uri);
    }
    listening.retain_uris(&accepted.resource_subscriptions);
    guards
}

/// Sends changes until the client cancels or disconnects (no response then), or the server ends the stream.
pub(super) async fn run(prepared: Box<Prepared>, work: Box<ListenWork>) -> Option<Reply> {
    // The guard ends a subscription that the client cancels.
    let Prepared { server, id, scope, place, context, .. } = *prepared;
    let _place: Option<Place> = place;
    let ListenWork { mut accepted, tasks, listening, .. } = *work;
    let (listening, sink) = (listening?, scope.surroundings.sink()?);
    let stream = ListenStream { id: &id, sink: &**sink };
    let ending = scope.ending(&server.data.shutdown);
    let fetch = async |task: Box<str>| {
        Ok(match find_for_listener(&server, &scope, &id, &task).await? {
            None => None,
            Some(ListenTarget::Running(running_task)) => Some(running_task.detailed()),
            Some(ListenTarget::Elsewhere(stored)) if stored.is_current => Some(stored.record.into_detailed()),
            // The stream repeats the request, because no other change may follow.
            Some(ListenTarget::Elsewhere(_)) => return Err(unavailable()),
            Some(ListenTarget::Ended(task)) => Some(*task),
        })
    };
    let run = async {
        // The tasks that run on other nodes. Dropping it ends the subscriptions to them.
        let mut elsewhere = JoinSet::new();
        let find = async {
            let mut found = Vec::new();
            for task in tasks {
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
            let _subscriptions = subscribe(&server, &context, &listening, &mut accepted).await;
            let broken: Result<Infallible, TransportError> = async {
                stream.acknowledge(accepted).await?;
                listening.run(&stream, fetch).await
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
