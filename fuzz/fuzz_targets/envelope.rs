//! Parses any bytes as a JSON-RPC message or a batch.
//!
//! An accepted message is valid JSON, and an equal message has the same parts. A prefix never shows another id.

#![no_main]

use fuzz::fuzz_target;
use mcp_protocol::{
    Message,
    jsonrpc::{self, Beginning, Limits},
};
use serde_json::value::RawValue;

fuzz_target!(|data: &[u8]| {
    let limits = Limits::default().depth(64);
    let half = &data[..data.len() / 2];
    let early = (jsonrpc::request_id(half), jsonrpc::beginning(half));
    if let Ok(messages) = jsonrpc::split_batch(data, &limits) {
        assert!(!messages.is_empty());
        for message in messages {
            let _ = Message::parse_with(message.get().as_bytes(), &limits);
        }
    }
    let message = match Message::parse_with(data, &limits) {
        Ok(message) => message,
        Err(error) => {
            let answer = jsonrpc::error_response(error.id.as_ref(), &error.error);
            assert!(matches!(Message::parse(&answer), Ok(Message::Response(response)) if response.id == error.id));
            return;
        }
    };
    serde_json::from_slice::<&RawValue>(data).expect("an accepted message is valid JSON");
    match message {
        Message::Request(request) => {
            if let (Some(id), _) = early {
                assert_eq!(id, request.id);
            }
            let _ = request.meta();
            let _ = request.mirrored("name");
            let written = jsonrpc::request(&request.id, &request.method, &request.params).unwrap();
            let Ok(Message::Request(again)) = Message::parse(&written) else { panic!("not a request: {written:?}") };
            assert_eq!((again.id, again.method), (request.id, request.method));
            assert_eq!(again.params.map(|raw| raw.get()), request.params.map(|raw| raw.get()));
        }
        Message::Notification(notification) => {
            let written = jsonrpc::notification(&notification.method, &notification.params).unwrap();
            let Ok(Message::Notification(again)) = Message::parse(&written) else { panic!("not a notification") };
            assert_eq!(again.method, notification.method);
        }
        Message::Response(response) => {
            if let (_, Beginning::Response(Some(id))) = early {
                assert_eq!(Some(id), response.id);
            }
            let (Some(id), Ok(result)) = (response.id, response.outcome) else { return };
            let written = jsonrpc::response(&id, &result).unwrap();
            assert!(matches!(Message::parse(&written), Ok(Message::Response(again)) if again.id == Some(id)));
        }
    }
});
