//! Recovery after restarts, forgotten scripts, full memory and missing replicas.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use mcp_store::{Delivery, KeyValue, Log, PubSub, StoreError, Swap};
use mcp_store_redis::{Protocol, RedisOptions, RedisStore};
use mcp_test::redis_server::RedisServer;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};

use crate::common::{connect, options};

/// The time in which a store recovers after its server is back.
const RECOVERY: Duration = Duration::from_secs(5);

fn bytes(text: &str) -> Arc<[u8]> {
    Arc::from(text.as_bytes())
}

/// Repeats a call until it succeeds. Returns the result and the time of the attempts.
async fn recovered<T>(call: impl AsyncFn() -> Result<T, StoreError>) -> (T, Duration) {
    let start = Instant::now();
    loop {
        match call().await {
            Ok(value) => return (value, start.elapsed()),
            Err(error) => assert!(error.is_unavailable() && start.elapsed() < RECOVERY * 2, "{error:?}"),
        }
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_killed_server_with_appendfsync_always_keeps_each_acknowledged_write() {
    let name = "a_killed_server_with_appendfsync_always_keeps_each_acknowledged_write";
    let arguments = ["--appendonly yes", "--appendfsync always"];
    let Some(mut server) = RedisServer::start_with_or_skip(name, &arguments) else { return };
    let store = connect(server.address(), Protocol::Resp3).await;
    let mut reader = store.subscribe("t", 10).await.unwrap();
    for n in 0..100_u64 {
        store.put(&format!("k/{n:03}"), bytes(&n.to_string()), None).await.unwrap();
        assert_eq!(store.append("l", bytes("x"), None).await.unwrap(), n + 1);
    }
    server.kill().unwrap();
    assert!(store.get("k/000").await.unwrap_err().is_unavailable());
    server.restart().unwrap();
    let (page, time) = recovered(async || store.list("k/", None, 1_000).await).await;
    assert!(time < RECOVERY, "{time:?}");
    assert_eq!(page.entries.len(), 100);
    assert!(page.entries.iter().enumerate().all(|(n, (_, value))| **value == *n.to_string().as_bytes()));
    assert_eq!(store.read_after("l", 0, 1_000).await.unwrap().records.len(), 100);
    assert_eq!(store.append("l", bytes("x"), None).await.unwrap(), 101);
    // The reader received a report of the gap.
    let delivery = timeout(RECOVERY, reader.recv()).await.unwrap().unwrap();
    assert!(matches!(delivery, Delivery::Lagged(_)), "{delivery:?}");
}

#[tokio::test]
async fn the_error_of_a_server_that_was_lost_names_the_cause() {
    let name = "the_error_of_a_server_that_was_lost_names_the_cause";
    let Some(mut server) = RedisServer::start_or_skip(name) else { return };
    let store = connect(server.address(), Protocol::Resp3).await;
    server.kill().unwrap();
    let start = Instant::now();
    loop {
        let error = store.get("k").await.unwrap_err().to_string();
        if error.contains("is not reachable") && error.contains("refused") {
            return;
        }
        assert!(start.elapsed() < RECOVERY, "{error}");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_server_that_forgot_the_scripts_receives_them_again() {
    let Some(server) = RedisServer::start_or_skip("a_server_that_forgot_the_scripts_receives_them_again") else {
        return;
    };
    let store = connect(server.address(), Protocol::Resp3).await;
    for n in 1..=3 {
        store.put("k", bytes("v"), None).await.unwrap();
        assert_eq!(store.append("l", bytes("x"), None).await.unwrap(), n);
        assert_eq!(server.send("SCRIPT FLUSH").unwrap(), "+OK\r\n");
    }
}

#[tokio::test]
async fn a_full_server_rejects_writes_and_serves_reads() {
    let Some(server) = RedisServer::start_or_skip("a_full_server_rejects_writes_and_serves_reads") else { return };
    let store = RedisStore::connect(options(server.address()).namespace("full")).await.unwrap();
    store.put("k", bytes("v"), None).await.unwrap();
    store.append("l", bytes("x"), None).await.unwrap();
    assert_eq!(server.send("CONFIG SET maxmemory 1").unwrap(), "+OK\r\n");
    for error in [
        store.put("other", bytes("v"), None).await.unwrap_err(),
        store.append("l", bytes("y"), None).await.unwrap_err(),
        store.compare_and_swap("k", Some(b"v"), Some(bytes("w")), None).await.unwrap_err(),
    ] {
        assert!(error.is_full(), "{error:?}");
    }
    // A swap for the same value only renews its time to live, as the renewal of a lease does.
    for ttl in [None, Some(Duration::from_secs(60))] {
        assert_eq!(store.compare_and_swap("k", Some(b"v"), Some(bytes("v")), ttl).await.unwrap(), Swap::Done);
        let rest: i64 = server.send("PTTL {full}:k:k").unwrap()[1..].trim().parse().unwrap();
        assert_eq!(rest > 50_000, ttl.is_some(), "{ttl:?}: {rest}");
    }
    // The rejected writes changed nothing.
    assert_eq!(store.get("k").await.unwrap(), Some(bytes("v")));
    assert_eq!(store.list("", None, 10).await.unwrap().entries.len(), 1);
    assert_eq!(store.read_after("l", 0, 10).await.unwrap().records.len(), 1);
    assert!(store.delete("k").await.unwrap());
    assert_eq!(server.send("CONFIG SET maxmemory 0").unwrap(), "+OK\r\n");
    assert_eq!(store.append("l", bytes("y"), None).await.unwrap(), 2);
}

#[tokio::test]
async fn a_write_without_its_replicas_is_unavailable_and_with_them_acknowledged() {
    let name = "a_write_without_its_replicas_is_unavailable_and_with_them_acknowledged";
    let Some(server) = RedisServer::start_or_skip(name) else { return };
    let store = connect(server.address(), Protocol::Resp3).await;
    let durable = store.acknowledged_by(1, Duration::from_millis(50));
    let error = durable.compare_and_swap("k", None, Some(bytes("v")), None).await.unwrap_err();
    assert_eq!(error.to_string(), "0 of 1 replicas acknowledged the write within 50 ms");
    assert!(error.is_unavailable());
    assert!(durable.append("l", bytes("x"), None).await.unwrap_err().is_unavailable());
    // The writes took effect on the primary. A lost swap has nothing to acknowledge.
    let lost = durable.compare_and_swap("k", None, Some(bytes("w")), None).await.unwrap();
    assert_eq!(lost, Swap::Lost { current: Some(bytes("v")) });

    let primary = format!("--replicaof 127.0.0.1 {}", server.address().port());
    let replica = RedisServer::start(&[&primary]).unwrap();
    let durable = store.acknowledged_by(1, Duration::from_secs(2));
    let (swapped, _) =
        recovered(async || durable.compare_and_swap("k", Some(b"v"), Some(bytes("v")), None).await).await;
    assert_eq!(swapped, Swap::Done);

    // A replica does not accept writes, and its records may be old.
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let error = RedisStore::connect(options(replica.address()).protocol(protocol)).await.unwrap_err();
        assert!(error.is_unavailable(), "{error:?}");
        assert_eq!(error.to_string(), "redis is a replica and does not accept writes");
    }
}

/// Returns the number of connections that a server has accepted, with the connection of this question.
fn connections(server: &RedisServer) -> u32 {
    let stats = server.send("INFO stats").unwrap();
    let number = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
    number.unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_demoted_server_receives_few_connections_and_is_used_after_its_promotion() {
    let name = "a_demoted_server_receives_few_connections_and_is_used_after_its_promotion";
    let Some(server) = RedisServer::start_or_skip(name) else { return };
    for user in ["+role", "-role"] {
        // Without the permission for the role, only writes show that the server is a replica.
        assert_eq!(server.send(&format!("ACL SETUSER default {user}")).unwrap(), "+OK\r\n");
        let store = connect(server.address(), Protocol::Resp3).await;
        store.put("k", bytes("v"), None).await.unwrap();
        let mut reader = store.subscribe("t", 10).await.unwrap();
        assert_eq!(server.send("REPLICAOF 127.0.0.1 1").unwrap(), "+OK\r\n");
        let (before, start) = (connections(&server), Instant::now());
        while start.elapsed() < Duration::from_secs(3) {
            let error = store.put("k", bytes("v"), None).await.unwrap_err();
            assert!(error.is_unavailable(), "{error:?}");
            sleep(Duration::from_millis(5)).await;
        }
        // The two connections wait for 125 ms at least after a few attempts. Without growth they would open 80 and more.
        let attempts = connections(&server) - before;
        assert!(attempts < 60, "{user}: {attempts}");
        assert_eq!(server.send("REPLICAOF NO ONE").unwrap(), "+OK\r\n");
        let ((), time) = recovered(async || store.put("k", bytes("w"), None).await).await;
        assert!(time < RECOVERY, "{user}: {time:?}");
        // The connection for topics was not closed, but the messages of another primary server would not have arrived.
        let lost = timeout(RECOVERY, reader.recv()).await.unwrap();
        assert!(matches!(lost, Some(Delivery::Lagged(_))), "{lost:?}");
    }
}

#[tokio::test]
async fn calls_that_wait_for_missing_replicas_keep_the_connection() {
    let name = "calls_that_wait_for_missing_replicas_keep_the_connection";
    let Some(server) = RedisServer::start_or_skip(name) else { return };
    let store = connect(server.address(), Protocol::Resp3).await;
    let before = connections(&server);
    // Redis waits for the replicas of one call after another.
    let durable = store.acknowledged_by(1, Duration::from_secs(10));
    let swap = |key| durable.compare_and_swap(key, None, Some(bytes("v")), None);
    let (a, b, c) = tokio::join!(swap("a"), swap("b"), swap("c"));
    for error in [a, b, c].map(Result::unwrap_err) {
        assert_eq!(error.to_string(), "0 of 1 replicas acknowledged the write within 1000 ms");
    }
    // The question is a connection too.
    assert_eq!(connections(&server), before + 1);
}

/// Starts a proxy before a server. It passes `chunk` bytes to the server in each interval.
async fn slow_proxy(target: SocketAddr, chunk: usize, interval: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(target).await.unwrap();
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = server.into_split();
            tokio::spawn(async move { copy(&mut from_server, &mut to_client).await });
            tokio::spawn(async move {
                let mut bytes = vec![0; chunk];
                while let Ok(len @ 1..) = from_client.read(&mut bytes).await {
                    to_server.write_all(&bytes[..len]).await.unwrap();
                    sleep(interval * u32::try_from(len).unwrap() / u32::try_from(chunk).unwrap()).await;
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn a_long_value_on_a_slow_connection_arrives_with_the_calls_behind_it() {
    let name = "a_long_value_on_a_slow_connection_arrives_with_the_calls_behind_it";
    let Some(server) = RedisServer::start_or_skip(name) else { return };
    // 2 MiB in a second: the transfer of the value takes 3 seconds.
    let (chunk, interval) = (32 << 10, Duration::from_millis(16));
    let store = connect(slow_proxy(server.address(), chunk, interval).await, Protocol::Resp3).await;
    store.put("k", bytes("v"), None).await.unwrap();
    let (before, start) = (connections(&server), Instant::now());
    let long = store.put("long", vec![b'v'; 6 << 20].into(), None);
    let (long, other) = tokio::join!(long, store.compare_and_swap("k", Some(b"v"), Some(bytes("v")), None));
    long.unwrap();
    assert_eq!(other.unwrap(), Swap::Done);
    assert!(start.elapsed() > Duration::from_millis(2_700), "{:?}", start.elapsed());
    // The question is a connection too.
    assert_eq!(connections(&server), before + 1);
}

#[tokio::test]
async fn expired_keys_leave_the_index_without_a_listing() {
    let Some(server) = RedisServer::start_or_skip("expired_keys_leave_the_index_without_a_listing") else { return };
    let options = options(server.address()).namespace("sweep");
    let store = RedisStore::connect(options).await.unwrap();
    for n in 0..40 {
        store.put(&format!("k/{n}"), bytes("v"), Some(Duration::from_millis(50))).await.unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(30);
    // Each write removes some of the records that expired more than a second ago.
    while server.send("ZCARD {sweep}:index").unwrap() != ":1\r\n" {
        assert!(Instant::now() < deadline, "{:?}", server.send("ZCARD {sweep}:index"));
        store.put("other", bytes("v"), None).await.unwrap();
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(server.send("ZCARD {sweep}:expiries").unwrap(), ":0\r\n");
}

#[tokio::test]
async fn a_dropped_store_closes_its_connections() {
    let Some(server) = RedisServer::start_or_skip("a_dropped_store_closes_its_connections") else { return };
    let options = RedisOptions::from_url(&server.url()).unwrap();
    let store = RedisStore::connect(options).await.unwrap();
    let mut reader = store.subscribe("t", 1).await.unwrap();
    let clients = || server.send("INFO clients").unwrap();
    assert!(clients().contains("connected_clients:3"), "{}", clients());
    drop(store);
    assert_eq!(reader.recv().await, None);
    let deadline = Instant::now() + RECOVERY;
    while !clients().contains("connected_clients:1") {
        assert!(Instant::now() < deadline, "{}", clients());
        sleep(Duration::from_millis(10)).await;
    }
}
