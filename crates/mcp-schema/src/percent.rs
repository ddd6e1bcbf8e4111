//! Percent-decoding (RFC 3986 §2.1).

/// Decodes `%XX` at the start of `bytes`; `None` when it is absent or malformed.
pub(crate) fn triplet(bytes: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = bytes else { return None };
    Some(hex(*high)? << 4 | hex(*low)?)
}

/// Decodes a whole string; `None` for a malformed triplet or bytes that are not UTF-8.
pub(crate) fn decode(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte == b'%' {
            out.push(triplet(&bytes[at..])?);
            at += 3;
        } else {
            out.push(byte);
            at += 1;
        }
    }
    String::from_utf8(out).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_is_strict() {
        for (text, expected) in [
            ("", Some("")),
            ("a%20b", Some("a b")),
            ("%c3%A9", Some("é")),
            ("é", Some("é")),
            ("%", None),
            ("%4", None),
            ("%zz", None),
            ("%+1", None),
            ("%ff", None),
        ] {
            assert_eq!(decode(text).as_deref(), expected, "{text}");
        }
    }
}
