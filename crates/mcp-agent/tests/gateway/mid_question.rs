//! Faults of servers after the answer to a question: errors within bounds, and no effect on the other servers.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    future::pending,
    sync::{Arc, OnceLock},
    time::Duration,
};

use mcp_agent::{Gateway, Host};
use mcp_client::{Client, Reconnect, transport::Connect};
use mcp_protocol::{ElicitResult, JsonObject, LoggingLevel, ProtocolVersion};
use mcp_server::prelude::*;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::common::{Processes, SOON, beside_healthy, cells, client};

/// The fault of a server, after its question or without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Killed,
    Silent,
    Slow,
    Floods,
    Redefines,
}

const FAULTS: [Fault; 5] = [Fault::Killed, Fault::Silent, Fault::Slow, Fault::Floods, Fault::Redefines];

#[derive(Deserialize, JsonSchema)]
struct Answer {
    name: String,
}

/// Behaves as the fault demands, and returns the text of the tool.
async fn behave(fault: Fault, name: String, context: &Context, own: &Server, processes: &Processes) -> String {
    match fault {
        Fault::Killed => {
            (0..processes.started()).for_each(|number| processes.kill(number));
            pending().await
        }
        Fault::Silent => pending().await,
        Fault::Slow => sleep(Duration::from_millis(400)).await,
        Fault::Floods => {
            for _ in 0..500 {
                context.log(LoggingLevel::Error, "x".repeat(100)).await;
            }
        }
        Fault::Redefines => {
            own.tools().remove("old");
            own.tools().add(tool("new", async || "new")).unwrap();
        }
    }
    name
}

/// A server whose tools `asks` and `runs` have the fault. All of its processes have the same tools.
fn faulty(fault: Fault, version: ProtocolVersion) -> Processes {
    let (own, known) = (Arc::<OnceLock<Server>>::default(), Arc::<OnceLock<Processes>>::default());
    let parts = || (Arc::clone(&own), Arc::clone(&known));
    let (asking, running) = (parts(), parts());
    let asks = move |inputs: Inputs, context: Context| {
        let (own, processes) = asking.clone();
        async move {
            let Answer { name } = inputs.elicit("name", "Your name?").await?;
            Ok::<_, ToolError>(behave(fault, name, &context, own.get().unwrap(), processes.get().unwrap()).await)
        }
    };
    let runs = move |context: Context| {
        let (own, processes) = running.clone();
        async move { behave(fault, "ada".to_owned(), &context, own.get().unwrap(), processes.get().unwrap()).await }
    };
    let server = Server::builder("faulty", "1")
        .versions([version])
        .tool(tool("asks", asks))
        .tool(tool("runs", runs))
        .tool(tool("old", async || "old"))
        .build();
    own.get_or_init(|| server.clone());
    known.get_or_init(|| Processes::new(move |_| server.clone())).clone()
}

/// Calls a tool without hints. An error has its code, its text and the member `retryable`.
async fn call(client: &Client, name: &str) -> Result<String, (i64, String, Value)> {
    let called = timeout(SOON, client.call_tool(name, ()).into_future()).await.unwrap();
    called.map(|result| result.text()).map_err(|error| {
        let error = error.rpc().unwrap();
        let is_retryable = error.data.as_ref().map_or(Value::Null, |data| data["retryable"].clone());
        (error.code.0, error.message.clone(), is_retryable)
    })
}

// The clock is paused. It advances only while each task waits for a time.
#[tokio::test(start_paused = true)]
async fn a_faulty_server_causes_errors_within_bounds_in_a_call_and_after_a_question() {
    for (down, up) in cells() {
        for tool_name in ["runs", "asks"] {
            for fault in FAULTS {
                let healthy = Server::builder("healthy", "1").tool(tool("t", async || "t")).build();
                let faulty: Arc<dyn Connect> = Arc::new(faulty(fault, up));
                let host = Host::builder("gateway", "1")
                    .reconnect(Reconnect::default().attempts(2).first(Duration::from_millis(10)))
                    .call_timeout(Duration::from_secs(2))
                    .server("faulty", faulty)
                    .server("healthy", &healthy)
                    .start()
                    .await
                    .unwrap();
                let server = Gateway::builder(host).build().unwrap().versions([down]).build();
                let client = client()
                    .no_cache()
                    .on_elicit(async |_form| Ok(ElicitResult::accept(JsonObject::new().with("name", "ada"))));
                let client = client.connect(&server).await.unwrap();
                let name = format!("faulty__{tool_name}");
                let (called, healthy) = beside_healthy(&client, "healthy__t", call(&client, &name)).await;
                let case = format!("{down} {up} {tool_name} {fault:?}");
                match fault {
                    Fault::Killed => {
                        assert_eq!(
                            called.unwrap_err(),
                            (-32603, "the connection to the server failed".to_owned(), json!(false)),
                            "{case}"
                        );
                    }
                    Fault::Silent => {
                        assert!(healthy > 20, "{case}: {healthy} calls while the server was silent");
                        assert_eq!(
                            called.unwrap_err(),
                            (-32603, "the server did not answer in time".to_owned(), json!(false)),
                            "{case}"
                        );
                    }
                    Fault::Slow | Fault::Floods | Fault::Redefines => assert_eq!(called.unwrap(), "ada", "{case}"),
                }
                // The server serves the next call, also after its end.
                let (next, expected) = if fault == Fault::Redefines { ("new", "new") } else { ("old", "old") };
                assert_eq!(eventually(&client, next, &case).await, expected);
            }
        }
    }
}

/// Calls a tool until its server has started again, and until the gateway has read its new list.
async fn eventually(client: &Client, name: &str, case: &str) -> String {
    let name = format!("faulty__{name}");
    let called = async {
        loop {
            match call(client, &name).await {
                Ok(text) => return text,
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        }
    };
    timeout(3 * SOON, called).await.unwrap_or_else(|_| panic!("{case}: the server does not serve {name}"))
}
