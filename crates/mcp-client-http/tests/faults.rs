//! Faults of servers and networks, and the error of the affected request.

use std::{error::Error, time::Duration};

use mcp_client_http::Http;
use mcp_transport::{Route, TransportError};
use tokio::net::TcpListener;

use crate::common::{
    LEGACY, MODERN, Peer, answer,
    byte_server::{ByteServer, Reply, Step},
    notice, pause,
};

/// The outcome of a request that receives this reply.
async fn fault(reply: Reply) -> TransportError {
    fault_of(reply, MODERN).await
}

async fn fault_of(reply: Reply, version: &str) -> TransportError {
    let server = ByteServer::serve(move |_, _| reply.clone()).await;
    let mut peer = Peer::connect(&server.url()).await;
    peer.request(version, 1, "tools/call").await;
    peer.fault(1).await
}

#[tokio::test]
async fn reports_a_status_without_a_message_with_its_text() {
    let text = &[("content-type", "text/plain; charset=utf-8")][..];
    let json = &[("content-type", "application/json")][..];
    let rpc = r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"who are you"}}"#;
    for (status, headers, body, after, detail) in [
        (500, text, "out\nof order", None, ": out of order"),
        (500, json, "{\"error\":\"x\"}", None, ": {\"error\":\"x\"}"),
        (502, &[("content-type", "text/html")][..], "<html>", None, ""),
        (503, &[("retry-after", "7")][..], "", Some(7), ""),
        (503, &[("retry-after", "7")][..], rpc, Some(7), ": who are you"),
        (401, json, rpc, None, ": who are you"),
        (403, json, rpc, None, ": who are you"),
        (404, text, "", None, ""),
        (413, text, &"x".repeat(5_000_000), None, ""),
        (429, &[("retry-after", "soon")][..], "", None, ""),
        (504, text, "{\"jsonrpc\":\"2.0\",", None, ": {\"jsonrpc\":\"2.0\","),
    ] {
        let error = fault(Reply::full(status, headers, body)).await;
        assert_eq!((error.http_status(), error.retry_after()), (Some(status), after.map(Duration::from_secs)));
        assert_eq!(error.to_string(), format!("the peer answered with HTTP status {status}{detail}"));
    }
}

#[tokio::test]
async fn a_message_above_the_limit_fails_its_request() {
    let events = Reply::events().event(&"x".repeat(1025)).event(&answer(1)).end();
    let endless = Reply::events().chunk(&format!("data: {}", "x".repeat(20_000))).hold();
    let with_length = Reply::full(200, &[("content-type", "application/json"), ("x", "y")], &"x".repeat(1025));
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let without_length = Reply::raw(head).chunk(&"x".repeat(1000)).chunk(&"x".repeat(25)).hold();
    for (what, reply) in
        [("an event", events), ("a line", endless), ("a body", with_length), ("a stream", without_length)]
    {
        let server = ByteServer::serve(move |_, _| reply.clone()).await;
        let http = Http::new(server.url()).unwrap().max_message(1024);
        let mut peer = Peer::open(&http).await;
        peer.request(MODERN, 1, "tools/call").await;
        let error = peer.fault(1).await;
        assert!(error.is_too_large() && error.to_string().contains("1024"), "{what}: {error}");
    }
    // The transport does not read a body that cannot be a response.
    let large =
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":""#.to_owned() + &"x".repeat(1025);
    let reply = Reply::events().event(&large).event(&answer(1)).end();
    let server = ByteServer::serve(move |_, _| reply.clone()).await;
    let mut peer = Peer::open(&Http::new(server.url()).unwrap().max_message(1024)).await;
    peer.request(MODERN, 1, "tools/call").await;
    assert_eq!(peer.next().await.unwrap().1["id"], 1);
    let whole = format!("\"{}\"", "x".repeat(1022));
    let server = ByteServer::serve(move |_, _| Reply::json(&whole)).await;
    let mut peer = Peer::open(&Http::new(server.url()).unwrap().max_message(1024)).await;
    peer.request(MODERN, 1, "tools/call").await;
    assert_eq!(peer.next().await.unwrap().0, Route::Request(1.into()));
}

#[tokio::test]
async fn stops_reading_a_body_above_the_limit() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut reply = Reply::raw(head);
    for _ in 0..100 {
        reply = reply.chunk(&"x".repeat(1 << 20));
    }
    let server = ByteServer::serve(move |_, _| reply.clone().hold()).await;
    let mut peer = Peer::connect(&server.url()).await;
    peer.request(MODERN, 1, "tools/call").await;
    assert!(peer.fault(1).await.is_too_large());
}

