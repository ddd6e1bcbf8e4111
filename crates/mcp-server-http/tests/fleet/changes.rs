//! Changes of a session at several nodes: late and lost messages, rollbacks of the store, and requests that fail.

use mcp_protocol::LoggingLevel::{Error, Warning};
use mcp_server_core::resource;
use mcp_store::{Delivery, KeyValue as _, PubSub as _};
use tokio::task::JoinHandle;

use super::{
    outage::{Fault, Fragile},
    *,
};
use crate::common::{legacy, settle};

/// The topic of the messages about sessions.
const TOPIC: &str = "mcp/fleet/sessions";

/// Two nodes that serve one session.
struct Pair {
    memory: MemoryStore,
    /// The stores of the nodes.
    stores: [Arc<Fragile>; 2],
    fleet: Fleet,
    session: String,
}

impl Pair {
    async fn new() -> Self {
        let memory = MemoryStore::new();
        let stores = [(); 2].map(|()| Arc::new(Fragile::of(memory.clone())));
        let handles = stores.iter().map(|store| store.clone() as Arc<dyn Store>).collect();
        let build = |builder: ServerBuilder| builder.resource(resource("note://1", async || "one"));
        let fleet = Fleet::of_stores(handles, HttpConfig::new(), build);
        let session = fleet.open(json!({})).await;
        let pair = Self { memory, stores, fleet, session };
        for node in 0..2 {
            pair.ping(node).await;
        }
        pair
    }

    async fn ping(&self, node: usize) {
        let answer = send(&self.fleet.nodes[node], legacy(Some(&self.session), "ping", json!({}))).await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        // The node extends the life of the record in the background.
        settle().await;
    }

    /// Sends a request to a node in the background.
    async fn start(&self, node: usize, method: &str, params: Value) -> JoinHandle<Answer> {
        let (node, request) = (self.fleet.nodes[node].clone(), legacy(Some(&self.session), method, params));
        let started = tokio::spawn(async move { send(&node, request).await });
        settle().await;
        started
    }

    async fn start_level(&self, node: usize, level: &str) -> JoinHandle<Answer> {
        self.start(node, "logging/setLevel", json!({ "level": level })).await
    }

    async fn set_level(&self, node: usize, level: &str) -> StatusCode {
        let status = within("the level", self.start_level(node, level).await).await.unwrap().status;
        settle().await;
        status
    }

    fn key(&self) -> String {
        format!("mcp/fleet/session/{}", digest(&self.session))
    }

    async fn record(&self) -> Arc<[u8]> {
        self.memory.get(&self.key()).await.unwrap().unwrap()
    }

    async fn put(&self, record: Arc<[u8]>) {
        self.memory.put(&self.key(), record, None).await.unwrap();
    }

    /// Writes the level of another node to the record. The nodes receive no message.
    async fn put_level(&self, level: &str) {
        self.put_change(|state| state["logLevel"] = level.into()).await;
    }

    /// Writes a change of another node to the record. The nodes receive no message. Returns the number of the write.
    async fn put_change(&self, change: impl FnOnce(&mut Value)) -> u64 {
        let mut record: Value = serde_json::from_slice(&self.record().await).unwrap();
        change(&mut record["state"]);
        let write = record["writes"].as_u64().unwrap() + 1;
        record["writes"] = write.into();
        self.put(record.to_string().into_bytes().into()).await;
        write
    }

    /// Checks that the next message of a stream is the update of a resource.
    async fn assert_updated(stream: &mut Body, uri: &str) {
        // The comments of a quiet stream restart the limit of a message.
        let message = tokio::time::timeout(Duration::from_secs(60), next_message(stream)).await.expect("an update");
        assert_eq!(
            (&message["method"], &message["params"]["uri"]),
            (&json!("notifications/resources/updated"), &json!(uri))
        );
    }

    /// Sends a message of another node.
    async fn publish(&self, event: Value) {
        let message = json!({ "sender": "other", "session": digest(&self.session), "event": event });
        self.memory.publish(TOPIC, message.to_string().into_bytes().into()).await.unwrap();
        settle().await;
    }

