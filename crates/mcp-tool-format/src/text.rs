//! Texts: cuts at sentences, patterns, JSON in descriptions.

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

/// Adds a step to a JSON pointer, without the separator (RFC 6901 §3).
pub(crate) fn push_step(pointer: &mut String, step: &str) {
    if step.contains(['~', '/']) {
        pointer.push_str(&step.replace('~', "~0").replace('/', "~1"));
    } else {
        pointer.push_str(step);
    }
}

/// Returns the start of a text.
pub(crate) fn excerpt(text: &str, max: usize) -> String {
    let mut text = text.to_owned();
    shorten(&mut text, max);
    text
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
                out.push_str(&Value::String(key.clone()).to_string());
                out.push(':');
                write_json(member, out, max, depth + 1);
                if out.len() > max {
                    return;
                }
            }
            out.push('}');
        }
        Value::String(text) if text.len() > max => out.extend(text.chars().take(max)),
        scalar => out.push_str(&scalar.to_string()),
    }
}

/// Whether a value has at most 64 levels, so that recursive functions can process it.
pub(crate) fn is_shallow(value: &Value) -> bool {
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

/// Whether a pattern has no lookaround, no back reference and no Unicode class, and its groups are balanced.
pub(crate) fn is_linear_pattern(pattern: &str) -> bool {
    let mut chars = pattern.chars().peekable();
    let (mut class, mut groups) = (false, 0usize);
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                None | Some('p' | 'P' | 'k' | '1'..='9') => return false,
                Some(_) => {}
            },
            ']' if class => class = false,
            '[' if !class => {
                class = true;
                chars.next_if_eq(&'^');
                // A bracket at the first place is an ordinary character in some engines and an empty class in others.
                if chars.peek() == Some(&']') {
                    return false;
                }
            }
            '[' => return false,
            _ if class => {}
            '(' => {
                groups += 1;
                if chars.next_if_eq(&'?').is_some() {
                    match chars.next() {
                        Some(':') => {}
                        Some('<') if !matches!(chars.peek(), Some('=' | '!')) => {}
                        _ => return false,
                    }
                }
            }
            ')' => match groups.checked_sub(1) {
                Some(open) => groups = open,
                None => return false,
            },
            _ => {}
        }
    }
    !class && groups == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_a_linear_engine_refuses_are_found() {
        for (pattern, linear) in [
            ("^[a-z]+$", true),
            (r"^\d{3}\.\w+$", true),
            (r"(?:a|b)(?<name>c)", true),
            (r"[(?=]", true),
            (r"\(?=", true),
            ("^(?!x)", false),
            ("(?=x)", false),
            ("(?<=x)", false),
            ("(?<!x)", false),
            (r"(a)\1", false),
            (r"(?<n>a)\k<n>", false),
            (r"^\p{L}+$", false),
            (r"[\P{L}]", false),
            ("(a", false),
            ("a)", false),
            ("[a", false),
            ("a\\", false),
            ("[]", false),
        ] {
            assert_eq!(is_linear_pattern(pattern), linear, "{pattern}");
        }
    }

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
