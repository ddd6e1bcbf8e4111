//! The progress of an answer to a request of the server. The clock of these tests is paused.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{sync::atomic::Ordering, time::Duration};

use mcp_client::{
    ClientBuilder, InputContext,
    protocol::{ElicitResult, ProtocolVersion},
};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::common::{
    Peer, builder,
    transports::{Properties, connected_over},
};

/// Returns a client that reports a step before each of these pauses, and then the last step with its answer.
fn reporting(pauses: &'static [u64]) -> ClientBuilder {
    builder().on_elicit(move |input: InputContext<_>| async move {
        let mut step = 0.0;
        for pause in pauses {
            step += 1.0;
            input.progress(step, None, None);
            sleep(Duration::from_millis(*pause)).await;
        }
        input.progress(step + 1.0, None, None);
        Ok(ElicitResult::cancel())
    })
}

/// Asks the client. Returns the steps that the server receives before the answer, and the time of each of them and of the answer.
async fn ask(peer: &mut Peer) -> (Vec<(u64, u128)>, u128) {
    let began = Instant::now();
    let form = json!({ "message": "Your name?", "requestedSchema": { "type": "object", "properties": {} } });
    let mut request = json!({ "jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": form });
    request["params"]["_meta"] = json!({ "progressToken": "p" });
    peer.send(request).await;
    let mut steps = Vec::new();
    loop {
        let (message, time) = (peer.recv().await, began.elapsed().as_millis());
        if message["method"] == "notifications/progress" {
            steps.push((message["params"]["progress"].as_u64().unwrap(), time));
        } else {
            assert_eq!(message["result"]["action"], "cancel", "{message}");
            return (steps, time);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_server_receives_the_newest_report_at_intervals_and_the_last_report() {
    let builder = reporting(&[20, 20, 20, 30]);
    let (_client, mut peer) = connected_over(&Properties::default(), builder, ProtocolVersion::V2025_11_25).await;
    assert_eq!(ask(&mut peer).await, (vec![(1, 0), (3, 50), (5, 90)], 90));
}

#[tokio::test(start_paused = true)]
async fn an_answer_waits_for_one_second_for_a_server_that_does_not_read_its_last_report() {
    let properties = Properties::default();
    let (_client, mut peer) = connected_over(&properties, reporting(&[]), ProtocolVersion::V2025_11_25).await;
    properties.is_full.store(true, Ordering::SeqCst);
    assert_eq!(ask(&mut peer).await, (vec![], 1000));
    properties.is_full.store(false, Ordering::SeqCst);
    assert_eq!(ask(&mut peer).await, (vec![(1, 0)], 0));
}
