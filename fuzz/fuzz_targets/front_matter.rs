//! Reads any text as Markdown with front matter.
//!
//! The body is the end of the text. JSON is YAML too: the members in JSON have the same values, if they can be read.

#![no_main]

use fuzz::fuzz_target;
use mcp_schema::FrontMatter;
use serde_json::Value;

fuzz_target!(|data: &str| {
    let read = match FrontMatter::read(data) {
        Ok(read) => read,
        Err(error) => return assert!(error.to_string().len() < 4096, "{error}"),
    };
    assert!(data.ends_with(read.body));
    let json = format!("---\n{}\n---\n{}", Value::Object(read.members.clone()), read.body);
    if let Ok(again) = FrontMatter::read(&json) {
        assert_eq!((again.members, again.body), (read.members, read.body), "{json}");
    }
});
