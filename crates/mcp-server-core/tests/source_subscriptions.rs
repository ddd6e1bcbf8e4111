//! Tasks of a source on a `subscriptions/listen` stream. The clock of most tests is paused: it advances only while each task waits.

#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    collections::HashMap,
    future::{pending, ready},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use mcp_protocol::{ErrorCode, ProtocolVersion, RpcError};
use mcp_server_core::{
    Server,
    source::{Source, SourceCall, SourceFeatures, SourceResult, SourceSubscription, UpdateNotifier},
};
use mcp_transport::BoxFuture;
use serde_json::{Value, json};
use tokio::{
    sync::{
        Semaphore,
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    },
    time::{Instant, sleep, timeout},
};

use crate::json_client::{Client, code_and_text};

const LATEST: ProtocolVersion = ProtocolVersion::LATEST;
/// The time until the acknowledgement of a stream.
const LIMIT: Duration = Duration::from_secs(45);
const ID: &str = "io.modelcontextprotocol/subscriptionId";

/// The answer of the source to a request for the state of a task.
#[derive(Clone)]
enum Answer {
    /// A status, and its description.
    State(&'static str, &'static str),
    Fault(ErrorCode),
    /// No answer.
    Silence,
    /// The state at the begin of the request, after a permit.
    Gated(&'static str, Arc<Semaphore>),
}

/// A source whose tasks the test changes. A subscription to an unknown task fails, and one to the task `slow` has no answer.
#[derive(Clone)]
struct Board(Arc<Mutex<Tasks>>);

struct Tasks {
    answers: HashMap<&'static str, Answer>,
    notifiers: HashMap<String, UpdateNotifier>,
    /// The requests for states.
    requests: Vec<String>,
    /// Receives the tasks whose subscriptions end.
    ended: UnboundedSender<String>,
}

/// Sends the name of a task at the end of its subscription.
struct Followed(String, UnboundedSender<String>);

impl Drop for Followed {
    fn drop(&mut self) {
        self.1.send(self.0.clone()).ok();
    }
}

impl Board {
    fn new(answers: impl IntoIterator<Item = (&'static str, Answer)>) -> (Self, Server, UnboundedReceiver<String>) {
        let (ended, ends) = unbounded_channel();
        let answers = answers.into_iter().collect();
        let tasks = Tasks { answers, notifiers: HashMap::new(), requests: Vec::new(), ended };
        let board = Self(Arc::new(Mutex::new(tasks)));
        let server = Server::builder::<()>("board", "1").source(board.clone()).build();
        (board, server, ends)
    }

    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.0.lock().unwrap()
    }

    fn set(&self, task: &'static str, answer: Answer) {
        self.tasks().answers.insert(task, answer);
    }

    fn notify(&self, task: &str) {
        let notifier = self.tasks().notifiers[task].clone();
        notifier.updated();
    }

    fn requests(&self, task: &str) -> usize {
        self.tasks().requests.iter().filter(|requested| *requested == task).count()
    }
}

fn state(task: &str, status: &str, message: &str) -> Result<SourceResult, RpcError> {
    let mut state = json!({
        "resultType": "complete", "taskId": task, "status": status, "statusMessage": message, "ttlMs": null,
        "createdAt": "a", "lastUpdatedAt": "b", "vendor": { "n": 1 }, "_meta": { "a/b": 1 },
    });
    if status == "completed" {
        state["result"] = json!({ "content": [], "vendor": 2 });
    }
    Ok(SourceResult::new(state.to_string(), LATEST))
}

impl Source for Board {
    fn features(&self) -> SourceFeatures {
        SourceFeatures::NONE.with_tools().with_tasks()
    }

    fn get_task(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        let task = call.name().to_owned();
        assert_eq!((call.method(), call.params().get()), ("tasks/get", &*json!({ "taskId": task }).to_string()));
        let answer = {
            let mut tasks = self.tasks();
            tasks.requests.push(task.clone());
            tasks.answers[&*task].clone()
        };
        Box::pin(async move {
            match answer {
                Answer::State(status, message) => state(&task, status, message),
                Answer::Fault(code) => Err(RpcError::new(code, "no state")),
                Answer::Silence => pending().await,
                Answer::Gated(message, permits) => {
                    permits.acquire().await.unwrap().forget();
                    state(&task, "working", message)
                }
            }
        })
    }

