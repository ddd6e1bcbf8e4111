//! What does not fit a type, said to a peer: where it is, and in the words of JSON.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use crate::Excerpt;

/// Reads a text as a type; what does not fit is told with its place.
pub(crate) fn decode<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    // To keep track of the place costs, so that it is done only when it is to be told.
    serde_json::from_str(text).map_err(|error: serde_json::Error| {
        let mut again = serde_json::Deserializer::from_str(text);
        match serde_path_to_error::deserialize::<_, T>(&mut again) {
            Err(error) => told(error.path(), error.inner()),
            Ok(_) => plain(&error),
        }
    })
}

/// Reads a value as a type.
///
/// # Errors
/// What does not fit, with its place: words for a peer or a user, who know no types of Rust.
pub fn decode_value<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    T::deserialize(value).map_err(|error| match serde_path_to_error::deserialize::<_, T>(value) {
        Err(error) => told(error.path(), error.inner()),
        Ok(_) => plain(&error),
    })
}

fn told(path: &Path, error: &serde_json::Error) -> String {
    let mut place = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => place.push_str(&format!("/{index}")),
            Segment::Map { key: name } | Segment::Enum { variant: name } => {
                place.push_str(&format!("/{}", Excerpt::new(name)));
            }
            Segment::Unknown => place.push_str("/?"),
        }
    }
    let text = plain(error);
    if place.is_empty() { text } else { format!("`{place}`: {text}") }
}

/// What an error says, without its position in the fragment, which would mean nothing to the peer, and without names of
/// types.
pub(crate) fn plain(error: &serde_json::Error) -> String {
    let mut text = error.to_string();
    if let Some(at) = text.rfind(" at line ") {
        text.truncate(at);
    }
    // It is JSON, so a value was there: one that is none of the words that belong there.
    if text == "expected value" {
        return "expected a string".to_owned();
    }
    for (rust, json) in
        [("invalid type: map,", "invalid type: object,"), ("invalid type: sequence,", "invalid type: array,")]
    {
        if let Some(rest) = text.strip_prefix(rust) {
            text = format!("{json}{rest}");
        }
    }
    // What the peer sent stands before it.
    let Some(at) = text.rfind(", expected ").map(|at| at + ", expected ".len()) else { return text };
    if let Some(word) = word(&text[at..]) {
        text.truncate(at);
        text.push_str(word);
    }
    text
}

/// What Rust calls a form of JSON, in the words of JSON.
fn word(expected: &str) -> Option<&'static str> {
    Some(match expected {
        "a map" | "map" => "an object",
        "a sequence" | "sequence" => "an array",
        "a borrowed string" | "string or map" => "a string",
        "unit" => "null",
        "u8" | "u16" | "u32" | "u64" | "usize" | "i8" | "i16" | "i32" | "i64" | "isize" => "an integer",
        "f32" | "f64" => "a number",
        _ if expected.starts_with("struct ") || expected.contains(" tagged enum ") => "an object",
        _ if expected.starts_with("tuple ") => "an array",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only what does not fit is of interest")]
    struct Outer {
        inner: Option<Vec<Inner>>,
        names: Option<std::collections::BTreeMap<String, String>>,
        level: Option<crate::LoggingLevel>,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only what does not fit is of interest")]
    struct Inner {
        n: u8,
    }

    #[test]
    fn what_does_not_fit_is_told_with_its_place_and_without_rust() {
        for (value, expected) in [
            (json!("x"), "invalid type: string \"x\", expected an object"),
            (json!({ "inner": {} }), "`/inner`: invalid type: object, expected an array"),
            (json!({ "inner": [7] }), "`/inner/0`: invalid type: integer `7`, expected an object"),
            (json!({ "inner": [{}] }), "`/inner/0`: missing field `n`"),
            (json!({ "inner": [{ "n": "7" }] }), "`/inner/0/n`: invalid type: string \"7\", expected an integer"),
            (json!({ "names": { "code": 1 } }), "`/names/code`: invalid type: integer `1`, expected a string"),
        ] {
            assert_eq!(decode_value::<Outer>(&value).unwrap_err(), expected);
            assert_eq!(decode::<Outer>(&value.to_string()).unwrap_err(), expected);
        }
        // What is no word at all, where one of several belongs, is told by the reader of texts alone.
        assert_eq!(decode::<Outer>(r#"{"level":[]}"#).unwrap_err(), "`/level`: expected a string");
    }
}
