//! The rules of `mcp-store`: direct, through a slow network, and with lost connections.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use mcp_store::suite;
use mcp_store_redis::{Protocol, RedisStore};
use mcp_test::redis_server::{Fault, FaultyProxy, RedisServer};
use tokio::time::interval;

use crate::common::{connect, hasty, options};

const PROTOCOLS: [Protocol; 2] = [Protocol::Resp2, Protocol::Resp3];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_rules_hold_with_both_protocols() {
    let Some(server) = RedisServer::start_or_skip("all_rules_hold_with_both_protocols") else { return };
    for protocol in PROTOCOLS {
        suite::all(async || connect(server.address(), protocol).await).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_rules_hold_with_a_delay_of_20_ms() {
    let Some(server) = RedisServer::start_or_skip("all_rules_hold_with_a_delay_of_20_ms") else { return };
    let proxy = FaultyProxy::start(server.address()).await.unwrap();
    proxy.delay(Duration::from_millis(20));
    for protocol in PROTOCOLS {
        suite::all(async || connect(proxy.address(), protocol).await).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_stores_are_handles_on_one_server() {
    let Some(server) = RedisServer::start_or_skip("two_stores_are_handles_on_one_server") else { return };
    for protocol in PROTOCOLS {
        let factory = async || {
            let options = options(server.address()).protocol(protocol);
            (RedisStore::connect(options.clone()).await.unwrap(), RedisStore::connect(options).await.unwrap())
        };
        suite::handles(factory).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_connections_are_replaced() {
    let Some(server) = RedisServer::start_or_skip("lost_connections_are_replaced") else { return };
    let proxy = Arc::new(FaultyProxy::start(server.address()).await.unwrap());
    for protocol in PROTOCOLS {
        let factory = async || {
            let (store, proxy) = (connect(proxy.address(), protocol).await, proxy.clone());
            (store, move || proxy.cut())
        };
        suite::lost_connections(factory).await.unwrap();
    }
}

/// Half-open connections are only found by their silence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_open_connections_are_replaced() {
    let Some(server) = RedisServer::start_or_skip("half_open_connections_are_replaced") else { return };
    let proxy = Arc::new(FaultyProxy::start(server.address()).await.unwrap());
    let factory = async || {
        let (store, proxy) = (hasty(proxy.address()).await, proxy.clone());
        (store, move || proxy.half_open())
    };
    suite::lost_connections(factory).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_cuts_each_300_ms_rules_break_only_by_unavailable_and_lagged() {
    let name = "with_cuts_each_300_ms_rules_break_only_by_unavailable_and_lagged";
    let Some(server) = RedisServer::start_or_skip(name) else { return };
    let proxy = Arc::new(FaultyProxy::start(server.address()).await.unwrap());
    let stable = server.address();
    let cutting = proxy.clone();
    let cuts = tokio::spawn(async move {
        let mut interval = interval(Duration::from_millis(300));
        loop {
            interval.tick().await;
            cutting.cut();
        }
    });
    for protocol in PROTOCOLS {
        // The factory runs once for each rule.
        let rules = AtomicUsize::new(0);
        let factory = async || {
            rules.fetch_add(1, Ordering::Relaxed);
            // A cut during the first attempt to connect is a failure of the start, not of a rule.
            let options = options(proxy.address()).protocol(protocol);
            let deadline = Instant::now() + Duration::from_secs(10);
            loop {
                match RedisStore::connect(options.clone()).await {
                    Ok(store) => return store,
                    Err(error) => assert!(error.is_unavailable() && Instant::now() < deadline, "{error:?}"),
                }
            }
        };
        let broken = suite::all(factory).await.err();
        let broken: Vec<_> = broken.iter().flat_map(suite::BrokenRules::iter).collect();
        for (rule, seen) in &broken {
            let is_lost_message = rule.starts_with("pub/sub") && seen.contains("Lagged");
            assert!(seen.contains("kind: Unavailable") || is_lost_message, "{rule}: {seen}");
        }
        let (rules, held) = (rules.load(Ordering::Relaxed), rules.load(Ordering::Relaxed) - broken.len());
        println!("{held} of {rules} rules hold with {protocol:?}");
        // A rule holds if no cut falls into one of its calls.
        assert!(held * 3 >= rules * 2, "only {held} of {rules} rules hold with {protocol:?}: {broken:#?}");
    }
    cuts.abort();
    // The server itself is intact.
    suite::key_value(async || connect(stable, Protocol::Resp3).await).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_a_killed_server_are_unavailable() {
    let Some(mut server) = RedisServer::start_or_skip("calls_of_a_killed_server_are_unavailable") else { return };
    let store = connect(server.address(), Protocol::Resp3).await;
    server.kill().unwrap();
    suite::away(async || store.clone()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_into_a_black_hole_are_unavailable() {
    let Some(server) = RedisServer::start_or_skip("calls_into_a_black_hole_are_unavailable") else { return };
    let proxy = FaultyProxy::start(server.address()).await.unwrap();
    let factory = async || {
        proxy.fault(Fault::None);
        let store = connect(proxy.address(), Protocol::Resp3).await;
        proxy.fault(Fault::BlackHole);
        store
    };
    suite::away(factory).await.unwrap();
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_a_stopped_server_are_unavailable() {
    let Some(server) = RedisServer::start_or_skip("calls_of_a_stopped_server_are_unavailable") else { return };
    let store = hasty(server.address()).await;
    server.pause().unwrap();
    let outcome = suite::away(async || store.clone()).await;
    server.resume().unwrap();
    outcome.unwrap();
}
