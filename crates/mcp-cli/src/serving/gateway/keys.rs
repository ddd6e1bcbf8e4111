//! The keys of request states, which several gateways share.

use std::path::Path;

use mcp_server::inputs::StateKeys;

use crate::{failure::Failure, serving::auth::read_text, text::line};

/// Reads the keys of a file: one in each line, the newest first.
///
/// # Errors
/// If the file has no key, or a line is not a key. The error does not contain the line.
pub(super) fn read(path: &Path) -> Result<StateKeys, Failure> {
    let failed = |text: String| Failure::usage(line(&format!("{}: {text}", path.display())));
    let text = read_text(path).map_err(failed)?;
    let mut keys = Vec::new();
    for (at, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
        let expected = "a key is 64 hexadecimal digits, for example the output of `openssl rand -hex 32`";
        keys.push(key(text.trim()).ok_or_else(|| failed(format!("line {}: {expected}", at + 1)))?);
    }
    if keys.is_empty() {
        return Err(failed("the file has no key".to_owned()));
    }
    Ok(StateKeys::new(keys))
}

fn key(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut key = [0; 32];
    for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_64_hexadecimal_digits() {
        assert_eq!(key(&"0f".repeat(32)), Some([15; 32]));
        for invalid in ["", "0f", &"0g".repeat(32), &"+f".repeat(32), &"0f".repeat(33)] {
            assert_eq!(key(invalid), None, "{invalid}");
        }
    }
}