    /// Sends a message that the nodes cannot read, so each node compares its records.
    async fn publish_unreadable(&self) {
        self.memory.publish(TOPIC, Arc::from(*b"?")).await.unwrap();
        settle().await;
    }

    async fn stream(&self, node: usize) -> Body {
        common::opened(&self.fleet.nodes[node], &self.session).await
    }

    /// Returns the level of the first log record that a node sends.
    async fn sent_level(&self, node: usize, stream: &mut Body) -> String {
        for level in [Warning, Error] {
            self.fleet.servers[node].notify().log(level, "a record");
        }
        let first = next_events(stream).await.remove(0).message.unwrap();
        first["params"]["level"].as_str().unwrap().to_owned()
    }

    /// Changes the level at the second node, and checks that both nodes keep this change after the fault of the first one.
    async fn assert_later_change_stays(&self, fault: Fault) {
        assert_eq!(self.set_level(1, "error").await, StatusCode::OK, "{fault:?}");
        self.stores[0].set_fault(Fault::None);
        for node in 0..2 {
            self.ping(node).await;
        }
        settle().await;
        self.assert_level("error").await;
    }

    /// Checks the level of both nodes. A node with a stale state compares the record before.
    async fn assert_level(&self, expected: &str) {
        for node in 0..2 {
            let mut stream = self.stream(node).await;
            assert_eq!(self.sent_level(node, &mut stream).await, expected, "node {node}");
        }
    }
}

#[tokio::test]
async fn a_late_message_does_not_replace_a_newer_change() {
    let pair = Pair::new().await;
    let mut messages = pair.memory.subscribe(TOPIC, 100).await.unwrap();
    assert_eq!(pair.set_level(0, "debug").await, StatusCode::OK);
    assert_eq!(pair.set_level(1, "error").await, StatusCode::OK);
    let mut changed = Vec::new();
    while let Some(delivery) = messages.try_recv() {
        let Delivery::Message(message) = delivery else { panic!("a message is lost") };
        if String::from_utf8_lossy(&message).contains("logLevel") {
            changed.push(message);
        }
    }
    assert_eq!(changed.len(), 2);
    let mut stream = pair.stream(1).await;
    // The first message arrives again, after the second change.
    pair.memory.publish(TOPIC, changed[0].clone()).await.unwrap();
    settle().await;
    assert_eq!(pair.sent_level(1, &mut stream).await, "error");
}

#[tokio::test]
async fn a_node_that_misses_a_message_compares_the_record() {
    let pair = Pair::new().await;
    pair.put_level("error").await;
    pair.put_level("error").await;
    let record: Value = serde_json::from_slice(&pair.record().await).unwrap();
    pair.publish(json!({ "changed": { "write": record["writes"], "changes": [{ "unsubscribed": "note://1" }] } }))
        .await;
    pair.assert_level("error").await;
}

#[tokio::test]
async fn changes_after_a_rollback_of_the_store_reach_each_node() {
    let pair = Pair::new().await;
    assert_eq!(pair.set_level(0, "debug").await, StatusCode::OK);
    let first = pair.record().await;
    for level in ["info", "debug"] {
        assert_eq!(pair.set_level(0, level).await, StatusCode::OK);
    }
    pair.put(first).await;
    pair.publish_unreadable().await;
    for node in 0..2 {
        pair.ping(node).await;
    }
    let mut stream = pair.stream(1).await;
    assert_eq!(pair.set_level(0, "error").await, StatusCode::OK);
    assert_eq!(pair.sent_level(1, &mut stream).await, "error");
}

#[tokio::test(start_paused = true)]
async fn a_later_change_applies_while_a_node_announces_its_own() {
    let pair = Pair::new().await;
    let mut stream = pair.stream(0).await;
    pair.stores[0].set_fault(Fault::HeldPublish);
    let first = pair.start_level(0, "debug").await;
    assert_eq!(pair.set_level(1, "error").await, StatusCode::OK);
    assert!(!first.is_finished());
    assert_eq!(pair.sent_level(0, &mut stream).await, "error");
    pair.stores[0].set_fault(Fault::None);
    assert_eq!(within("the first level", first).await.unwrap().status, StatusCode::OK);
    drop(stream);
    pair.assert_level("error").await;
}

