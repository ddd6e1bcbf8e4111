//! A parked call whose user does not answer ends at its server too. The clock of these tests is paused.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    error::Error,
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_agent::{
    Gateway, Host,
    policy::{AuditEvent, AuditSink, DecidedBy, Outcome, RefusalKind},
};
use mcp_client::transport::BoxFuture;
use mcp_server::prelude::*;
use serde_json::json;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};

use crate::{
    common::{Pipe, REVISIONS, SOON, client},
    rounds::{asked, first_round, next, reason, send},
};

/// The time of a parked call since its last round.
const LIFETIME: Duration = Duration::from_secs(600);
const HOUR: Duration = Duration::from_secs(3600);

#[derive(Deserialize, JsonSchema)]
struct Answer {
    name: String,
}

/// Sends the time of its drop.
struct Running(mpsc::UnboundedSender<Instant>);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.send(Instant::now());
    }
}

/// A server of the session era that waits for an answer longer than a parked call lives. The receiver has the ends of its calls.
fn patient() -> (Server, mpsc::UnboundedReceiver<Instant>) {
    let (ended, ends) = mpsc::unbounded_channel();
    let form = move |inputs: Inputs| {
        let running = Running(ended.clone());
        async move {
            let Answer { name } = inputs.elicit("name", "Your name?").await?;
            drop(running);
            Ok::<_, ToolError>(name)
        }
    };
    let server = Server::builder("s", "1").versions([REVISIONS[0]]).tool(tool("form", form)).limits(|limits| {
        limits.tool_timeout = HOUR;
        limits.inputs.elicitation = HOUR;
    });
    (server.build(), ends)
}

#[tokio::test(start_paused = true)]
async fn the_gateway_cancels_a_parked_call_without_an_answer_at_its_server() {
    let (server, mut ends) = patient();
    let host = Host::builder("gateway", "1").server("s", Pipe::new(server)).start().await.unwrap();
    let gateway = Gateway::builder(host).build().unwrap().versions([REVISIONS[1]]).build();
    let user = client().connect(&gateway).await.unwrap();
    let answer = json!({ "action": "accept", "content": { "name": "ada" } });

    let parked = Instant::now();
    let (key, state) = first_round(&user).await;
    let ended = timeout(HOUR, ends.recv()).await.unwrap().unwrap();
    let lived = ended.duration_since(parked);
    assert!((LIFETIME..LIFETIME + Duration::from_secs(5)).contains(&lived), "{lived:?}");
    let late = send(&user, next(&json!({}), &state, &key, &answer)).await.unwrap_err();
    assert_eq!((late.code.0, reason(&late)), (-32602, "request_state_expired"));

    // Each round extends the lifetime of the call.
    let parked = Instant::now();
    let (key, mut state) = first_round(&user).await;
    for _ in 0..3 {
        sleep(LIFETIME - Duration::from_secs(60)).await;
        (_, state) = asked(&user, json!({ "name": "s__form", "arguments": {}, "requestState": state })).await;
    }
    assert!(ends.try_recv().is_err());
    assert_eq!(send(&user, next(&json!({}), &state, &key, &answer)).await.unwrap(), "ada");
    let ended = timeout(SOON, ends.recv()).await.unwrap().unwrap();
    assert!(ended.duration_since(parked) > 2 * LIFETIME);
}

/// Keeps the outcomes of audit events. The record of a later round needs 4 seconds.
#[derive(Clone, Default)]
struct SlowRecords(Arc<Mutex<Vec<Outcome>>>);

impl AuditSink for SlowRecords {
    fn record(&self, event: &AuditEvent) {
        self.0.lock().unwrap().push(event.outcome);
    }

    fn store<'a>(&'a self, event: &'a AuditEvent) -> BoxFuture<'a, Result<(), Box<dyn Error + Send + Sync>>> {
        Box::pin(async {
            if event.decided_by == DecidedBy::EarlierRound {
                sleep(Duration::from_secs(4)).await;
            }
            self.record(event);
            Ok(())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_round_whose_call_ends_during_its_record_is_recorded_as_refused() {
    let ((server, mut ends), records) = (patient(), SlowRecords::default());
    let host = Host::builder("gateway", "1").server("s", Pipe::new(server)).audit(records.clone()).require_audit();
    let gateway = Gateway::builder(host.start().await.unwrap()).build().unwrap().versions([REVISIONS[1]]).build();
    let user = client().connect(&gateway).await.unwrap();
    let (key, state) = first_round(&user).await;
    sleep(LIFETIME - Duration::from_secs(2)).await;
    assert!(ends.try_recv().is_err());
    let round = next(&json!({}), &state, &key, &json!({ "action": "accept", "content": { "name": "ada" } }));
    let late = send(&user, round).await.unwrap_err();
    assert_eq!((late.code.0, reason(&late)), (-32602, "request_state_expired"));
    let refused = Outcome::Refused(RefusalKind::NotContinued);
    assert_eq!(*records.0.lock().unwrap(), [Outcome::Allowed, Outcome::Allowed, refused]);
}
