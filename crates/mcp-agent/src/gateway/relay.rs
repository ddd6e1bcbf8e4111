//! One request to a server: its parameters, progress and metadata there, and its raw result back.

use std::{
    pin::pin,
    sync::{Arc, LazyLock},
    time::Duration,
};

use bytes::Bytes;
use mcp_client::{Client, CreatedTask, InputRequired, Round as UpstreamRound};
use mcp_protocol::{
    CacheScope, CallToolResult, ClientCapabilities, JsonObject, LoggingLevel, MemberFinder, Meta, Method as _,
    ProtocolVersion, RpcError, method,
};
use mcp_server_core::source::{SourceCall, SourceOutcome, SourceResult};
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout};

use super::{
    Core, Names,
    asked::{Place, parks},
    caller::Downstream,
    fault::Fault,
    members::Members,
    pages::Pages,
    parked::Holder,
    process::Process,
    questions::{AskedClient, Asker, Notice, Notices},
    reach::Reached,
    task_form::lifetime,
    uris,
};
use crate::registry::{Asking, forward_meta};

/// How long a result waits until its client has read the notifications before it.
const LAST: Duration = Duration::from_secs(5);

/// A request for a server.
pub(super) struct Outgoing {
    /// The name of the tool or the prompt, or the URI of the resource, at the server.
    pub(super) name: Box<str>,
    pub(super) params: Box<RawValue>,
    pub(super) meta: Meta,
    /// The responses to the input requests of the former round, and the state of the server.
    pub(super) responses: Option<(JsonObject, Option<String>)>,
    /// Whether the call may become a task for the client. `None`: the gateway waits for the result of a task.
    pub(super) task: Option<bool>,
    /// A repetition of the request can repeat its effect.
    pub(super) has_effect: bool,
}

/// The capabilities that a client declares.
pub(super) struct Answered(pub(super) Arc<ClientCapabilities>);

impl Answered {
    pub(super) fn can_be_asked(&self) -> bool {
        let capabilities = &self.0;
        capabilities.elicitation.is_some() || capabilities.sampling.is_some() || capabilities.roots.is_some()
    }
}

impl Core {
    /// Sends a request, and returns its outcome. The call of a stateless client at a server with sessions is parked when the server
    /// asks.
    pub(super) async fn relay(
        self: &Arc<Self>,
        call: &SourceCall,
        downstream: Downstream,
        reached: Reached,
        outgoing: Outgoing,
    ) -> Result<SourceOutcome, Fault> {
        let (names, pages, method) = (self.names, self.pages.clone(), call.method());
        let holder = self.holder(&reached.server, &downstream);
        let caller = self.caller_of(call, &holder);
        let answered = Answered(downstream.capabilities);
        if !parks(call, &answered, reached.client.version()) {
            let client = (AskedClient::Session(call.clone()), caller);
            // Each call copies its future, so the parts of the future are boxed.
            let relayed = Box::pin(send(names, pages, method, client, answered.0, reached, outgoing)).await?;
            return Ok(self.outcome(call, relayed)?);
        }
        let place = Place { server: Arc::clone(&reached.server), name: outgoing.name.clone() };
        // The task of a parked call does not keep the gateway.
        let started = self.parked.start(holder, call.clone(), |questions| {
            let client = (AskedClient::LaterRound(questions), caller);
            Box::pin(send(names, pages, method, client, answered.0, reached, outgoing))
        });
        let round = Box::pin(started).await;
        Box::pin(self.parked_outcome(call, &place, round)).await
    }
}

impl Core {
    /// Returns a text for the client of a call. No other client has it while the call exists. A client is a session, the
    /// only client of the gateway, or a principal. A server can send a question during several calls of a client, and name
    /// none of them.
    fn caller_of(&self, call: &SourceCall, holder: &Holder) -> Option<Arc<str>> {
        if self.is_for_one_client {
            return Some("the client".into());
        }
        if let Some(session) = call.session() {
            return Some(format!("session {}", session.number()).into());
        }
        // A request without a session and without a principal can be that of each client.
        let principal = holder.principal.as_ref()?;
        Some(format!("principal {principal:?} {:?}", holder.authority).into())
    }
}