    fn subscribe_task(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceSubscription, RpcError>> {
        let task = call.name().to_owned();
        assert_eq!((call.method(), call.context().version()), ("subscriptions/listen", LATEST));
        if task.starts_with("slow") {
            return Box::pin(pending());
        }
        let mut tasks = self.tasks();
        if !tasks.answers.contains_key(&*task) {
            return Box::pin(ready(Err(RpcError::invalid_params("Task not found"))));
        }
        let notifier = call.update_notifier();
        // The stream does not follow the task yet. It requests the state later.
        notifier.updated();
        tasks.notifiers.insert(task.clone(), notifier);
        Box::pin(ready(Ok(SourceSubscription::new(Followed(task, tasks.ended.clone())))))
    }
}

async fn connect(server: &Server) -> Client {
    let extension = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    Client::connect_with(server, LATEST, extension).await
}

/// Opens a stream. Returns its id and the acknowledged tasks.
async fn listen(client: &mut Client, tasks: &[&str]) -> (i64, Value) {
    let stream = client.start("subscriptions/listen", json!({ "notifications": { "taskIds": tasks } })).await;
    let mut opened = client.notification("notifications/subscriptions/acknowledged").await;
    (stream, opened["params"]["notifications"]["taskIds"].take())
}

/// Returns the next state.
async fn next(client: &mut Client) -> Value {
    client.notification("notifications/tasks").await["params"].take()
}

/// Returns the next task whose subscription ends.
async fn end(ends: &mut UnboundedReceiver<String>) -> String {
    timeout(Duration::from_secs(10), ends.recv()).await.unwrap().unwrap()
}

fn summary(state: &Value) -> [&str; 3] {
    ["taskId", "status", "statusMessage"].map(|member| state[member].as_str().unwrap())
}

/// Waits until each task waits, and reads the notifications.
async fn assert_quiet(client: &mut Client) {
    sleep(Duration::from_secs(2)).await;
    client.result("server/discover", json!({})).await;
    assert!(client.notifications.is_empty(), "{:?}", client.notifications);
}

#[tokio::test(start_paused = true)]
async fn a_stream_receives_the_states_of_the_tasks_that_its_source_follows() {
    let (board, server, mut ends) =
        Board::new([("a", Answer::State("working", "1")), ("b", Answer::State("completed", "done"))]);
    let mut client = connect(&server).await;
    let (stream, accepted) = listen(&mut client, &["a", "none", "b", "a"]).await;
    assert_eq!(accepted, json!(["a", "b"]));

    // The current states. The final state of a task ends its subscription.
    let first = next(&mut client).await;
    let expected = json!({
        "taskId": "a", "status": "working", "statusMessage": "1", "ttlMs": null, "createdAt": "a", "lastUpdatedAt": "b",
        "vendor": { "n": 1 }, "_meta": { "a/b": 1, ID: stream },
    });
    assert_eq!(first, expected);
    let second = next(&mut client).await;
    assert_eq!(summary(&second), ["b", "completed", "done"]);
    assert_eq!(second["result"], json!({ "content": [], "vendor": 2 }));
    assert_eq!(end(&mut ends).await, "b");
    board.notify("b");
    assert_quiet(&mut client).await;
    assert_eq!(board.requests("b"), 1, "a notice after the final state has no effect");

    // An equal state is not sent again.
    board.notify("a");
    assert_quiet(&mut client).await;
    assert_eq!(board.requests("a"), 2);
    for (status, message) in [("working", "2"), ("input_required", "?"), ("cancelled", "stopped")] {
        board.set("a", Answer::State(status, message));
        assert!(ends.try_recv().is_err());
        board.notify("a");
        assert_eq!(summary(&next(&mut client).await), ["a", status, message]);
    }
    assert_eq!(end(&mut ends).await, "a");
    assert_quiet(&mut client).await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_stream_ends_its_subscriptions() {
    let (board, server, mut ends) = Board::new([("a", Answer::State("working", "1"))]);
    let mut client = connect(&server).await;
    let (stream, _) = listen(&mut client, &["a"]).await;
    next(&mut client).await;
    assert!(ends.try_recv().is_err());
    let cancelled = json!({ "requestId": stream });
    client.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled })).await;
    assert_eq!(end(&mut ends).await, "a");
    board.notify("a");
    assert_quiet(&mut client).await;
    assert_eq!(board.requests("a"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_the_source_is_repeated_and_an_unknown_task_ends_its_subscription() {
    for (code, is_repeated) in [
        (ErrorCode::INTERNAL_ERROR, true),
        (ErrorCode(-32000), true),
        (ErrorCode(-32021), true),
        (ErrorCode::INVALID_PARAMS, false),
        (ErrorCode::METHOD_NOT_FOUND, false),
    ] {
        let (board, server, mut ends) =
            Board::new([("a", Answer::State("working", "1")), ("b", Answer::State("working", "1"))]);
        let mut client = connect(&server).await;
        listen(&mut client, &["a", "b"]).await;
        for _ in 0..2 {
            next(&mut client).await;
        }
        board.set("a", Answer::Fault(code));
        board.notify("a");
        sleep(Duration::from_secs(30)).await;
        let requests = board.requests("a");
        // The pause between two requests doubles each time.
        assert_eq!(requests > 4, is_repeated, "{code:?}: {requests}");
        assert!(requests < 9, "{code:?}: {requests}");
        // Another task does not wait.
        let began = Instant::now();
        board.set("b", Answer::State("working", "2"));
        board.notify("b");
        assert_eq!(summary(&next(&mut client).await), ["b", "working", "2"]);
        assert_eq!(began.elapsed(), Duration::ZERO);
        board.set("a", Answer::State("working", "2"));
        if is_repeated {
            sleep(Duration::from_secs(30)).await;
            assert_eq!(summary(&next(&mut client).await), ["a", "working", "2"]);
            assert!(ends.try_recv().is_err());
        } else {
            assert_eq!(end(&mut ends).await, "a");
            board.notify("a");
        }
        assert_quiet(&mut client).await;
    }
}

#[tokio::test(start_paused = true)]
async fn each_task_without_a_state_has_its_own_growing_pause() {
    const FAILING: [&str; 3] = ["a", "b", "c"];
    let working = FAILING.into_iter().chain(["healthy"]).map(|task| (task, Answer::State("working", "1")));
    let (board, server, _ends) = Board::new(working);
    let mut client = connect(&server).await;
    listen(&mut client, &["a", "b", "c", "healthy"]).await;
    for _ in 0..4 {
        next(&mut client).await;
    }
    for task in FAILING {
        board.set(task, Answer::Fault(ErrorCode::INTERNAL_ERROR));
        board.notify(task);
    }
    for (minutes, least, most) in [(2, 7, 11), (10, 20, 27)] {
        let before = FAILING.map(|task| board.requests(task));
        for _ in 0..minutes * 6 {
            // The states of another task do not shorten the pauses.
            board.notify("healthy");
            sleep(Duration::from_secs(10)).await;
        }
        for (task, before) in FAILING.into_iter().zip(before) {
            let requests = board.requests(task) - before;
            assert!((least..=most).contains(&requests), "{task}: {requests} requests in {minutes} minutes");
        }
    }
    for task in FAILING {
        board.set(task, Answer::State("working", "2"));
    }
    sleep(Duration::from_secs(30)).await;
    for _ in FAILING {
        assert_eq!(next(&mut client).await["statusMessage"], "2");
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_without_an_answer_does_not_delay_the_others() {
    const SILENT: [&str; 6] = ["s1", "s2", "s3", "s4", "s5", "s6"];
    /// The states that a stream requests at the same time.
    const REQUESTS: usize = 4;
    for silent in 1..=SILENT.len() {
        let names = &SILENT[..silent];
        let answers = names.iter().map(|name| (*name, Answer::Silence));
        let (board, server, _ends) = Board::new(answers.chain([("a", Answer::State("working", "1"))]));
        let mut client = connect(&server).await;
        let tasks: Vec<&str> = names.iter().copied().chain(["a"]).collect();
        listen(&mut client, &tasks).await;
        let began = Instant::now();
        sleep(Duration::from_millis(1)).await;
        assert_eq!(board.tasks().requests.len(), (silent + 1).min(REQUESTS), "{silent}");
        assert_eq!(board.requests("a"), usize::from(silent < REQUESTS), "{silent}");
        assert_eq!(summary(&next(&mut client).await), ["a", "working", "1"]);
        // Each request has 10 seconds.
        let most = if silent < REQUESTS { 1 } else { 11 };
        assert!(began.elapsed() < Duration::from_secs(most), "{silent}: {:?}", began.elapsed());
        // The tasks without a state have half of the requests now.
        sleep(Duration::from_secs(20)).await;
        for message in ["2", "3"] {
            names.iter().for_each(|name| board.notify(name));
            sleep(Duration::from_millis(1)).await;
            board.set("a", Answer::State("working", message));
            board.notify("a");
            let began = Instant::now();
            assert_eq!(summary(&next(&mut client).await), ["a", "working", message]);
            assert!(began.elapsed() < Duration::from_secs(1), "{silent}: {:?}", began.elapsed());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_tasks_of_silent_servers_do_not_delay_the_states_of_another_server() {
    let server = Server::builder::<()>("servers", "1").source(Servers).build();
    let mut client = connect(&server).await;
    let mute = (0..60).map(|number| format!("mute{} 0 0 {number}", number % 3));
    let tasks: Vec<String> = mute.chain(["other 0 0 0".to_owned()]).collect();
    let began = Instant::now();
    let names: Vec<&str> = tasks.iter().map(|task| &**task).collect();
    assert_eq!(listen(&mut client, &names).await.1, json!(names));
    assert_eq!(summary(&next(&mut client).await), ["other 0 0 0", "working", "1"]);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_change_during_the_request_for_a_state_causes_another_request() {
    let gate = Arc::new(Semaphore::new(0));
    let (board, server, _ends) = Board::new([("a", Answer::Gated("old", Arc::clone(&gate)))]);
    let mut client = connect(&server).await;
    listen(&mut client, &["a"]).await;
    sleep(Duration::from_millis(1)).await;
    assert_eq!(board.requests("a"), 1);
    board.set("a", Answer::State("working", "new"));
    board.notify("a");
    sleep(Duration::from_millis(1)).await;
    assert_eq!(board.requests("a"), 1, "two requests would cause an old state after a new state");
    gate.add_permits(1);
    for message in ["old", "new"] {
        assert_eq!(summary(&next(&mut client).await), ["a", "working", message]);
    }
    assert_quiet(&mut client).await;
}

#[tokio::test(start_paused = true)]
async fn all_subscriptions_of_a_stream_have_one_time_limit() {
    let (_board, server, _ends) = Board::new([("a", Answer::State("working", "1"))]);
    let mut client = connect(&server).await;
    // The source begins eight subscriptions at the same time.
    let slow = (0..9).map(|number| format!("slow{number}"));
    let tasks: Vec<String> = std::iter::once("a".to_owned()).chain(slow).collect();
    let filter = json!({ "notifications": { "taskIds": tasks } });
    let began = Instant::now();
    client.start("subscriptions/listen", filter).await;
    sleep(LIMIT).await;
    let opened = client.notification("notifications/subscriptions/acknowledged").await;
    assert_eq!(opened["params"]["notifications"], json!({ "taskIds": ["a"] }));
    assert!(began.elapsed() < LIMIT + Duration::from_secs(1));
}

/// A source whose tasks are at several servers. The name of a task has its server, the seconds before its request, and the milliseconds
/// until the answer of the server. A server whose name begins with `mute` returns no states.
struct Servers;

impl Source for Servers {
    fn features(&self) -> SourceFeatures {
        SourceFeatures::NONE.with_tools().with_tasks()
    }

    fn has_turns(&self) -> bool {
        true
    }

    fn subscribe_task(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceSubscription, RpcError>> {
        Box::pin(async move {
            let mut parts = call.name().split(' ');
            let server = parts.next().unwrap();
            let mut number = || parts.next().unwrap().parse::<u64>().unwrap();
            let turn = call.turn_at(server).await;
            sleep(Duration::from_secs(number())).await;
            turn.begin()?;
            sleep(Duration::from_millis(number())).await;
            turn.answered();
            Ok(SourceSubscription::default())
        })
    }

    fn get_task(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        Box::pin(async move {
            if call.name().starts_with("mute") {
                return pending().await;
            }
            state(call.name(), "working", "1")
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_delays_no_subscription_at_another_server() {
    const SILENT: u64 = 1 << 40;
    let server = Server::builder::<()>("servers", "1").source(Servers).build();
    // Each group of tasks has a number, a server, the seconds before the request, and the milliseconds until the answer.
    type Group = (usize, &'static str, u64, u64, bool);
    let cases: [(&str, &[Group], u64); 10] = [
        ("a silent server", &[(200, "silent", 0, SILENT, false), (1, "other", 0, 0, true)], 4),
        ("a few silent tasks of a server", &[(7, "s", 0, SILENT, false), (20, "s", 0, 0, true)], 2),
        ("silent tasks with all turns", &[(8, "s", 0, SILENT, false), (20, "s", 0, 0, true)], 10),
        (
            "silent tasks with all turns of one of two servers",
            &[(8, "s", 0, SILENT, false), (20, "s", 0, 0, true), (1, "other", 0, 0, true)],
            2,
        ),
        ("a slow server with many tasks", &[(40, "slow", 0, 1500, true), (1, "other", 0, 0, true)], 8),
        ("a start or an approval", &[(1, "starts", 20, 0, true), (1, "other", 0, 0, true)], 20),
        ("a slow server alone", &[(17, "slow", 0, 5000, true)], 15),
        ("a server that starts, and a silent server", &[(8, "a", 9, 9, true), (20, "silent", 0, SILENT, false)], 11),
        ("a silent server alone", &[(20, "silent", 0, SILENT, false)], 20),
        ("a silent server without further tasks", &[(5, "silent", 0, SILENT, false)], LIMIT.as_secs()),
    ];
    for (case, groups, seconds) in cases {
        let mut client = connect(&server).await;
        let names = groups.iter().flat_map(|(count, server, before, wait, is_accepted)| {
            (0..*count).map(move |number| (format!("{server} {before} {wait} {number}"), *is_accepted))
        });
        let names: Vec<(String, bool)> = names.collect();
        let accepted: Vec<&str> =
            names.iter().filter(|(_, is_accepted)| *is_accepted).map(|(name, _)| &**name).collect();
        let filter = json!({ "notifications": { "taskIds": names.iter().map(|(name, _)| name).collect::<Vec<_>>() } });
        let began = Instant::now();
        client.start("subscriptions/listen", filter).await;
        sleep(Duration::from_millis(seconds * 1000 - 200)).await;
        let opened = client.notification("notifications/subscriptions/acknowledged").await;
        let expected = if accepted.is_empty() { Value::Null } else { json!(accepted) };
        assert_eq!(opened["params"]["notifications"]["taskIds"], expected, "{case}");
        let elapsed = began.elapsed();
        assert!(elapsed < Duration::from_secs(seconds + 1), "{case}: {elapsed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_does_not_delay_the_changes_of_lists() {
    let server = Server::builder::<()>("servers", "1").source(Servers).build();
    let mut client = connect(&server).await;
    let silent = format!("silent 0 {} 0", 1_u64 << 40);
    let began = Instant::now();
    client
        .start("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true, "taskIds": [silent] } }))
        .await;
    sleep(Duration::from_secs(2)).await;
    let opened = client.notification("notifications/subscriptions/acknowledged").await;
    assert_eq!(opened["params"]["notifications"], json!({ "toolsListChanged": true }));
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}

/// A source with tasks that follows none.
struct Unfollowed;

impl Source for Unfollowed {
    fn features(&self) -> SourceFeatures {
        SourceFeatures::NONE.with_tools().with_tasks()
    }
}

#[tokio::test]
async fn a_source_that_follows_no_task_acknowledges_none() {
    let server = Server::builder::<()>("unfollowed", "1").source(Unfollowed).build();
    assert_eq!(listen(&mut connect(&server).await, &["a"]).await.1, Value::Null);
    let (_board, server, _ends) = Board::new([("a", Answer::State("working", "1"))]);
    let mut plain = Client::connect(&server, LATEST).await;
    let filter = json!({ "notifications": { "taskIds": ["a"] } });
    let error = plain.error("subscriptions/listen", filter).await;
    assert_eq!(code_and_text(&error).0, -32021, "the client did not declare the extension");
}
