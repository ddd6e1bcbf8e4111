//! Starts, late servers, failed servers, changes, removal and replacement.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_agent::{CallError, Host, ServerError, ServerOptions, ServerState, StartError};
use mcp_client::{
    ChildProcess, Reconnect,
    transport::{BoxFuture, Connect, Transport, TransportError},
};
use mcp_server::tool;
use mcp_test::peer::{Reply, ScriptedServer};
use serde_json::json;
use tokio::time::timeout;

use crate::common::{
    TEST_TIMEOUT, gated, names, page, scripted, server, text, until_state, until_tools, without_tools,
};

fn quick() -> mcp_agent::HostBuilder {
    Host::builder("test", "1")
        .start_limit(Duration::from_millis(300))
        .reconnect(Reconnect::default().attempts(2).first(Duration::from_millis(10)))
}

#[tokio::test]
async fn a_slow_server_joins_when_it_is_ready() {
    let slow = gated(server("slow", &["late"]));
    let gate = Arc::clone(&slow.gate);
    let host = quick().server("slow", slow).server("fast", &server("fast", &["now"])).start().await.unwrap();
    assert_eq!(names(&host), ["fast:now"]);
    let first = host.catalog().generation();
    until_state(&host, "slow", ServerState::Waiting).await;
    let reason = host.status("slow").unwrap().reason.unwrap();
    assert!(reason.contains("has not answered"), "{reason}");
    // A call waits for the server.
    let waiting = host.call("slow:late", ()).timeout(Duration::from_millis(50)).await.unwrap_err();
    assert!(waiting.to_string().contains("the server slow is not available (waiting)"), "{waiting}");
    gate.add_permits(1);
    until_tools(&host, &["slow:late", "fast:now"]).await;
    assert!(host.catalog().generation() > first);
    until_state(&host, "slow", ServerState::Ready).await;
    assert_eq!(host.call("slow:late", ()).await.unwrap().text(), "late");
    host.shutdown().await;
}

#[tokio::test]
async fn a_failed_server_does_not_affect_the_others() {
    let host = quick()
        .server("missing", ChildProcess::new("mcp-no-such-program"))
        .server("good", &server("good", &["a", "b"]))
        .start()
        .await
        .unwrap();
    assert_eq!(names(&host), ["good:a", "good:b"]);
    let status = host.status("missing").unwrap();
    assert_eq!(status.state, ServerState::Failed);
    assert!(status.reason.unwrap().contains("mcp-no-such-program"));
    let good = host.status("good").unwrap();
    assert_eq!((good.state, good.tools), (ServerState::Ready, 2));
    assert!(good.estimated_tokens > 0);
}

#[tokio::test]
async fn a_required_server_decides_the_start() {
    let missing = || ChildProcess::new("mcp-no-such-program");
    let required = ServerOptions::new().required();
    let failed = quick()
        .server("good", &server("good", &["a"]))
        .server_with("missing", missing(), required.clone())
        .start()
        .await
        .unwrap_err();
    let StartError::Required { servers } = &failed else { panic!("{failed}") };
    assert_eq!(&*servers[0].name, "missing");
    let never = gated(server("never", &["x"]));
    let failed = quick().server_with("never", never, required).start().await.unwrap_err();
    assert!(matches!(failed, StartError::Required { .. }), "{failed}");
    let failed = quick().server("one", missing()).server("two", missing()).start().await.unwrap_err();
    assert!(matches!(&failed, StartError::AllFailed { servers } if servers.len() == 2), "{failed}");
    assert!(quick().start().await.unwrap().catalog().tools().is_empty());
}

#[tokio::test]
async fn names_of_servers_are_checked() {
    for name in ["", "a:b", "a\nb", &"x".repeat(257)] {
        let failed = quick().server(name, &server("s", &["t"])).start().await.unwrap_err();
        assert!(matches!(failed, StartError::Server(ServerError::InvalidName { .. })), "{failed}");
    }
    let twice = quick().server("a", &server("s", &["t"])).server("a", &server("s", &["t"])).start().await;
    assert!(matches!(twice.unwrap_err(), StartError::Server(ServerError::Taken { .. })));
    let invalid = quick().server("a", "ftp://example.com").start().await.unwrap_err();
    assert!(matches!(invalid, StartError::Server(ServerError::Definition(_))), "{invalid}");
}

