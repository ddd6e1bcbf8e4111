//! Tasks that are awaited, cancelled and dropped.

use mcp_client::{Client, Error, protocol::ProtocolVersion, transport::BoxFuture};
use mcp_server::{
    prelude::*,
    tasks::{TaskPolicy, TaskSupport},
};
use mcp_test::schedule::{Schedule, explore};
use serde_json::json;

use crate::{ERAS, Handlers, SEEDS, cutting, idle, is_of_cut};

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

/// Runs a task, and returns its text. `None` if the caller has dropped the task.
async fn task(client: &Client, schedule: &Schedule, number: usize) -> Result<Option<String>, Error> {
    schedule.pause().await;
    let starting = client.call_tool("work", json!({ "number": number })).as_task().into_future();
    if schedule.chance(20) {
        schedule.run_or_drop(starting).await.transpose()?;
        return Ok(None);
    }
    let started = starting.await?;
    schedule.pause().await;
    let mut result = Box::pin(started.result());
    let result = match schedule.below(3) {
        0 => schedule.run_or_drop(result.as_mut()).await.transpose()?,
        _ => Some(result.await?),
    };
    Ok(result.map(|result| result.text()))
}

/// Runs tasks at the same time, and cuts the connection this number of times.
pub(crate) async fn tasks(schedule: Schedule, version: ProtocolVersion, cuts: usize) {
    let handlers = Handlers::default();
    let (connector, connections) = schedule.connector(server(version, &schedule, &handlers));
    let client = Client::builder("test", "1").tasks().connect(connector).await.unwrap();
    let running = (0..TASKS).map(|number| {
        let (client, schedule) = (&client, &schedule);
        Box::pin(async move { Some((number, task(client, schedule, number).await)) }) as BoxFuture<'_, _>
    });
    let ends = schedule.run_all(running.chain(cutting(&schedule, &connections, cuts))).await;
    for (number, end) in ends.into_iter().flatten() {
        let ended = handlers.ended(number);
        assert!(ended <= 1, "the task {number} ran to its end {ended} times");
        match end {
            Ok(Some(text)) => assert_eq!((text, ended), (number.to_string(), 1)),
            Ok(None) => {}
            Err(error) => assert!(cuts > 0 && is_of_cut(&error), "the task {number}: {error:?}"),
        }
    }
    handlers.stopped().await;
    idle(&client).await;
    client.close().await;
    assert!(connections.opened() <= 1 + cuts, "{connections:?}");
}

#[test]
fn each_task_has_its_result_once() {
    for version in ERAS {
        explore(SEEDS, async |schedule: Schedule| tasks(schedule, version, 0).await);
    }
}

#[test]
fn each_task_ends_once_while_connections_are_cut() {
    for version in ERAS {
        explore(SEEDS, async |schedule: Schedule| {
            let cuts = 1 + schedule.below(3);
            tasks(schedule, version, cuts).await;
        });
    }
}