/// The outcome of a request at a server.
#[derive(Clone)]
pub(super) enum Relayed {
    /// The result for the client.
    Complete { server: Arc<str>, result: SourceResult },
    /// The input requests of the server.
    InputRequired { place: Place, fingerprint: Arc<str>, is_approved: bool, required: InputRequired },
    /// The task that the call became.
    Task {
        server: Arc<str>,
        /// The name of the tool at the server.
        tool: Box<str>,
        fingerprint: Arc<str>,
        process: Option<Process>,
        created: CreatedTask,
        upstream: Client,
    },
}

/// Sends a request to a server. The connection is in use until the request ends.
async fn send(
    names: Names,
    pages: Pages,
    method: &'static str,
    (client, caller): (AskedClient, Option<Arc<str>>),
    capabilities: Arc<ClientCapabilities>,
    reached: Reached,
    outgoing: Outgoing,
) -> Result<Relayed, Fault> {
    let waiting = client.waiting();
    let log_level = waiting.as_ref().and_then(wanted_level);
    let mut limit = reached.limit;
    if let Some(call) = &waiting {
        let began = Instant::now();
        reached.prepare(call.session().map_or(Asking::Request(log_level), Asking::Session)).await;
        limit = limit.map(|limit| limit.saturating_sub(began.elapsed()));
    }
    let notices = Arc::new(Notices::default());
    let asker = Asker {
        client: client.clone(),
        server: Arc::clone(&reached.server),
        upstream: reached.client.clone(),
        pages: pages.clone(),
        capabilities: Arc::clone(&capabilities),
        notices: Arc::downgrade(&notices),
        task: None,
        caller,
    };
    let mut request = reached
        .client
        .request_raw(method, &*outgoing.params)
        .raw_result()
        // The cache of the connection does not distinguish clients by their metadata. Clients have caches of their own.
        .fresh()
        .answers(Arc::new(asker))
        .capabilities(capabilities)
        .meta(outgoing.meta);
    if let Some(limit) = limit {
        let limit = limit.max(Duration::from_millis(1));
        request = request.total_timeout(limit).idle_timeout(limit);
    }
    // A later round of a parked call can want progress, also if the first one does not.
    let has_rounds = matches!(client, AskedClient::LaterRound(_));
    if has_rounds || waiting.is_some_and(|call| call.context().progress().is_wanted()) {
        let notices = Arc::downgrade(&notices);
        request = request.on_progress(move |notice| {
            if let Some(notices) = notices.upgrade() {
                notices.add(Notice::Progress(notice));
            }
        });
    }
    if let Some(level) = log_level {
        request = request.log_level(level);
    }
    let mut request = request.raw_inputs();
    if let Some((responses, state)) = outgoing.responses {
        request = request.resume(responses, state);
    }
    if let Some(accepts) = outgoing.task {
        request = request.raw_task(accepts);
    }
    let running = async {
        let round = request.await;
        notices.end();
        round
    };
    // A client that does not read a notification does not stop the clock of the request.
    let (round, ()) = tokio::join!(running, forward_all(&client, &notices));
    let (server, name) = (Arc::clone(&reached.server), outgoing.name);
    match round {
        Ok(UpstreamRound::Complete(result)) => {
            let version = result.version();
            let mut result = of_client(names, method, &server, result.into_bytes(), version)?;
            if reached.is_private && method == method::ReadResource::NAME {
                result = private(result)?;
            }
            Ok(Relayed::Complete { server, result })
        }
        Ok(UpstreamRound::Task(created)) => {
            reached.keep_for(lifetime(created.result()));
            let (fingerprint, upstream) = (Arc::clone(&reached.fingerprint), reached.client.clone());
            let process = reached.process(created.result().connection());
            Ok(Relayed::Task { server, tool: name, fingerprint, process, created, upstream })
        }
        Ok(UpstreamRound::InputRequired(required)) => {
            let (fingerprint, is_approved) = (Arc::clone(&reached.fingerprint), reached.is_approved);
            Ok(Relayed::InputRequired { place: Place { server, name }, fingerprint, is_approved, required })
        }
        Err(error) => {
            let fault = reached.fault(name, error);
            let fault = if outgoing.has_effect { fault.with_effect() } else { fault };
            Err(match client.waiting() {
                Some(call) => pages.of_fault(fault, &reached.client, &call),
                None => fault,
            })
        }
    }
}

