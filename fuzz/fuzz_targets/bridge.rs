//! Renders any JSON object as the input schema of a tool, and parses it as a call of a model and as its arguments.
//!
//! Run: `cargo +nightly fuzz run bridge -- -max_len=4096`. No provider may refuse a rendered definition, and no input may panic.

#![no_main]

use fuzz::fuzz_target;
use mcp_protocol::{JsonObject, Tool};
use mcp_tool_format::{Call, Options, Provider, Rules, render};
use serde_json::{Value, json};

fuzz_target!(|data: &[u8]| {
    let Ok(value) = serde_json::from_slice::<Value>(data) else { return };
    let Some(schema) = JsonObject::from_value(value.clone()) else { return };
    let tool = Tool::new("t", schema);
    for provider in Provider::ALL {
        for options in [Options::new(provider).strict(), Options::new(provider).not_strict()] {
            let rendered = render([("t", &tool)], &options);
            assert_eq!(Rules::of(provider).check(&rendered.value), [], "{provider}");
            for call in [&value, &json!({ "name": "t", "input": value })] {
                if let Ok(call) = Call::parse(&rendered, call) {
                    assert_eq!(call.name, "t", "{provider}");
                }
            }
        }
    }
});
