//! Resumes the stream of a call after a damaged event id.
//!
//! The first byte selects a received id, and the rest is its damage (see `fuzz::damaged`). An unchanged id returns exactly the
//! later events, and any other id is rejected or names an event of the session.

#![no_main]

use bytes::Bytes;
use fuzz::{block_on, damaged, in_session, open, request, send, service};
use libfuzzer_sys::fuzz_target;
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

fuzz_target!(|data: &[u8]| {
    let Some((selected, data)) = data.split_first() else { return };
    block_on(async {
        let service = service();
        let session = open(&service).await;
        let params = json!({ "name": "steps", "_meta": { "progressToken": 1 } });
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let answer = send(&service, in_session(&session, &message)).await;
        let received = ids(&answer.body);
        assert!(received.len() > 3, "{answer:?}");
        let at = usize::from(*selected) % received.len();
        let Some((id, _)) = damaged(&received[at], data) else { return };
        let headers: [(&[u8], &[u8]); 4] = [
            (b"host", b"localhost"),
            (b"accept", b"text/event-stream"),
            (b"mcp-session-id", session.as_bytes()),
            (b"last-event-id", id.as_bytes()),
        ];
        let Some(request) = request(b"GET", b"/mcp", &headers, b"") else { return };
        let answer = send(&service, request).await;
        match received.iter().position(|known| *known == id) {
            Some(at) => {
                assert_eq!(answer.status, 200, "{answer:?}");
                let later = ids(&answer.body);
                assert!(later.ends_with(&received[at + 1..]), "{later:?} after {id} of {received:?}");
            }
            None => assert!(matches!(answer.status.as_u16(), 200 | 400), "{id}: {answer:?}"),
        }
    });
});
