//! YAML 1.2 (core schema) as JSON, for front matter.
//!
//! Values without a JSON form are errors: keys that are not texts, infinite numbers, and tags. Aliases are rejected,
//! so a text cannot grow when it is read.

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Number, Value};

/// Mappings and lists nest this deep at most.
const DEPTH: usize = 32;

/// The one document in a text; null when it is empty.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    let mut reader = Reader { events: Parser::new_from_str(text), line: 1 };
    let mut document = None;
    loop {
        match reader.next()? {
            Event::DocumentStart(_) if document.is_some() => return Err(reader.fault("a second document")),
            Event::DocumentStart(_) => {
                let first = reader.next()?;
                document = Some(reader.value(first, 0)?);
            }
            Event::StreamEnd => return Ok(document.unwrap_or_default()),
            _ => {}
        }
    }
}

struct Reader<'a> {
    events: Parser<'a, saphyr_parser::StrInput<'a>>,
    line: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<Event<'a>, String> {
        match self.events.next() {
            Some(Ok((event, span))) => {
                self.line = span.start.line();
                Ok(event)
            }
            Some(Err(error)) => {
                self.line = error.marker().line();
                Err(self.fault(error.info()))
            }
            None => Ok(Event::StreamEnd),
        }
    }

    fn fault(&self, what: &str) -> String {
        format!("{what} (line {} of it)", self.line)
    }

    fn value(&mut self, event: Event<'a>, depth: usize) -> Result<Value, String> {
        if depth > DEPTH {
            return Err(self.fault("it nests too deeply"));
        }
        let tag = match &event {
            Event::Scalar(.., tag) | Event::SequenceStart(_, tag) | Event::MappingStart(_, tag) => tag.is_some(),
            _ => false,
        };
        if tag {
            return Err(self.fault("tags (`!…`) are not supported"));
        }
        match event {
            Event::Scalar(text, ScalarStyle::Plain, ..) => plain(&text).ok_or_else(|| self.fault("no finite number")),
            Event::Scalar(text, ..) => Ok(Value::String(text.into_owned())),
            Event::SequenceStart(..) => self.sequence(depth),
            Event::MappingStart(..) => self.mapping(depth),
            Event::Alias(_) => Err(self.fault("aliases (`*…`) are not supported")),
            _ => Err(self.fault("a value is missing")),
        }
    }

    fn sequence(&mut self, depth: usize) -> Result<Value, String> {
        let mut values = Vec::new();
        loop {
            match self.next()? {
                Event::SequenceEnd => return Ok(Value::Array(values)),
                event => values.push(self.value(event, depth + 1)?),
            }
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Value, String> {
        let mut members = Map::new();
        loop {
            let key = match self.next()? {
                Event::MappingEnd => return Ok(Value::Object(members)),
                Event::Scalar(key, _, _, None) => key.into_owned(),
                _ => return Err(self.fault("a key that is no text")),
            };
            let event = self.next()?;
            let value = self.value(event, depth + 1)?;
            if members.insert(key.clone(), value).is_some() {
                return Err(self.fault(&format!("`{key}` is given twice")));
            }
        }
    }
}

/// A scalar without quotes (YAML 1.2.2, §10.3.2); nothing for a number that JSON cannot hold.
fn plain(text: &str) -> Option<Value> {
    let value = match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => {
            let number = if is_infinite(text) { return None } else { number(text) };
            number.map_or_else(|| Value::String(text.to_owned()), Value::Number)
        }
    };
    Some(value)
}

fn is_infinite(text: &str) -> bool {
    let word = text.strip_prefix(['+', '-']).unwrap_or(text);
    matches!(word, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN")
}

fn number(text: &str) -> Option<Number> {
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix).filter(|d| d.chars().all(|c| c.is_digit(radix))) {
            return u64::from_str_radix(digits, radix).ok().map(Number::from);
        }
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_float = digits.strip_prefix('.').unwrap_or(digits).starts_with(|c: char| c.is_ascii_digit())
        && digits.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'));
    if !is_float {
        return None;
    }
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        if let Ok(whole) = unsigned.parse::<i64>() {
            return Some(whole.into());
        }
        if let Ok(whole) = unsigned.parse::<u64>() {
            return Some(whole.into());
        }
    }
    unsigned.parse::<f64>().ok().and_then(Number::from_f64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_documents_are_converted_to_json() {
        for (text, expected) in [
            ("", json!(null)),
            ("# nothing\n", json!(null)),
            ("a: b", json!({ "a": "b" })),
            ("a: 'b'\nc: \"d\\n\"", json!({ "a": "b", "c": "d\n" })),
            ("a: |\n  x\n  y\nb: >\n  x\n  y\n", json!({ "a": "x\ny\n", "b": "x y\n" })),
            ("a: [1, -2, +3, 0x1f, 0o17, 1.5, 1e3]", json!({ "a": [1, -2, 3, 31, 15, 1.5, 1000.0] })),
            ("a: 18446744073709551615", json!({ "a": u64::MAX })),
            ("a: [1.2.3, 2026-01-01, 1-2, .]", json!({ "a": ["1.2.3", "2026-01-01", "1-2", "."] })),
            ("a: [0x, 0xg, yes, on]", json!({ "a": ["0x", "0xg", "yes", "on"] })),
            ("a: [~, null, true, False]", json!({ "a": [null, null, true, false] })),
            ("a:\n- b: 1\n  c: 2\n- d", json!({ "a": [{ "b": 1, "c": 2 }, "d"] })),
            ("1: x\ntrue: y", json!({ "1": "x", "true": "y" })),
            ("a:", json!({ "a": null })),
            ("z: 1\na: 2", json!({ "z": 1, "a": 2 })),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn values_without_a_json_form_are_errors() {
        let deep = "[".repeat(1000);
        for (text, reason) in [
            ("a: .inf", "no finite number"),
            ("a: -.INF", "no finite number"),
            ("a: .nan", "no finite number"),
            ("a: 1\na: 2", "`a` is given twice (line 2"),
            ("a: &x 1\nb: *x", "aliases"),
            ("a: !!str 1", "tags"),
            ("a: !custom {}", "tags"),
            ("[a]: 1", "a key that is no text"),
            ("--- 1\n--- 2", "a second document"),
            ("a: b: c", "line 1"),
            ("\"a", "line"),
            (&deep, ""),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(reason), "{text:?}: {error}");
        }
        let list = |depth| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let mapping = |depth| format!("{}1{}", "{a: ".repeat(depth), "}".repeat(depth));
        for (fits, exceeds) in [(list(DEPTH), list(DEPTH + 1)), (mapping(DEPTH), mapping(DEPTH + 1))] {
            assert!(parse(&fits).is_ok(), "{fits}");
            assert!(parse(&exceeds).expect_err(&exceeds).contains("nests too deeply"), "{exceeds}");
        }
    }
}
