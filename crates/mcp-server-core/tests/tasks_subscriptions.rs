//! The status of tasks on a `subscriptions/listen` stream.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::{sync::Arc, time::Duration};

use mcp_protocol::{CallToolResult, Principal, ProtocolVersion};
use mcp_server_core::{Inputs, NewTask, Server, StandaloneTask, ToolError, tool};
use mcp_transport::{
    Transport as _,
    memory::{MemoryTransport, duplex},
    recv,
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::{
    input_client::Name,
    json_client::{Client, code_and_text, request_with_scope},
    tasks_fixture::{Jobs, declared, made, of, wait_for},
};

const ID: &str = "io.modelcontextprotocol/subscriptionId";

fn tasks(ids: &[&Value]) -> Value {
    json!({ "notifications": { "taskIds": ids } })
}

/// A subscription stream whose transport queues this many messages.
fn listen(server: &Server, params: Value, caller: Option<Principal>, room: usize) -> MemoryTransport {
    let (near, far) = duplex(room);
    let server = server.clone();
    let mut params = params;
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = declared();
    tokio::spawn(async move {
        let change = |scope: mcp_server_core::engine::Scope| scope.principal(caller.map(Arc::new)).sink(near.sender());
        request_with_scope(&server, "subscriptions/listen", params, change).await
    });
    far
}

async fn read(stream: &mut MemoryTransport) -> Value {
    let frame = tokio::time::timeout(Duration::from_secs(10), recv(stream)).await;
    serde_json::from_slice(&frame.expect("a message").unwrap().unwrap().message).unwrap()
}

async fn settle() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}

async fn server_task(server: &Server, caller: &Principal, ttl: Duration) -> StandaloneTask {
    server.tasks().create(NewTask::for_principal(caller).ttl(ttl)).await.unwrap()
}

async fn task_of(server: &Server, caller: &Principal) -> StandaloneTask {
    server.tasks().create(NewTask::for_principal(caller).message("queued")).await.unwrap()
}

#[tokio::test]
async fn a_stream_receives_only_the_status_of_its_tasks() {
    let jobs = Jobs::new();
    let mut client = jobs.modern().await;
    client.meta = json!({ "progressToken": "p", "io.modelcontextprotocol/logLevel": "debug" });
    let (id, other) = (made(&mut client, "gated").await, made(&mut client, "gated").await);
    client.notifications.clear();
    client.meta = json!({});
    let unknown = json!("task_00000000000000000000000000000000");
    let stream = client.start("subscriptions/listen", tasks(&[&id, &unknown, &id])).await;
    let opened = client.notification("notifications/subscriptions/acknowledged").await;
    assert_eq!(opened["params"]["notifications"], json!({ "taskIds": [id] }));
    let mut now = client.notification("notifications/tasks").await["params"].take();
    assert_eq!(now["_meta"], json!({ ID: stream }));
    // The whole task, as `tasks/get` shows it; but a notification is no result.
    let mut shown = client.result("tasks/get", of(&id)).await;
    shown.as_object_mut().unwrap().remove("resultType");
    (now["_meta"], shown["_meta"]) = (Value::Null, Value::Null);
    assert_eq!(now, shown);
    assert_eq!((&now["status"], &now["statusMessage"]), (&json!("working"), &json!("waiting")));

    jobs.gate.add_permits(2);
    wait_for(&mut client, &other, "completed").await;
    let ended = loop {
        let update = client.notification("notifications/tasks").await;
        assert_eq!((&update["params"]["taskId"], &update["params"]["_meta"][ID]), (&id, &json!(stream)));
        if update["params"]["status"] == "completed" {
            break update;
        }
    };
    assert_eq!(ended["params"]["result"]["content"][0]["text"], "through");
    // The stream has no progress, no log records, and no status of the other task.
    client.result("tools/list", json!({})).await;
    assert!(client.notifications.is_empty(), "{:?}", client.notifications);

    // The stream sends the status of a finished task once.
    let again = client.start("subscriptions/listen", tasks(&[&id])).await;
    let opened = client.notification("notifications/subscriptions/acknowledged").await;
    assert_eq!(opened["params"]["notifications"], json!({ "taskIds": [id] }));
    let update = client.notification("notifications/tasks").await;
    assert_eq!((&update["params"]["status"], &update["params"]["_meta"][ID]), (&json!("completed"), &json!(again)));
}