#[tokio::test]
async fn servers_are_added_replaced_and_removed_at_run_time() {
    let host = quick().server("a", &server("a", &["x", "y"])).start().await.unwrap();
    host.add("b", Arc::new(server("b", &["z"])), ServerOptions::new()).unwrap();
    until_tools(&host, &["a:x", "a:y", "b:z"]).await;
    let taken = host.add("b", Arc::new(server("b", &["z"])), ServerOptions::new()).unwrap_err();
    assert!(matches!(taken, ServerError::Taken { .. }));

    // The new server lists its tools in another order, and has one more.
    let seen = host.catalog().generation();
    host.replace("a", Arc::new(server("a", &["new", "y", "x"])), ServerOptions::new()).await.unwrap();
    assert_eq!(names(&host), ["a:x", "a:y", "a:new", "b:z"]);
    assert!(host.catalog().generation() > seen);
    assert_eq!(host.call("a:new", ()).await.unwrap().text(), "new");

    // A server that does not start leaves the former one in its place.
    let missing = Arc::new(ChildProcess::new("mcp-no-such-program"));
    let failed = host.replace("a", missing, ServerOptions::new()).await.unwrap_err();
    assert!(matches!(failed, ServerError::NotReady { .. }), "{failed}");
    assert_eq!(host.call("a:x", ()).await.unwrap().text(), "x");
    assert_eq!(host.status("a").unwrap().state, ServerState::Ready);

    assert!(host.remove("a").await && !host.remove("a").await);
    assert_eq!(names(&host), ["b:z"]);
    let gone = host.call("a:x", ()).await.unwrap_err().to_string();
    assert!(gone.contains("b:z"), "{gone}");
    assert!(host.status("a").is_none());
}

#[tokio::test]
async fn a_list_change_makes_a_new_generation_with_new_tools_at_the_end() {
    let changing = server("changing", &["b", "a"]);
    let host = quick().server("first", &changing).server("last", &server("last", &["z"])).start().await.unwrap();
    let before = host.catalog();
    changing.tools().add(tool("aa", async || "aa")).unwrap();
    until_tools(&host, &["first:b", "first:a", "first:aa", "last:z"]).await;
    let after = host.catalog();
    assert!(after.generation() > before.generation());
    assert_eq!(after.tool("last:z").unwrap().since(), before.tool("last:z").unwrap().since());
    assert_eq!(after.tool("first:aa").unwrap().since(), after.generation());
    assert!(changing.tools().remove("b"));
    until_tools(&host, &["first:a", "first:aa", "last:z"]).await;
    // A snapshot never changes.
    assert_eq!(before.tools().len(), 3);
}

#[tokio::test]
async fn a_repeated_cursor_keeps_its_pages_and_degrades_the_server() {
    let repeats = without_tools()
        .on("tools/list", page(&["a"], Some("1")))
        .on("tools/list", page(&["b"], Some("2")))
        .on("tools/list", page(&["a", "c"], Some("1")));
    let breaks = without_tools()
        .on("tools/list", page(&["a"], Some("1")))
        .on("tools/list", Reply::error(-32603, "out of memory"));
    let host = quick().server("repeats", repeats).server("breaks", breaks).start().await.unwrap();
    assert_eq!(names(&host), ["repeats:a", "repeats:b", "repeats:c", "breaks:a"]);
    for (server, reason) in [("repeats", "the same cursor twice"), ("breaks", "out of memory")] {
        let status = host.status(server).unwrap();
        assert_eq!(status.state, ServerState::Degraded);
        assert!(status.reason.as_ref().unwrap().contains(reason), "{status:?}");
    }
}

