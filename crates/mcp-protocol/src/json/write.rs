//! Writes JSON whose bulk is text: what must be escaped is looked for many bytes at a time, and what lies between is
//! copied in runs. The bytes are those that `serde_json` writes.

use serde::Serialize;
use serde_json::Value;

/// The bytes that are checked in one step, without branches.
const STEP: usize = 64;
/// The bytes that are searched before they are copied, so that they are read from memory once.
const BLOCK: usize = 16 << 10;
/// Below this a copy is cheaper than one more piece to send.
const APART: usize = 32 << 10;

/// Appends a text as a JSON string. Returns where in `out` the text begins, behind its quote.
pub(crate) fn text(out: &mut Vec<u8>, text: &str) -> usize {
    // Most texts have some line breaks, each of which takes a byte more.
    out.reserve(text.len() + text.len() / 32 + 2);
    out.push(b'"');
    let start = out.len();
    for block in text.as_bytes().chunks(BLOCK) {
        let mut rest = block;
        while let Some(plain) = plain_run(rest) {
            out.extend_from_slice(&rest[..plain]);
            escape(out, rest[plain]);
            rest = &rest[plain + 1..];
        }
        out.extend_from_slice(rest);
    }
    out.push(b'"');
    start
}

/// Whether a text is large, and the same in JSON, so that it need not be copied to be sent.
pub(crate) fn stands_apart(text: &str) -> bool {
    text.len() >= APART && plain_run(text.as_bytes()).is_none()
}

/// Appends a value.
pub(crate) fn value(out: &mut Vec<u8>, value: &Value) -> Result<(), serde_json::Error> {
    match value {
        Value::String(string) => {
            text(out, string);
        }
        Value::Array(values) => {
            out.push(b'[');
            for (n, one) in values.iter().enumerate() {
                separate(out, n);
                self::value(out, one)?;
            }
            out.push(b']');
        }
        Value::Object(members) => {
            out.push(b'{');
            for (n, (key, one)) in members.iter().enumerate() {
                separate(out, n);
                text(out, key);
                out.push(b':');
                self::value(out, one)?;
            }
            out.push(b'}');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => serde_json::to_writer(out, value)?,
    }
    Ok(())
}

/// Appends `,"key":value` when there is a value. The key is written as it is.
pub(crate) fn member<T: Serialize>(out: &mut Vec<u8>, key: &str, value: Option<&T>) -> Result<(), serde_json::Error> {
    let Some(value) = value else { return Ok(()) };
    opening(out, key);
    serde_json::to_writer(out, value)
}

/// Appends `,"key":`, with the key as it is.
pub(crate) fn opening(out: &mut Vec<u8>, key: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
}

/// Appends a comma before all but the first of several.
pub(crate) fn separate(out: &mut Vec<u8>, n: usize) {
    if n > 0 {
        out.push(b',');
    }
}

fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Returns the number of bytes before the first one that must be escaped; `None` when no byte must be.
fn plain_run(bytes: &[u8]) -> Option<usize> {
    let mut steps = bytes.chunks_exact(STEP);
    let mut at = 0;
    for step in &mut steps {
        // No early end within a step: this is what the compiler turns into vector instructions.
        if step.iter().fold(false, |found, byte| found | is_special(*byte)) {
            break;
        }
        at += STEP;
    }
    bytes[at..].iter().position(|byte| is_special(*byte)).map(|more| at + more)
}

fn escape(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        _ => {
            out.extend_from_slice(b"\\u00");
            out.push(HEX[usize::from(byte >> 4)]);
            out.push(HEX[usize::from(byte & 15)]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(given: &str) {
        let mut out = Vec::new();
        text(&mut out, given);
        assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string(given).unwrap());
    }

    #[test]
    fn strings_are_written_as_serde_json_writes_them() {
        for code in 0..0x180 {
            let one = char::from_u32(code).unwrap();
            check(&one.to_string());
            check(&format!("{}{one}{}", "a".repeat(STEP - 1), "b".repeat(STEP)));
        }
        for length in [0, 1, STEP - 1, STEP, STEP + 1, 3 * STEP, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + STEP] {
            let plain = "x".repeat(length);
            check(&plain);
            for special in ["\"", "\\", "\n", "\u{1}", "\u{7f}", "é", "\u{2028}", "🦀", "\"\\\n"] {
                check(&format!("{plain}{special}"));
                check(&format!("{special}{plain}"));
                check(&format!("{plain}{special}{plain}{special}"));
            }
        }
        check(&"\"".repeat(1000));
        check(&"🦀".repeat(BLOCK));
    }

    #[test]
    fn the_buffer_of_a_text_has_little_spare_space() {
        let mut out = Vec::new();
        text(&mut out, &"x".repeat(1 << 20));
        assert!(out.capacity() < out.len() + out.len() / 16, "{}", out.capacity());
    }

    #[test]
    fn values_are_written_as_serde_json_writes_them() {
        for given in [
            json!(null),
            json!([]),
            json!({}),
            json!([1, -1, 1.5, 1e300, u64::MAX, true, false, null, "a\"b"]),
            json!({ "b": { "a\n": [[], {}, [{ "x": 1 }]] }, "": "" }),
        ] {
            let mut out = Vec::new();
            value(&mut out, &given).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), given.to_string());
        }
    }
}
