//! The layout of recorded messages: one line if it fits, otherwise one member per line.
//!
//! A change of the server then changes only a few lines of the file.

use serde_json::Value;

/// The longest line, in characters.
const WIDTH: usize = 118;
/// The length of the longest mark, `<404 `.
const MARK: usize = 5;

/// Formats a message with its mark as lines of a transcript.
pub(super) fn message(mark: &str, value: &Value) -> String {
    let mut out = format!("{mark} ");
    write(value, 0, out.chars().count(), 0, &mut out);
    out
}

/// Appends a value. The line already has `used` characters, and `tail` characters follow.
fn write(value: &Value, indent: usize, used: usize, tail: usize, out: &mut String) {
    let flat = flat(value);
    let used_with = |text: &str| used + text.chars().count();
    if used_with(&flat) + tail <= WIDTH {
        out.push_str(&flat);
        return;
    }
    let (parts, [open, close]) = match value {
        Value::Object(members) => (members.iter().map(|(name, member)| (key(name), member)).collect(), ['{', '}']),
        Value::Array(items) => (items.iter().map(|item| (String::new(), item)).collect::<Vec<_>>(), ['[', ']']),
        _ => (Vec::new(), ['"', '"']),
    };
    let Some(((last_key, last), rest)) = parts.split_last() else { return out.push_str(&flat) };

    // The last member is usually the largest: the other members share a line with its beginning. The members of the
    // message itself always do.
    let mut head = open.to_string();
    for (key, part) in rest {
        head.push_str(&format!("{key}{}, ", self::flat(part)));
    }
    head.push_str(last_key);
    let inner = indent + 2;
    let fits_alone = inner + last_key.chars().count() + self::flat(last).chars().count() + tail < WIDTH;
    let is_message = indent == 0 && out.len() <= MARK;
    let can_share = (last.is_array() || last.is_object()) && (value.is_object() || rest.is_empty());
    if can_share && (is_message || !fits_alone) && used_with(&head) + 2 <= WIDTH {
        out.push_str(&head);
        write(last, indent, used_with(&head), tail + 1, out);
        // A closing bracket gets no line of its own.
        out.push(close);
        return;
    }
    out.push(open);
    for (index, (key, part)) in parts.iter().enumerate() {
        out.push_str(if index == 0 { "\n" } else { ",\n" });
        out.push_str(&" ".repeat(inner));
        out.push_str(key);
        let is_last = index + 1 == parts.len();
        write(part, inner, inner + key.chars().count(), if is_last { tail + 1 } else { 1 }, out);
    }
    out.push(close);
}

/// Returns a name with its colon.
fn key(name: &str) -> String {
    format!("{}: ", Value::from(name))
}

/// Formats a value in one line, with a blank after each comma and colon.
fn flat(value: &Value) -> String {
    let join = |parts: Vec<String>| parts.join(", ");
    match value {
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| format!("{}: {}", Value::from(name.as_str()), flat(value));
            format!("{{{}}}", join(members.iter().map(member).collect()))
        }
        Value::Array(items) => format!("[{}]", join(items.iter().map(flat).collect())),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn wraps_long_messages_without_changing_them() {
        assert_eq!(message("<", &json!({"a": [1, {"b": null}]})), r#"< {"a": [1, {"b": null}]}"#);
        let long = json!({"id": 1, "result": {"empty": {}, "texts": ["x".repeat(70), "y".repeat(70)]}});
        let text = message("<404", &long);
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("  ")), "{text}");
        let back: Value = serde_json::from_str(text.strip_prefix("<404").unwrap()).unwrap();
        assert_eq!(back, long);
    }
}
