//! Names of tools and keys that every provider accepts, independent of all other names.

use sha2::{Digest, Sha256};

use crate::rules::CharRule;

/// The length of the hash in a name, with its mark `_0`.
const HASH_LEN: usize = 12;
/// The greatest length of the server in a hashed name.
const SERVER_LEN: usize = 20;
/// The greatest length of a name.
const NAME_LEN: usize = 64;

/// Returns the name of a tool of a server for models: `server__tool`, or a form with a hash.
///
/// The name depends on the server and the tool only, so it stays the same when other servers or tools appear. Two
/// different pairs have different names, except with the probability of a collision of 50 bits. Every provider accepts the
/// name: a letter, then letters, digits, `_` and `-`, at most 64 characters.
///
/// ```
/// use mcp_tool_format::qualified_name;
///
/// assert_eq!(qualified_name("github", "get_issue"), "github__get_issue");
/// assert_eq!(qualified_name("files.local", "read file"), "files_local__read_file_0ce5xkyvmia");
/// ```
#[must_use]
pub fn qualified_name(server: &str, tool: &str) -> String {
    let plain = format!("{server}__{tool}");
    if is_plain_server(server) && is_plain_tool(tool) && plain.len() <= NAME_LEN && !ends_in_hash(&plain) {
        return plain;
    }
    let server_part = cut(&fold(server, "_-"), SERVER_LEN);
    let tool_part = cut(&fold(tool, "_-"), NAME_LEN - HASH_LEN - 2 - server_part.len());
    format!("{server_part}__{tool_part}_0{}", hash(&[server, tool]))
}

/// Returns a name that every provider accepts: the same name, or a form with a hash.
///
/// The name of a safe name is the name itself, so a stored history can be read and written again.
///
/// ```
/// use mcp_tool_format::safe_name;
///
/// assert_eq!(safe_name("get_issue"), "get_issue");
/// assert_eq!(safe_name("issues.get"), "issues_get_0w7awjsn4nl");
/// ```
#[must_use]
pub fn safe_name(name: &str) -> String {
    let rule = CharRule::new(NAME_LEN, "_", "_-");
    if rule.accepts(name) { name.to_owned() } else { safe(name, &rule) }
}

/// Returns the name if the rule accepts it and it does not look like a hashed name, else a form with a hash.
pub(crate) fn safe(name: &str, rule: &CharRule) -> String {
    if rule.accepts(name) && !ends_in_hash(name) {
        return name.to_owned();
    }
    let folded = cut(&fold(name, rule.rest), rule.max - HASH_LEN);
    format!("{folded}_0{}", hash(&[name]))
}

/// Whether a server can be the first part of a plain name: `^[A-Za-z][A-Za-z0-9-]*(_[A-Za-z0-9-]+)*$`.
fn is_plain_server(server: &str) -> bool {
    server.starts_with(|c: char| c.is_ascii_alphabetic())
        && server
            .split('_')
            .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'))
}

/// Whether a tool can be the second part of a plain name: `^[A-Za-z0-9-][A-Za-z0-9_-]*$`.
fn is_plain_tool(tool: &str) -> bool {
    !tool.is_empty()
        && !tool.starts_with('_')
        && tool.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

/// Whether a name ends as a hashed name does: `_0` and 10 of `[a-z2-7]`.
fn ends_in_hash(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.len() >= HASH_LEN
        && bytes[bytes.len() - HASH_LEN..].starts_with(b"_0")
        && bytes[bytes.len() - 10..].iter().all(|b| matches!(b, b'a'..=b'z' | b'2'..=b'7'))
}

/// Replaces each character that is not a letter, a digit or in `others` by `_`. The first character is a letter.
fn fold(part: &str, others: &str) -> String {
    // A name longer than the result adds nothing but cost.
    let mut folded: String = part
        .chars()
        .take(NAME_LEN)
        .map(|c| if c.is_ascii_alphanumeric() || others.contains(c) { c } else { '_' })
        .collect();
    if folded.is_empty() {
        return "x".to_owned();
    }
    if !folded.starts_with(|c: char| c.is_ascii_alphabetic()) {
        folded.insert(0, 's');
    }
    folded
}

fn cut(text: &str, max: usize) -> String {
    text.chars().take(max).collect()
}

/// Returns 50 bits of the SHA-256 of the parts, in base32.
fn hash(parts: &[&str]) -> String {
    base32(&digest(parts), 10)
}

/// Returns the SHA-256 of the parts, with a zero byte between two parts.
pub(crate) fn digest(parts: &[&str]) -> Vec<u8> {
    let mut hasher = Sha256::new();
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            hasher.update([0]);
        }
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_vec()
}

/// Returns the first `len` characters of the base32 form in lower case (RFC 4648 §6).
pub(crate) fn base32(bytes: &[u8], len: usize) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let (mut buffer, mut bits, mut out) = (0u32, 0u32, String::with_capacity(len));
    for &byte in bytes {
        buffer = (buffer << 8) | u32::from(byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            if out.len() == len {
                return out;
            }
            out.push(char::from(ALPHABET[((buffer >> bits) & 31) as usize]));
        }
        buffer &= (1 << bits) - 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base32_is_that_of_rfc_4648() {
        for (bytes, text) in [("f", "my"), ("foo", "mzxw6"), ("foobar", "mzxw6ytboi")] {
            // The last group of a text is written only when it is complete.
            assert!(text.starts_with(&base32(bytes.as_bytes(), 10)), "{bytes}");
        }
    }

    #[test]
    fn names_that_look_hashed_are_hashed() {
        assert!(ends_in_hash("a_0abcdefghij"));
        assert!(!ends_in_hash("github__get_discussion"));
        assert_ne!(qualified_name("s", "a_0abcdefghij"), "s__a_0abcdefghij");
        assert_ne!(safe("a_0abcdefghij", &CharRule::new(64, "_", "_")), "a_0abcdefghij");
    }

    #[test]
    fn a_safe_name_and_a_qualified_name_are_safe() {
        for (server, tool) in [("github", "get_issue"), ("files.local", "read file"), ("ü", ""), ("s", "a_0abcdefghij")]
        {
            let name = qualified_name(server, tool);
            assert_eq!(safe_name(&name), name);
            assert_eq!(safe_name(&safe_name(tool)), safe_name(tool));
        }
    }
}
