//! Decode errors for peers and users: the place of the error, in terms of JSON.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use crate::Excerpt;

/// Decodes a text. The error names the place of the invalid value.
pub(crate) fn decode<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    // Tracking the place costs time, so the text is decoded again with tracking after an error.
    serde_json::from_str(text).map_err(|error: serde_json::Error| {
        let mut again = serde_json::Deserializer::from_str(text);
        match serde_path_to_error::deserialize::<_, T>(&mut again) {
            Err(error) => located_error(error.path(), error.inner()),
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
        Err(error) => located_error(error.path(), error.inner()),
        Ok(_) => plain(&error),
    })
}

fn located_error(path: &Path, error: &serde_json::Error) -> String {
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

/// Returns the text of an error without its position in the fragment and without names of Rust types, which a peer
/// does not know.
pub(crate) fn plain(error: &serde_json::Error) -> String {
    let mut text = error.to_string();
    if let Some(at) = text.rfind(" at line ") {
        text.truncate(at);
    }
    // The text is valid JSON, so the reader has found a value that is not one of the expected words.
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
    // The value of the peer comes before this.
    let Some(at) = text.rfind(", expected ").map(|at| at + ", expected ".len()) else { return text };
    if let Some(word) = word(&text[at..]) {
        text.truncate(at);
        text.push_str(word);
    }
    text
}

/// Returns the JSON term for a Rust term.
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
    #[expect(dead_code, reason = "the test reads only the error")]
    struct Outer {
        inner: Option<Vec<Inner>>,
        names: Option<std::collections::BTreeMap<String, String>>,
        level: Option<crate::LoggingLevel>,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "the test reads only the error")]
    struct Inner {
        n: u8,
    }

    #[test]
    fn decode_errors_name_the_place_and_json_types() {
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
        // A value of another type in place of a word: only the reader of texts gives this error.
        assert_eq!(decode::<Outer>(r#"{"level":[]}"#).unwrap_err(), "`/level`: expected a string");
    }
}
