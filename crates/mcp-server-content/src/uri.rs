//! Paths of files in URIs.

/// Percent-encodes a path for a URI, except for slashes and the characters that RFC 3986 allows in a path.
pub(crate) fn encode_path(path: &str) -> String {
    let mut encoded = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encode_path_encodes_what_a_uri_path_does_not_allow() {
        for (path, expected) in [
            ("a/b.txt", "a/b.txt"),
            ("a b", "a%20b"),
            ("100%", "100%25"),
            ("why?#1", "why%3F%231"),
            ("é", "%C3%A9"),
            ("{x}", "%7Bx%7D"),
        ] {
            assert_eq!(encode_path(path), expected);
        }
    }
}
