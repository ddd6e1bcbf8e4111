//! Resumes the stream of a call after a damaged event id.
//!
//! The first byte selects an id that one of two sessions received, and the rest is its damage (see `fuzz::damaged`). An unchanged id of
//! the session returns exactly the later events. Any other id, also one of the other session, is rejected or returns events of the
//! session.

#![no_main]

use bytes::Bytes;
use fuzz::{block_on, damaged, fuzz_target, in_session, open, request, send, service};
use mcp_server_http::McpService;
use mcp_transport::sse::Decoder;
use serde_json::json;

/// The ids of the events of a body.
fn ids(body: &[u8]) -> Vec<String> {
    let mut ids = Vec::new();
    for line in body.split(|byte| *byte == b'\n') {
        ids.extend(line.strip_prefix(b"id: ").map(|id| String::from_utf8(id.to_vec()).unwrap()));
    }
    let mut decoder = Decoder::new(1 << 20);
    decoder.feed(Bytes::copy_from_slice(body));
    while let Some(event) = decoder.next_event() {
        event.unwrap();
    }
    assert_eq!(decoder.last_event_id(), ids.last().map(String::as_str));
    ids
}

/// Calls the tool in a session, and returns the ids of the events.
async fn call(service: &McpService, session: &str, token: &str) -> Vec<String> {
    let params = json!({ "name": "steps", "_meta": { "progressToken": token } });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let answer = send(service, in_session(session, &message)).await;
    let ids = ids(&answer.body);
    assert!(ids.len() > 3, "{answer:?}");
    ids
}

fuzz_target!(|data: &[u8]| {
    let Some((selected, data)) = data.split_first() else { return };
    block_on(async {
        let service = service();
        let session = open(&service).await;
        let received = call(&service, &session, "own").await;
        let other = open(&service).await;
        let foreign = call(&service, &other, "foreign").await;
        let known = [&received[..], &foreign].concat();
        let Some((id, _)) = damaged(&known[usize::from(*selected) % known.len()], data) else { return };
        let headers: [(&[u8], &[u8]); 4] = [
            (b"host", b"localhost"),
            (b"accept", b"text/event-stream"),
            (b"mcp-session-id", session.as_bytes()),
            (b"last-event-id", id.as_bytes()),
        ];
        let Some(request) = request(b"GET", b"/mcp", &headers, b"") else { return };
        let answer = send(&service, request).await;
        let is_foreign = |text: &[u8]| text.windows(7).any(|window| window == b"foreign");
        assert!(!is_foreign(&answer.body), "{id}: {answer:?}");
        let later = ids(&answer.body);
        match received.iter().position(|known| *known == id) {
            Some(at) => {
                assert_eq!(answer.status, 200, "{answer:?}");
                assert!(later.ends_with(&received[at + 1..]), "{later:?} after {id} of {received:?}");
            }
            None if answer.status == 200 => {
                assert!(later.iter().all(|id| received.contains(id)), "{later:?} after {id} of {received:?}");
            }
            None => assert_eq!(answer.status, 400, "{id}: {answer:?}"),
        }
    });
});