#[tokio::test]
async fn a_truncated_response_is_an_error() {
    let half = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{";
    let id = "id: 1\ndata: {}\n\n";
    for (what, reply) in [
        ("a stream without its answer", Reply::events().event(&notice(1)).end()),
        ("a stream without anything", Reply::events().end()),
        ("a stream in the middle of an event", Reply::events().chunk(&format!("data: {}", answer(1))).cut()),
        ("a stream in the middle of a chunk", Reply::events().step(Step::Send(b"100\r\ndata".to_vec())).cut()),
        ("a stream that cannot be resumed", Reply::events().chunk(id).end()),
        ("the answer to another request", Reply::events().event(&answer(2)).end()),
        ("half a body", Reply::raw(half)),
        ("nothing", Reply::raw("")),
        ("half a head", Reply::raw("HTTP/1.1 200 OK\r\ncontent-")),
        ("half a connection", Reply::raw("").step(Step::HalfClose).hold()),
        ("no HTTP", Reply::raw("SSH-2.0-OpenSSH_9.9\r\n\r\n")),
        ("an acceptance", Reply::status(202)),
        ("nothing, well said", Reply::status(204)),
    ] {
        let server = ByteServer::serve(move |_, _| reply.clone()).await;
        let mut peer = Peer::connect(&server.url()).await;
        peer.request(MODERN, 1, "tools/call").await;
        let error = loop {
            if let Err(error) = peer.next().await {
                break error;
            }
        };
        assert!(error.is_unanswered() && error.request() == Some(&1.into()), "{what}: {error}");
        peer.nothing().await;
        assert_eq!(server.seen().len(), 1, "{what}");
    }
}

#[tokio::test]
async fn forwards_other_messages_and_waits_for_the_response() {
    for (text, is_answer) in [
        ("garbage", false),
        (notice(1).as_str(), false),
        (answer(2).as_str(), false),
        ("[]", false),
        (answer(1).as_str(), true),
        (r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"?"}}"#, true),
    ] {
        for reply in [Reply::json(text), Reply::events().event(text).end()] {
            let server = ByteServer::serve(move |_, _| reply.clone()).await;
            let mut peer = Peer::connect(&server.url()).await;
            peer.request(MODERN, 1, "tools/call").await;
            let expected = serde_json::from_str(text).unwrap_or_else(|_| text.into());
            assert_eq!(peer.next().await.unwrap(), (Route::Request(1.into()), expected));
            if is_answer {
                peer.nothing().await;
            } else {
                assert!(peer.fault(1).await.is_unanswered(), "{text}");
            }
        }
    }
}

#[tokio::test]
async fn drops_messages_after_the_response() {
    let server =
        ByteServer::serve(|_, _| Reply::events().event(&answer(1)).event(&answer(1)).event(&notice(1)).end()).await;
    let mut peer = Peer::connect(&server.url()).await;
    for _ in 0..2 {
        peer.request(MODERN, 1, "tools/call").await;
        assert_eq!(peer.next().await.unwrap().1["id"], 1);
    }
    peer.nothing().await;
}

#[tokio::test]
async fn rejects_another_content_type() {
    for (kind, shown) in [("text/html; charset=utf-8", "`text/html`"), ("", "without a content type")] {
        let error = fault(Reply::full(200, &[("content-type", kind)], "<html>")).await;
        assert!(error.to_string().contains(shown), "{error}");
    }
}

#[tokio::test]
async fn does_not_follow_a_redirect_to_another_origin() {
    let other = ByteServer::serve(|_, seen| Reply::result(seen)).await;
    for (status, to, shown) in [
        (307, format!("{}/mcp?key=hunter2", other.origin), format!("`{}`", other.origin)),
        (308, other.url(), "308".to_owned()),
        (302, "/elsewhere".to_owned(), "302, which would change the method of the request".to_owned()),
        (303, "/elsewhere".to_owned(), "303".to_owned()),
        (301, "/elsewhere".to_owned(), "301".to_owned()),
        (307, String::new(), "307".to_owned()),
        (304, String::new(), "304".to_owned()),
    ] {
        let error = fault(Reply::full(status, &[("location", to.as_str())], "")).await;
        let text = error.to_string();
        assert!(text.contains("redirects") && text.contains(&shown) && !text.contains("hunter2"), "{error}");
    }
    assert!(other.seen().is_empty());
}

