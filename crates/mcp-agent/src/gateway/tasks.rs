//! The requests of clients about the tasks of servers, in both dialects.

use std::{
    collections::HashSet,
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};

use mcp_client::{Client, CreatedTask, RawResult, Round};
use mcp_protocol::{
    ErrorCode, InputRequests, JsonObject, Meta, Method as _, Principal, ProtocolVersion, RpcError, method,
    tasks::{TaskStatus, ext::UpdateTaskParams},
};
use mcp_server_core::source::{SourceCall, SourceOutcome, SourceResult};
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};
use tokio::time::{Instant, sleep, timeout};

use super::{
    Core,
    asked::check_declared,
    caller::Downstream,
    fault::Fault,
    members::{Members, check_names},
    process::Process,
    questions::{AskedClient, Asker, related_to},
    reach::Reached,
    relay::{of_client, with_type},
    seal::Seals,
    task_form::{Dialect, change_state, created, created_id, nest, poll_interval, relate, status},
    task_questions::TaskKey,
};
use crate::CallError;

/// The kind of sealed ids.
const KIND: &str = "task";
/// The interval of status requests, if the server names none, and its bounds.
const POLL: Duration = Duration::from_secs(1);
const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(60);
/// The interval of status requests that detect a lost server while a result is awaited.
const LIVENESS: Duration = Duration::from_secs(30);
/// How long a cancellation waits for the end of a task whose server cancels later.
const SETTLE: Duration = Duration::from_secs(5);
/// How long a request for the result of a task waits. The client can repeat the request.
const WAIT: Duration = Duration::from_secs(3600);
/// The most input requests of a task that one request for the result answers.
const QUESTIONS: usize = 1024;
/// The most input requests of a task that a session receives at the same time.
const AT_ONCE: usize = 64;

/// A task at its server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ServerTask {
    pub(super) server: String,
    /// The definition of the server. Another server under its name must not receive requests about the task.
    pub(super) fingerprint: Arc<str>,
    /// The process that has the task. `None`: each connection to the server reaches the task.
    pub(super) process: Option<Process>,
    pub(super) id: String,
    /// The tool of the task at the server. A list of the server does not name it.
    pub(super) tool: Option<String>,
}

impl Seals {
    /// Returns the id of a task for a client. It opens only for the same principal.
    pub(super) fn seal_task(&self, task: &ServerTask, principal: Option<&Principal>) -> Result<String, RpcError> {
        let process = task.process.as_ref().map(ToString::to_string);
        let text = json!([task.server, task.fingerprint, process, task.id, task.tool]).to_string();
        self.keys().seal_id(KIND, &text, principal)
    }

    fn open_task(&self, sealed: &str, principal: Option<&Principal>) -> Option<ServerTask> {
        let text = self.keys().open_id(KIND, sealed, principal)?;
        let (server, fingerprint, process, id, tool): (_, _, Option<String>, _, _) =
            serde_json::from_str(&text).ok()?;
        Some(ServerTask { server, fingerprint, process: process.map(Process::read), id, tool })
    }
}

/// Returns the error of unknown tasks, of the tasks of other callers, and of forged ids.
fn unknown() -> RpcError {
    RpcError::invalid_params("Task not found")
}

/// Returns the error of a task whose process this gateway cannot reach for the caller. `is_open`: the process runs.
fn without_process(server: &str, process: &Process, is_open: bool) -> RpcError {
    let reason = match process.number() {
        None => "other_gateway",
        Some(_) if is_open => "other_session",
        Some(_) => "connection_ended",
    };
    unknown().with_data(json!({ "server": server, "reason": reason }))
}

fn ended() -> RpcError {
    RpcError::invalid_params("the task has ended, and cannot be cancelled any more")
}

fn still_runs() -> RpcError {
    let data = json!({ "reason": "task_running", "retryable": true });
    RpcError::internal("the task still runs: request its result again").with_data(data)
}

pub(super) fn invalid(error: &serde_json::Error) -> RpcError {
    tracing::warn!(%error, "the result of a server about a task is not valid");
    RpcError::internal("the answer of the server is not valid")
}