#[tokio::test]
async fn a_server_that_crashes_starts_again() {
    let crashing = scripted(&["t"]).on("tools/call", text("done"));
    let host = quick().server("crashing", crashing.clone()).start().await.unwrap();
    let mut events = host.status_events();
    crashing.crash();
    timeout(TEST_TIMEOUT, async { while events.next().await.unwrap().state != ServerState::Degraded {} })
        .await
        .unwrap();
    timeout(TEST_TIMEOUT, async { while events.next().await.unwrap().state != ServerState::Ready {} }).await.unwrap();
    assert_eq!(host.call("crashing:t", ()).await.unwrap().text(), "done");
    assert_eq!(crashing.connections(), 2);
}

#[tokio::test]
async fn a_lost_server_without_attempts_starts_again_only_for_a_call() {
    let crashing = scripted(&["t"]).on("tools/call", text("done"));
    let host = quick().reconnect(Reconnect::never()).server("crashing", crashing.clone()).start().await.unwrap();
    crashing.crash();
    until_state(&host, "crashing", ServerState::Failed).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(crashing.connections(), 1);
    assert_eq!(host.call("crashing:t", ()).await.unwrap().text(), "done");
    assert_eq!(crashing.connections(), 2);
}

/// A connector that fails until the test permits connections, and counts its attempts.
struct Failing {
    inner: ScriptedServer,
    attempts: Arc<AtomicUsize>,
    fails: Arc<AtomicBool>,
}

impl Connect for Failing {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        self.attempts.fetch_add(1, Ordering::SeqCst);
        if self.fails.load(Ordering::SeqCst) {
            let fault = TransportError::unreachable("the port is closed");
            return Box::pin(std::future::ready(Err(fault)));
        }
        self.inner.connect()
    }

    fn describe(&self) -> String {
        "a failing server".into()
    }
}

fn failing() -> (Failing, Arc<AtomicUsize>, Arc<AtomicBool>) {
    let (attempts, fails) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(true)));
    let inner = scripted(&["t"]).on("tools/call", text("done"));
    (Failing { inner, attempts: attempts.clone(), fails: fails.clone() }, attempts, fails)
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_failed_server_wait_for_the_next_attempt_without_a_process() {
    let (failing, attempts, fails) = failing();
    let policy = Reconnect::default().attempts(1).first(Duration::from_secs(10)).longest(Duration::from_secs(60));
    let builder = Host::builder("test", "1").reconnect(policy).server("good", &server("good", &["a"]));
    let host = builder.server("s", failing).start().await.unwrap();
    assert_eq!(attempts.load(Ordering::SeqCst), 1);
    // Display names and provider names start a server that has never listed its tools.
    let mut expected = 1;
    for wait in [10_u32, 20, 40, 60, 60] {
        for name in ["s:t", "s__t"] {
            for _ in 0..20 {
                let error = host.call(name, ()).await.unwrap_err();
                let CallError::Unavailable { state, retry_in: Some(retry_in), .. } = &error else { panic!("{error}") };
                assert_eq!((*state, retry_in.as_secs_f64().ceil()), (ServerState::Failed, f64::from(wait)));
                let next = format!("the next attempt is possible in {wait} s");
                let text = error.to_string();
                assert!(text.contains("the port is closed") && text.contains(&next), "{text}");
            }
        }
        assert_eq!(attempts.load(Ordering::SeqCst), expected, "no call makes an attempt before its time");
        tokio::time::sleep(Duration::from_secs(wait.into())).await;
        assert_eq!(attempts.load(Ordering::SeqCst), expected, "the host makes no attempt without a call");
        // Calls at the same time share an attempt.
        let calls = [host.call("s:t", ()), host.call("s__t", ())].map(IntoFuture::into_future);
        let [one, other] = calls;
        let (one, other) = tokio::join!(one, other);
        expected += 1;
        assert!(one.is_err() && other.is_err() && attempts.load(Ordering::SeqCst) == expected);
    }
    fails.store(false, Ordering::SeqCst);
    // The user does not wait for the next attempt.
    assert!(host.restart("s"));
    until_state(&host, "s", ServerState::Ready).await;
    assert_eq!(host.call("s:t", ()).await.unwrap().text(), "done");
}

