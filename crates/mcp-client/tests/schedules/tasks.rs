//! Tasks that are awaited, cancelled and dropped.

use mcp_client::{Client, protocol::ProtocolVersion, transport::BoxFuture};
use mcp_server::{
    prelude::*,
    tasks::{TaskPolicy, TaskSupport},
};
use mcp_test::schedule::{Schedule, explore};
use serde_json::json;

use crate::{ERAS, Handlers, SEEDS, idle};

const TASKS: usize = 6;

#[derive(Deserialize, JsonSchema)]
struct Call {
    number: usize,
}

fn server(version: ProtocolVersion, schedule: &Schedule, handlers: &Handlers) -> Server {
    let (schedule, handlers) = (schedule.clone(), handlers.clone());
    let work = move |Args(Call { number }): Args<Call>| {
        let (schedule, handlers) = (schedule.clone(), handlers.clone());
        async move {
            let running = handlers.begin(number);
            for _ in 0..schedule.below(6) {
                schedule.pause().await;
            }
            running.end();
            format!("{number}")
        }
    };
    let work = tool("work", work).task(TaskSupport::Optional).task_policy(TaskPolicy::Immediately);
    Server::builder("real", "1").versions([version]).tool(work).build()
}

/// Runs a task, and returns its text. `None` if the caller has dropped or cancelled it.
async fn task(client: &Client, schedule: &Schedule, number: usize) -> Option<String> {
    schedule.pause().await;
    let starting = client.call_tool("work", json!({ "number": number })).as_task().into_future();
    if schedule.chance(20) {
        schedule.run_or_drop(starting).await?.unwrap();
        return None;
    }
    let started = starting.await.unwrap();
    schedule.pause().await;
    let mut result = Box::pin(started.result());
    match schedule.below(3) {
        0 => Some(schedule.run_or_drop(result.as_mut()).await?.unwrap().text()),
        _ => Some(result.await.unwrap().text()),
    }
}

async fn tasks(schedule: Schedule, version: ProtocolVersion) {
    let handlers = Handlers::default();
    let (connector, _connections) = schedule.connector(server(version, &schedule, &handlers));
    let client = Client::builder("test", "1").tasks().connect(connector).await.unwrap();
    let running = (0..TASKS).map(|number| {
        let (client, schedule) = (&client, &schedule);
        Box::pin(async move { task(client, schedule, number).await }) as BoxFuture<'_, _>
    });
    let texts = schedule.run_all(running).await;
    for (number, text) in texts.into_iter().enumerate() {
        assert!(handlers.ended(number) <= 1, "the task {number} ran to its end twice");
        if let Some(text) = text {
            assert_eq!((text, handlers.ended(number)), (number.to_string(), 1));
        }
    }
    handlers.stopped().await;
    idle(&client).await;
    client.close().await;
}

#[test]
fn each_task_has_its_result_once() {
    for version in ERAS {
        explore(SEEDS, async |schedule: Schedule| tasks(schedule, version).await);
    }
}