impl Core {
    /// Returns the task that a call became, for the client.
    pub(super) fn created_task(
        self: &Arc<Self>,
        call: &SourceCall,
        (server, tool, fingerprint, process): (&Arc<str>, Box<str>, Arc<str>, Option<Process>),
        new: &CreatedTask,
        upstream: &Client,
    ) -> Result<SourceOutcome, RpcError> {
        let result = new.result();
        let version = call.context().version();
        let dialects = Dialect::of(result.version()).zip(Dialect::of(version));
        let json = text(result)?;
        let found = dialects.and_then(|(from, to)| Some((from, to, created_id(json, from)?)));
        let (from, to, id) = found.ok_or_else(|| RpcError::internal("the answer of the server is not valid"))?;
        let task = ServerTask { server: server.to_string(), fingerprint, process, id, tool: Some(tool.into()) };
        self.task_tools.create(&task);
        let id = self.seals(call)?.seal_task(&task, call.context().principal())?;
        let json = created(json, from, to, &id).map_err(|error| invalid(&error))?;
        self.follow_task(call, &task, &id, new, upstream);
        Ok(SourceOutcome::Task(SourceResult::new(json.get().to_owned(), version)))
    }

    /// Returns the task that a call names.
    pub(super) fn task_of(&self, call: &SourceCall) -> Result<ServerTask, RpcError> {
        self.seals(call)?.open_task(call.name(), call.context().principal()).ok_or_else(unknown)
    }

    /// Returns a connection to the server of a task: the connection of its process, if the server has several ones.
    ///
    /// # Errors
    /// "Task not found" if another server has its name now, or if the process has ended. The server does not start for this request.
    async fn reach_server_of(
        &self,
        call: &SourceCall,
        task: &ServerTask,
        client: &Downstream,
    ) -> Result<Reached, Fault> {
        if self.fingerprint(&task.server).is_none_or(|now| now != task.fingerprint) {
            return Err(unknown().into());
        }
        if let Some(process) = &task.process {
            return self.reach_process(&task.server, process, client).ok_or_else(|| {
                let is_open = self.has_process(&task.server, process);
                without_process(&task.server, process, is_open).into()
            });
        }
        match self.reach_server(call, &task.server, None, client).await {
            Err(Fault::Call(CallError::UnknownServer { .. })) => Err(unknown().into()),
            // The server was replaced meanwhile.
            Ok(reached) if reached.fingerprint != task.fingerprint => Err(unknown().into()),
            reached => reached,
        }
    }

    pub(super) async fn get_task(self: &Arc<Self>, call: &SourceCall) -> Result<SourceResult, Fault> {
        let request = TaskRequest::open(self, call).await?;
        let state = request.get().await?;
        request.state_for_client(&state).await
    }

    /// Waits for the result of a task, for a client of 2025-11-25.
    pub(super) async fn task_result(self: &Arc<Self>, call: &SourceCall) -> Result<SourceResult, Fault> {
        let request = TaskRequest::open(self, call).await?;
        let waited = async {
            match request.upstream {
                Dialect::Core => Box::pin(request.payload_for_client()).await,
                Dialect::Extension => Box::pin(request.follow()).await,
            }
        };
        let result = timeout(WAIT, waited).await.map_err(|_| still_runs())?;
        let key = request.key();
        let has_ended = match &result {
            Ok(_) => true,
            // It can be the result of a task that failed, or the error of the request alone.
            Err(fault) => code(fault).is_some() && self.task_notices.has(&key) && request.has_ended().await,
        };
        if has_ended {
            self.task_notices.end(&key);
        }
        let result = result.map_err(|fault| self.pages.of_fault(fault, &request.reached.client, call))?;
        let json = str_of(result.json())?;
        let mut members = Members::read(json).map_err(|error| invalid(&error))?;
        let mut meta: Meta = members.decode("_meta").unwrap_or_default();
        meta.set_related_task(call.name());
        members.set("_meta", &meta);
        Ok(SourceResult::new(members.write().get().to_owned(), result.version()))
    }

