//! A store that fails: what needs the store is answered with 503, and all other requests continue.

use std::sync::{Mutex, atomic::AtomicBool};

use mcp_server_core::{Progress, tool};
use mcp_store::{KeyPage, KeyValue, Log, LogPage, PubSub, Retain, StoreError, StoreFuture, Subscription, Swap};

use tokio::sync::watch;
use tracing::{
    Dispatch,
    subscriber::{NoSubscriber, set_default},
};

use super::*;
use crate::{
    common::{SetOnDrop, legacy, settle, stateless},
    log_text::LogText,
};

/// A store that can fail.
#[derive(Debug, Default)]
pub(crate) struct Fragile {
    memory: MemoryStore,
    fault: watch::Sender<Fault>,
    /// An append that takes effect after the next append.
    late: Mutex<Option<Append>>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    #[default]
    None,
    Away,
    /// No operation ends.
    Silent,
    /// Each operation takes a while.
    Slow,
    /// No message can be published.
    Mute,
    /// No topic can be subscribed.
    Deaf,
    /// No publication ends before the fault.
    HeldPublish,
    /// The outcome of each swap arrives after the fault.
    HeldSwap,
    /// The store rejects writes, because its memory is full.
    Full,
    /// The next append fails, and takes effect after the append that follows.
    LateAppend,
}

#[derive(Debug)]
struct Append {
    log: String,
    writer: u64,
    number: u64,
    data: Arc<[u8]>,
    ttl: Option<Duration>,
}

impl Fragile {
    pub(crate) fn of(memory: MemoryStore) -> Self {
        Self { memory, ..Self::default() }
    }

    pub(crate) fn set_failing(&self, fails: bool) {
        self.set_fault(if fails { Fault::Away } else { Fault::None });
    }

    pub(crate) fn set_fault(&self, fault: Fault) {
        self.fault.send_replace(fault);
    }

    fn has(&self, fault: Fault) -> bool {
        *self.fault.borrow() == fault
    }

    /// Waits for the end of a fault.
    async fn end_of(&self, fault: Fault) {
        self.fault.subscribe().wait_for(|current| *current != fault).await.unwrap();
    }

    fn write<'a, T: 'a>(&'a self, answer: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        if self.has(Fault::Full) {
            return Box::pin(async { Err(StoreError::full("the store is full")) });
        }
        self.then(answer)
    }

    fn then<'a, T: 'a>(&'a self, answer: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        let fault = *self.fault.borrow();
        match fault {
            Fault::Away => away(),
            Fault::Silent => Box::pin(std::future::pending()),
            Fault::Slow => Box::pin(async {
                tokio::time::sleep(Duration::from_millis(10)).await;
                answer.await
            }),
            _ => answer,
        }
    }
}

fn away<'a, T: 'a>() -> StoreFuture<'a, T> {
    Box::pin(async { Err(StoreError::unavailable("the store is away")) })
}

impl KeyValue for Fragile {
    fn get<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Arc<[u8]>>> {
        self.then(self.memory.get(key))
    }

    fn put<'a>(&'a self, key: &'a str, value: Arc<[u8]>, ttl: Option<Duration>) -> StoreFuture<'a, ()> {
        self.write(self.memory.put(key, value, ttl))
    }

    fn compare_and_swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a [u8]>,
        new: Option<Arc<[u8]>>,
        ttl: Option<Duration>,
    ) -> StoreFuture<'a, Swap> {
        let swap = self.memory.compare_and_swap(key, expected, new, ttl);
        if self.has(Fault::HeldSwap) {
            return Box::pin(async {
                let outcome = swap.await;
                self.end_of(Fault::HeldSwap).await;
                outcome
            });
        }
        self.write(swap)
    }

    fn delete<'a>(&'a self, key: &'a str) -> StoreFuture<'a, bool> {
        self.then(self.memory.delete(key))
    }

    fn list<'a>(&'a self, prefix: &'a str, after: Option<&'a str>, limit: usize) -> StoreFuture<'a, KeyPage> {
        self.then(self.memory.list(prefix, after, limit))
    }
}

