//! Effects of `once` in a fleet: at most once, also when nodes stop, and failed soon after their node stopped.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_server_core::{Inputs, Server, StateKeys, ToolError, tool};
use mcp_store::{KeyValue as _, MemoryStore};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    common::{Connection, cancel, modern, text_of},
    cut_store::{CutStore, Link},
    input_client::Name,
};

/// The number of effects of each flow, by the name in its answer.
type Effects = Arc<Mutex<HashMap<String, usize>>>;

const UNFINISHED: &str = "an earlier attempt at this call did not finish; it is not repeated";

/// A node with the tool `buy`, whose effect takes some time.
fn node(store: &MemoryStore, effects: &Effects, time: Duration) -> (Connection, CutStore) {
    let (cut, effects) = (CutStore::to(store), effects.clone());
    let server = Server::builder("shop", "1")
        .store(Arc::new(cut.clone()))
        .state_keys(StateKeys::new([[7; 32]]))
        .tool(tool("buy", async move |inputs: Inputs| -> Result<String, ToolError> {
            let Name { name } = inputs.elicit("name", "For whom?").await?;
            let buy = async || {
                sleep(time / 2).await;
                *effects.lock().unwrap().entry(name.clone()).or_default() += 1;
                sleep(time / 2).await;
                Ok::<_, ToolError>(format!("bought for {name}"))
            };
            inputs.once("buy", buy).await
        }))
        .build();
    (Connection::connect(&server), cut)
}

fn request(id: i64, params: Value) -> Value {
    let mut params = params;
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({ "elicitation": {} });
    modern(id, "tools/call", params)
}

/// Starts a flow. Returns the parameters of its last round.
async fn last_round(connection: &mut Connection, name: &str) -> Value {
    let first = connection.exchange(request(1, json!({ "name": "buy" }))).await;
    let state = &first["result"]["requestState"];
    let answers = json!({ "name": { "action": "accept", "content": { "name": name } } });
    json!({ "name": "buy", "requestState": state, "inputResponses": answers })
}

