//! Long calls through a gateway: the time limits of the request at the server decide. The clock of these tests is paused.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{sync::Arc, time::Duration};

use mcp_agent::{Gateway, Host, ServerOptions};
use mcp_client::{Client, transport::Connect};
use mcp_protocol::{ElicitResult, JsonObject, ProtocolVersion};
use mcp_server::prelude::*;
use tokio::time::{Instant, sleep};

use crate::common::{Pipe, REVISIONS, cells, client};

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

/// Connects a user whose calls have no time limit, and who answers after 90 seconds.
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
    for (down, up) in cells() {
        for (tool, options, expected) in [
            ("works", limited(), Some("done")),
            // The time of the user does not count.
            ("asks", limited(), Some("ada")),
            // Without a limit of the server, each call may pass 60 seconds without progress.
            ("works", ServerOptions::new(), None),
            ("reports", ServerOptions::new(), Some("reported")),
            ("reports", limited(), None),
        ] {
            let case = format!("{tool}: {down} to {up}, {:?}", options.call_timeout);
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