#[tokio::test(start_paused = true)]
async fn a_call_starts_a_server_that_failed_at_the_start_of_the_host() {
    let (failing, attempts, fails) = failing();
    let policy = Reconnect::never().first(Duration::from_secs(10));
    let builder = Host::builder("test", "1").reconnect(policy).server("good", &server("good", &["a"]));
    let host = builder.server("s", failing).start().await.unwrap();
    assert!(host.call("other:t", ()).await.unwrap_err().to_string().contains("there is no tool"));
    fails.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(host.call("s:t", ()).await.unwrap().text(), "done");
    assert_eq!((attempts.load(Ordering::SeqCst), names(&host).len()), (2, 2));
    assert!(host.call("s:other", ()).await.unwrap_err().to_string().contains("there is no tool"));
}

#[tokio::test(start_paused = true)]
async fn a_lost_server_that_cannot_be_reached_again_has_the_same_waits() {
    let (failing, attempts, fails) = failing();
    fails.store(false, Ordering::SeqCst);
    let upstream = failing.inner.clone();
    let policy = Reconnect::default().attempts(2).first(Duration::from_secs(1)).longest(Duration::from_secs(60));
    let host = Host::builder("test", "1").reconnect(policy).server("s", failing).start().await.unwrap();
    assert_eq!(host.call("s:t", ()).await.unwrap().text(), "done");
    fails.store(true, Ordering::SeqCst);
    upstream.crash();
    until_state(&host, "s", ServerState::Failed).await;
    let before = attempts.load(Ordering::SeqCst);
    for _ in 0..20 {
        let error = host.call("s:t", ()).await.unwrap_err();
        assert!(matches!(&error, CallError::Unavailable { retry_in: Some(_), .. }), "{error}");
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(attempts.load(Ordering::SeqCst), before, "only a call makes another attempt");
    assert!(host.call("s:t", ()).await.is_err());
    assert_eq!(attempts.load(Ordering::SeqCst), before + 1);
    fails.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(host.call("s:t", ()).await.unwrap().text(), "done");
    assert_eq!(names(&host), ["s:t"], "the catalog keeps the tools of a failed server");
}

#[tokio::test(start_paused = true)]
async fn the_host_repeats_failed_starts_with_longer_waits() {
    let (failing, attempts, _fails) = failing();
    let policy = Reconnect::default().attempts(4).first(Duration::from_secs(1));
    let builder = Host::builder("test", "1").reconnect(policy).server("good", &server("good", &["a"]));
    let _host = builder.server("s", failing).start().await.unwrap();
    let since = tokio::time::Instant::now();
    for (seconds, expected) in [(0, 1), (1, 2), (3, 3), (7, 4), (1_000, 4)] {
        tokio::time::sleep_until(since + Duration::from_secs(seconds) + Duration::from_millis(100)).await;
        assert_eq!(attempts.load(Ordering::SeqCst), expected, "after {seconds} s");
    }
}

#[tokio::test]
async fn removing_a_server_does_not_wait_for_its_lists() {
    let hung = scripted(&["t"])
        .on("tools/list", Reply::silence())
        .on("tools/call", text("done").notify("notifications/tools/list_changed", json!({})));
    let host = quick().server("hung", hung).start().await.unwrap();
    host.call("hung:t", ()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(timeout(Duration::from_secs(10), host.remove("hung")).await.unwrap());
}

#[tokio::test]
async fn reading_a_resource_keeps_a_server_active() {
    let contents = json!({ "contents": [{ "uri": "a:b", "text": "long" }] });
    let slow = scripted(&["t"]).on("resources/read", Reply::result(contents).after(Duration::from_millis(400)));
    let options = ServerOptions::new().idle_stop(Duration::from_millis(100));
    let host = quick().server_with("slow", slow.clone(), options).start().await.unwrap();
    assert_eq!(host.read("slow", "a:b").await.unwrap().contents.len(), 1);
    until_state(&host, "slow", ServerState::Stopped).await;
}

#[tokio::test]
async fn the_time_limit_of_a_call_includes_the_start_of_its_server() {
    let slow = scripted(&["t"]).on("tools/call", text("late").after(Duration::from_secs(3)));
    let starts = gated(slow);
    let gate = Arc::clone(&starts.gate);
    gate.add_permits(1);
    let options = ServerOptions::new().idle_stop(Duration::from_millis(50));
    let host = quick().start_limit(TEST_TIMEOUT).server_with("slow", starts, options).start().await.unwrap();
    until_state(&host, "slow", ServerState::Stopped).await;
    let opened = async {
        tokio::time::sleep(Duration::from_millis(2500)).await;
        gate.add_permits(1);
    };
    let call = host.call("slow:t", ()).timeout(Duration::from_secs(4));
    let (failed, ()) = tokio::join!(call.into_future(), opened);
    assert!(failed.is_err(), "the start and the call together take more than 5 seconds");
}

#[tokio::test]
async fn an_idle_server_stops_and_its_next_call_starts_it_again() {
    let idle = scripted(&["t"]).on("tools/call", text("done"));
    let options = ServerOptions::new().idle_stop(Duration::from_millis(50));
    let host = quick().server_with("idle", idle.clone(), options).start().await.unwrap();
    until_state(&host, "idle", ServerState::Stopped).await;
    idle.wait_until_disconnected().await;
    assert_eq!(names(&host), ["idle:t"], "the catalog keeps the tools of a stopped server");
    assert_eq!(host.call("idle:t", ()).await.unwrap().text(), "done");
    assert_eq!(idle.connections(), 2);
    until_state(&host, "idle", ServerState::Stopped).await;
    host.shutdown().await;
}

#[tokio::test]
async fn a_server_without_approval_is_not_started() {
    let waiting = scripted(&["t"]);
    let options = ServerOptions::new().needs_approval();
    let host = quick().server_with("project", waiting.clone(), options).start().await.unwrap();
    assert_eq!(host.status("project").unwrap().state, ServerState::NeedsApproval);
    host.restart("project");
    let refused = host.client("project").await.unwrap_err();
    assert!(refused.to_string().contains("needs-approval"), "{refused}");
    assert_eq!(waiting.connections(), 0);
    assert!(host.approve("project") && !host.approve("unknown"));
    until_tools(&host, &["project:t"]).await;
    assert_eq!(waiting.connections(), 1);
}

#[tokio::test]
async fn dropping_the_host_ends_all_servers_and_streams() {
    let one = scripted(&["t"]);
    let host = quick().server("one", one.clone()).start().await.unwrap();
    let (mut events, mut changes) = (host.status_events(), host.catalog_changes());
    drop(host.clone());
    assert_eq!(one.open_connections(), 1);
    drop(host);
    one.wait_until_disconnected().await;
    timeout(TEST_TIMEOUT, async { while events.next().await.is_some() {} }).await.unwrap();
    timeout(TEST_TIMEOUT, async { while changes.next().await.is_some() {} }).await.unwrap();
}

#[tokio::test]
async fn a_manifest_gives_a_catalog_without_a_connection() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache").join("manifest.json");
    let first = scripted(&["a", "b"]);
    let host = quick().manifest(&path).server("files", first).start().await.unwrap();
    host.shutdown().await;

    // Meanwhile the server lost a tool.
    let second = scripted(&["b"]).on("tools/call", text("done"));
    let host = quick().manifest(&path).server("files", second.clone()).start().await.unwrap();
    assert_eq!(names(&host), ["files:a", "files:b"]);
    assert_eq!((second.connections(), host.status("files").unwrap().state), (0, ServerState::Configured));
    let gone = host.call("files:a", ()).await.unwrap_err().to_string();
    assert!(gone.contains("there is no tool") && gone.contains("files:b"), "{gone}");
    assert_eq!(second.connections(), 1);
    assert_eq!(host.call("files:b", json!({})).await.unwrap().text(), "done");
    host.shutdown().await;

    // An invalid file has no effect.
    std::fs::write(&path, "{ not JSON").unwrap();
    let third = scripted(&["c"]);
    let host = quick().manifest(&path).server("files", third).start().await.unwrap();
    assert_eq!(names(&host), ["files:c"]);
}