fn count(effects: &Effects, name: &str) -> usize {
    effects.lock().unwrap().get(name).copied().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn an_effect_of_a_killed_node_fails_on_the_other_nodes() {
    let (store, effects) = (MemoryStore::new(), Effects::default());
    let time = Duration::from_secs(40);
    let ((mut here, cut), (mut there, _)) = (node(&store, &effects, time), node(&store, &effects, time));
    let round = last_round(&mut here, "Ada").await;
    here.send(request(2, round.clone())).await;
    here.quiet().await;
    cut.set(Link::Stalled);
    let start = Instant::now();
    let answer = there.exchange(request(2, round.clone())).await;
    assert_eq!(text_of(&answer), UNFINISHED);
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    assert_eq!(text_of(&there.exchange(request(3, round.clone())).await), UNFINISHED);
    // The node that was cut off ended its attempt too.
    assert_eq!(text_of(&here.recv().await), UNFINISHED);
    cut.set(Link::Up);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(text_of(&here.exchange(request(3, round)).await), UNFINISHED);
    assert_eq!(count(&effects, "Ada"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_round_on_another_node_receives_the_result_of_the_effect() {
    let (store, effects) = (MemoryStore::new(), Effects::default());
    let time = Duration::from_secs(30);
    let ((mut here, _a), (mut there, _b)) = (node(&store, &effects, time), node(&store, &effects, time));
    let round = last_round(&mut here, "Ada").await;
    here.send(request(2, round.clone())).await;
    here.quiet().await;
    assert_eq!(text_of(&there.exchange(request(2, round)).await), "bought for Ada");
    assert_eq!(text_of(&here.recv().await), "bought for Ada");
    assert_eq!(count(&effects, "Ada"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_effect_does_not_begin_while_the_store_is_unavailable() {
    for link in [Link::Down, Link::Full] {
        let (store, effects) = (MemoryStore::new(), Effects::default());
        let (mut here, cut) = node(&store, &effects, Duration::ZERO);
        let round = last_round(&mut here, "Ada").await;
        cut.set(link);
        let answer = here.exchange(request(2, round.clone())).await;
        let text = "the shared store is unavailable, and this step did not begin; try again later";
        assert_eq!((text_of(&answer), count(&effects, "Ada")), (text, 0), "{link:?}");
        cut.set(Link::Up);
        assert_eq!(text_of(&here.exchange(request(3, round)).await), "bought for Ada", "{link:?}");
        assert_eq!(count(&effects, "Ada"), 1, "{link:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_result_of_an_effect_waits_for_the_end_of_a_short_outage() {
    for link in [Link::Stalled, Link::Down, Link::Full] {
        let (store, effects) = (MemoryStore::new(), Effects::default());
        let time = Duration::from_secs(2);
        let ((mut here, cut), (mut there, _b)) = (node(&store, &effects, time), node(&store, &effects, time));
        let round = last_round(&mut here, "Ada").await;
        here.send(request(2, round.clone())).await;
        here.quiet().await;
        cut.set(link);
        sleep(Duration::from_millis(2500)).await;
        cut.set(Link::Up);
        assert_eq!(text_of(&here.recv().await), "bought for Ada", "{link:?}");
        assert_eq!(text_of(&there.exchange(request(2, round)).await), "bought for Ada", "{link:?}");
        assert_eq!(count(&effects, "Ada"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_effect_is_marked_after_a_short_outage() {
    let (store, effects) = (MemoryStore::new(), Effects::default());
    let time = Duration::from_secs(40);
    let ((mut here, cut), (mut there, _b)) = (node(&store, &effects, time), node(&store, &effects, time));
    let round = last_round(&mut here, "Ada").await;
    here.send(request(2, round.clone())).await;
    here.quiet().await;
    cut.set(Link::Down);
    here.send(cancel(2)).await;
    sleep(Duration::from_secs(4)).await;
    cut.set(Link::Up);
    // The node keeps its lease, and ends the record itself.
    let start = Instant::now();
    assert_eq!(text_of(&there.exchange(request(2, round)).await), UNFINISHED);
    assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_effect_whose_mark_the_store_lost_is_not_repeated() {
    for (is_cancelled, expected) in [(false, "bought for Ada"), (true, UNFINISHED)] {
        let (store, effects) = (MemoryStore::new(), Effects::default());
        let time = Duration::from_secs(2);
        let ((mut here, cut), (mut there, _b)) = (node(&store, &effects, time), node(&store, &effects, time));
        let round = last_round(&mut here, "Ada").await;
        let record = async || store.list("mcp/shop/once/", None, 10).await.unwrap().entries.pop();
        // The first attempt does not begin, and leaves a record.
        cut.set(Link::Down);
        here.exchange(request(2, round.clone())).await;
        cut.set(Link::Up);
        sleep(Duration::from_secs(1)).await;
        let (key, free) = record().await.unwrap();
        here.send(request(3, round.clone())).await;
        sleep(time * 3 / 4).await;
        assert_ne!(record().await.unwrap().1, free);
        // The rollback of the store.
        store.put(&key, free, None).await.unwrap();
        if is_cancelled {
            here.send(cancel(3)).await;
        } else {
            assert_eq!(text_of(&here.recv().await), expected);
        }
        sleep(time).await;
        assert_eq!(text_of(&there.exchange(request(2, round)).await), expected);
        assert_eq!(count(&effects, "Ada"), 1, "cancelled: {is_cancelled}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_running_node_ends_the_effects_of_a_killed_node_that_no_round_reads() {
    let (store, effects) = (MemoryStore::new(), Effects::default());
    let time = Duration::from_secs(120);
    let ((mut here, cut), (mut there, _b)) = (node(&store, &effects, time), node(&store, &effects, time));
    // Both nodes run, each with a flow of its own.
    for connection in [&mut here, &mut there] {
        let round = last_round(connection, "Ada").await;
        connection.send(request(2, round)).await;
        connection.quiet().await;
    }
    cut.set(Link::Stalled);
    sleep(Duration::from_secs(35)).await;
    let page = store.list("mcp/shop/once/", None, 10).await.unwrap();
    let mut guards: Vec<_> =
        page.entries.iter().map(|(_, guard)| serde_json::from_slice::<Value>(guard).unwrap()).collect();
    guards.sort_by_key(Value::is_string);
    assert_eq!(guards[1], "Failed");
    assert!(guards[0]["RunningOn"].is_object(), "{guards:?}");
}

/// A generator of numbers with a fixed seed (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)) % limit
    }
}

#[tokio::test(start_paused = true)]
async fn no_effect_occurs_twice_while_nodes_stop_at_random_times() {
    let (store, effects) = (MemoryStore::new(), Effects::default());
    let mut numbers = Numbers(15);
    let mut completed = 0;
    for flow in 0..150 {
        let name = format!("flow {flow}");
        let time = Duration::from_millis(numbers.below(30_000));
        let mut nodes: Vec<_> = (0..3).map(|_| node(&store, &effects, time)).collect();
        let round = last_round(&mut nodes[0].0, &name).await;
        let mut calls = tokio::task::JoinSet::new();
        for (mut connection, cut) in nodes {
            let (round, starts) = (round.clone(), Duration::from_millis(numbers.below(2_000)));
            let stops = Duration::from_millis(numbers.below(20_000));
            let returns = Duration::from_millis(numbers.below(20_000));
            let link = if numbers.below(2) == 0 { Link::Stalled } else { Link::Down };
            let is_stopped = numbers.below(3) > 0;
            calls.spawn(async move {
                sleep(starts).await;
                connection.send(request(2, round.clone())).await;
                if is_stopped {
                    sleep(stops).await;
                    cut.set(link);
                    sleep(returns).await;
                    cut.set(Link::Up);
                }
                connection.recv().await;
                sleep(Duration::from_secs(6)).await;
                // The client repeats the round, because the answer may have been lost.
                let last = connection.exchange(request(3, round)).await;
                text_of(&last).to_owned()
            });
        }
        let mut answers = Vec::new();
        while let Some(answer) = calls.join_next().await {
            answers.push(answer.unwrap());
        }
        let done = answers.iter().filter(|text| text.starts_with("bought")).count();
        let count = count(&effects, &name);
        assert!(count <= 1, "{name}: {count} effects, {answers:?}");
        assert!(done == 0 || count == 1, "{name}: a result without an effect, {answers:?}");
        completed += usize::from(done > 0);
    }
    assert!(completed > 40, "{completed}");
}