#[tokio::test]
async fn a_redirect_within_the_origin_keeps_the_message() {
    for status in [307, 308] {
        let server = ByteServer::serve(move |_, seen| match seen.path.as_str() {
            "/mcp" => Reply::full(status, &[("location", "/mcp/")], ""),
            _ => Reply::result(seen),
        })
        .await;
        let mut peer = Peer::open(&Http::new(server.url()).unwrap().bearer("hunter2").unwrap()).await;
        peer.request(MODERN, 1, "tools/call").await;
        peer.next().await.unwrap();
        let seen = server.seen();
        assert_eq!((seen[1].path.as_str(), seen[1].method.as_str(), &seen[1].body), ("/mcp/", "POST", &seen[0].body));
        assert_eq!(seen[1].header("authorization"), Some("Bearer hunter2"));
    }
    let server = ByteServer::serve(|_, _| Reply::full(307, &[("location", "/mcp")], "")).await;
    let mut peer = Peer::connect(&server.url()).await;
    peer.request(MODERN, 1, "tools/call").await;
    let error = peer.fault(1).await;
    assert_eq!(error.to_string(), "the server redirects to itself too often (HTTP status 307)");
    assert_eq!(server.seen().len(), 4);
}

#[tokio::test]
async fn reports_an_unreachable_server() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let mut peer = Peer::connect(&format!("{origin}/mcp?key=hunter2")).await;
    peer.request(MODERN, 1, "tools/call").await;
    let error = peer.fault(1).await;
    assert_eq!(error.to_string(), format!("cannot connect to `{origin}`"));
    let mut causes = String::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        causes.push_str(&format!("{error}; "));
        cause = error.source();
    }
    assert!(causes.contains("refused") && !causes.contains("hunter2"), "{causes}");
    // The transport stays open, because the server may return.
    peer.request(MODERN, 2, "tools/call").await;
    peer.fault(2).await;
}

#[tokio::test]
async fn reconnects_to_a_restarted_server() {
    let server = ByteServer::serve(|number, seen| {
        let reply = Reply::result(seen);
        if number == 1 { reply.cut() } else { reply }
    })
    .await;
    let mut peer = Peer::connect(&server.url()).await;
    for id in 0..2 {
        peer.request(MODERN, id, "tools/call").await;
        // The server closes the first connection after the response, as a restart does.
        match peer.next().await {
            Ok((route, _)) => assert_eq!(route, Route::Request(id.into())),
            // It may go out on the old connection in the moment in which that is closed.
            Err(error) => assert!(error.is_unanswered() && id == 1, "{error}"),
        }
    }
    peer.request(MODERN, 3, "tools/call").await;
    assert_eq!(peer.next().await.unwrap().0, Route::Request(3.into()));
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn retries_notifications_a_bounded_number_of_times() {
    pause();
    let server = ByteServer::serve(|number, seen| match (seen.call().as_str(), number) {
        ("notifications/progress", 1..3) => Reply::full(503, &[("retry-after", "2")], ""),
        ("notifications/progress", _) => Reply::status(202),
        ("tools/call", _) => Reply::result(seen),
        _ => Reply::raw("").hold(),
    })
    .await;
    let mut peer = Peer::connect(&server.url()).await;
    let began = tokio::time::Instant::now();
    peer.notify(LEGACY, "notifications/progress").await;
    server.saw(3).await;
    assert!(began.elapsed() >= Duration::from_secs(4), "{:?}", began.elapsed());
    // The transport drops a notification with a long retry delay. Later messages do not wait for it.
    let busy = ByteServer::serve(|_, seen| match seen.call().as_str() {
        "tools/call" => Reply::result(seen),
        _ => Reply::full(503, &[("retry-after", "31")], ""),
    })
    .await;
    let mut other = Peer::connect(&busy.url()).await;
    other.notify(LEGACY, "notifications/initialized").await;
    other.request(LEGACY, 1, "tools/call").await;
    let began = tokio::time::Instant::now();
    other.next().await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(31), "{:?}", began.elapsed());
    let calls: Vec<_> = busy.seen().iter().map(|seen| seen.call()).collect();
    assert_eq!(calls, ["notifications/initialized", "tools/call"]);
    // The server never answers. The wait ends without an error for the caller.
    peer.notify(LEGACY, "notifications/cancelled").await;
    server.wait_for_disconnects(1).await;
    peer.request(LEGACY, 1, "tools/call").await;
    assert_eq!(peer.next().await.unwrap().0, Route::Request(1.into()));
}