    pub(super) async fn cancel_task(self: &Arc<Self>, call: &SourceCall) -> Result<SourceResult, Fault> {
        let request = TaskRequest::open(self, call).await?;
        match (request.downstream, request.upstream) {
            (Dialect::Core, Dialect::Core) => {
                let state = request.send(method::CancelTask::NAME).await?;
                request.state_for_client(&state).await
            }
            (Dialect::Core, Dialect::Extension) => {
                let state = request.get().await?;
                if is_terminal(&state)? {
                    return Err(ended().into());
                }
                request.send(method::CancelTask::NAME).await?;
                let state = request.settled().await?;
                let members = Members::read(text(&state)?).map_err(|error| invalid(&error))?;
                if matches!(status(&members), Some(TaskStatus::Completed | TaskStatus::Failed)) {
                    return Err(ended().into());
                }
                request.state_for_client(&state).await
            }
            (Dialect::Extension, Dialect::Extension) => raw(request.send(method::CancelTask::NAME).await?),
            (Dialect::Extension, Dialect::Core) => {
                let cancelled = request.send(method::CancelTask::NAME).await;
                if cancelled.as_ref().is_err_and(|fault| code(fault) == Some(ErrorCode::INVALID_PARAMS)) {
                    // A cancellation can arrive twice or too late there. A state proves that the task exists.
                    request.get().await?;
                } else {
                    cancelled?;
                }
                // A client need not request the state of a task that it cancelled.
                self.end_task_questions(&request.key());
                Ok(acknowledgement())
            }
        }
    }

    /// Answers the input requests of a task, for a client of 2026-07-28.
    pub(super) async fn update_task(self: &Arc<Self>, call: &SourceCall) -> Result<SourceResult, Fault> {
        let request = TaskRequest::open(self, call).await?;
        if request.upstream == Dialect::Extension {
            return raw(request.send(method::UpdateTask::NAME).await?);
        }
        request.get().await?;
        let params: UpdateTaskParams = serde_json::from_str(call.params().get())
            .map_err(|error| RpcError::invalid_params(format!("the parameters cannot be read: {error}")))?;
        self.answer_task_questions(&request.key(), params.input_responses)?;
        Ok(acknowledgement())
    }
}

/// A request of a client about a task.
pub(super) struct TaskRequest<'a> {
    core: &'a Arc<Core>,
    call: &'a SourceCall,
    params: Members<'a>,
    client: Downstream,
    meta: Meta,
    pub(super) task: ServerTask,
    pub(super) reached: Reached,
    downstream: Dialect,
    pub(super) upstream: Dialect,
}

impl<'a> TaskRequest<'a> {
    /// Opens the id of the task, and reaches its server.
    pub(super) async fn open(core: &'a Arc<Core>, call: &'a SourceCall) -> Result<Self, Fault> {
        let context = call.context();
        let task = core.task_of(call)?;
        let meta = core.hop.forward_decoded(context.meta())?;
        let params = Members::read(call.params().get())
            .map_err(|error| RpcError::invalid_params(format!("the parameters cannot be read: {error}")))?;
        let client = Downstream::of(call).beside_calls();
        let principal = client.principal.as_ref();
        if core.hides_unreached_task(&task, principal) {
            return Err(unknown().into());
        }
        core.task_tools.learn(&task);
        let reached = core.reach_server_of(call, &task, &client).await?;
        // The tools of the server are known now, and the policies can have changed during its start.
        if core.hides_task(&task, principal) {
            return Err(unknown().into());
        }
        let dialects = Dialect::of(context.version()).zip(Dialect::of(reached.client.version()));
        let (downstream, upstream) = dialects.ok_or_else(unknown)?;
        Ok(Self { core, call, params, client, meta, task, reached, downstream, upstream })
    }

    /// Sends the request of the client with another method to the server.
    async fn send(&self, method: &'static str) -> Result<RawResult, Fault> {
        let mut params = self.params.clone();
        params.set("taskId", &self.task.id);
        params.remove("_meta");
        self.exchange(method, &params.write(), None).await
    }

