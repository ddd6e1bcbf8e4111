//! JSON without duplicate members: two readers of a token could otherwise see two values.

use mcp_protocol::UniqueNames;
use serde_json::{Map, Value};

/// Parses an object. `None` if the text is not an object, or an object in it has two members with one name.
pub(crate) fn object(bytes: &[u8]) -> Option<Map<String, Value>> {
    serde_json::from_slice::<UniqueNames>(bytes).ok()?;
    // A feature of serde_json shows numbers to visitors as objects, so the values come from serde_json itself.
    serde_json::from_slice(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_with_duplicate_members_are_rejected() {
        for (text, expected) in [
            (r#"{"a":1,"b":[true,null,-1,0.5,"x",{"c":{}}]}"#, true),
            ("{}", true),
            (r#"{"a":1,"a":1}"#, false),
            (r#"{"a":1,"\u0061":2}"#, false),
            (r#"{"a":{"b":1,"b":2}}"#, false),
            (r#"{"a":[{"b":1,"b":2}]}"#, false),
            ("[]", false),
            ("1", false),
            ("", false),
            ("{} {}", false),
        ] {
            let object = object(text.as_bytes());
            assert_eq!(object.is_some(), expected, "{text}");
            if let Some(object) = object {
                assert_eq!(Value::Object(object), serde_json::from_str::<Value>(text).unwrap());
            }
        }
        assert!(object("{\"a\":".repeat(1_000).as_bytes()).is_none());
    }
}
