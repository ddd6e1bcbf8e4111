//! Calls with progress, questions, cancellations, dropped futures and cut connections.

use std::sync::Arc;

use mcp_client::{
    Client, Error,
    protocol::{ElicitResult, JsonObject, ProtocolVersion},
    transport::BoxFuture,
};
use mcp_server::prelude::*;
use mcp_test::schedule::{Schedule, explore};
use parking_lot::Mutex;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{ERAS, Handlers, SEEDS, cutting, idle, is_of_cut};

/// The number of calls of a schedule.
const CALLS: usize = 8;
/// The number of reports of a call with progress.
const REPORTS: u32 = 4;

#[derive(Deserialize, JsonSchema)]
struct Call {
    number: usize,
}

#[derive(Deserialize, JsonSchema)]
struct Answer {
    name: String,
}

/// The tools: one that answers, one that reports progress, one that asks the user, and one that never answers.
fn server(version: ProtocolVersion, schedule: &Schedule, handlers: &Handlers) -> Server {
    let parts = || (schedule.clone(), handlers.clone());
    let (echo, count, ask, hold) = (parts(), parts(), parts(), parts());
    Server::builder("real", "1")
        .versions([version])
        .tool(tool("echo", move |Args(Call { number }): Args<Call>| {
            let (schedule, handlers) = echo.clone();
            async move {
                let running = handlers.begin(number);
                schedule.pause().await;
                running.end();
                format!("{number}")
            }
        }))
        .tool(tool("count", move |progress: Progress, Args(Call { number }): Args<Call>| {
            let (schedule, handlers) = count.clone();
            async move {
                let running = handlers.begin(number);
                for report in 1..=REPORTS {
                    schedule.pause().await;
                    progress.report(report, REPORTS, None).await;
                }
                running.end();
                format!("{number}")
            }
        }))
        .tool(tool("ask", move |inputs: Inputs, Args(Call { number }): Args<Call>| {
            let (schedule, handlers) = ask.clone();
            async move {
                let running = handlers.begin(number);
                schedule.pause().await;
                let Answer { name } = inputs.elicit("name", "Who?").await?;
                schedule.pause().await;
                running.end();
                Ok::<_, ToolError>(format!("{number} {name}"))
            }
        }))
        .tool(tool("hold", move |Args(Call { number }): Args<Call>| {
            let (_, handlers) = hold.clone();
            async move {
                let _running = handlers.begin(number);
                std::future::pending::<String>().await
            }
        }))
        .build()
}

/// The end of a call.
#[derive(Debug)]
enum End {
    /// The call has a result, and these reports.
    Result(String, Vec<f64>),
    Error(Error),
    /// The caller has dropped the call.
    Dropped,
}

/// Runs a random call.
async fn call(client: &Client, schedule: &Schedule, number: usize) -> (&'static str, End) {
    schedule.pause().await;
    let name = ["echo", "count", "count", "ask", "ask", "hold"][schedule.below(6)];
    let reports = Arc::new(Mutex::new(Vec::new()));
    let mut call = client.call_tool(name, json!({ "number": number }));
    if name == "count" {
        let reports = reports.clone();
        call = call.on_progress(move |report| reports.lock().push(report.progress));
    }
    let result = match schedule.below(4) {
        0 => match schedule.run_or_drop(call.into_future()).await {
            Some(result) => result,
            None => return (name, End::Dropped),
        },
        1 => cancel(schedule, call).await,
        // A call that never ends must be cancelled.
        _ if name == "hold" => cancel(schedule, call).await,
        _ => call.await,
    };
    match result {
        Ok(result) => (name, End::Result(result.text(), std::mem::take(&mut *reports.lock()))),
        Err(error) => (name, End::Error(error)),
    }
}

async fn cancel<T>(schedule: &Schedule, call: mcp_client::Call<T>) -> Result<T, Error>
where
    mcp_client::Call<T>: IntoFuture<Output = Result<T, Error>>,
    <mcp_client::Call<T> as IntoFuture>::IntoFuture: Send,
    T: Send,
{
    let token = CancellationToken::new();
    let call = call.cancelled_by(token.clone().cancelled_owned()).into_future();
    let cancelling = async {
        for _ in 0..=schedule.below(8) {
            schedule.pause().await;
        }
        token.cancel();
    };
    let (result, ()) = tokio::join!(call, cancelling);
    result
}

/// Runs calls at the same time, and cuts the connection this number of times.
pub(crate) async fn calls(schedule: Schedule, version: ProtocolVersion, cuts: usize) {
    let handlers = Handlers::default();
    let server = server(version, &schedule, &handlers);
    let (connector, connections) = schedule.connector(server);
    let answering = schedule.clone();
    let client = Client::builder("test", "1")
        .on_elicit(move |_| {
            let schedule = answering.clone();
            async move {
                schedule.pause().await;
                Ok(ElicitResult::accept(JsonObject::new().with("name", "Ada")))
            }
        })
        .connect(connector)
        .await
        .unwrap();

    let callers = (0..CALLS).map(|number| {
        let (client, schedule) = (&client, &schedule);
        Box::pin(async move { Some((number, call(client, schedule, number).await)) }) as BoxFuture<'_, _>
    });
    let ends = schedule.run_all(callers.chain(cutting(&schedule, &connections, cuts))).await;

    for (number, (name, end)) in ends.into_iter().flatten() {
        let ended = handlers.ended(number);
        // A call that has reached its end is not sent again.
        assert!(ended <= 1, "{name} {number} ran to its end {ended} times");
        match end {
            End::Result(text, reports) => {
                let expected = if name == "ask" { format!("{number} Ada") } else { number.to_string() };
                assert_eq!((text, ended), (expected, 1), "{name} {number}");
                let expected = if name == "count" { REPORTS } else { 0 };
                assert!(reports.into_iter().eq((1..=expected).map(f64::from)), "{name} {number}");
            }
            End::Error(error) if cuts > 0 => assert!(is_of_cut(&error), "{name} {number}: {error:?}"),
            End::Error(error) => assert!(error.is_cancelled(), "{name} {number}: {error}"),
            End::Dropped => {}
        }
    }
    idle(&client).await;
    // The connection works after its cuts.
    let arguments = json!({ "number": CALLS });
    assert_eq!(client.call_tool("echo", arguments).await.unwrap().text(), CALLS.to_string());
    handlers.stopped().await;
    client.close().await;
    assert!(connections.opened() <= 1 + cuts, "{connections:?}");
}

#[test]
fn each_call_ends_once() {
    for version in ERAS {
        explore(SEEDS, async |schedule: Schedule| calls(schedule, version, 0).await);
    }
}

#[test]
fn each_call_ends_once_while_connections_are_cut() {
    for version in ERAS {
        explore(SEEDS, async |schedule: Schedule| {
            let cuts = 1 + schedule.below(3);
            calls(schedule, version, cuts).await;
        });
    }
}