    pub(super) async fn get(&self) -> Result<RawResult, Fault> {
        let params = to_raw_value(&json!({ "taskId": self.task.id })).map_err(|error| invalid(&error))?;
        let state = self.exchange(method::GetTask::NAME, &params, None).await;
        if state.as_ref().is_err_and(|fault| code(fault) == Some(ErrorCode::INVALID_PARAMS)) {
            // The server has forgotten the task, so no state shows its end.
            self.core.end_task_questions(&self.key());
        }
        state
    }

    /// Sends a request. A request with an asker has no time limit.
    async fn exchange(
        &self,
        method: &'static str,
        params: &RawValue,
        asker: Option<Asker>,
    ) -> Result<RawResult, Fault> {
        let process = self.task.process.as_ref();
        exchange(&self.reached, process, method, params, &self.client, self.meta.clone(), asker).await
    }

    /// Returns the result of a task at a server of 2025-11-25, with the URIs of the gateway.
    async fn payload_for_client(&self) -> Result<SourceResult, Fault> {
        let result = self.payload(Some(AskedClient::Session(self.call.clone()))).await?;
        self.core.learn_links(self.call, method::CallTool::NAME, &self.reached.server, result.bytes());
        let (names, version) = (self.core.names, result.version());
        Ok(of_client(names, method::CallTool::NAME, &self.reached.server, result.into_bytes(), version)?)
    }

    /// Returns the result of a task at a server of 2025-11-25. If a client can answer, the request waits for the end of the task.
    async fn payload(&self, client: Option<AskedClient>) -> Result<RawResult, Fault> {
        let params = to_raw_value(&json!({ "taskId": self.task.id })).map_err(|error| invalid(&error))?;
        let asker = client.map(|client| self.asker(client));
        let waits = asker.is_some();
        let mut waiting = pin!(self.exchange(method::GetTaskPayload::NAME, &params, asker));
        loop {
            tokio::select! {
                biased;
                result = &mut waiting => return result,
                // The server sends nothing while the task runs.
                () = sleep(LIVENESS), if waits => {}
            }
            tokio::select! {
                biased;
                result = &mut waiting => return result,
                state = self.get() => drop(state?),
            }
        }
    }

    fn asker(&self, client: AskedClient) -> Asker {
        Asker {
            client,
            server: Arc::clone(&self.reached.server),
            upstream: self.reached.client.clone(),
            pages: self.core.pages.clone(),
            capabilities: Arc::clone(&self.client.capabilities),
            notices: Weak::new(),
            task: Some(self.call.name().into()),
            // The questions of a task name it.
            caller: None,
        }
    }

    /// Waits for the end of a task at a server of 2026-07-28, and asks the session of the request.
    async fn follow(&self) -> Result<SourceResult, Fault> {
        let mut answered = HashSet::new();
        loop {
            let state = self.get().await?;
            let members = Members::read(text(&state)?).map_err(|error| invalid(&error))?;
            match status(&members) {
                Some(TaskStatus::Completed) => {
                    let result = members.get("result").map_or("{}", RawValue::get).to_owned();
                    return self.nested_result(&result, state.version());
                }
                Some(TaskStatus::Failed) => {
                    let failed = || RpcError::internal("the task failed without an error");
                    let error = members.decode::<RpcError>("error").unwrap_or_else(failed);
                    let (server, upstream) = (&self.reached.server, &self.reached.client);
                    let named = self.core.pages.of_error(server, Some(&error), upstream, self.call);
                    return Err(named.unwrap_or(error).into());
                }
                Some(TaskStatus::Cancelled) => return Err(RpcError::invalid_params("Task cancelled").into()),
                Some(TaskStatus::InputRequired) => {
                    let requests: InputRequests = members.decode("inputRequests").unwrap_or_default();
                    let mut open: Vec<_> =
                        requests.0.into_iter().filter(|(key, _)| answered.insert(key.clone())).collect();
                    if answered.len() > QUESTIONS {
                        return Err(RpcError::internal("the task has too many input requests").into());
                    }
                    let mut responses = JsonObject::new();
                    while !open.is_empty() {
                        let now = open.drain(..open.len().min(AT_ONCE));
                        let now = now.map(|(key, request)| (key, related_to(request, self.call.name())));
                        responses.extend(self.call.ask_all(now.collect()).await?);
                    }
                    if !responses.is_empty() {
                        let params = UpdateTaskParams::new(&*self.task.id, responses);
                        let params = to_raw_value(&params).map_err(|error| invalid(&error))?;
                        self.exchange(method::UpdateTask::NAME, &params, None).await?;
                    }
                }
                _ => {}
            }
            sleep(interval(&members, self.upstream)).await;
        }
    }

