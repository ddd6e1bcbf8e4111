//! Tasks in a fleet: their state and messages across nodes, the death of a node, and an unavailable store.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::{sync::Arc, time::Duration};

use mcp_protocol::{CallToolResult, Principal, ProtocolVersion};
use mcp_server_core::{NewTask, TaskPolicy, TaskSupport, engine::Engine as _, tool};
use mcp_store::{KeyValue as _, MemoryStore};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    cut_store::{CutStore, Link},
    json_client::{Client, code_and_text, request_with_scope},
    tasks_fixture::{Jobs, declared, made, make, of, wait_for},
};

/// A node, a client of it, and its connection to the store.
pub(crate) struct Place {
    pub(crate) jobs: Jobs,
    pub(crate) client: Client,
    pub(crate) cut: CutStore,
}

impl Place {
    pub(crate) async fn of(store: &MemoryStore) -> Self {
        let cut = CutStore::to(store);
        let jobs = Jobs::with(|builder| builder.store(Arc::new(cut.clone())).standalone_tasks());
        Self { client: jobs.modern().await, jobs, cut }
    }

    /// Stops the node for all other nodes: none of its messages and writes arrive any more.
    fn kill(&self) {
        self.cut.set(Link::Stalled);
    }

    pub(crate) async fn get(&mut self, id: &Value) -> Value {
        self.client.result("tasks/get", of(id)).await
    }
}

pub(crate) async fn two() -> (MemoryStore, Place, Place) {
    let store = MemoryStore::new();
    let (here, there) = (Place::of(&store).await, Place::of(&store).await);
    (store, here, there)
}

