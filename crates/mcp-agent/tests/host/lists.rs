//! Lists that fail, in whole or in part: their items, their order, their filter and their diagnostics.

use std::{sync::Arc, time::Duration};

use mcp_agent::{Host, HostBuilder, ServerOptions, ServerState, filter::ToolFilter};
use mcp_client::Reconnect;
use mcp_protocol::ProtocolVersion;
use mcp_test::peer::{Reply, ScriptedServer};
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::common::{TEST_TIMEOUT, names, page, scripted, text, until_state, until_tools, without_tools};

fn builder() -> HostBuilder {
    let reconnect = Reconnect::default().attempts(1).first(Duration::from_millis(10));
    Host::builder("test", "1").start_limit(Duration::from_millis(300)).reconnect(reconnect)
}

/// A result after which the tools have changed.
fn changing() -> Reply {
    text("done").notify("notifications/tools/list_changed", json!({}))
}

#[tokio::test(start_paused = true)]
async fn a_page_that_fails_keeps_the_tools_and_their_places() {
    let upstream = without_tools()
        .on("tools/list", page(&["a", "b"], Some("1")))
        .on("tools/list", page(&["c"], None))
        // The second reading fails at its second page, and the third one at its first page.
        .on("tools/list", page(&["b", "new"], Some("1")))
        .on("tools/list", Reply::error(-32603, "out of memory"))
        .on("tools/list", Reply::error(-32603, "no page"))
        .on("tools/list", page(&["d", "new", "c", "b"], None))
        .on("tools/call", changing());
    let host = builder().server("s", upstream.clone()).start().await.unwrap();
    assert_eq!(names(&host), ["s:a", "s:b", "s:c"]);
    host.call("s:a", ()).await.unwrap();
    until_tools(&host, &["s:a", "s:b", "s:c", "s:new"]).await;
    until_state(&host, "s", ServerState::Degraded).await;
    let status = host.status("s").unwrap();
    assert_eq!(status.diagnostics.len(), 1, "{status:?}");
    assert!(status.diagnostics[0].contains("the list of tools is incomplete") && status.reason.is_some(), "{status:?}");
    // The host reads the failed list again without a notification.
    until_tools(&host, &["s:b", "s:c", "s:new", "s:d"]).await;
    until_state(&host, "s", ServerState::Ready).await;
    assert!(host.status("s").unwrap().diagnostics.is_empty());
    assert_eq!(upstream.seen_of("tools/list").len(), 6);
    // Later changes are followed.
    host.call("s:b", ()).await.unwrap();
    assert_eq!(timeout(TEST_TIMEOUT, upstream.wait_for("tools/list", 7)).await.unwrap().len(), 7);
}

#[tokio::test]
async fn a_failed_list_leaves_the_other_lists() {
    let upstream = ScriptedServer::for_revision(ProtocolVersion::V2025_11_25)
        .on("notifications/initialized", Reply::silence())
        .on("tools/list", page(&["t"], None))
        .on("resources/list", Reply::error(-32603, "no disk"))
        .on("resources/templates/list", Reply::result(json!({ "resourceTemplates": [] })))
        .on("prompts/list", Reply::result(json!({ "prompts": [{ "name": "p" }] })));
    let options = ServerOptions::new().filter(ToolFilter::new().deny("drop_*".parse().unwrap()));
    let host = builder().server_with("s", upstream, options).start().await.unwrap();
    let catalog = host.catalog();
    assert_eq!((catalog.tools().len(), catalog.prompts().len(), catalog.resources().len()), (1, 1, 0));
    let status = host.status("s").unwrap();
    assert_eq!(status.state, ServerState::Degraded);
    let [list, filter] = &status.diagnostics[..] else { panic!("{status:?}") };
    assert!(list.contains("the list of resources is incomplete") && list.contains("no disk"), "{list}");
    assert!(filter.contains("drop_*"), "{filter}");
    assert_eq!(status.filter_notes, std::slice::from_ref(filter));
}

