//! Long calls through a gateway: the time limits of the request at the server decide. The clock of these tests is paused.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_agent::{Gateway, Host, ServerOptions};
use mcp_client::{Client, Handler as _, transport::Connect};
use mcp_protocol::{ElicitResult, JsonObject, ProtocolVersion};
use mcp_server::{
    inputs::StateKeys,
    prelude::*,
    store::{KeyValue as _, MemoryStore},
};
use serde_json::json;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout},
};

use crate::{
    common::{Pipe, REVISIONS, SOON, cells, client, over_http},
    rounds::{User, first_round, next},
};

const SECOND: Duration = Duration::from_secs(1);

#[derive(Deserialize, JsonSchema)]
struct Answer {
    name: String,
}

/// A server whose tools work for 90 seconds, also after a question, or for 150 seconds with progress.
fn slow(version: ProtocolVersion) -> Server {
    let works = async || {
        sleep(90 * SECOND).await;
        "done"
    };
    let asks = async |inputs: Inputs| {
        let Answer { name } = inputs.elicit("name", "Your name?").await?;
        sleep(90 * SECOND).await;
        Ok::<_, ToolError>(name)
    };
    let reports = async |progress: Progress| {
        for step in 1..=3 {
            sleep(50 * SECOND).await;
            progress.report(step, 3, "step").await;
        }
        "reported"
    };
    Server::builder("slow", "1")
        .versions([version])
        .limits(|limits| limits.tool_timeout = 600 * SECOND)
        .tool(tool("works", works))
        .tool(tool("asks", asks))
        .tool(tool("reports", reports))
        .build()
}

