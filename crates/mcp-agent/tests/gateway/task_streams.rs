//! The tasks of `subscriptions/listen` streams (2026-07-28): each change reaches the stream of the caller alone. The clock of these
//! tests is paused: it advances only while each task waits for a time.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, ready},
    time::Duration,
};

use mcp_agent::{
    Gateway, Host, HostBuilder,
    policy::{Gate, PolicyFile},
};
use mcp_client::{Client, Subscription, Update, transport::Connect};
use mcp_protocol::{
    InputRequest, ProtocolVersion, RpcError, SubscriptionFilter,
    tasks::{TaskStatus, ext::DetailedTask},
};
use mcp_server::{
    Server,
    source::{
        Source, SourceCall, SourceFeatures, SourceList, SourceOutcome, SourcePage, SourceResult, SourceSubscription,
        UpdateNotifier,
    },
};
use mcp_transport::{BoxFuture, Frame, FrameSender, Transport, TransportError};
use serde_json::{Value, json};
use tokio::{
    task::yield_now,
    time::{Instant, sleep, timeout},
};

use crate::common::{Pipe, REVISIONS, SOON, client, connect_as, page};

const LATEST: ProtocolVersion = REVISIONS[1];
/// A time in which each follower of a task acts.
const LONG: Duration = Duration::from_secs(300);

/// A server and its way to report changes of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A server of the session era. Its tasks are polled.
    Session,
    /// A server that acknowledges the tasks of a stream.
    Reports,
    /// A server of 2026-07-28 that acknowledges no task.
    Refuses,
}

const KINDS: [Kind; 3] = [Kind::Session, Kind::Reports, Kind::Refuses];

/// A server whose tasks the test changes.
#[derive(Clone)]
struct Board(Kind, Arc<Mutex<Tasks>>);

#[derive(Default)]
struct Tasks {
    /// The status and the message of each task.
    states: HashMap<String, (&'static str, &'static str)>,
    notifiers: HashMap<String, UpdateNotifier>,
    ttl: Option<u64>,
    /// The server answers no request for a state.
    is_silent: bool,
    /// The requests for states, and for subscriptions.
    requests: usize,
    subscriptions: usize,
    /// The messages to which a task changes while its subscriptions open, the last one first.
    changes: Vec<&'static str>,
}

impl Board {
    fn new(kind: Kind) -> Self {
        Self(kind, Arc::default())
    }

    fn version(&self) -> ProtocolVersion {
        if self.0 == Kind::Session { REVISIONS[0] } else { LATEST }
    }

    fn server(&self) -> Server {
        Server::builder::<()>("s", "1").versions([self.version()]).source(self.clone()).build()
    }

    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.1.lock().unwrap()
    }

    /// Changes a task. A server that reports changes notifies its subscribers.
    fn change(&self, task: &str, status: &'static str, message: &'static str) {
        let mut tasks = self.tasks();
        tasks.states.insert(task.to_owned(), (status, message));
        tasks.notifiers.get(task).into_iter().for_each(UpdateNotifier::updated);
    }

    fn forget(&self, task: &str) {
        self.tasks().states.remove(task);
    }

    /// Returns the number of requests and of open subscriptions.
    fn work(&self) -> (usize, usize) {
        let tasks = self.tasks();
        (tasks.requests, tasks.notifiers.len())
    }

    fn state(&self, task: &str) -> Option<Value> {
        let tasks = self.tasks();
        let (status, message) = tasks.states.get(task)?;
        let mut state = json!({
            "taskId": task, "status": status, "statusMessage": message, "vendor": 1,
            "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z",
        });
        let times = if self.0 == Kind::Session { ["ttl", "pollInterval"] } else { ["ttlMs", "pollIntervalMs"] };
        (state[times[0]], state[times[1]]) = (json!(tasks.ttl), json!(2000));
        if self.0 != Kind::Session && *status == "completed" {
            state["result"] = json!({ "resultType": "complete", "content": [], "vendor": 2 });
        }
        Some(state)
    }
}

/// Removes the notifier of a task at the end of its subscription.
struct Followed(Board, String);