impl Log for Fragile {
    fn append<'a>(&'a self, log: &'a str, data: Arc<[u8]>, ttl: Option<Duration>) -> StoreFuture<'a, u64> {
        self.write(self.memory.append(log, data, ttl))
    }

    fn append_once<'a>(
        &'a self,
        log: &'a str,
        writer: u64,
        number: u64,
        data: Arc<[u8]>,
        ttl: Option<Duration>,
    ) -> StoreFuture<'a, Option<u64>> {
        if self.has(Fault::LateAppend) {
            self.set_fault(Fault::None);
            *self.late.lock().unwrap() = Some(Append { log: log.to_owned(), writer, number, data, ttl });
            return away();
        }
        let late = self.late.lock().unwrap().take();
        self.then(Box::pin(async move {
            let appended = self.memory.append_once(log, writer, number, data, ttl).await;
            if let Some(Append { log, writer, number, data, ttl }) = late {
                self.memory.append_once(&log, writer, number, data, ttl).await?;
            }
            appended
        }))
    }

    fn extend<'a>(&'a self, log: &'a str, ttl: Option<Duration>) -> StoreFuture<'a, u64> {
        self.then(self.memory.extend(log, ttl))
    }

    fn read_after<'a>(&'a self, log: &'a str, after: u64, limit: usize) -> StoreFuture<'a, LogPage> {
        self.then(self.memory.read_after(log, after, limit))
    }

    fn trim<'a>(&'a self, log: &'a str, retain: Retain) -> StoreFuture<'a, u64> {
        self.then(self.memory.trim(log, retain))
    }

    fn delete_log<'a>(&'a self, log: &'a str) -> StoreFuture<'a, bool> {
        self.then(self.memory.delete_log(log))
    }
}

impl PubSub for Fragile {
    fn publish<'a>(&'a self, topic: &'a str, message: Arc<[u8]>) -> StoreFuture<'a, ()> {
        if self.has(Fault::Mute) {
            return away();
        }
        if self.has(Fault::HeldPublish) {
            return Box::pin(async move {
                self.end_of(Fault::HeldPublish).await;
                self.memory.publish(topic, message).await
            });
        }
        self.then(self.memory.publish(topic, message))
    }

    fn subscribe<'a>(&'a self, topic: &'a str, capacity: usize) -> StoreFuture<'a, Subscription> {
        if self.has(Fault::Deaf) {
            return away();
        }
        self.then(self.memory.subscribe(topic, capacity))
    }
}