#[tokio::test(start_paused = true)]
async fn a_change_that_fails_does_not_replace_a_later_change() {
    for fault in [Fault::Away, Fault::Full, Fault::Silent] {
        let pair = Pair::new().await;
        pair.stores[0].set_fault(fault);
        assert_eq!(pair.set_level(0, "debug").await, StatusCode::SERVICE_UNAVAILABLE, "{fault:?}");
        pair.assert_later_change_stays(fault).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_whose_client_disconnects_is_not_stored_again() {
    for fault in [Fault::HeldPublish, Fault::HeldSwap] {
        let pair = Pair::new().await;
        pair.stores[0].set_fault(fault);
        let first = pair.start_level(0, "debug").await;
        first.abort();
        settle().await;
        pair.assert_later_change_stays(fault).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stored_change_whose_client_disconnects_reaches_each_node() {
    for fault in [Fault::HeldPublish, Fault::HeldSwap] {
        let pair = Pair::new().await;
        assert_eq!(pair.set_level(0, "error").await, StatusCode::OK);
        pair.stores[0].set_fault(fault);
        let first = pair.start_level(0, "debug").await;
        first.abort();
        settle().await;
        pair.stores[0].set_fault(Fault::None);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut stream = pair.stream(1).await;
        assert_eq!(pair.sent_level(1, &mut stream).await, "warning");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_during_a_comparison_causes_another() {
    let pair = Pair::new().await;
    pair.publish_unreadable().await;
    pair.stores[0].set_fault(Fault::HeldSwap);
    let compared = pair.start(0, "ping", json!({})).await;
    pair.put_level("error").await;
    pair.publish(json!("reload")).await;
    assert!(!compared.is_finished());
    pair.stores[0].set_fault(Fault::None);
    assert_eq!(within("the comparison", compared).await.unwrap().status, StatusCode::OK);
    pair.assert_level("error").await;
}

#[tokio::test(start_paused = true)]
async fn a_comparison_does_not_replace_a_newer_change() {
    let pair = Pair::new().await;
    let mut stream = pair.stream(0).await;
    pair.stores[0].set_fault(Fault::HeldSwap);
    // The session has a reader, so the node compares the record without a request.
    pair.publish_unreadable().await;
    assert_eq!(pair.set_level(1, "error").await, StatusCode::OK);
    let compared = pair.start(0, "ping", json!({})).await;
    assert!(!compared.is_finished());
    pair.stores[0].set_fault(Fault::None);
    assert_eq!(within("the comparison", compared).await.unwrap().status, StatusCode::OK);
    assert_eq!(pair.sent_level(0, &mut stream).await, "error");
}

#[tokio::test(start_paused = true)]
async fn a_subscription_whose_message_is_late_or_lost_applies_at_the_node_of_a_reader() {
    for is_lost in [false, true] {
        let pair = Pair::new().await;
        let mut stream = pair.stream(0).await;
        let first = pair.put_change(|state| state["subscriptions"] = json!(["note://1"])).await;
        let second = pair.put_change(|state| state["subscriptions"] = json!(["note://1", "note://2"])).await;
        let message =
            |write: u64, uri: &str| json!({ "changed": { "write": write, "changes": [{ "subscribed": uri }] } });
        pair.publish(message(second, "note://2")).await;
        if !is_lost {
            pair.publish(message(first, "note://1")).await;
        }
        // The client sends no further request.
        pair.fleet.servers[1].notify().resource_updated("note://1");
        Pair::assert_updated(&mut stream, "note://1").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_before_the_node_of_a_reader_has_the_subscription_arrives() {
    let pair = Pair::new().await;
    let mut stream = pair.stream(0).await;
    pair.stores[1].set_fault(Fault::Mute);
    let subscribed = pair.start(1, "resources/subscribe", json!({ "uri": "note://1" })).await;
    let answer = within("the subscription", subscribed).await.unwrap();
    assert_eq!((answer.status, answer.error_code()), (StatusCode::OK, None));
    // The change waits at the second node, and the first node ignores it.
    pair.fleet.servers[0].notify().resource_updated("note://1");
    settle().await;
    pair.stores[1].set_fault(Fault::None);
    Pair::assert_updated(&mut stream, "note://1").await;
}