/// Reads the task until it has failed. Panics after 6 seconds.
async fn fails_in_time(place: &mut Place, id: &Value, start: Instant) -> Value {
    loop {
        let task = place.get(id).await;
        assert!(start.elapsed() < Duration::from_secs(6), "{task}");
        if task["status"] == "failed" {
            return task;
        }
        assert_eq!(task["status"], "working");
        sleep(Duration::from_millis(500)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn running_tasks_of_a_killed_node_fail_and_ended_tasks_keep_their_results() {
    let (_store, mut here, mut there) = two().await;
    let (mut running, mut ended) = (Vec::new(), Vec::new());
    for _ in 0..100 {
        running.push(made(&mut here.client, "hold").await);
        ended.push(made(&mut here.client, "must").await);
    }
    for id in &ended {
        wait_for(&mut here.client, id, "completed").await;
    }
    for id in &running {
        assert_eq!(there.get(id).await["status"], "working");
    }
    here.kill();
    let start = Instant::now();
    for id in &running {
        let task = fails_in_time(&mut there, id, start).await;
        let text = "the node of this task stopped before the task ended; the call can be sent again";
        assert_eq!(code_and_text(&task["error"]), (-32603, text));
        assert_eq!(task["error"]["data"], json!({ "reason": "node_stopped", "retryable": true }));
    }
    for id in &ended {
        assert_eq!(there.get(id).await["result"]["content"][0]["text"], "must");
    }
    let mut legacy = there.jobs.legacy().await;
    let listed = legacy.list("tasks/list", "tasks").await;
    let count = |status: &str| listed.iter().filter(|task| task["status"] == status).count();
    assert_eq!((listed.len(), count("failed"), count("completed")), (200, 100, 100));
}

#[tokio::test]
async fn a_node_without_the_tool_requires_the_scopes_of_a_task() {
    let store = Arc::new(MemoryStore::new());
    let jobs = |has_tool: bool| {
        Jobs::with(|builder| {
            let builder = builder.store(store.clone());
            let guarded = tool("guarded", async || "guarded").task(TaskSupport::Required);
            let guarded = guarded.task_policy(TaskPolicy::Immediately).requires_scopes(["jobs"]);
            if has_tool { builder.tool(guarded) } else { builder }
        })
    };
    let (here, there) = (jobs(true), jobs(false));
    let request = async |jobs: &Jobs, method: &str, mut params: Value, scopes: &[&str]| {
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = declared();
        let ada = Arc::new(Principal::new("ada").with_scopes(scopes.iter().copied()));
        request_with_scope(&jobs.server, method, params, |scope| scope.principal(Some(ada))).await.unwrap()
    };
    let created = request(&here, "tools/call", json!({ "name": "guarded" }), &["jobs"]).await;
    let id = json!({ "taskId": created["result"]["taskId"] });
    for method in ["tasks/get", "tasks/cancel"] {
        for jobs in [&here, &there] {
            let denied = request(jobs, method, id.clone(), &["other"]).await;
            assert_eq!(denied["error"]["data"]["requiredScopes"], json!(["jobs"]), "{method} {denied}");
            let allowed = request(jobs, method, id.clone(), &["jobs"]).await;
            assert!(allowed["result"].is_object(), "{method} {allowed}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_ends_the_tasks_of_a_killed_node() {
    let (_store, mut here, there) = two().await;
    made(&mut here.client, "hold").await;
    here.kill();
    sleep(Duration::from_secs(15)).await;
    let mut legacy = there.jobs.legacy().await;
    assert_eq!(legacy.list("tasks/list", "tasks").await[0]["status"], "failed");
}

#[tokio::test]
async fn the_state_of_a_task_is_the_same_on_each_node() {
    let (_store, mut here, mut there) = two().await;
    let id = made(&mut here.client, "asks_two").await;
    let shown = wait_for(&mut here.client, &id, "input_required").await;
    assert_eq!(shown["inputRequests"].as_object().unwrap().len(), 2);
    assert_eq!(there.get(&id).await, shown);
    let mut legacy = there.jobs.legacy().await;
    assert_eq!(legacy.list("tasks/list", "tasks").await[0]["status"], "input_required");
    let task = here.jobs.server.tasks().create(NewTask::for_local().message("queued")).await.unwrap();
    let id = json!(task.id());
    assert_eq!(there.get(&id).await["statusMessage"], "queued");
    task.progress("linking");
    assert_eq!(there.get(&id).await["statusMessage"], "linking");
    assert!(task.finish(CallToolResult::text("x".repeat(200_000))).await);
    assert_eq!(there.get(&id).await["result"]["content"][0]["text"].as_str().unwrap().len(), 200_000);
}

#[tokio::test]
async fn answers_reach_the_node_of_the_task() {
    let (_store, mut here, mut there) = two().await;
    let id = made(&mut here.client, "asks").await;
    wait_for(&mut here.client, &id, "input_required").await;
    // A long answer does not fit into a message on a topic.
    let name = "x".repeat(100_000);
    let answers = json!({ "name": { "action": "accept", "content": { "name": name } } });
    there.client.result("tasks/update", json!({ "taskId": id, "inputResponses": answers })).await;
    let task = wait_for(&mut there.client, &id, "completed").await;
    assert_eq!(task["result"]["content"][0]["text"], format!("Hello, {name}!"));
    // A task that has ended ignores answers.
    there.client.result("tasks/update", json!({ "taskId": id, "inputResponses": answers })).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_acknowledge_answers_causes_an_error_in_time() {
    let (_store, mut here, mut there) = two().await;
    let id = made(&mut here.client, "asks").await;
    assert_eq!(there.get(&id).await["status"], "input_required");
    here.kill();
    let start = Instant::now();
    let error = there.client.error("tasks/update", json!({ "taskId": id, "inputResponses": {} })).await;
    let text = "the node of this work did not acknowledge the request in time";
    assert_eq!(code_and_text(&error), (-32603, text));
    assert_eq!(error["data"], json!({ "reason": "node_unavailable", "retryable": true }));
    assert!(start.elapsed() <= Duration::from_millis(2100), "{:?}", start.elapsed());
    sleep(Duration::from_secs(15)).await;
    there.client.result("tasks/update", json!({ "taskId": id, "inputResponses": {} })).await;
    assert_eq!(there.get(&id).await["status"], "failed");
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_reaches_the_node_of_the_task_at_once() {
    let (_store, mut here, mut there) = two().await;
    let id = made(&mut here.client, "hold").await;
    let start = Instant::now();
    there.client.result("tasks/cancel", of(&id)).await;
    while here.jobs.seen.recv().await != Some("fired") {}
    assert!(start.elapsed() < Duration::from_secs(1));
    assert_eq!(
        (there.get(&id).await["status"].clone(), here.get(&id).await["status"].clone()),
        (json!("cancelled"), json!("cancelled"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_is_kept_for_a_node_that_does_not_respond() {
    let (_store, mut here, mut there) = two().await;
    let id = made(&mut here.client, "hold").await;
    here.kill();
    there.client.result("tasks/cancel", of(&id)).await;
    assert_eq!(there.get(&id).await["status"], "cancelled");
    here.cut.set(Link::Up);
    while here.jobs.seen.recv().await != Some("fired") {}
}

/// Opens a stream about a task and returns the ids that the server acknowledges.
pub(crate) async fn listen(client: &mut Client, id: &Value) -> Value {
    client.start("subscriptions/listen", json!({ "notifications": { "taskIds": [id] } })).await;
    client.notification("notifications/subscriptions/acknowledged").await["params"]["notifications"]["taskIds"].take()
}

pub(crate) async fn next_status(client: &mut Client) -> String {
    let message = client.notification("notifications/tasks").await;
    let params = &message["params"];
    format!("{} {}", params["status"].as_str().unwrap(), params["statusMessage"].as_str().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_stream_receives_the_changes_of_a_task_on_another_node() {
    let (_store, mut here, mut there) = two().await;
    let task = here.jobs.server.tasks().create(NewTask::for_local().message("queued")).await.unwrap();
    let id = json!(task.id());
    assert_eq!(listen(&mut there.client, &id).await, json!([id]));
    assert_eq!(next_status(&mut there.client).await, "working queued");
    for step in ["compiling", "linking"] {
        sleep(Duration::from_secs(60)).await;
        task.progress(step);
        assert_eq!(next_status(&mut there.client).await, format!("working {step}"));
    }
    task.finish(CallToolResult::text("done")).await;
    assert_eq!(next_status(&mut there.client).await, "completed The call is done.");
    let id = made(&mut here.client, "asks").await;
    listen(&mut there.client, &id).await;
    while next_status(&mut there.client).await != "input_required The task waits for an answer." {}
    here.client.result("tasks/cancel", of(&id)).await;
    while next_status(&mut there.client).await != "cancelled The task was cancelled." {}
}

#[tokio::test(start_paused = true)]
async fn a_stream_receives_the_end_of_a_task_whose_node_was_killed() {
    let (_store, mut here, mut there) = two().await;
    let id = made(&mut here.client, "hold").await;
    listen(&mut there.client, &id).await;
    next_status(&mut there.client).await;
    here.kill();
    let start = Instant::now();
    let failed = async {
        let mut status = String::new();
        while !status.starts_with("failed") {
            sleep(Duration::from_secs(4)).await;
            there.client.result("server/discover", json!({})).await;
            if !there.client.notifications.is_empty() {
                status = next_status(&mut there.client).await;
            }
            assert!(start.elapsed() < Duration::from_secs(25), "{status}");
        }
    };
    failed.await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_lost_its_lease_ends_its_tasks_before_it_has_a_new_identity() {
    for link in [Link::Stalled, Link::Down] {
        let (_store, mut here, mut there) = two().await;
        let id = made(&mut here.client, "hold").await;
        let former = here.jobs.server.node().unwrap().lease().await.unwrap().id().to_owned();
        here.cut.set(link);
        sleep(Duration::from_secs(11)).await;
        while here.jobs.seen.recv().await != Some("dropped") {}
        // The store has no end yet, and another node may store a different end.
        let error = here.client.error("tasks/get", of(&id)).await;
        assert_eq!(
            code_and_text(&error),
            (-32603, "busy: the shared store is unavailable, try again later"),
            "{link:?}"
        );
        here.cut.set(Link::Up);
        let task = wait_for(&mut there.client, &id, "failed").await;
        assert_eq!(task["error"]["data"]["retryable"], true);
        let lease = here.jobs.server.node().unwrap().lease().await.unwrap();
        assert_ne!(lease.id(), former);
        drop(lease);
        let id = made(&mut here.client, "must").await;
        wait_for(&mut there.client, &id, "completed").await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_during_a_short_outage_is_stored_later() {
    for link in [Link::Stalled, Link::Down] {
        let (_store, mut here, mut there) = two().await;
        let id = made(&mut here.client, "gated").await;
        here.cut.set(link);
        here.jobs.gate.add_permits(1);
        sleep(Duration::from_secs(2)).await;
        here.cut.set(Link::Up);
        sleep(Duration::from_secs(6)).await;
        let task = wait_for(&mut there.client, &id, "completed").await;
        assert_eq!(task["result"]["content"][0]["text"], "through", "{link:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_stored_end_of_a_task_is_final() {
    // The task ends on a node that is cut off, while other nodes end it because its node is gone.
    for outage in [1, 6, 12, 30] {
        let store = MemoryStore::new();
        let mut here = Place::of(&store).await;
        let mut others = Vec::new();
        for _ in 0..8 {
            others.push(Place::of(&store).await);
        }
        let id = made(&mut here.client, "gated").await;
        here.cut.set(Link::Down);
        here.jobs.gate.add_permits(1);
        sleep(Duration::from_secs(outage)).await;
        let mut ends = Vec::new();
        let mut reads = tokio::task::JoinSet::new();
        for mut other in others {
            let id = id.clone();
            reads.spawn(async move { (other.get(&id).await, other) });
        }
        let mut others = Vec::new();
        while let Some(read) = reads.join_next().await {
            let (task, other) = read.unwrap();
            ends.push(task["status"].clone());
            others.push(other);
        }
        here.cut.set(Link::Up);
        sleep(Duration::from_secs(10)).await;
        let is_failed = ends.contains(&json!("failed"));
        assert_eq!(is_failed, outage > 4, "{outage}: {ends:?}");
        let expected = if is_failed { "failed" } else { "completed" };
        for place in others.iter_mut().chain([&mut here]) {
            assert_eq!(place.get(&id).await["status"], expected, "{outage}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn only_requests_that_need_the_store_fail_while_it_is_unavailable() {
    for (link, limit) in [(Link::Stalled, 6), (Link::Down, 6)] {
        let (_store, mut here, mut there) = two().await;
        let id = made(&mut here.client, "hold").await;
        there.cut.set(link);
        sleep(Duration::from_secs(20)).await;
        let start = Instant::now();
        assert_eq!(there.client.result("tools/call", json!({ "name": "plain" })).await["content"][0]["text"], "plain");
        there.client.result("tools/list", json!({})).await;
        assert_eq!(start.elapsed().as_secs(), 0);
        for (method, params) in [
            ("tasks/get", of(&id)),
            ("tasks/cancel", of(&id)),
            ("tasks/update", json!({ "taskId": id, "inputResponses": {} })),
            ("subscriptions/listen", json!({ "notifications": { "taskIds": [id] } })),
        ] {
            let start = Instant::now();
            let error = there.client.error(method, params).await;
            let text = "busy: the shared store is unavailable, try again later";
            assert_eq!(code_and_text(&error), (-32603, text), "{method} {link:?}");
            assert_eq!(error["data"]["retryAfterMs"], 1000);
            assert!(start.elapsed() < Duration::from_secs(limit), "{method} {link:?} {:?}", start.elapsed());
        }
        there.cut.set(Link::Up);
        assert_eq!(there.get(&id).await["status"], "working", "{link:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_store_has_the_verdict_of_a_server_that_is_busy() {
    let (_store, mut here, there) = two().await;
    let id = made(&mut here.client, "hold").await;
    there.cut.set(Link::Down);
    let mut params = of(&id);
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": ProtocolVersion::LATEST.as_str(),
        "io.modelcontextprotocol/clientCapabilities": declared(),
    });
    let text = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": params }).to_string();
    let caller = mcp_server_core::Caller::local();
    let accepted = there.jobs.server.accept(text.as_bytes(), mcp_server_core::engine::Arrival::new(&caller)).unwrap();
    let mcp_server_core::engine::Accepted::Request(prepared) = accepted else { panic!("not a request") };
    assert_eq!(prepared.run().await.unwrap().verdict, mcp_server_core::engine::Verdict::Busy);
}

/// A client of 2025-11-25 on another node, and a task whose own client has disconnected while the task has a question.
pub(crate) async fn asked_at_another_node() -> (Place, Place, Client, Value) {
    let (_store, here, there) = two().await;
    let mut own = here.jobs.legacy().await;
    let id = make(&mut own, "asks").await;
    drop(own);
    let client = there.jobs.legacy().await;
    (here, there, client, id)
}

#[tokio::test(start_paused = true)]
async fn a_question_of_a_task_uses_the_stream_of_a_result_request_on_another_node() {
    let (_here, _there, mut client, id) = asked_at_another_node().await;
    // A request that ends without an answer returns the question to the task.
    let first = client.start("tasks/result", of(&id)).await;
    client.notification("elicitation/create").await;
    client
        .send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": first } }))
        .await;
    let waiting = client.start("tasks/result", of(&id)).await;
    let question = client.notification("elicitation/create").await;
    assert_eq!(question["params"]["message"], "Name?");
    assert_eq!(question["params"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], id);
    let answer = json!({ "action": "accept", "content": { "name": "Ada" } });
    client.send(json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer })).await;
    assert_eq!(client.response(waiting).await["result"]["content"][0]["text"], "Hello, Ada!");
}

#[tokio::test(start_paused = true)]
async fn a_question_returns_to_the_task_when_the_asking_node_is_killed() {
    let (here, there, mut client, id) = asked_at_another_node().await;
    client.start("tasks/result", of(&id)).await;
    client.notification("elicitation/create").await;
    there.kill();
    let mut client = here.jobs.legacy().await;
    sleep(Duration::from_secs(20)).await;
    let waiting = client.start("tasks/result", of(&id)).await;
    let question = client.notification("elicitation/create").await;
    let answer = json!({ "action": "accept", "content": { "name": "Ada" } });
    client.send(json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer })).await;
    assert_eq!(client.response(waiting).await["result"]["content"][0]["text"], "Hello, Ada!");
}

#[tokio::test(start_paused = true)]
async fn answers_and_cancellations_at_random_nodes_all_arrive() {
    let store = MemoryStore::new();
    let mut places = Vec::new();
    for _ in 0..3 {
        places.push(Place::of(&store).await);
    }
    for number in 0..300_usize {
        let id = made(&mut places[number % 3].client, "asks").await;
        let other = (number / 3) % 3;
        let expected = if number % 5 == 0 {
            places[other].client.result("tasks/cancel", of(&id)).await;
            "cancelled"
        } else {
            wait_for(&mut places[other].client, &id, "input_required").await;
            let answers = json!({ "name": { "action": "accept", "content": { "name": "Ada" } } });
            places[other].client.result("tasks/update", json!({ "taskId": id, "inputResponses": answers })).await;
            "completed"
        };
        wait_for(&mut places[(other + 1) % 3].client, &id, expected).await;
    }
}

/// Returns the records whose keys begin with a prefix in the namespace of the server.
async fn records(store: &MemoryStore, place: &Place, prefix: &str) -> Vec<Value> {
    let prefix = place.jobs.server.node().unwrap().name(prefix);
    let page = store.list(&prefix, None, 100).await.unwrap();
    page.entries.iter().map(|(_, value)| serde_json::from_slice(value).unwrap_or(Value::Null)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_running_node_ends_the_tasks_of_a_killed_node_that_no_client_reads() {
    let (store, mut here, mut there) = two().await;
    let mut third = Place::of(&store).await;
    for _ in 0..100 {
        made(&mut here.client, "hold").await;
    }
    let own = made(&mut there.client, "hold").await;
    made(&mut third.client, "hold").await;
    here.kill();
    let failed = |records: &[Value]| records.iter().filter(|record| record["outcome"]["Error"].is_object()).count();
    sleep(Duration::from_secs(3)).await;
    assert_eq!(failed(&records(&store, &there, "task/").await), 0);
    sleep(Duration::from_secs(25)).await;
    let ended = records(&store, &there, "task/").await;
    assert_eq!((ended.len(), failed(&ended)), (100, 100));
    assert_eq!(ended[0]["outcome"]["Error"]["data"], json!({ "reason": "node_stopped", "retryable": true }));
    assert_eq!(there.get(&own).await["status"], "working");
    // The entry of the killed node is removed after its work.
    assert_eq!(records(&store, &there, "member/").await.len(), 2);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(records(&store, &there, "task/").await, ended);
}

#[tokio::test(start_paused = true)]
async fn another_node_continues_the_sweep_of_a_node_that_stops() {
    let (store, mut here, mut there) = two().await;
    let mut third = Place::of(&store).await;
    made(&mut here.client, "hold").await;
    made(&mut there.client, "hold").await;
    made(&mut third.client, "hold").await;
    here.kill();
    sleep(Duration::from_secs(5)).await;
    there.kill();
    sleep(Duration::from_secs(50)).await;
    let failed = |record: &&Value| record["outcome"]["Error"].is_object();
    assert_eq!(records(&store, &third, "task/").await.iter().filter(failed).count(), 2);
    assert_eq!(records(&store, &third, "member/").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn running_tasks_have_the_grace_period_of_calls_and_their_ends_are_stored() {
    // A full store takes the ends after the grace period.
    for (link, end) in [(Link::Up, 10_000), (Link::Full, 11_500)] {
        let (_store, mut here, mut there) = two().await;
        let listener = here.jobs.server.listener(Duration::from_secs(10));
        let quick = made(&mut here.client, "gated").await;
        let endless = made(&mut here.client, "hold").await;
        let start = Instant::now();
        here.jobs.server.shutdown();
        let work = async {
            sleep(Duration::from_millis(8_500)).await;
            here.cut.set(link);
            here.jobs.gate.add_permits(1);
            sleep(Duration::from_millis(2_500)).await;
            here.cut.set(Link::Up);
        };
        let stopping = async {
            listener.work_ended().await;
            listener.release().await;
        };
        tokio::join!(stopping, work);
        let elapsed = start.elapsed().as_millis();
        assert!((10_000..=end + 1_000).contains(&elapsed), "{link:?}: {elapsed} ms");
        // The process ends.
        here.kill();
        let task = there.get(&quick).await;
        assert_eq!(task["result"]["content"][0]["text"], "through", "{link:?}: {task}");
        let task = there.get(&endless).await;
        let data = json!({ "reason": "server_shutdown", "retryable": true });
        assert_eq!((&task["status"], &task["error"]["data"]), (&json!("failed"), &data), "{link:?}: {task}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_of_a_shutdown_that_a_second_signal_ends_has_the_reason_of_the_shutdown() {
    let (_store, mut here, mut there) = two().await;
    let listener = here.jobs.server.listener(Duration::from_secs(10));
    let endless = made(&mut here.client, "hold").await;
    here.jobs.server.shutdown();
    listener.release().await;
    let task = fails_in_time(&mut there, &endless, Instant::now()).await;
    assert_eq!(task["error"]["data"], json!({ "reason": "server_shutdown", "retryable": true }), "{task}");
}
