//! Eight faulty servers beside healthy ones, and the times of starts.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{sync::Arc, time::Duration};

use mcp_agent::{Host, HostBuilder, ServerState};
use mcp_client::Reconnect;
use mcp_protocol::ProtocolVersion;
use mcp_server::tool;
use mcp_test::peer::{Reply, ScriptedServer};
use serde_json::json;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

use crate::common::{
    Gated, TEST_TIMEOUT, gated, names, page, scripted, server, text, until_state, until_tools, without_tools,
};

fn builder() -> HostBuilder {
    Host::builder("test", "1")
        .start_limit(Duration::from_millis(300))
        .list_limit(Duration::from_millis(200))
        .reconnect(Reconnect::default().attempts(2).first(Duration::from_millis(10)))
}

fn form() -> serde_json::Value {
    json!({ "message": "?", "requestedSchema": { "type": "object", "properties": {} } })
}

/// Calls each healthy server 50 times, one call after the other.
async fn calls(host: &Host) {
    for n in 0..100 {
        let result =
            timeout(TEST_TIMEOUT, host.call(format!("healthy{}:t", n % 2), ()).into_future()).await.unwrap().unwrap();
        assert_eq!(result.text(), "t");
    }
}

// The clock is paused. It advances only while each task waits for a time, so no other program changes the result.
#[tokio::test(start_paused = true)]
async fn eight_faulty_servers_do_not_affect_the_healthy_ones() {
    let healthy = [server("healthy", &["t"]), server("healthy", &["t"])];
    let never: Gated = gated(server("never", &["t"]));
    let opens = Arc::clone(&never.gate);
    let changes = server("changes", &["a"]);
    let dies = scripted(&["die"]).on("tools/call", Reply::close());
    let slow = scripted(&["slow"]).on("tools/call", text("late").after(Duration::from_millis(400)));
    let pages = without_tools().on("tools/list", page(&["p"], Some("1"))).on("tools/list", Reply::silence());
    let repeats = without_tools().on("tools/list", page(&["r"], Some("1"))).on("tools/list", page(&["s"], Some("1")));
    let asks = scripted(&["ask"]).on("tools/call", text("asked").request(json!("q"), "elicitation/create", form()));
    let log = json!({ "level": "info", "data": "x".repeat(100) });
    let mut flood = text("end");
    for _ in 0..500 {
        flood = flood.notify("notifications/message", log.clone());
    }
    let floods = scripted(&["flood"]).on("tools/call", flood);
    let host = builder()
        .server("never", never)
        .server("dies", dies.clone())
        .server("slow", slow)
        .server("changes", &changes)
        .server("pages", pages)
        .server("repeats", repeats)
        .server("asks", asks.clone())
        .server("floods", floods)
        .server("healthy0", &healthy[0])
        .server("healthy1", &healthy[1])
        .start()
        .await
        .unwrap();
    let expected = [
        "dies:die",
        "slow:slow",
        "changes:a",
        "pages:p",
        "repeats:r",
        "repeats:s",
        "asks:ask",
        "floods:flood",
        "healthy0:t",
        "healthy1:t",
    ];
    assert_eq!(names(&host), expected);

    // All faults happen while the healthy servers are called.
    let call = |name: &'static str| tokio::spawn(host.call(name, ()).into_future());
    let (dying, slow, asked, flooded) = (call("dies:die"), call("slow:slow"), call("asks:ask"), call("floods:flood"));
    changes.tools().add(tool("b", async || "b")).unwrap();
    let since = Instant::now();
    calls(&host).await;
    // The faulty servers still block their own calls and starts, so no call of a healthy server has waited for them.
    assert!(!slow.is_finished(), "the slow server has answered");
    assert_eq!(host.status("never").unwrap().state, ServerState::Waiting);
    assert_eq!(opens.available_permits(), 0, "the connection of the server is never opened");
    assert_eq!(since.elapsed(), Duration::ZERO, "no call of a healthy server waits for a time limit of a faulty one");

    assert!(dying.await.unwrap().unwrap_err().client().unwrap().is_closed());
    assert_eq!(timeout(TEST_TIMEOUT, slow).await.unwrap().unwrap().unwrap().text(), "late");
    assert_eq!(asked.await.unwrap().unwrap().text(), "asked");
    let refusal = asks.seen().into_iter().find(|message| message["id"] == "q").unwrap();
    assert_eq!(refusal["error"]["code"], -32601, "the server receives an error at once");
    assert_eq!(timeout(TEST_TIMEOUT, flooded).await.unwrap().unwrap().unwrap().text(), "end");
    let mut expected = expected.to_vec();
    expected.insert(3, "changes:b");
    until_tools(&host, &expected).await;
    for (server, state) in [
        ("never", ServerState::Waiting),
        ("dies", ServerState::Ready),
        ("slow", ServerState::Ready),
        ("changes", ServerState::Ready),
        ("pages", ServerState::Degraded),
        ("repeats", ServerState::Degraded),
        ("asks", ServerState::Ready),
        ("floods", ServerState::Ready),
        ("healthy0", ServerState::Ready),
    ] {
        until_state(&host, server, state).await;
    }
    timeout(TEST_TIMEOUT, host.shutdown()).await.unwrap();
    dies.wait_until_disconnected().await;
}