/// Connects a user whose calls have no time limit. The user answers after 90 seconds.
async fn patient(gateway: &Server) -> Client {
    let user = client().idle_timeout(None).total_timeout(None).on_elicit(async |_form| {
        sleep(90 * SECOND).await;
        Ok(ElicitResult::accept(JsonObject::new().with("name", "ada")))
    });
    user.connect(gateway).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_time_limits_of_a_server_decide_about_its_calls_in_each_cell() {
    let limited = || ServerOptions::new().call_timeout(120 * SECOND);
    let limits =
        |all: u32, tool: u32| ServerOptions::new().call_timeout(all * SECOND).tool_timeout("asks", tool * SECOND);
    for (down, up) in cells() {
        for (tool, options, expected) in [
            ("works", limited(), Some("done")),
            // The time of the user does not count.
            ("asks", limited(), Some("ada")),
            // The limit of a tool is that of each of its rounds.
            ("asks", limits(60, 120), Some("ada")),
            ("asks", limits(120, 60), None),
            // Without a limit of the server, each call may pass 60 seconds without progress.
            ("works", ServerOptions::new(), None),
            ("reports", ServerOptions::new(), Some("reported")),
            ("reports", limited(), None),
        ] {
            let case = format!("{tool}: {down} to {up}, {:?} {:?}", options.call_timeout, options.tool_timeouts);
            let server: Arc<dyn Connect> = Arc::new(Pipe::new(slow(up)));
            let host = Host::builder("gateway", "1").server_with("s", server, options).start().await.unwrap();
            let gateway = Gateway::builder(host).build().unwrap().versions([down]).build();
            let called = patient(&gateway).await.call_tool(format!("s__{tool}"), ()).on_progress(drop).await;
            match (called, expected) {
                (Ok(result), Some(expected)) => assert_eq!(result.text(), expected, "{case}"),
                (Err(error), None) => {
                    assert_eq!(error.rpc().unwrap().message, "the server did not answer in time", "{case}");
                }
                (called, _) => panic!("{case}: {called:?}"),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_receives_the_questions_of_a_round_at_the_same_time() {
    let both = async |inputs: Inputs| {
        let (first, second) = tokio::join!(
            inputs.elicit::<Answer>("first", "Your first name?"),
            inputs.elicit::<Answer>("second", "Your second name?")
        );
        Ok::<_, ToolError>(format!("{} {}", first?.name, second?.name))
    };
    let server = Server::builder("s", "1").versions([REVISIONS[1]]).tool(tool("both", both)).build();
    let host = Host::builder("gateway", "1").server("s", Pipe::new(server)).start().await.unwrap();
    let gateway = Gateway::builder(host).build().unwrap().versions([REVISIONS[0]]).build();
    // The state of the server opens for 10 minutes.
    let user = client().idle_timeout(None).total_timeout(None).on_elicit(async |form| {
        sleep(400 * SECOND).await;
        Ok(ElicitResult::accept(JsonObject::new().with("name", form.message.as_str())))
    });
    let (user, since) = (user.connect(&gateway).await.unwrap(), Instant::now());
    assert_eq!(user.call_tool("s__both", ()).await.unwrap().text(), "Your first name? Your second name?");
    let elapsed = since.elapsed();
    assert!((400 * SECOND..410 * SECOND).contains(&elapsed), "{elapsed:?}");
}

/// Sends the time of its drop.
struct Ended(Option<oneshot::Sender<()>>);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.take().unwrap().send(());
    }
}

/// A server whose tool `form` asks, and then waits until it is cancelled. The receivers complete when it waits, and when it ends.
fn waiting(version: ProtocolVersion) -> (Server, oneshot::Receiver<()>, oneshot::Receiver<()>) {
    let (started, starts) = oneshot::channel();
    let (ended, ends) = oneshot::channel();
    let signals = Arc::new(Mutex::new(Some((started, Ended(Some(ended))))));
    let form = move |inputs: Inputs| {
        let signals = Arc::clone(&signals);
        async move {
            let Answer { name } = inputs.elicit("name", "Your name?").await?;
            let (started, _ended) = signals.lock().unwrap().take().unwrap();
            started.send(()).unwrap();
            std::future::pending::<()>().await;
            Ok::<_, ToolError>(name)
        }
    };
    (Server::builder("s", "1").versions([version]).tool(tool("form", form)).build(), starts, ends)
}

#[tokio::test]
async fn a_client_cancels_a_call_also_after_a_question() {
    for (down, up) in cells() {
        for is_http in [true, false] {
            let case = format!("{down} to {up}, over HTTP: {is_http}");
            let (server, starts, ends) = waiting(up);
            let host = Host::builder("gateway", "1").server("s", Pipe::new(server)).start().await.unwrap();
            let gateway = Gateway::builder(host).build().unwrap().versions([down]).build();
            let user = client().on_elicit(async |_| Ok(ElicitResult::accept(JsonObject::new().with("name", "ada"))));
            let user = match is_http {
                true => user.connect(over_http(gateway.clone()).await).await.unwrap(),
                false => user.connect(&gateway).await.unwrap(),
            };
            let call = tokio::spawn(user.call_tool("s__form", ()).into_future());
            timeout(SOON, starts).await.expect(&case).unwrap();
            call.abort();
            timeout(SOON, ends).await.expect(&case).unwrap();
        }
    }
}

#[tokio::test]
async fn a_client_cancels_a_parked_call_at_another_node() {
    let store = Arc::new(MemoryStore::new());
    let node = async |server: Server| {
        let host = Host::builder("gateway", "1").server("s", Pipe::new(server)).start().await.unwrap();
        let gateway = Gateway::builder(host).state_keys(StateKeys::new([[1; 32]])).build().unwrap();
        let gateway = gateway.store(store.clone()).versions([REVISIONS[1]]).build();
        (client().connect(&gateway).await.unwrap(), gateway)
    };
    let (server, starts, ends) = waiting(REVISIONS[0]);
    let ((first, _first), (second, _second)) = (node(server).await, node(waiting(REVISIONS[0]).0).await);
    let (key, state) = first_round(&first).await;
    let answer = json!({ "action": "accept", "content": { "name": "ada" } });
    let round = second.request_raw("tools/call", next(&json!({}), &state, &key, &answer));
    let round = tokio::spawn(round.raw_result().capabilities(User::new("").capabilities()).raw_inputs().into_future());
    timeout(SOON, starts).await.unwrap().unwrap();
    round.abort();
    timeout(SOON, ends).await.unwrap().unwrap();
}

#[tokio::test]
async fn the_gateways_of_a_fleet_compare_their_keys_after_a_question() {
    for keys in [[1, 1], [1, 2]] {
        let (store, mut gateways) = (MemoryStore::new(), Vec::new());
        for key in keys {
            // A question of a stateless server is not a parked call, which needs a lease.
            let host =
                Host::builder("gateway", "1").server("s", Pipe::new(waiting(REVISIONS[1]).0)).start().await.unwrap();
            let gateway = Gateway::builder(host).state_keys(StateKeys::new([[key; 32]])).build().unwrap();
            let gateway = gateway.store(Arc::new(store.clone())).versions([REVISIONS[1]]).build();
            first_round(&client().connect(&gateway).await.unwrap()).await;
            gateways.push(gateway);
        }
        let leases = async || store.list("mcp/gateway/node/", None, 10).await.unwrap().entries;
        let held = async {
            while leases().await.len() < gateways.len() {
                tokio::task::yield_now().await;
            }
        };
        timeout(SOON, held).await.expect("each gateway acquires a lease");
        // A lease shows the id of the node and the ids of its keys.
        let leases = leases().await;
        let shown: Vec<_> = leases.iter().map(|(_, lease)| lease.splitn(2, |byte| *byte == b' ').nth(1)).collect();
        assert!(shown.iter().all(Option::is_some));
        assert_eq!(shown[0] == shown[1], keys[0] == keys[1], "{keys:?}");
    }
}
