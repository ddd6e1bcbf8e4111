//! Recorded tool lists of real servers, and generated schemas.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests: each test uses a part")]

pub(crate) mod costly;
pub(crate) mod hostile;
pub(crate) mod oracle;

use std::path::Path;

use mcp_protocol::{JsonObject, Tool};
use serde_json::Value;

/// Returns the recorded lists: the name of the server and its tools.
pub(crate) fn recorded() -> Vec<(String, Vec<Tool>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    let mut lists: Vec<(String, Vec<Tool>)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            let tools = file["tools"].as_array().unwrap().iter().cloned().map(|mut tool| {
                expand(&mut tool);
                serde_json::from_value(tool).unwrap()
            });
            (path.file_stem().unwrap().to_str().unwrap().to_owned(), tools.collect())
        })
        .collect();
    lists.sort_by(|a, b| a.0.cmp(&b.0));
    lists
}

/// Replaces each description that is a number by a text of that length.
fn expand(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(expand),
        Value::Object(members) => {
            for (key, member) in members {
                match (key.as_str(), member.as_u64()) {
                    ("description", Some(length)) => {
                        let text: String = "A sentence about it. ".chars().cycle().take(length as usize).collect();
                        *member = text.into();
                    }
                    _ => expand(member),
                }
            }
        }
        _ => {}
    }
}

/// Returns a tool with an input schema.
pub(crate) fn tool(name: &str, schema: Value) -> Tool {
    Tool::new(name, JsonObject::from_value(schema).unwrap())
}
