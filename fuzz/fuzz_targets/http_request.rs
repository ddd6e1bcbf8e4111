//! Sends any request to the endpoint: a line with method and target, lines with headers, an empty line, and the body.
//!
//! `{session}` in a header is the id of an open session. No request causes a fault of the server, and each answer in JSON is a
//! JSON-RPC message or a batch.

#![no_main]

use fuzz::{block_on, fuzz_target, open, request, send, service};
use mcp_protocol::{
    Message,
    jsonrpc::{self, Limits},
};

const SESSION: &[u8] = b"{session}";

fuzz_target!(|data: &[u8]| {
    let end = data.windows(2).position(|window| window == b"\n\n").unwrap_or(data.len());
    let (head, body) = (&data[..end], data.get(end + 2..).unwrap_or_default());
    let mut lines = head.split(|byte| *byte == b'\n');
    let Some(first) = lines.next() else { return };
    let Some(space) = first.iter().position(|byte| *byte == b' ') else { return };
    let (method, target) = (&first[..space], &first[space + 1..]);
    let headers: Vec<(&[u8], &[u8])> = lines
        .filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            Some((&line[..colon], line[colon + 1..].trim_ascii()))
        })
        .collect();
    block_on(async {
        let service = service();
        let session =
            if headers.iter().any(|(_, value)| *value == SESSION) { open(&service).await } else { String::new() };
        let value = |value| if value == SESSION { session.as_bytes() } else { value };
        let headers: Vec<_> = headers.iter().map(|(name, text)| (*name, value(*text))).collect();
        let Some(request) = request(method, target, &headers, body) else { return };
        let is_of_endpoint = request.uri().path() == "/mcp";
        let answer = send(&service, request).await;
        assert!(answer.status.as_u16() < 500, "{answer:?}");
        if is_of_endpoint && answer.header("content-type").starts_with("application/json") {
            assert!(answer.is_complete, "{answer:?}");
            let is_message = Message::parse(&answer.body).is_ok();
            assert!(is_message || jsonrpc::split_batch(&answer.body, &Limits::default()).is_ok(), "{answer:?}");
        }
    });
});
