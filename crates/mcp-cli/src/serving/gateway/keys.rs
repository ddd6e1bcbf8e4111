//! The keys of request states, which several gateways share.

use std::path::Path;

use mcp_server::inputs::StateKeys;

use crate::{failure::Failure, screen::warn, serving::auth::read_text, text::line};

/// Reads the keys of a file: one in each line, the newest first.
///
/// # Errors
/// If the file has no key, or a line is not a key. The error does not contain the line.
pub(super) fn read(path: &Path) -> Result<StateKeys, Failure> {
    let failed = |text: String| Failure::usage(line(&format!("{}: {text}", path.display())));
    let text = read_text(path).map_err(failed)?;
    if is_open(path) {
        let path = path.display();
        warn(&line(&format!(
            "{path}: other users of this machine can read the keys: permit the file to its owner alone (`chmod 600`)"
        )));
    }
    let at_line = |at: usize, text: &str| Failure::usage(line(&format!("{}:{at}: {text}", path.display())));
    let mut keys = Vec::new();
    for (at, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
        let expected = "a key is 64 hexadecimal digits, for example the output of `openssl rand -hex 32`";
        keys.push(key(text.trim()).ok_or_else(|| at_line(at + 1, expected))?);
    }
    if keys.is_empty() {
        return Err(failed("the file has no key".to_owned()));
    }
    Ok(StateKeys::new(keys))
}

/// Whether each user of the machine can read a file.
#[cfg(unix)]
fn is_open(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;

    std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o004 != 0)
}

/// The modes of Unix do not exist here.
#[cfg(not(unix))]
fn is_open(_: &Path) -> bool {
    false
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

    #[cfg(unix)]
    #[test]
    fn a_file_that_each_user_can_read_is_open() {
        use std::{fs, os::unix::fs::PermissionsExt as _};

        let path = std::env::temp_dir().join(format!("mcp-keys-{}", std::process::id()));
        fs::write(&path, "").unwrap();
        for (mode, expected) in [(0o600, false), (0o640, false), (0o644, true)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_open(&path), expected, "{mode:o}");
        }
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_key_is_64_hexadecimal_digits() {
        assert_eq!(key(&"0f".repeat(32)), Some([15; 32]));
        for invalid in ["", "0f", &"0g".repeat(32), &"+f".repeat(32), &"0f".repeat(33)] {
            assert_eq!(key(invalid), None, "{invalid}");
        }
    }
}