/// A server whose start takes this long.
fn late(name: &str, delay: Duration) -> ScriptedServer {
    let opened = json!({
        "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": { "name": name, "version": "1" },
    });
    ScriptedServer::silent()
        .on("server/discover", Reply::error(-32601, "method not found"))
        .on("initialize", Reply::result(opened).after(delay))
        .on("notifications/initialized", Reply::silence())
        .on("tools/list", page(&["t"], None))
}

// The clock is paused, so that other programs do not change the times.
#[tokio::test(start_paused = true)]
async fn servers_start_at_the_same_time() {
    let delay = Duration::from_millis(300);
    let eight =
        |builder: HostBuilder| (0..8).fold(builder, |builder, n| builder.server(format!("s{n}"), late("s", delay)));
    let since = Instant::now();
    let host = eight(Host::builder("test", "1")).start().await.unwrap();
    assert!(since.elapsed() <= Duration::from_millis(450), "{:?}", since.elapsed());
    assert_eq!(host.catalog().tools().len(), 8);

    // A server that never starts does not delay the catalog of the others.
    let never = gated(server("never", &["t"]));
    let since = Instant::now();
    let limited = Host::builder("test", "1").start_limit(Duration::from_millis(400)).server("never", never);
    let host = eight(limited).start().await.unwrap();
    assert!(since.elapsed() <= Duration::from_millis(450), "{:?}", since.elapsed());
    assert_eq!(host.catalog().tools().len(), 8);
    until_state(&host, "never", ServerState::Waiting).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_takes_twenty_seconds_joins_after_twenty_seconds() {
    let since = Instant::now();
    let host = Host::builder("test", "1").server("late", late("late", Duration::from_secs(20))).start().await.unwrap();
    assert_eq!(since.elapsed().as_secs(), 15, "the default of the start limit");
    let mut changes = host.catalog_changes();
    assert_eq!(changes.next().await.unwrap().tools().len(), 1);
    assert_eq!(since.elapsed().as_secs(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_stored_catalog_of_many_servers_needs_no_wait_and_no_connection() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("manifest.json");
    let tools: Vec<String> = (0..50).map(|n| format!("tool_{n}")).collect();
    let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
    let servers: Vec<ScriptedServer> = (0..8).map(|_| scripted(&tools)).collect();
    let all = || {
        servers.iter().enumerate().fold(Host::builder("test", "1").manifest(&path), |builder, (n, server)| {
            builder.server(format!("s{n}"), server.clone())
        })
    };
    all().start().await.unwrap().shutdown().await;
    let opened: usize = servers.iter().map(ScriptedServer::connections).sum();
    let since = Instant::now();
    let host = all().start().await.unwrap();
    let elapsed = since.elapsed();
    assert_eq!(host.catalog().tools().len(), 400);
    assert_eq!(elapsed, Duration::ZERO);
    assert_eq!(servers.iter().map(ScriptedServer::connections).sum::<usize>(), opened, "no server was started");
}

#[tokio::test(start_paused = true)]
async fn a_list_change_among_a_hundred_servers_is_a_snapshot_within_20_ms() {
    let changing = server("changing", &["a"]);
    let names: Vec<&'static str> = (0..50).map(|n| &*Box::leak(format!("tool_{n}").into_boxed_str())).collect();
    let others = server("other", &names);
    let builder = Host::builder("test", "1").server("changing", &changing);
    let host = (0..99).fold(builder, |builder, n| builder.server(format!("s{n}"), &others)).start().await.unwrap();
    assert_eq!(host.catalog().tools().len(), 1 + 99 * 50);
    let mut changes = host.catalog_changes();
    let _ = changes.current();
    let since = Instant::now();
    changing.tools().add(tool("b", async || "b")).unwrap();
    let found = changes.wait_for(|catalog| catalog.tool("changing:b").is_ok());
    timeout(TEST_TIMEOUT, found).await.unwrap().unwrap();
    let elapsed = since.elapsed();
    assert!(elapsed <= Duration::from_millis(20), "{elapsed:?}");
}

#[tokio::test]
async fn calls_of_one_server_start_it_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("manifest.json");
    let idle = scripted(&["t"]).on("tools/call", text("done"));
    let start = || Host::builder("test", "1").manifest(&path).server("s", idle.clone()).start();
    start().await.unwrap().shutdown().await;
    let host = start().await.unwrap();
    let opened = idle.connections();
    let permits = Arc::new(Semaphore::new(0));
    let running: Vec<_> = (0..20)
        .map(|_| {
            let (host, permits) = (host.clone(), permits.clone());
            tokio::spawn(async move {
                permits.acquire().await.unwrap().forget();
                host.call("s:t", ()).await.unwrap().text()
            })
        })
        .collect();
    permits.add_permits(20);
    for call in running {
        assert_eq!(timeout(TEST_TIMEOUT, call).await.unwrap().unwrap(), "done");
    }
    assert_eq!(idle.connections(), opened + 1);
    assert_eq!(host.client("s").await.unwrap().version(), ProtocolVersion::V2025_11_25);
}