impl Drop for Followed {
    fn drop(&mut self) {
        self.0.tasks().notifiers.remove(&self.1);
    }
}

impl Source for Board {
    fn features(&self) -> SourceFeatures {
        SourceFeatures::NONE.with_tools().with_tasks()
    }

    fn list(&self, _list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        page([r#"{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}"#])
    }

    fn call_tool(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        let task = format!("up-{}", self.tasks().states.len());
        self.change(&task, "working", "begun");
        let mut state = self.state(&task).unwrap();
        if self.0 == Kind::Session {
            state = json!({ "task": state });
        } else {
            state["resultType"] = json!("task");
        }
        let created = SourceResult::new(state.to_string(), self.version());
        Box::pin(async move { Ok(SourceOutcome::Task(created)) })
    }

    fn get_task(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        self.tasks().requests += 1;
        if self.tasks().is_silent {
            return Box::pin(std::future::pending());
        }
        let state = self.state(call.name()).ok_or_else(|| RpcError::invalid_params("Task not found"));
        let state = state.map(|mut state| {
            if self.0 != Kind::Session {
                state["resultType"] = json!("complete");
            }
            SourceResult::new(state.to_string(), self.version())
        });
        Box::pin(async move { state })
    }

    fn task_result(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        let is_asking = self.tasks().states[call.name()].0 == "input_required";
        let version = self.version();
        Box::pin(async move {
            if is_asking {
                call.ask(InputRequest::list_roots()).await?;
                std::future::pending::<()>().await;
            }
            Ok(SourceResult::new(r#"{"content":[],"vendor":2}"#, version))
        })
    }

    fn subscribe_task(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceSubscription, RpcError>> {
        let (task, notifier) = (call.name().to_owned(), call.update_notifier());
        let change = {
            let mut tasks = self.tasks();
            tasks.subscriptions += 1;
            tasks.changes.pop()
        };
        Box::pin(async move {
            if self.0 != Kind::Reports {
                return Err(RpcError::invalid_params("not reported"));
            }
            if let Some(message) = change {
                // The stream of the client has requested the state before.
                while self.tasks().requests < 2 {
                    yield_now().await;
                }
                self.tasks().states.insert(task.clone(), ("working", message));
            }
            self.tasks().notifiers.insert(task.clone(), notifier);
            Ok(SourceSubscription::new(Followed(self.clone(), task)))
        })
    }
}

/// Connects to a server by a pipe that loses the notifications about tasks.
struct Lossy(Pipe);

struct LossyTransport(Box<dyn Transport>);

impl Connect for Lossy {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        Box::pin(async { Ok(Box::new(LossyTransport(self.0.connect().await?)) as Box<dyn Transport>) })
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

impl Transport for LossyTransport {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, TransportError>>> {
        loop {
            match ready!(self.0.poll_recv(cx)) {
                Some(Ok(frame)) if String::from_utf8_lossy(&frame.message).contains("notifications/tasks") => {}
                received => return Poll::Ready(received),
            }
        }
    }

    fn sender(&self) -> Arc<dyn FrameSender> {
        self.0.sender()
    }
}

fn host(board: &Board) -> (HostBuilder, Pipe) {
    let pipe = Pipe::new(board.server());
    (Host::builder("gateway", "1").server("s", pipe.clone()), pipe)
}

async fn gateway(host: HostBuilder) -> Server {
    Gateway::builder(host.start().await.unwrap()).build().unwrap().versions([LATEST]).build()
}

/// Starts a task, and returns its id.
async fn start(client: &Client) -> String {
    start_with(client, "s__t").await
}

/// Starts a task of a tool, and returns its id.
async fn start_with(client: &Client, tool: &str) -> String {
    let started = timeout(SOON, client.call_tool(tool, ()).as_task().into_future()).await.unwrap().unwrap();
    started.task().unwrap().id().to_owned()
}

async fn listen(client: &Client, tasks: &[&str]) -> Subscription {
    let filter = SubscriptionFilter::new().with_tasks(tasks.iter().copied());
    timeout(SOON, client.listen(filter)).await.unwrap().unwrap()
}

async fn next(stream: &mut Subscription) -> DetailedTask {
    match timeout(LONG, stream.next()).await.unwrap().unwrap().unwrap() {
        Update::Task(task) => *task,
        other => panic!("{other:?}"),
    }
}

async fn expect(stream: &mut Subscription, id: &str, status: TaskStatus, message: &str, kind: Kind) -> DetailedTask {
    let state = next(stream).await;
    let seen = (&*state.task.task_id, state.task.status, state.task.status_message.as_deref());
    assert_eq!(seen, (id, status, Some(message)), "{kind:?}");
    state
}

/// Waits a long time. The stream sends nothing meanwhile.
async fn assert_quiet(stream: &mut Subscription, case: &str) {
    let update = timeout(LONG, stream.next()).await;
    assert!(update.is_err(), "{case}: {update:?}");
}

/// Checks that no part of the gateway requests the state of a task, or follows it.
async fn assert_idle(board: &Board, case: &str) {
    sleep(Duration::from_secs(1)).await;
    let work = board.work();
    assert_eq!(work.1, 0, "{case}");
    sleep(LONG).await;
    assert_eq!(board.work(), work, "{case}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_receives_each_change_of_a_task_until_its_final_state() {
    for kind in KINDS {
        let board = Board::new(kind);
        let client = client().connect(&gateway(host(&board).0).await).await.unwrap();
        let (id, other) = (start(&client).await, start(&client).await);
        let mut notices = client.notifications();
        let mut stream = listen(&client, &[&id, "forged"]).await;
        assert_eq!(stream.honoured().task_ids, [&*id], "{kind:?}");
        expect(&mut stream, &id, TaskStatus::Working, "begun", kind).await;
        board.change("up-1", "working", "other");
        for message in ["half", "nearly"] {
            assert_quiet(&mut stream, &format!("{kind:?}")).await;
            board.change("up-0", "working", message);
            expect(&mut stream, &id, TaskStatus::Working, message, kind).await;
        }
        board.change("up-0", "completed", "done");
        let last = expect(&mut stream, &id, TaskStatus::Completed, "done", kind).await;
        assert_eq!(last.result.unwrap()["vendor"], 2, "{kind:?}");
        assert_idle(&board, &format!("{kind:?}")).await;
        // Unknown members pass, and the id at the server does not.
        let mut states = 0;
        while let Ok(Some(notice)) = timeout(Duration::ZERO, notices.next()).await {
            if notice.method() == "notifications/tasks" {
                let state = notice.raw_params().unwrap().get();
                assert!(state.contains(r#""vendor":1"#) && !state.contains("up-0"), "{kind:?}: {state}");
                assert!(!state.contains(&other) && !state.starts_with(r#"{"resultType""#), "{kind:?}: {state}");
                states += 1;
            }
        }
        assert_eq!(states, 4, "{kind:?}");
        // A task that has ended has its final state alone.
        let mut again = listen(&client, &[&id]).await;
        expect(&mut again, &id, TaskStatus::Completed, "done", kind).await;
        assert_idle(&board, &format!("{kind:?}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_stream_of_another_principal_follows_no_task() {
    for kind in KINDS {
        let board = Board::new(kind);
        let gateway = gateway(host(&board).0).await;
        let (ada, grace) = (connect_as(&gateway, "ada").await, connect_as(&gateway, "grace").await);
        let id = start(&ada).await;
        let mut of_grace = listen(&grace, &[&id]).await;
        assert!(of_grace.honoured().task_ids.is_empty(), "{kind:?}");
        assert_eq!(board.work(), (0, 0), "{kind:?}");
        let mut of_ada = listen(&ada, &[&id]).await;
        expect(&mut of_ada, &id, TaskStatus::Working, "begun", kind).await;
        board.change("up-0", "completed", "done");
        expect(&mut of_ada, &id, TaskStatus::Completed, "done", kind).await;
        assert_quiet(&mut of_grace, &format!("{kind:?}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_a_policy_denies_is_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("policy.toml");
    for kind in KINDS {
        // The policy changes before the stream, or while the stream follows the task. The task changes after it, or does not.
        for (is_before, changes) in [(true, false), (false, false), (false, true)] {
            let case = format!("{kind:?} {is_before} {changes}");
            std::fs::write(&path, "").unwrap();
            let file = PolicyFile::load(&path).unwrap();
            let board = Board::new(kind);
            let host = host(&board).0.gate(Gate::new().policy_file(file.clone()));
            let ada = connect_as(&gateway(host).await, "ada").await;
            let id = start(&ada).await;
            let deny = || {
                std::fs::write(&path, "[[rule]]\ntool = \"t\"\neffect = \"deny\"\n").unwrap();
                file.reload().unwrap();
            };
            if is_before {
                deny();
            }
            let mut stream = listen(&ada, &[&id]).await;
            assert_eq!(stream.honoured().task_ids.is_empty(), is_before, "{case}");
            if !is_before {
                expect(&mut stream, &id, TaskStatus::Working, "begun", kind).await;
                // The subscription at the server is open.
                sleep(Duration::from_millis(100)).await;
                deny();
            }
            if changes {
                board.change("up-0", "completed", "done");
            }
            assert_quiet(&mut stream, &case).await;
            assert_idle(&board, &case).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_during_a_lost_connection_reaches_the_stream() {
    for kind in KINDS {
        let board = Board::new(kind);
        let (host, pipe) = host(&board);
        let client = client().connect(&gateway(host).await).await.unwrap();
        let id = start(&client).await;
        let mut stream = listen(&client, &[&id]).await;
        expect(&mut stream, &id, TaskStatus::Working, "begun", kind).await;
        for (status, message) in [("working", "half"), ("completed", "done")] {
            sleep(Duration::from_secs(10)).await;
            pipe.kill();
            board.tasks().states.insert("up-0".to_owned(), (status, message));
            let state = next(&mut stream).await;
            assert_eq!(state.task.status_message.as_deref(), Some(message), "{kind:?}");
        }
        assert_eq!(stream.honoured().task_ids, [&*id], "{kind:?}");
        assert_idle(&board, &format!("{kind:?}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_while_a_subscription_opens_reaches_the_stream() {
    let board = Board::new(Kind::Reports);
    board.tasks().changes = vec!["second", "first"];
    let pipe = Pipe::new(board.server());
    let host = Host::builder("gateway", "1").server("s", Lossy(pipe.clone()));
    let client = client().connect(&gateway(host).await).await.unwrap();
    let id = start(&client).await;
    let mut stream = listen(&client, &[&id]).await;
    // The change can precede the first notification, which then has the newer state.
    let state = next(&mut stream).await;
    if state.task.status_message.as_deref() == Some("begun") {
        expect(&mut stream, &id, TaskStatus::Working, "first", Kind::Reports).await;
    } else {
        assert_eq!(state.task.status_message.as_deref(), Some("first"));
    }
    pipe.kill();
    expect(&mut stream, &id, TaskStatus::Working, "second", Kind::Reports).await;
    assert_eq!(board.tasks().subscriptions, 2);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_stream_and_a_lost_task_end_the_follower_and_the_lifetime_does_not() {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum End {
        Drop,
        Forgotten,
        Lifetime,
    }
    for kind in KINDS {
        for end in [End::Drop, End::Forgotten, End::Lifetime] {
            let board = Board::new(kind);
            board.tasks().ttl = (end == End::Lifetime).then_some(30_000);
            let client = client().connect(&gateway(host(&board).0).await).await.unwrap();
            let id = start(&client).await;
            let mut stream = listen(&client, &[&id]).await;
            expect(&mut stream, &id, TaskStatus::Working, "begun", kind).await;
            sleep(Duration::from_secs(5)).await;
            let (before, subscriptions) = board.work();
            assert_eq!(subscriptions, usize::from(kind == Kind::Reports), "{kind:?}");
            sleep(Duration::from_secs(10)).await;
            assert_eq!(board.work().0 == before, kind == Kind::Reports, "{kind:?}");
            // A server that refuses the subscription receives no further request for one.
            assert_eq!(board.tasks().subscriptions, usize::from(kind != Kind::Session), "{kind:?}");
            match end {
                End::Drop => drop(stream),
                End::Forgotten => {
                    board.forget("up-0");
                    board.tasks().notifiers.get("up-0").into_iter().for_each(UpdateNotifier::updated);
                    // The server reports nothing about an unknown task. The stream requests its state after a minute.
                    sleep(Duration::from_secs(70)).await;
                }
                End::Lifetime => {
                    // The server keeps the task beyond its lifetime.
                    sleep(Duration::from_secs(30)).await;
                    board.change("up-0", "completed", "done");
                    expect(&mut stream, &id, TaskStatus::Completed, "done", kind).await;
                }
            }
            assert_idle(&board, &format!("{kind:?} {end:?}")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_receives_the_questions_of_a_task_of_a_server_of_the_session_era() {
    let board = Board::new(Kind::Session);
    let user = client().roots([]).connect(&gateway(host(&board).0).await).await.unwrap();
    let id = start(&user).await;
    let mut stream = listen(&user, &[&id]).await;
    expect(&mut stream, &id, TaskStatus::Working, "begun", Kind::Session).await;
    board.change("up-0", "input_required", "?");
    let state = expect(&mut stream, &id, TaskStatus::InputRequired, "?", Kind::Session).await;
    let requests = state.input_requests.unwrap().0;
    assert_eq!(requests.len(), 1);
    let responses: serde_json::Map<_, _> = requests.into_keys().map(|key| (key, json!({ "roots": [] }))).collect();
    let update = json!({ "taskId": id, "inputResponses": responses });
    crate::common::raw(&user, "tasks/update", update).await.unwrap();
    // The question has its answer, which the status of the server does not show.
    let state = expect(&mut stream, &id, TaskStatus::InputRequired, "?", Kind::Session).await;
    assert!(state.input_requests.unwrap().0.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_tasks_of_a_silent_server_delay_no_task_of_another_server() {
    for kind in KINDS {
        let (silent, board) = (Board::new(kind), Board::new(kind));
        let host = host(&board).0.server("silent", Pipe::new(silent.server()));
        let client = client().connect(&gateway(host).await).await.unwrap();
        let mut tasks = Vec::new();
        for _ in 0..20 {
            tasks.push(start_with(&client, "silent__t").await);
        }
        let id = start(&client).await;
        silent.tasks().is_silent = true;
        // The task with an answer is the last one.
        let ids: Vec<&str> = tasks.iter().chain([&id]).map(|id| &**id).collect();
        let began = Instant::now();
        let mut stream = listen(&client, &ids).await;
        assert_eq!(stream.honoured().task_ids, [&*id], "{kind:?}");
        assert!(began.elapsed() < Duration::from_secs(5), "{kind:?}: {:?}", began.elapsed());
        expect(&mut stream, &id, TaskStatus::Working, "begun", kind).await;
        // The server receives a limited number of requests.
        assert_eq!(silent.work().0, 16, "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_limited_number_of_tasks_is_followed() {
    const OF_PRINCIPAL: usize = 256;
    let board = Board::new(Kind::Session);
    let gateway = gateway(host(&board).0).await;
    let (ada, grace) = (connect_as(&gateway, "ada").await, connect_as(&gateway, "grace").await);
    let mut tasks = Vec::new();
    for _ in 0..=OF_PRINCIPAL {
        tasks.push(start(&ada).await);
    }
    let ids: Vec<&str> = tasks.iter().map(|id| &**id).collect();
    let first = listen(&ada, &ids[..OF_PRINCIPAL]).await;
    assert_eq!(first.honoured().task_ids, ids[..OF_PRINCIPAL]);
    let further = listen(&ada, &ids[OF_PRINCIPAL..]).await;
    assert!(further.honoured().task_ids.is_empty());
    let of_grace = start(&grace).await;
    assert_eq!(listen(&grace, &[&of_grace]).await.honoured().task_ids, [&*of_grace]);
    // The end of a stream makes room.
    drop((first, further));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(listen(&ada, &ids[OF_PRINCIPAL..]).await.honoured().task_ids, ids[OF_PRINCIPAL..]);
}