#[tokio::test(start_paused = true)]
async fn requests_that_need_the_store_are_unavailable_while_it_fails() {
    let store = Arc::new(Fragile::default());
    let config = HttpConfig::new().health("/health").readiness("/ready");
    let fleet = Fleet::with(2, store.clone(), config, |builder| builder.tool(tool("hi", async || "hi")));
    let health = async |path: &str| {
        let mut request = request(Method::GET, &[], "");
        *request.uri_mut() = path.parse().unwrap();
        let answer = fleet.send(request).await;
        (answer.status, answer.json()["store"].as_str().unwrap().to_owned())
    };
    for path in ["/health", "/ready"] {
        assert_eq!(health(path).await, (StatusCode::OK, "ok".to_owned()));
    }
    let session = fleet.open(json!({})).await;
    let call = || legacy(Some(&session), "tools/call", json!({ "name": "hi" }));
    let level = || legacy(Some(&session), "logging/setLevel", json!({ "level": "error" }));
    assert_eq!(send(&fleet.nodes[0], call()).await.status, StatusCode::OK);
    settle().await;
    store.set_failing(true);
    let stateless_call = || stateless("tools/call", json!({ "name": "hi" }), &[]);
    let unknown = || legacy(Some("mcp_00000000000000000000000000000000"), "ping", json!({}));
    for (name, node, request, expected) in [
        ("a stateless call", 0, stateless_call(), StatusCode::OK),
        ("a stateless list", 1, stateless("tools/list", json!({}), &[]), StatusCode::OK),
        ("a call of a known session", 0, call(), StatusCode::OK),
        ("a change of a session", 0, level(), StatusCode::SERVICE_UNAVAILABLE),
        ("an unknown session", 1, unknown(), StatusCode::SERVICE_UNAVAILABLE),
        ("a new session", 1, initialize(), StatusCode::SERVICE_UNAVAILABLE),
        (
            "a deletion",
            0,
            request(Method::DELETE, &[("mcp-session-id", &session)], ""),
            StatusCode::SERVICE_UNAVAILABLE,
        ),
    ] {
        let answer = within(name, send(&fleet.nodes[node], request)).await;
        assert_eq!(answer.status, expected, "{name}: {answer:?}");
        if expected == StatusCode::SERVICE_UNAVAILABLE {
            assert_eq!((answer.header("retry-after"), answer.error_code()), (Some("1"), Some(-32603)), "{name}");
            let data = &answer.json()["error"]["data"];
            assert_eq!((&data["reason"], &data["retryable"]), (&json!("busy"), &json!(true)), "{name}");
        }
    }
    tokio::time::advance(Duration::from_secs(2)).await;
    let unavailable = || "unavailable".to_owned();
    assert_eq!(health("/health").await, (StatusCode::OK, unavailable()));
    assert_eq!(health("/ready").await, (StatusCode::SERVICE_UNAVAILABLE, unavailable()));
    // A full store still answers reads.
    store.set_fault(Fault::Full);
    tokio::time::advance(Duration::from_secs(2)).await;
    let full = || "full".to_owned();
    assert_eq!(health("/health").await, (StatusCode::OK, full()));
    assert_eq!(health("/ready").await, (StatusCode::SERVICE_UNAVAILABLE, full()));
    // A node without messages of the other nodes is not ready.
    store.set_fault(Fault::Deaf);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(health("/ready").await, (StatusCode::SERVICE_UNAVAILABLE, unavailable()));
    store.set_failing(false);
    tokio::time::advance(Duration::from_secs(10)).await;
    settle().await;
    for node in &fleet.nodes {
        assert_eq!(send(node, level()).await.status, StatusCode::OK);
        assert_eq!(send(node, initialize()).await.status, StatusCode::OK);
    }
}

#[tokio::test(start_paused = true)]
async fn requests_that_fail_with_the_store_are_logged_once_in_thirty_seconds() {
    let store = Arc::new(Fragile::default());
    let fleet = Fleet::with(1, store.clone(), HttpConfig::new(), |builder| builder);
    let session = fleet.open(json!({})).await;
    store.set_failing(true);
    let log = LogText::default();
    let writer = log.clone();
    // A second subscriber, so that `tracing` does not cache the interest of a callsite for all threads.
    let _other = Dispatch::new(NoSubscriber::new());
    let _guard = set_default(tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish());
    for _ in 0..50 {
        let level = legacy(Some(&session), "logging/setLevel", json!({ "level": "error" }));
        for request in [level, initialize()] {
            assert_eq!(fleet.send(request).await.status, StatusCode::SERVICE_UNAVAILABLE);
        }
    }
    assert_eq!(log.text().matches("needs the shared store").count(), 1, "{}", log.text());
}

