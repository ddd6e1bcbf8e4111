//! Compares messages with patterns: placeholders, names, and differences with their JSON pointers.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::parse::{ANY, is_name};

/// The placeholder for any value, or for any text within a string.
const ANY_TEXT: &str = "<any>";

/// The values of the names in a transcript.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    values: HashMap<String, Value>,
    /// The defined names, in order. Recording replaces equal values by these names.
    defined: Vec<String>,
}

impl Names {
    /// Defines a name. The value may contain other names.
    pub(super) fn define(&mut self, name: &str, value: &Value) -> Result<(), String> {
        let value = self.filled(value)?;
        self.values.insert(name.to_owned(), value);
        self.defined.push(name.to_owned());
        Ok(())
    }

    /// Returns a message of the client with values in place of names.
    pub(super) fn filled(&self, value: &Value) -> Result<Value, String> {
        Ok(match value {
            Value::String(text) => match placeholder(text) {
                Some(ANY) => return Err("`<any>` has no value to send".to_owned()),
                Some(name) => self.values.get(name).cloned().ok_or_else(|| format!("`<{name}>` has no value yet"))?,
                None => value.clone(),
            },
            Value::Array(items) => Value::Array(items.iter().map(|item| self.filled(item)).collect::<Result<_, _>>()?),
            Value::Object(members) => Value::Object(
                members
                    .iter()
                    .map(|(name, member)| Ok((name.clone(), self.filled(member)?)))
                    .collect::<Result<_, String>>()?,
            ),
            other => other.clone(),
        })
    }

    /// Returns one line per difference. If the message matches, names without a value take their values from it.
    pub(super) fn compare(&mut self, expected: &Value, actual: &Value) -> Vec<String> {
        let mut trial = self.clone();
        let mut found = Vec::new();
        trial.walk(expected, actual, &mut String::new(), &mut found);
        if found.is_empty() {
            *self = trial;
        }
        found
    }

    fn walk(&mut self, expected: &Value, actual: &Value, place: &mut String, found: &mut Vec<String>) {
        match (expected, actual) {
            (Value::String(text), _) if self.fits_string(text, actual) => {}
            (Value::Object(wanted), Value::Object(got)) => {
                for (name, value) in wanted {
                    within(place, name, |place| match got.get(name) {
                        Some(actual) => self.walk(value, actual, place, found),
                        None => found.push(format!("{place}: missing, expected {}", short(value))),
                    });
                }
                for (name, value) in got.iter().filter(|(name, _)| !wanted.contains_key(*name)) {
                    within(place, name, |place| found.push(format!("{place}: not expected, got {}", short(value))));
                }
            }
            (Value::Array(wanted), Value::Array(got)) => {
                for (index, (expected, actual)) in wanted.iter().zip(got).enumerate() {
                    within(place, &index.to_string(), |place| self.walk(expected, actual, place, found));
                }
                if wanted.len() != got.len() {
                    found.push(format!("{}: expected {} items, got {}", root(place), wanted.len(), got.len()));
                }
            }
            _ if expected == actual => {}
            _ => found.push(format!("{}: expected {}, got {}", root(place), short(expected), short(actual))),
        }
    }

    /// Returns whether a string of the transcript matches the value. A name without a value takes it.
    fn fits_string(&mut self, text: &str, actual: &Value) -> bool {
        match placeholder(text) {
            Some(ANY) => true,
            Some(name) => match self.values.get(name) {
                Some(value) => value == actual,
                None => {
                    self.values.insert(name.to_owned(), actual.clone());
                    true
                }
            },
            None => actual.as_str().is_some_and(|actual| fits_text(text, actual)),
        }
    }

    /// Returns the actual value with the matching placeholders, for recording.
    pub(super) fn merge(&mut self, expected: Option<&Value>, actual: &Value) -> Value {
        match (expected, actual) {
            (Some(Value::String(text)), _) if self.fits_string(text, actual) => Value::String(text.clone()),
            (_, Value::Object(got)) => {
                if let Some(name) = self.defined.iter().find(|name| self.values.get(*name) == Some(actual)) {
                    return Value::String(format!("<{name}>"));
                }
                let wanted = expected.and_then(Value::as_object);
                let member = |(name, value): (&String, &Value)| {
                    let expected = wanted.and_then(|wanted| wanted.get(name));
                    (name.clone(), self.merge(expected, value))
                };
                Value::Object(got.iter().map(member).collect::<Map<_, _>>())
            }
            (_, Value::Array(got)) => {
                let wanted = expected.and_then(Value::as_array);
                let item = |(index, value)| self.merge(wanted.and_then(|wanted| wanted.get(index)), value);
                Value::Array(got.iter().enumerate().map(item).collect())
            }
            _ => actual.clone(),
        }
    }
}

