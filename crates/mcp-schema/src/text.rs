//! Short renderings of values, so that messages stay small.

use std::{borrow::Cow, io};

use serde_json::Value;

/// Characters of a value that a message quotes.
const QUOTED: usize = 60;

/// A value as compact JSON, cut after about 60 characters. Costs as much as what it prints.
pub(crate) fn quote(value: &Value) -> String {
    if let Value::String(text) = value {
        return quote_str(text);
    }
    let mut out = Capped(Vec::with_capacity(QUOTED));
    let whole = serde_json::to_writer(&mut out, value).is_ok();
    let text = String::from_utf8_lossy(&out.0);
    // A character that the cut split is dropped rather than shown as a replacement.
    let text = text.trim_end_matches('\u{fffd}');
    if whole { text.to_owned() } else { format!("{text}…") }
}

/// A string in JSON quotes, cut after about 60 characters.
pub(crate) fn quote_str(text: &str) -> String {
    Value::from(shorten(text, QUOTED)).to_string()
}

/// A text cut after `limit` characters, with an ellipsis in place of the rest.
pub(crate) fn shorten(text: &str, limit: usize) -> Cow<'_, str> {
    match text.char_indices().nth(limit) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
    }
}

/// `"a", "b", "c" and 4 more`: as many as fit in a message.
pub(crate) fn list<'a>(items: impl ExactSizeIterator<Item = Cow<'a, str>>) -> String {
    const SHOWN: usize = 12;
    const LENGTH: usize = 240;
    let total = items.len();
    let mut out = String::new();
    for (index, item) in items.enumerate() {
        if index == SHOWN || out.len() > LENGTH {
            out.push_str(&format!(" and {} more", total - index));
            break;
        }
        if index > 0 {
            out.push_str(", ");
        }
        out.push_str(&item);
    }
    out
}

/// `1 item`, `2 items`, `2 properties`.
pub(crate) fn plural(count: u64, noun: &str) -> String {
    match (count, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        _ => format!("{count} {noun}s"),
    }
}

/// Takes the first bytes and fails on the next, so that the serializer stops there.
struct Capped(Vec<u8>);

impl io::Write for Capped {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let room = QUOTED.saturating_sub(self.0.len()).min(buf.len());
        if room == 0 && !buf.is_empty() {
            return Err(io::Error::other("enough"));
        }
        self.0.extend_from_slice(&buf[..room]);
        Ok(room)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn long_quotes_are_shortened() {
        assert_eq!(quote(&json!("hi \"x\"")), r#""hi \"x\"""#);
        assert_eq!(quote(&json!({"a": [1, null]})), r#"{"a":[1,null]}"#);
        assert!(quote(&json!("x".repeat(1 << 20))).chars().count() <= 63);
        assert!(quote(&json!(vec!["é"; 1 << 16])).chars().count() <= 61);
        assert!(quote(&json!(vec![0; 1 << 16])).ends_with('…'));
    }

    #[test]
    fn long_lists_are_shortened() {
        let names: Vec<_> = (0..100).map(|n| n.to_string()).collect();
        assert_eq!(list(names[..3].iter().map(Cow::from)), "0, 1, 2");
        assert!(list(names.iter().map(Cow::from)).ends_with("11 and 88 more"));
        for (length, end) in [(119, "x, y"), (120, "x and 1 more"), (500, "x and 2 more")] {
            let long = "x".repeat(length);
            assert!(list([&*long, &long[..119], "y"].into_iter().map(Cow::from)).ends_with(end), "{length}");
        }
    }
}
