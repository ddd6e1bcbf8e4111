//! Texts: cuts at sentences, JSON pointers, JSON in descriptions.

use mcp_protocol::start_of;
use serde_json::Value;

/// Cuts a text to a number of characters, after a sentence or a word when possible. Returns whether it was cut.
pub(crate) fn shorten(text: &mut String, max: usize) -> bool {
    // Bytes bound characters from above.
    if text.len() <= max || text.chars().count() <= max {
        return false;
    }
    let keep = max.saturating_sub(1);
    let end = text.char_indices().nth(keep).map_or(text.len(), |(at, _)| at);
    let head = &text[..end];
    let sentence = head.rfind(". ").map(|at| at + 1).or_else(|| head.rfind('\n')).filter(|at| *at * 2 > end);
    let at = sentence.or_else(|| head.rfind(' ')).filter(|at| *at * 2 > end).unwrap_or(end);
    text.truncate(at);
    text.push('…');
    true
}

/// The greatest length of one step of a JSON pointer, in bytes. A longer key is cut, since each diagnostic repeats it.
const MAX_STEP: usize = 200;

/// Adds a step to a JSON pointer, with the separator (RFC 6901 §3).
pub(crate) fn push_step(pointer: &mut String, step: &str) {
    pointer.push('/');
    let start = start_of(step, MAX_STEP);
    for c in start.chars() {
        match c {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            c => pointer.push(c),
        }
    }
    if start.len() < step.len() {
        pointer.push('…');
    }
}

/// Returns the JSON pointer of a property.
pub(crate) fn property(pointer: &str, key: &str) -> String {
    let mut pointer = format!("{pointer}/properties");
    push_step(&mut pointer, key);
    pointer
}

/// Returns the start of a text.
pub(crate) fn excerpt(text: &str, max: usize) -> String {
    // A character has at most 4 bytes, so this part has more than `max` characters if the text has.
    let mut head = start_of(text, (max + 1) * 4).to_owned();
    shorten(&mut head, max);
    head
}

/// Returns a value as JSON text of at most `max` characters. The cost is bounded by `max`.
pub(crate) fn json(value: &Value, max: usize) -> String {
    let mut out = String::new();
    write_json(value, &mut out, max * 4, 0);
    shorten(&mut out, max);
    out
}

fn write_json(value: &Value, out: &mut String, max: usize, depth: usize) {
    if out.len() > max || depth > 24 {
        out.push('…');
        return;
    }
    match value {
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json(item, out, max, depth + 1);
                if out.len() > max {
                    return;
                }
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (index, (key, member)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_text(key, out, max);
                out.push(':');
                write_json(member, out, max, depth + 1);
                if out.len() > max {
                    return;
                }
            }
            out.push('}');
        }
        Value::String(text) => write_text(text, out, max),
        scalar => out.push_str(&scalar.to_string()),
    }
}

fn write_text(text: &str, out: &mut String, max: usize) {
    if text.len() > max {
        out.extend(text.chars().take(max));
    } else {
        out.push_str(&Value::from(text).to_string());
    }
}

/// Returns the approximate size of a value in bytes, without recursion.
pub(crate) fn size(value: &Value) -> usize {
    let (mut open, mut size) = (vec![value], 0);
    while let Some(value) = open.pop() {
        size += 8;
        match value {
            Value::String(text) => size += text.len(),
            Value::Array(items) => open.extend(items),
            Value::Object(members) => {
                size += members.keys().map(String::len).sum::<usize>();
                open.extend(members.values());
            }
            _ => {}
        }
    }
    size
}

/// Whether a value has at most 64 levels, so that recursive functions can process it.
pub(crate) fn is_shallow(value: &Value) -> bool {
    if !value.is_array() && !value.is_object() {
        return true;
    }
    let mut level: Vec<&Value> = vec![value];
    for _ in 0..64 {
        let mut next = Vec::new();
        for value in level {
            match value {
                Value::Array(items) => next.extend(items.iter().filter(|item| item.is_array() || item.is_object())),
                Value::Object(members) => {
                    next.extend(members.values().filter(|member| member.is_array() || member.is_object()));
                }
                _ => {}
            }
        }
        if next.is_empty() {
            return true;
        }
        level = next;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_at_a_sentence_or_a_word() {
        for (text, max, expected) in [
            ("short", 10, "short"),
            ("One two. Three four five.", 16, "One two.…"),
            ("One sentence is here and another", 22, "One sentence is here…"),
            ("abcdefghij", 5, "abcd…"),
            ("äöüäöüäöü", 5, "äöüä…"),
        ] {
            let mut cut = text.to_owned();
            assert_eq!(shorten(&mut cut, max), cut != text);
            assert_eq!(cut, expected);
            assert!(cut.chars().count() <= max);
        }
    }
}
