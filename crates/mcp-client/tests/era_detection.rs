//! Era detection: the probe of the client, and all responses of a server to it.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::time::Duration;

use mcp_client::{Client, Error, Negotiated, State, protocol::ProtocolVersion};
use serde_json::{Value, json};

use crate::common::{Peer, builder, connected_as, discovery, initialized, scripted, start, tool_result};

/// The response of a server to `server/discover`.
enum First {
    Result(Value),
    Error(Value),
    Raw(&'static str),
    Silence,
    Death,
}

/// Serves the first message by `first` and then opens with `initialize`. Returns the received methods.
async fn open(first: First) -> (Result<Client, Error>, Vec<String>) {
    let (connector, mut peers) = scripted();
    let connecting = start(builder().connect(connector));
    let mut peer = peers.next().await;
    let probe = peer.recv().await;
    assert_eq!(probe["method"], "server/discover");
    let meta = &probe["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "test");
    let id = probe["id"].clone();
    match first {
        First::Result(result) => peer.answer(id, result).await,
        First::Error(error) => peer.refuse(id, error).await,
        First::Raw(text) => peer.raw(text.replace("ID", &id.to_string())).await,
        First::Silence => {}
        First::Death => {
            peer.close();
            peer = peers.next().await;
        }
    }
    let serving = start(serve(peer));
    let client = connecting.await.unwrap();
    if let Ok(client) = &client {
        client.call_tool("t", ()).await.unwrap();
        client.close().await;
    }
    (client, serving.await.unwrap())
}

/// Opens sessions of 2025-06-18 and answers every call. Returns the received methods.
async fn serve(mut peer: Peer) -> Vec<String> {
    let mut methods = Vec::new();
    while let Some(message) = peer.next().await {
        let id = message["id"].clone();
        match message["method"].as_str().unwrap() {
            "initialize" => {
                assert!(message["params"]["_meta"].is_null());
                peer.answer(id, initialized("2025-06-18")).await;
            }
            "server/discover" => peer.answer(id, discovery(&["2026-07-28"])).await,
            "tools/call" => peer.answer(id, tool_result("done")).await,
            _ => {}
        }
        methods.push(message["method"].as_str().unwrap().to_owned());
    }
    methods
}

#[tokio::test(start_paused = true)]
async fn the_first_response_determines_the_era() {
    let legacy = ["initialize", "notifications/initialized", "tools/call"];
    let error = |code: i64| First::Error(json!({ "code": code, "message": "no" }));
    let unsupported = |versions: Value| {
        First::Error(json!({ "code": -32022, "message": "no", "data": { "supported": versions, "requested": "x" } }))
    };
    for (name, first, expected) in [
        ("a list of revisions", First::Result(discovery(&["2026-07-28", "2025-11-25"])), vec!["tools/call"]),
        ("a list of older revisions", First::Result(discovery(&["2025-06-18"])), legacy.to_vec()),
        ("a result without a list", First::Result(json!({})), legacy.to_vec()),
        ("an unknown method", error(-32601), legacy.to_vec()),
        ("bad parameters", error(-32602), legacy.to_vec()),
        ("not initialized", error(-32000), legacy.to_vec()),
        (
            "another revision without a handshake",
            unsupported(json!(["2026-07-28"])),
            vec!["server/discover", "tools/call"],
        ),
        ("older revisions only", unsupported(json!(["2025-11-25", "2025-06-18"])), legacy.to_vec()),
        (
            "an error without an id",
            First::Raw(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"?"}}"#),
            legacy.to_vec(),
        ),
        ("no message", First::Raw(r#"{"jsonrpc":"1.0","id":ID,"result":{}}"#), legacy.to_vec()),
        ("silence", First::Silence, legacy.to_vec()),
        ("an end", First::Death, legacy.to_vec()),
    ] {
        let (client, methods) = open(first).await;
        let version = client.unwrap_or_else(|error| panic!("{name}: {error}")).version();
        assert_eq!(methods, expected, "{name}");
        assert_eq!(version.has_handshake(), methods.len() == 3, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn reports_that_no_revision_is_common() {
    for (name, error, is_version_mismatch) in [
        (
            "no common revision",
            json!({ "code": -32022, "message": "no", "data": { "supported": ["2030-01-01"] } }),
            true,
        ),
        ("no list", json!({ "code": -32022, "message": "no" }), true),
        ("a capability", json!({ "code": -32021, "message": "no" }), false),
        ("a header", json!({ "code": -32020, "message": "no" }), false),
    ] {
        let (client, methods) = open(First::Error(error)).await;
        let error = client.unwrap_err();
        assert_eq!(error.is_version_mismatch(), is_version_mismatch, "{name}: {error}");
        assert!(methods.is_empty(), "{name}: {methods:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn accepts_a_late_response() {
    let (connector, mut peers) = scripted();
    let connecting = start(builder().connect(connector));
    let mut peer = peers.next().await;
    let id = peer.expect("server/discover").await;
    // The client stops waiting, and the server wakes up.
    peer.expect("initialize").await;
    peer.answer(id, discovery(&["2026-07-28"])).await;
    assert_eq!(connecting.await.unwrap().unwrap().version(), ProtocolVersion::V2026_07_28);
}

/// A server that starts slowly reads both requests at once. It answers the probe, and rejects `initialize`.
#[tokio::test(start_paused = true)]
async fn accepts_a_late_response_beside_a_rejected_handshake() {
    let unsupported = json!({ "code": -32022, "message": "no", "data": { "supported": ["2026-07-28"] } });
    let unknown = json!({ "code": -32601, "message": "no" });
    for (rejects_first, rejection) in [(false, unsupported.clone()), (true, unsupported), (false, unknown.clone())] {
        // The order in which the client sees the two answers differs between runs.
        for _ in 0..20 {
            let (connector, mut peers) = scripted();
            let connecting = start(builder().connect(connector));
            let mut peer = peers.next().await;
            let probe = peer.expect("server/discover").await;
            let opening = peer.expect("initialize").await;
            if rejects_first {
                peer.refuse(opening, rejection.clone()).await;
                peer.answer(probe, discovery(&["2026-07-28"])).await;
            } else {
                peer.answer(probe, discovery(&["2026-07-28"])).await;
                peer.refuse(opening, rejection.clone()).await;
            }
            let client = connecting.await.unwrap().unwrap();
            assert_eq!(client.version(), ProtocolVersion::V2026_07_28, "{rejection}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_connect_to_an_unresponsive_server_times_out() {
    let (connector, mut peers) = scripted();
    let started = tokio::time::Instant::now();
    let connecting = start(builder().connect_timeout(Duration::from_secs(20)).connect(connector));
    let mut peer = peers.next().await;
    assert!(connecting.await.unwrap().unwrap_err().is_timeout());
    assert_eq!(started.elapsed(), Duration::from_secs(20));
    peer.expect("server/discover").await;
    peer.expect("initialize").await;
    assert!(peer.next().await.is_none(), "the connection is closed, and nothing was cancelled");
}

#[tokio::test(start_paused = true)]
async fn negotiates_revisions_downwards() {
    for (answered, expected) in [
        ("2024-11-05", Some(ProtocolVersion::V2024_11_05)),
        ("2025-11-25", Some(ProtocolVersion::V2025_11_25)),
        ("2026-07-28", None),
        ("2024-10-07", None),
        ("", None),
    ] {
        let (connector, mut peers) = scripted();
        let versions = ProtocolVersion::ALL.iter().copied().filter(|version| version.has_handshake());
        let connecting = start(builder().versions(versions).connect(connector));
        let mut peer = peers.next().await;
        let opening = peer.recv().await;
        assert_eq!(
            (&opening["method"], &opening["params"]["protocolVersion"]),
            (&json!("initialize"), &json!("2025-11-25"))
        );
        peer.answer(opening["id"].clone(), initialized(answered)).await;
        match (connecting.await.unwrap(), expected) {
            (Ok(client), Some(expected)) => assert_eq!(client.version(), expected),
            (Err(error), None) => {
                assert!(error.is_version_mismatch(), "{error}");
                assert!(error.to_string().contains("2025-11-25") && error.to_string().contains(answered), "{error}");
            }
            (other, _) => panic!("{answered}: {other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn repeats_a_rejected_offer_with_a_listed_revision() {
    let (connector, mut peers) = scripted();
    let connecting = start(builder().prefer(ProtocolVersion::V2025_11_25).connect(connector));
    let mut peer = peers.next().await;
    let id = peer.expect("initialize").await;
    let data = json!({ "supported": ["2024-11-05"], "requested": "2025-11-25" });
    peer.refuse(id, json!({ "code": -32602, "message": "Unsupported protocol version", "data": data })).await;
    let opening = peer.recv().await;
    assert_eq!(opening["params"]["protocolVersion"], "2024-11-05");
    peer.answer(opening["id"].clone(), initialized("2024-11-05")).await;
    assert_eq!(connecting.await.unwrap().unwrap().version(), ProtocolVersion::V2024_11_05);
}

#[tokio::test(start_paused = true)]
async fn a_client_of_the_newest_revision_alone_does_not_fall_back() {
    let (connector, mut peers) = scripted();
    let connecting = start(builder().versions([ProtocolVersion::LATEST]).connect(connector));
    let mut peer = peers.next().await;
    let id = peer.expect("server/discover").await;
    peer.refuse(id, json!({ "code": -32601, "message": "no" })).await;
    assert!(connecting.await.unwrap().unwrap_err().is_unsupported());
    assert!(peer.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn does_not_probe_a_known_server() {
    let (connector, mut peers) = scripted();
    let connecting = start(builder().connect(connector));
    let mut peer = peers.next().await;
    peer.discovered().await;
    let known = connecting.await.unwrap().unwrap().negotiated();
    assert_eq!(known.server_info.name, "script");

    let (connector, mut peers) = scripted();
    let client = builder().known((*known).clone()).connect(connector).await.unwrap();
    let call = start(client.call_tool("t", ()));
    let mut peer = peers.next().await;
    let id = peer.expect("tools/call").await;
    // It was wrong: the server was exchanged for an older one.
    peer.refuse(id, json!({ "code": -32022, "message": "no", "data": { "supported": ["2025-11-25"] } })).await;
    let mut peer = peers.next().await;
    peer.open("2025-11-25").await;
    let id = peer.expect("tools/call").await;
    peer.answer(id, tool_result("done")).await;
    assert_eq!(call.await.unwrap().unwrap().text(), "done");
    assert_eq!(client.version(), ProtocolVersion::V2025_11_25);
}

#[tokio::test(start_paused = true)]
async fn a_rejected_revision_does_not_affect_other_calls() {
    let (client, mut peer, mut peers) = connected_as(builder(), ProtocolVersion::V2026_07_28).await;
    let taken = start(client.call_tool("taken", ()));
    let taken_id = peer.expect("tools/call").await;
    let refused = start(client.call_tool("refused", ()));
    let id = peer.expect("tools/call").await;
    peer.refuse(id, json!({ "code": -32022, "message": "no", "data": { "supported": ["2025-11-25"] } })).await;
    let mut other = peers.next().await;
    other.open("2025-11-25").await;
    let id = other.expect("tools/call").await;
    other.answer(id, tool_result("elsewhere")).await;
    assert_eq!(refused.await.unwrap().unwrap().text(), "elsewhere");
    peer.answer(taken_id, tool_result("here")).await;
    assert_eq!(taken.await.unwrap().unwrap().text(), "here");
}

/// The response of an older server, which replaced a newer one, to a request of the newest revision.
#[derive(Debug, Clone, Copy)]
enum Older {
    Refuses,
    Answers,
    DoesNotAnswer,
    Dies,
}

#[tokio::test(start_paused = true)]
async fn probes_again_when_the_known_era_is_wrong() {
    for older in [Older::Refuses, Older::Answers, Older::DoesNotAnswer, Older::Dies] {
        let (connector, mut peers) = scripted();
        let mut known = Negotiated::new(ProtocolVersion::V2026_07_28);
        known.capabilities = serde_json::from_value(json!({ "tools": {} })).unwrap();
        let client = builder().known(known).connect(connector).await.unwrap();
        let mut call = start(client.call_tool("t", ()));
        let mut peer = peers.next().await;
        let id = peer.expect("tools/call").await;
        let no = json!({ "code": -32600, "message": "not initialized" });
        match older {
            Older::Refuses => {
                peer.refuse(id, no.clone()).await;
                // The client probes the era again and repeats the call on the next connection.
                let id = peer.expect("server/discover").await;
                peer.refuse(id, no).await;
            }
            // A lenient server accepts the request. The next request uses the era of the server.
            Older::Answers => {
                peer.answer(id, json!({ "content": [] })).await;
                let id = peer.expect("server/discover").await;
                peer.refuse(id, no).await;
                (&mut call).await.unwrap().unwrap();
            }
            Older::DoesNotAnswer => {
                assert!((&mut call).await.unwrap().unwrap_err().is_timeout());
                peer.expect("notifications/cancelled").await;
                // It is silent then, too.
                peer.expect("server/discover").await;
                client.states().wait_for(|state| *state != State::Ready).await.unwrap();
            }
            Older::Dies => {
                peer.close();
                assert!((&mut call).await.unwrap().unwrap_err().is_closed());
                // The same holds if the probe comes first.
                let mut methods = peers.next().await;
                methods.expect("server/discover").await;
                methods.close();
            }
        }
        if call.is_finished() {
            call = start(client.call_tool("t", ()));
        }
        let mut peer = peers.next().await;
        peer.open("2025-06-18").await;
        let id = peer.expect("tools/call").await;
        peer.answer(id, tool_result("done")).await;
        assert_eq!(call.await.unwrap().unwrap().text(), "done", "{older:?}");
        assert_eq!(client.version(), ProtocolVersion::V2025_06_18, "{older:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn probes_a_known_era_once() {
    let (connector, mut peers) = scripted();
    let known = Negotiated::new(ProtocolVersion::V2026_07_28);
    let client = builder().known(known).ignore_capabilities().connect(connector).await.unwrap();
    let mut peer = peers.next().await;
    for n in 0..2 {
        let call = start(client.call_tool("t", ()));
        let id = peer.expect("tools/call").await;
        peer.refuse(id, json!({ "code": -32602, "message": "no such tool" })).await;
        if n == 0 {
            peer.discovered().await;
        }
        assert_eq!(call.await.unwrap().unwrap_err().rpc().unwrap().code.0, -32602);
    }
}

#[tokio::test(start_paused = true)]
async fn does_not_repeat_a_call_in_another_era_if_it_may_have_run() {
    let (connector, mut peers) = scripted();
    let client = builder().known(known()).connect(connector).await.unwrap();
    let call = start(client.call_tool("t", ()));
    let mut peer = peers.next().await;
    let id = peer.expect("tools/call").await;
    // A lenient server accepts the request without a session, and fails.
    peer.refuse(id, json!({ "code": -32603, "message": "half done" })).await;
    let id = peer.expect("server/discover").await;
    peer.refuse(id, json!({ "code": -32601, "message": "what?" })).await;
    assert_eq!(call.await.unwrap().unwrap_err().rpc().unwrap().code.0, -32603);
    let call = start(client.call_tool("t", ()));
    let mut peer = peers.next().await;
    peer.open("2025-06-18").await;
    let id = peer.expect("tools/call").await;
    peer.answer(id, tool_result("done")).await;
    assert_eq!(call.await.unwrap().unwrap().text(), "done");
}

#[tokio::test(start_paused = true)]
async fn probes_an_unresponsive_server_once() {
    let (connector, mut peers) = scripted();
    let client = builder().known(known()).connect(connector).await.unwrap();
    let calls: Vec<_> =
        (0..20).map(|_| start(client.call_tool("t", ()).idle_timeout(Duration::from_secs(1)))).collect();
    let mut peer = peers.next().await;
    let mut methods = Vec::new();
    for call in calls {
        assert!(call.await.unwrap().unwrap_err().is_timeout());
    }
    while let Some(message) = peer.next().await {
        methods.push(message["method"].as_str().unwrap().to_owned());
    }
    assert_eq!(methods.iter().filter(|method| *method == "server/discover").count(), 1, "{methods:?}");
}

#[tokio::test(start_paused = true)]
async fn does_not_probe_again_for_every_error() {
    let (connector, mut peers) = scripted();
    let client = builder().known(known()).connect(connector).await.unwrap();
    let mut peer = peers.next().await;
    for n in 0..3 {
        let call = start(client.call_tool("t", ()));
        let id = peer.expect("tools/call").await;
        peer.refuse(id, json!({ "code": -32602, "message": "no such tool" })).await;
        if n == 0 {
            let id = peer.expect("server/discover").await;
            peer.refuse(id, json!({ "code": -32021, "message": "no" })).await;
        }
        assert_eq!(call.await.unwrap().unwrap_err().rpc().unwrap().code.0, -32602);
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_is_bounded_by_the_timeout_of_the_call() {
    for is_result in [false, true] {
        let (connector, mut peers) = scripted();
        let client = builder().known(known()).connect(connector).await.unwrap();
        let began = tokio::time::Instant::now();
        let call = start(client.call_tool("t", ()).total_timeout(Duration::from_secs(2)));
        let mut peer = peers.next().await;
        let id = peer.expect("tools/call").await;
        match is_result {
            true => peer.answer(id, json!({ "content": [] })).await,
            false => peer.refuse(id, json!({ "code": -32602, "message": "no such tool" })).await,
        }
        peer.expect("server/discover").await;
        // The received response decides. A pending probe does not.
        assert_eq!(call.await.unwrap().is_ok(), is_result);
        assert_eq!(began.elapsed().as_secs(), 2, "{is_result}");
    }
}

/// The negotiation that a client has stored for a server of the newest revision.
fn known() -> Negotiated {
    let mut known = Negotiated::new(ProtocolVersion::V2026_07_28);
    known.capabilities = serde_json::from_value(json!({ "tools": {} })).unwrap();
    known
}

#[tokio::test(start_paused = true)]
async fn opens_a_subscription_in_the_detected_era() {
    let (connector, mut peers) = scripted();
    let client = builder().known(Negotiated::new(ProtocolVersion::V2026_07_28)).connect(connector).await.unwrap();
    let subscribing = start(async move { client.subscribe(["a:b"]).await.map(drop) });
    let mut peer = peers.next().await;
    for method in ["subscriptions/listen", "server/discover"] {
        let id = peer.expect(method).await;
        peer.refuse(id, json!({ "code": -32601, "message": "no" })).await;
    }
    let mut peer = peers.next().await;
    peer.open("2025-06-18").await;
    let id = peer.expect("resources/subscribe").await;
    peer.answer(id, json!({})).await;
    subscribing.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn sends_a_response_only_in_the_era_of_its_request() {
    let with_roots = builder().roots([]);
    let (client, mut peer, mut peers) = connected_as(with_roots, ProtocolVersion::V2026_07_28).await;
    let call = start(client.call_tool("t", json!({ "a": 1 })));
    let id = peer.expect("tools/call").await;
    let questions = json!({ "where": { "method": "roots/list" } });
    let required = json!({ "resultType": "input_required", "inputRequests": questions, "requestState": "s" });
    peer.answer(id, required).await;
    let retry = peer.recv().await;
    assert_eq!(retry["params"]["requestState"], "s");
    peer.refuse(
        retry["id"].clone(),
        json!({ "code": -32022, "message": "no", "data": { "supported": ["2025-11-25"] } }),
    )
    .await;
    let mut peer = peers.next().await;
    peer.open("2025-11-25").await;
    // It begins anew, as it was given.
    let again = peer.recv().await;
    let params = again["params"].as_object().unwrap();
    assert!(!params.contains_key("inputResponses") && !params.contains_key("requestState"), "{again}");
    assert_eq!((&params["name"], &params["arguments"]), (&json!("t"), &json!({ "a": 1 })));
    let answer = peer.exchange(json!(7), "roots/list", json!({})).await;
    assert_eq!(answer["result"]["roots"], json!([]));
    peer.answer(again["id"].clone(), tool_result("done")).await;
    assert_eq!(call.await.unwrap().unwrap().text(), "done");
}