#[tokio::test]
async fn a_failed_list_never_bypasses_the_filter_of_a_new_server() {
    let failing = || without_tools().on("tools/list", Reply::error(-32603, "no tools"));
    let host = builder().server("s", scripted(&["a", "secret"])).start().await.unwrap();
    // The filter is the same, so the former tools stay.
    host.replace("s", Arc::new(failing()), ServerOptions::new()).await.unwrap();
    assert_eq!(names(&host), ["s:a", "s:secret"]);
    assert_eq!(host.status("s").unwrap().state, ServerState::Degraded);
    let denying = || ServerOptions::new().filter(ToolFilter::new().deny("secret".parse().unwrap()));
    host.replace("s", Arc::new(failing()), denying()).await.unwrap();
    assert!(names(&host).is_empty(), "{:?}", names(&host));
    let diagnostics = host.status("s").unwrap().diagnostics;
    assert!(diagnostics.iter().any(|text| text.contains("its filter was different")), "{diagnostics:?}");
    // The tools of the former server decide the order, and the new filter decides the tools.
    let host = builder().server("s", scripted(&["b", "a", "secret"])).start().await.unwrap();
    host.replace("s", Arc::new(scripted(&["new", "secret", "a", "b"])), denying()).await.unwrap();
    assert_eq!(names(&host), ["s:b", "s:a", "s:new"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_rejects_the_subscription_is_asked_again() {
    let tools = json!({ "resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private" });
    let upstream = ScriptedServer::for_revision(ProtocolVersion::V2026_07_28)
        .on("tools/list", Reply::result(tools))
        .on("resources/list", Reply::error(-32601, "no resources"))
        .on("resources/templates/list", Reply::error(-32601, "no templates"))
        .on("prompts/list", Reply::error(-32601, "no prompts"))
        // The first subscription is never acknowledged, and the next ones fail.
        .on("subscriptions/listen", Reply::silence())
        .on("subscriptions/listen", Reply::error(-32603, "busy"));
    let _host = builder().server("s", upstream.clone()).start().await.unwrap();
    let since = Instant::now();
    let count = || upstream.seen_of("subscriptions/listen").len();
    for (seconds, expected) in [(20, 1), (31, 2), (33, 3), (37, 4)] {
        tokio::time::sleep_until(since + Duration::from_secs(seconds) + Duration::from_millis(500)).await;
        assert_eq!(count(), expected, "after {seconds} s");
    }
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert!((15..30).contains(&count()), "{}", count());
}

#[tokio::test(start_paused = true)]
async fn the_first_reading_of_the_lists_belongs_to_the_start() {
    let seconds = Duration::from_secs;
    for (options, reason, is_shown, expected) in [
        // The reading ends as soon as the start is slow, so the reason is shown by chance.
        (ServerOptions::new().start_limit(seconds(3)), "the server has not sent its lists for 3s", false, 3..=4),
        (ServerOptions::new(), "the server has not sent its lists for 300ms", true, 10..=11),
    ] {
        let upstream = without_tools().on("tools/list", Reply::silence()).on("tools/list", page(&["t"], None));
        let began = Instant::now();
        let host = builder().list_limit(seconds(10)).start().await.unwrap();
        let mut events = host.status_events();
        host.add("s", Arc::new(upstream), options).unwrap();
        let mut reasons = Vec::new();
        while host.status("s").unwrap().state != ServerState::Degraded {
            let status = timeout(TEST_TIMEOUT, events.next()).await.unwrap().unwrap();
            reasons.extend(status.reason.filter(|_| status.state == ServerState::Waiting));
        }
        assert!(expected.contains(&began.elapsed().as_secs()), "{expected:?} {:?}", began.elapsed());
        assert!(reasons == [reason] || !is_shown && reasons.is_empty(), "{reasons:?}");
        let degraded = host.status("s").unwrap();
        assert!(degraded.reason.unwrap().contains("did not send the whole list in time"));
        // The host reads the list again.
        until_tools(&host, &["s:t"]).await;
    }
}
