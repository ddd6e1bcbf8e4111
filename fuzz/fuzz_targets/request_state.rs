//! Sends damaged request states and any answers to a tool that has asked two questions.
//!
//! The input is damage of the state (see `fuzz::damaged`), and then the answers in JSON. A damaged state is never accepted, and a
//! sealed text opens only unchanged and with its call.

#![no_main]

use std::time::Duration;

use fuzz::{block_on, damaged, fuzz_target, send, service, stateless};
use mcp_protocol::JsonObject;
use mcp_server_core::{InputRound, StateKeys};
use serde_json::{Value, json, value::to_raw_value};

fn call(members: &[(&str, Value)]) -> JsonObject {
    let mut params = JsonObject::new();
    params.insert("name".to_owned(), json!("ask"));
    for (name, value) in members {
        params.insert((*name).to_owned(), value.clone());
    }
    params
}

/// Seals and opens a text with the binding of a call.
fn texts(keys: &StateKeys, params: &Value, text: &str, data: &[u8]) {
    let raw = to_raw_value(params).unwrap();
    let Ok(round) = InputRound::read("tools/call", Some(&raw), None) else { return };
    let sealed = keys.seal_text(text, Duration::from_secs(600), round.binding()).unwrap();
    assert_eq!(keys.open_text(&sealed, round.binding()).unwrap(), text);
    if let Some((other, _)) = damaged(&sealed, data) {
        assert_eq!(keys.open_text(&other, round.binding()).is_ok(), other == sealed, "{other}");
    }
    let other = InputRound::read("prompts/get", Some(&raw), None).unwrap();
    assert!(keys.open_text(&sealed, other.binding()).is_err());
    if let Some(state) = round.request_state() {
        assert!(keys.open_text(state, round.binding()).is_err());
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((_, rest)) = damaged("", data) else { return };
    let Ok(responses) = serde_json::from_slice::<Value>(rest) else { return };
    texts(&StateKeys::new([[8; 32], [9; 32]]), &responses, "text", data);
    block_on(async {
        let service = service();
        let first = send(&service, stateless("tools/call", call(&[]))).await.json();
        let Some(state) = first["result"]["requestState"].as_str() else { panic!("no state: {first}") };
        let Some((sent, _)) = damaged(state, data) else { return };
        let members = [("requestState", json!(sent)), ("inputResponses", responses)];
        let answer = send(&service, stateless("tools/call", call(&members))).await;
        assert!(answer.status.as_u16() < 500, "{answer:?}");
        let response = answer.json();
        if sent != state {
            assert!(response["error"].is_object(), "{response}");
        }
    });
});