#[tokio::test]
async fn the_status_carries_the_input_requests_of_a_task() {
    let jobs = Jobs::new();
    let mut client = jobs.modern().await;
    let id = made(&mut client, "asks").await;
    wait_for(&mut client, &id, "input_required").await;
    client.start("subscriptions/listen", tasks(&[&id])).await;
    let update = client.notification("notifications/tasks").await;
    assert_eq!(update["params"]["status"], "input_required");
    assert_eq!(update["params"]["inputRequests"]["name"]["method"], "elicitation/create");
    let answer = json!({ "name": { "action": "accept", "content": { "name": "Ada" } } });
    client.result("tasks/update", json!({ "taskId": id, "inputResponses": answer })).await;
    loop {
        let update = client.notification("notifications/tasks").await;
        if update["params"]["status"] == "completed" {
            assert_eq!(update["params"]["result"]["content"][0]["text"], "Hello, Ada!");
            return;
        }
    }
}

#[tokio::test]
async fn sends_a_second_input_request_while_the_first_is_pending() {
    let gate = Arc::new(Semaphore::new(0));
    let permits = gate.clone();
    let asks = move |inputs: Inputs| {
        let permits = permits.clone();
        async move {
            let later = async {
                permits.acquire().await.unwrap().forget();
                inputs.elicit::<Name>("b", "B?").await
            };
            let (first, second) = tokio::join!(inputs.elicit::<Name>("a", "A?"), later);
            Ok::<_, ToolError>(format!("{} {}", first?.name, second?.name))
        }
    };
    let jobs = Jobs::with(|builder| builder.tool(tool("later", asks).long_running()));
    let mut client = jobs.modern().await;
    let id = made(&mut client, "later").await;
    wait_for(&mut client, &id, "input_required").await;
    client.start("subscriptions/listen", tasks(&[&id])).await;
    let keys = async |client: &mut Client| {
        let update = client.notification("notifications/tasks").await;
        update["params"]["inputRequests"].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(keys(&mut client).await, ["a"]);
    gate.add_permits(1);
    assert_eq!(keys(&mut client).await, ["a", "b"]);
    let answer = json!({ "a": { "action": "accept", "content": { "name": "Ada" } } });
    client.result("tasks/update", json!({ "taskId": id, "inputResponses": answer })).await;
    assert_eq!(keys(&mut client).await, ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_keeps_no_result_beyond_its_task() {
    let jobs = Jobs::new();
    let ada = Principal::new("ada");
    let kept = task_of(&jobs.server, &ada).await;
    let expired = server_task(&jobs.server, &ada, Duration::from_secs(10)).await;
    let filter = tasks(&[&json!(kept.id()), &json!(expired.id())]);
    let mut stream = listen(&jobs.server, filter, Some(ada), 1);
    // The client has not read the acknowledgement, so the status of the first task waits.
    settle().await;
    let id = json!(kept.id());
    for task in [kept, expired] {
        assert!(task.finish(CallToolResult::text("done")).await);
    }
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(read(&mut stream).await["method"], "notifications/subscriptions/acknowledged");
    let mut update = Vec::new();
    for _ in 0..2 {
        let task = read(&mut stream).await["params"].take();
        assert_eq!(task["taskId"], id, "{task}");
        update.push(task["status"].clone());
    }
    assert_eq!(update, ["working", "completed"]);
    settle().await;
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(stream.poll_recv(&mut cx).is_pending(), "the stream sends the result of an expired task");
}

#[tokio::test]
async fn a_caller_receives_only_its_own_tasks() {
    let jobs = Jobs::new();
    let (ada, bob) = (Principal::new("ada"), Principal::new("bob"));
    let task = task_of(&jobs.server, &ada).await;
    let id = json!(task.id());
    let mut streams = Vec::new();
    for (caller, honoured) in [(Some(ada), json!({ "taskIds": [id] })), (Some(bob), json!({})), (None, json!({}))] {
        let mut stream = listen(&jobs.server, tasks(&[&id]), caller, 8);
        let opened = read(&mut stream).await;
        assert_eq!(opened["params"]["notifications"], honoured);
        streams.push(stream);
    }
    assert!(task.finish(CallToolResult::text("done")).await);
    let update =
        [read(&mut streams[0]).await, read(&mut streams[0]).await].map(|mut update| update["params"]["status"].take());
    assert_eq!(update, [json!("working"), json!("completed")]);
    settle().await;
    for stream in &mut streams[1..] {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(stream.poll_recv(&mut cx).is_pending());
    }
}

#[tokio::test]
async fn a_slow_reader_receives_the_latest_status_only() {
    let jobs = Jobs::new();
    let ada = Principal::new("ada");
    let task = task_of(&jobs.server, &ada).await;
    let mut stream = listen(&jobs.server, tasks(&[&json!(task.id())]), Some(ada), 1);
    // The client has not read the acknowledgement, so the first notification waits.
    settle().await;
    for step in 0..1000 {
        task.progress(format!("step {step}"));
        settle().await;
    }
    assert_eq!(read(&mut stream).await["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(read(&mut stream).await["params"]["statusMessage"], "queued");
    assert_eq!(read(&mut stream).await["params"]["statusMessage"], "step 999");
    assert!(task.finish(CallToolResult::text("done")).await);
    assert_eq!(read(&mut stream).await["params"]["status"], "completed");
}

#[tokio::test]
async fn only_clients_that_declare_tasks_receive_a_bounded_number_of_them() {
    let jobs = Jobs::with(|builder| builder.limits(|limits| limits.subscribed_tasks = 2));
    let mut plain = Client::connect(&jobs.server, ProtocolVersion::LATEST).await;
    let error = plain.error("subscriptions/listen", tasks(&[&json!("x")])).await;
    let required = json!({ "requiredCapabilities": { "extensions": { "io.modelcontextprotocol/tasks": {} } } });
    assert_eq!((&error["code"], &error["data"]), (&json!(-32021), &required));
    let mut client = jobs.modern().await;
    let ids = json!([1, 2, 3].map(|n| n.to_string()));
    let error = client.error("subscriptions/listen", json!({ "notifications": { "taskIds": ids } })).await;
    assert_eq!(code_and_text(&error), (-32602, "too many subscriptions: 2 tasks are the most"));
    // A server without tasks honours none.
    let server = Server::builder("none", "1").tool(tool("t", async || "t")).build();
    let mut client = Client::connect_with(&server, ProtocolVersion::LATEST, declared()).await;
    client.start("subscriptions/listen", tasks(&[&json!("x")])).await;
    let opened = client.notification("notifications/subscriptions/acknowledged").await;
    assert_eq!(opened["params"]["notifications"], json!({}));
}

#[tokio::test]
async fn list_changes_do_not_delay_the_status_of_a_task() {
    let jobs = Jobs::new();
    let ada = Principal::new("ada");
    let task = task_of(&jobs.server, &ada).await;
    let filter = json!({ "notifications": { "toolsListChanged": true, "taskIds": [task.id()] } });
    let mut stream = listen(&jobs.server, filter, Some(ada), 1);
    settle().await;
    task.progress("half");
    for _ in 0..10 {
        // A list change is always pending.
        jobs.server.notify().tools_changed();
        settle().await;
        if read(&mut stream).await["params"]["statusMessage"] == "half" {
            task.finish(CallToolResult::text("done")).await;
            return;
        }
    }
    panic!("the stream never sends the status of the task");
}

#[tokio::test]
async fn a_principal_counts_as_one_client() {
    let jobs = Jobs::with(|builder| builder.limits(|limits| limits.listen_streams_per_principal = 1));
    let of_client = |client: &str| Some(Principal::new("ada").with_client_id(client));
    let mut streams = Vec::new();
    for (client, is_open) in [("a", true), ("b", true), ("a", false)] {
        let mut stream = listen(&jobs.server, json!({ "notifications": {} }), of_client(client), 8);
        settle().await;
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let opened = match stream.poll_recv(&mut cx) {
            std::task::Poll::Ready(Some(Ok(frame))) => serde_json::from_slice(&frame.message).unwrap(),
            _ => Value::Null,
        };
        let is_acknowledged = opened["method"] == "notifications/subscriptions/acknowledged";
        assert_eq!(is_acknowledged, is_open, "{client}: {opened}");
        streams.push(stream);
    }
}