#[tokio::test(start_paused = true)]
async fn tasks_of_other_nodes_are_unavailable_while_the_store_fails() {
    let store = Arc::new(Fragile::default());
    let fleet = Fleet::with(2, store.clone(), HttpConfig::new(), |builder| {
        builder.tool(tool("forever", async || std::future::pending::<()>().await).long_running())
    });
    let capabilities = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let request = |method: &str, mut params: Value, name: &str| {
        params["_meta"] = json!({ "io.modelcontextprotocol/clientCapabilities": capabilities });
        stateless(method, params, &[("mcp-name", name)])
    };
    let created = send(&fleet.nodes[0], request("tools/call", json!({ "name": "forever" }), "forever")).await.json();
    let id = created["result"]["taskId"].as_str().unwrap();
    let get = || request("tasks/get", json!({ "taskId": id }), id);
    for node in &fleet.nodes {
        assert_eq!(send(node, get()).await.json()["result"]["status"], "working");
    }
    store.set_failing(true);
    assert_eq!(send(&fleet.nodes[0], get()).await.status, StatusCode::OK);
    let answer = within("the error", send(&fleet.nodes[1], get())).await;
    assert_eq!((answer.status, answer.error_code()), (StatusCode::SERVICE_UNAVAILABLE, Some(-32603)));
    assert_eq!(answer.header("retry-after"), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_event_id_ends_with_an_error_while_the_store_fails() {
    let is_over = Arc::new(AtomicBool::new(false));
    let store = Arc::new(Fragile::default());
    let fleet = Fleet::with(1, store.clone(), HttpConfig::new(), |builder| {
        let is_over = is_over.clone();
        builder
            .tool(tool("hang", async move |progress: Progress| {
                let _guard = SetOnDrop(is_over.clone());
                progress.report(1.0, None, "").await;
                std::future::pending::<()>().await;
            }))
            .tool(tool("quick", async move |progress: Progress| progress.report(1.0, None, "").await))
    });
    // The first revision has no event at the begin of a stream.
    for (version, name, fault, is_retryable) in [
        ("2025-06-18", "hang", Fault::Silent, true),
        ("2025-11-25", "hang", Fault::Silent, true),
        ("2025-11-25", "hang", Fault::Away, true),
        ("2025-11-25", "quick", Fault::Silent, false),
    ] {
        let case = format!("{version} {name} {fault:?}");
        let session = fleet.open_as(version, json!({})).await;
        store.set_fault(fault);
        is_over.store(false, Ordering::SeqCst);
        let start = tokio::time::Instant::now();
        let params = json!({ "name": name, "_meta": { "progressToken": 1 } });
        let mut call = legacy(Some(&session), "tools/call", params);
        call.headers_mut().insert("mcp-protocol-version", version.parse().unwrap());
        let answer = within(&case, send(&fleet.nodes[0], call)).await;
        assert!(start.elapsed() < Duration::from_secs(6), "{case}: {:?}", start.elapsed());
        assert!(!String::from_utf8_lossy(&answer.body).contains("id: "), "{case}: {answer:?}");
        let [error] = &answer.events()[..] else { panic!("{case}: {answer:?}") };
        let data = json!({ "reason": "store_unavailable", "retryable": is_retryable });
        assert_eq!(
            (&error["id"], &error["error"]["code"], &error["error"]["data"]),
            (&json!(1), &json!(-32603), &data)
        );
        settle().await;
        assert_eq!(is_over.load(Ordering::SeqCst), name == "hang", "{case}");
        store.set_fault(Fault::None);
        tokio::time::sleep(Duration::from_secs(15)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_lost_lease_ends_with_an_error() {
    let store = Arc::new(Fragile::default());
    let fleet = Fleet::with(1, store.clone(), HttpConfig::new(), |builder| {
        builder.tool(tool("hang", async move |progress: Progress| {
            progress.report(1.0, None, "").await;
            std::future::pending::<()>().await;
        }))
    });
    let session = fleet.open(json!({})).await;
    store.set_fault(Fault::Silent);
    // The lease ends before the store has failed for three seconds.
    tokio::time::sleep(Duration::from_secs(8)).await;
    let params = json!({ "name": "hang", "_meta": { "progressToken": 1 } });
    let answer = within("the error", send(&fleet.nodes[0], legacy(Some(&session), "tools/call", params))).await;
    let [error] = &answer.events()[..] else { panic!("{answer:?}") };
    assert_eq!(error["error"]["data"], json!({ "reason": "store_unavailable", "retryable": true }));
}