    fn nested_result(&self, json: &str, version: ProtocolVersion) -> Result<SourceResult, Fault> {
        let (server, names) = (&self.reached.server, self.core.names);
        self.core.learn_links(self.call, method::CallTool::NAME, server, json.as_bytes());
        Ok(of_client(names, method::CallTool::NAME, server, json.to_owned().into(), version)?)
    }

    /// Whether the task has ended, or its server does not know it any more.
    async fn has_ended(&self) -> bool {
        match self.get().await {
            Ok(state) => is_terminal(&state).unwrap_or(false),
            Err(fault) => code(&fault) == Some(ErrorCode::INVALID_PARAMS),
        }
    }

    /// Waits until a task that was cancelled has ended, for a limited time. Returns its state.
    async fn settled(&self) -> Result<RawResult, Fault> {
        let end = Instant::now() + SETTLE;
        loop {
            let state = self.get().await?;
            if is_terminal(&state)? || Instant::now() >= end {
                return Ok(state);
            }
            let members = Members::read(text(&state)?).map_err(|error| invalid(&error))?;
            sleep(interval(&members, self.upstream).min(Duration::from_millis(250))).await;
        }
    }

    /// Returns a state of the task in the dialect of the client.
    async fn state_for_client(&self, state: &RawResult) -> Result<SourceResult, Fault> {
        let mut json = text(state)?.to_owned();
        if (self.downstream, self.upstream) == (Dialect::Extension, Dialect::Core) {
            json = self.complete(&json).await?;
        }
        let mut members = Members::read(&json).map_err(|error| invalid(&error))?;
        if status(&members).is_some_and(TaskStatus::is_terminal) {
            let key = self.key();
            self.core.task_notices.end(&key);
            self.core.end_task_questions(&key);
        }
        if let (Dialect::Extension, Some(json)) = (self.downstream, members.get("inputRequests")) {
            let requests: Option<InputRequests> = serde_json::from_str(json.get()).map_err(|error| invalid(&error))?;
            let (requests, is_plain) = (requests.unwrap_or_default(), check_names(json.get()).is_ok());
            check_declared(self.call, &self.reached.server, &requests)?;
            if !is_plain {
                members.set("inputRequests", &requests);
            }
        }
        if let Some(result) = members.get("result").filter(|_| self.downstream == Dialect::Extension) {
            let result = self.nested_result(result.get(), state.version())?;
            let result: Box<RawValue> = serde_json::from_slice(result.json()).map_err(|error| invalid(&error))?;
            let nested = result.get().to_owned();
            let mut nested = Members::read(&nested).map_err(|error| invalid(&error))?;
            relate(&mut nested, self.call.name());
            members.set("result", &nested);
        }
        change_state(&mut members, self.upstream, self.downstream, self.call.name());
        let version = if self.downstream == Dialect::Core { self.call.context().version() } else { state.version() };
        Ok(SourceResult::new(with_type(members.write().get().to_owned().into(), version), version))
    }

    fn key(&self) -> TaskKey {
        TaskKey::new(self.core.holder(&self.task.server, &self.client), &self.task)
    }

    /// Returns the result of a task of 2025-11-25 that has ended: that of the parked request, if the task has asked. It has the URIs of
    /// the server.
    async fn ended_payload(&self) -> Result<SourceResult, Fault> {
        match self.core.take_task_result(&self.key(), self.call).await {
            Some(result) => Ok(result),
            None => self.payload(None).await.map(untranslated),
        }
    }