/// Returns a result for the client.
///
/// # Errors
/// `-32603` for a result in which the gateway and the client could read different URIs.
pub(super) fn of_client(
    names: Names,
    method: &str,
    server: &str,
    mut bytes: Bytes,
    version: ProtocolVersion,
) -> Result<SourceResult, RpcError> {
    let is_error = CallToolResult::is_failed(&bytes);
    if names == Names::Provider {
        let renamed = uris::rename(method, &bytes, |uri| names.uri(server, uri)).map_err(|error| {
            tracing::warn!(server, %error, "the URIs of a result cannot be replaced");
            RpcError::internal("the result of the server is not valid")
        })?;
        if let Some(renamed) = renamed {
            bytes = String::from(Box::<str>::from(renamed)).into();
        }
    }
    let result = SourceResult::new(with_type(bytes, version), version);
    Ok(if is_error { result.failed() } else { result })
}

/// Returns a result with its type, which a server of 2026-07-28 can omit. A client of this revision receives the result unchanged.
pub(super) fn with_type(result: Bytes, version: ProtocolVersion) -> Bytes {
    static TYPE: LazyLock<MemberFinder> = LazyLock::new(|| MemberFinder::new("resultType"));
    if !version.has_result_type() || result.starts_with(br#"{"resultType""#) {
        return result;
    }
    let Ok(json) = std::str::from_utf8(&result) else { return result };
    // A nested member can have the name too.
    if TYPE.may_have(&result) && Members::read(json).map_or(true, |members| members.get("resultType").is_some()) {
        return result;
    }
    let Some(members) = json.trim_start().strip_prefix('{') else { return result };
    let comma = if members.trim_start().starts_with('}') { "" } else { "," };
    format!(r#"{{"resultType":"complete"{comma}{members}"#).into()
}

/// Returns a read that the cache of its caller alone may keep.
fn private(result: SourceResult) -> Result<SourceResult, RpcError> {
    let members = std::str::from_utf8(result.json()).ok().and_then(|json| Members::read(json).ok());
    let mut members = members.ok_or_else(|| RpcError::internal("the result of the server is not valid"))?;
    if members.decode("cacheScope") != Some(CacheScope::Public) {
        return Ok(result);
    }
    members.set("cacheScope", &CacheScope::Private);
    Ok(SourceResult::new(members.write().get().to_owned(), result.version()))
}

/// Forwards the notifications of a call, which precede its result.
async fn forward_all(client: &AskedClient, notices: &Notices) {
    let mut forwarding = pin!(async {
        while let Some(notice) = notices.next().await {
            Box::pin(forward(client, notice)).await;
        }
    });
    tokio::select! {
        () = &mut forwarding => return,
        () = notices.ended() => {}
    }
    if timeout(LAST, forwarding).await.is_err() {
        tracing::debug!("a client does not read: the last notifications of its call were dropped");
    }
}

/// Forwards a notification to the request of the client that waits.
async fn forward(client: &AskedClient, notice: Notice) {
    let Some(call) = client.waiting() else { return };
    match notice {
        Notice::Progress(mut notice) => {
            notice.meta = notice.meta.as_ref().and_then(forward_meta);
            call.forward_progress(notice).await;
        }
        Notice::Log(mut record) => {
            record.meta = record.meta.as_ref().and_then(forward_meta);
            call.forward_log(&record).await;
        }
    }
}

/// Returns the lowest level of the log records that the client receives.
fn wanted_level(call: &SourceCall) -> Option<LoggingLevel> {
    LoggingLevel::ALL.into_iter().find(|level| call.context().logs(*level))
}