/// Returns the name in `<name>`.
fn placeholder(text: &str) -> Option<&str> {
    text.strip_prefix('<')?.strip_suffix('>').filter(|name| is_name(name))
}

/// Returns whether a text matches a pattern with `<any>`.
fn fits_text(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split(ANY_TEXT);
    let Some(rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    let Some(mut rest) = rest.strip_suffix(last) else { return false };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// Runs with one more segment in the JSON pointer.
fn within<T>(place: &mut String, step: &str, run: impl FnOnce(&mut String) -> T) -> T {
    let length = place.len();
    place.push('/');
    place.push_str(&step.replace('~', "~0").replace('/', "~1"));
    let done = run(place);
    place.truncate(length);
    done
}

fn root(place: &str) -> &str {
    if place.is_empty() { "the message" } else { place }
}

/// Returns a value, truncated for a report.
pub(super) fn short(value: &Value) -> String {
    const MAX: usize = 160;
    let text = value.to_string();
    match text.char_indices().nth(MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(expected: &Value, actual: &Value, differences: &[&str]) {
        let mut names = Names::default();
        names.define("meta", &json!({"k": 1})).unwrap();
        assert_eq!(names.compare(expected, actual), differences, "{expected} {actual}");
    }

    #[test]
    fn reports_differences_with_their_json_pointer() {
        check(&json!({"a": 1, "b": [1, 2]}), &json!({"b": [1, 2], "a": 1}), &[]);
        check(&json!({"a": 1}), &json!({"a": 1.0}), &["/a: expected 1, got 1.0"]);
        check(&json!({"a/b": {"c": 1}}), &json!({"a/b": {}}), &["/a~1b/c: missing, expected 1"]);
        check(&json!({}), &json!({"x": null}), &["/x: not expected, got null"]);
        check(&json!([1]), &json!([1, 2]), &["the message: expected 1 items, got 2"]);
        check(&json!({"m": "<meta>"}), &json!({"m": {"k": 1}}), &[]);
        check(&json!({"m": "<meta>"}), &json!({"m": {"k": 2}}), &["/m: expected \"<meta>\", got {\"k\":2}"]);
        check(&json!(["<x>", "<x>"]), &json!([7, 7]), &[]);
        check(&json!(["<x>", "<x>"]), &json!([7, 8]), &["/1: expected \"<x>\", got 8"]);
        check(&json!({"a": "<any>"}), &json!({}), &["/a: missing, expected \"<any>\""]);
    }

    #[test]
    fn matches_any_text_within_a_string() {
        for (pattern, text, fits) in [
            ("<any>", "", true),
            ("a<any>", "abc", true),
            ("a<any>c", "ac", true),
            ("a<any>b<any>c", "a-b-c", true),
            ("a<any>b<any>c", "a-c", false),
            ("ab<any>ba", "aba", false),
            ("abc", "abcd", false),
            ("<any>b", "abc", false),
        ] {
            assert_eq!(fits_text(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn a_failed_comparison_assigns_no_names() {
        let mut names = Names::default();
        assert!(!names.compare(&json!(["<x>", 1]), &json!([5, 2])).is_empty());
        assert!(names.filled(&json!("<x>")).is_err());
        assert!(names.compare(&json!(["<x>", 1]), &json!([5, 1])).is_empty());
        assert_eq!(names.filled(&json!({"a": ["<x>"]})), Ok(json!({"a": [5]})));
    }

    #[test]
    fn merge_keeps_matching_placeholders_and_inserts_names() {
        let mut names = Names::default();
        names.define("meta", &json!({"k": 1})).unwrap();
        let expected = json!({"a": "<any>", "b": "ref <any>", "c": "old <any>", "list": ["<any>"]});
        let actual = json!({"b": "ref 7", "a": 1, "c": "new 7", "_meta": {"k": 1}, "list": [1, 2]});
        let merged = json!({"b": "ref <any>", "a": "<any>", "c": "new 7", "_meta": "<meta>", "list": ["<any>", 2]});
        assert_eq!(names.merge(Some(&expected), &actual), merged);
    }
}