    /// Adds the result, the error or the input requests to the state of a task of 2025-11-25.
    async fn complete(&self, json: &str) -> Result<String, Fault> {
        let mut state = Members::read(json).map_err(|error| invalid(&error))?;
        match status(&state) {
            Some(TaskStatus::Completed | TaskStatus::Failed) => match self.ended_payload().await {
                Ok(result) => {
                    let json = str_of(result.json())?.to_owned();
                    let mut result = Members::read(&json).map_err(|error| invalid(&error))?;
                    nest(&mut result);
                    state.set("status", &TaskStatus::Completed);
                    state.set("result", &result);
                }
                Err(fault) => {
                    let Fault::Request { error, .. } = &fault else { return Err(fault) };
                    let Some(error) = error.rpc() else { return Err(fault) };
                    state.set("status", &TaskStatus::Failed);
                    state.set("error", error);
                }
            },
            Some(TaskStatus::InputRequired) => {
                // The request for the result has a connection of its own use, because it outlives this request.
                let reached = self.core.reach_server_of(self.call, &self.task, &self.client).await?;
                let (client, meta) = (self.client.clone(), self.meta.clone());
                let requests = self.core.task_questions(self.key(), self.call, reached, client, meta).await?;
                state.set("inputRequests", &requests);
            }
            _ => {}
        }
        Ok(state.write().get().to_owned())
    }
}

/// Sends a request about a task to its server, and to no other process than that of the task. A request with an asker has no time
/// limit.
pub(super) async fn exchange(
    reached: &Reached,
    process: Option<&Process>,
    method: &'static str,
    params: &RawValue,
    downstream: &Downstream,
    meta: Meta,
    asker: Option<Asker>,
) -> Result<RawResult, Fault> {
    let request = reached.client.request_raw(method, params).raw_result();
    let mut request = request.capabilities(Arc::clone(&downstream.capabilities)).meta(meta);
    if let Some(number) = process.and_then(Process::number) {
        request = request.on_connection(number);
    }
    if let Some(asker) = asker {
        request = request.answers(Arc::new(asker)).total_timeout(None).idle_timeout(None);
    } else if let Some(limit) = reached.limit {
        let limit = limit.max(Duration::from_millis(1));
        request = request.total_timeout(limit).idle_timeout(limit);
    }
    match request.raw_inputs().await {
        Ok(Round::Complete(result)) => Ok(result),
        Ok(_) => Err(RpcError::internal("the answer of the server is not valid").into()),
        Err(error) => match process {
            // A repetition cannot reach the task either.
            Some(process) if error.is_closed() && reached.client.connection_number() != process.number() => {
                tracing::debug!(server = &*reached.server, method, %error, "the process of a task ended");
                Err(without_process(&reached.server, process, false).into())
            }
            _ => Err(reached.fault(method, error)),
        },
    }
}

/// Returns the error code of a server.
fn code(fault: &Fault) -> Option<ErrorCode> {
    match fault {
        Fault::Request { error, .. } => error.rpc().map(|error| error.code),
        Fault::Call(_) | Fault::Hidden => None,
        Fault::Rpc(error) => Some(error.code),
    }
}

/// Returns the empty result of a cancellation and of an update. The server adds the members of the revision.
fn acknowledgement() -> SourceResult {
    SourceResult::new("{}", ProtocolVersion::LATEST_LEGACY)
}

fn raw(result: RawResult) -> Result<SourceResult, Fault> {
    let version = result.version();
    Ok(SourceResult::new(with_type(result.into_bytes(), version), version))
}

/// Returns a result with the URIs of its server.
pub(super) fn untranslated(result: RawResult) -> SourceResult {
    let version = result.version();
    SourceResult::new(result.into_bytes(), version)
}

pub(super) fn text(result: &RawResult) -> Result<&str, RpcError> {
    str_of(result.bytes())
}

fn str_of(json: &[u8]) -> Result<&str, RpcError> {
    std::str::from_utf8(json).map_err(|_| RpcError::internal("the answer of the server is not valid"))
}

fn is_terminal(state: &RawResult) -> Result<bool, RpcError> {
    let members = Members::read(text(state)?).map_err(|error| invalid(&error))?;
    Ok(status(&members).is_some_and(TaskStatus::is_terminal))
}

/// Returns the time until the next status request.
pub(super) fn interval(state: &Members<'_>, dialect: Dialect) -> Duration {
    poll_interval(state, dialect).unwrap_or(POLL).clamp(SHORTEST, LONGEST)
}
