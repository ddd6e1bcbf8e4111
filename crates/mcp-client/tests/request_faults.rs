//! Requests that cannot be sent, and unusual requests that can: other calls are not affected.

use mcp_client::protocol::ProtocolVersion;
use mcp_test::peer::{Reply, ScriptedServer};
use serde_json::{json, value::RawValue};

use crate::common::{
    scripted_site::{ALL_TRANSPORTS, ERAS, ScriptedSite, TransportKind, outcome, predicates, text},
    start,
};

#[tokio::test]
async fn a_method_that_is_not_a_valid_header_value_fails_only_its_request() {
    let version = ProtocolVersion::V2026_07_28;
    let server =
        ScriptedServer::for_revision(version).on("tools/call", Reply::silence()).on("tools/call", text("after"));
    let endpoint = ScriptedSite::open(server, TransportKind::Http).await;
    let client = endpoint.client(version).await;
    let waiting = start(client.call_tool("t", ()));
    endpoint.server.wait_for("tools/call", 1).await;
    let error = client.request_raw("x/\u{1}", ()).await.unwrap_err();
    assert_eq!(predicates(&error), "request", "{error:?}");
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(why, r#"the message contains the method "x/\u{1}", which a header cannot carry"#);
    let error = client.notify("x/\u{1}", ()).await.unwrap_err();
    assert_eq!(predicates(&error), "request", "{error:?}");
    // The connection and its pending call are unchanged.
    assert_eq!(outcome(client.call_tool("t", ()).await), "ok: after");
    assert_eq!(client.pending(), 1);
    assert_eq!(endpoint.server.seen_of("server/discover").len(), 1);
    waiting.abort();
    waiting.await.unwrap_err();
    endpoint.assert_clean_close(client, "no header").await;
}

#[tokio::test]
async fn sends_parameters_with_line_breaks_as_one_message() {
    for over in ALL_TRANSPORTS {
        for version in ERAS {
            let what = format!("lines, {over:?}, {version}");
            let done = Reply::result(json!({"resultType": "complete", "done": true}));
            let endpoint = ScriptedSite::open(ScriptedServer::for_revision(version).on("x/y", done), *over).await;
            let client = endpoint.client(version).await;
            for raw in ["{ }", "{\n}", "{\r\n  \"a\": [\r1,\n2]\n}"] {
                let raw: Box<RawValue> = serde_json::from_str(raw).unwrap();
                assert_eq!(client.request_raw("x/y", &raw).await.unwrap()["done"], true, "{what}: {raw}");
            }
            assert_eq!(endpoint.server.seen_of("x/y").len(), 3, "{what}: each was sent once");
            endpoint.assert_clean_close(client, &what).await;
        }
    }
}
