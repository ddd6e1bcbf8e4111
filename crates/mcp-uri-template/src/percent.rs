//! Percent-encoding and the character classes of a URI (RFC 3986 §2).

/// Whether a byte is unreserved: `ALPHA / DIGIT / "-" / "." / "_" / "~"`.
pub(crate) fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Whether a byte is a general delimiter or a sub-delimiter.
pub(crate) fn is_reserved(byte: u8) -> bool {
    matches!(
        byte,
        b':' | b'/'
            | b'?'
            | b'#'
            | b'['
            | b']'
            | b'@'
            | b'!'
            | b'$'
            | b'&'
            | b'\''
            | b'('
            | b')'
            | b'*'
            | b'+'
            | b','
            | b';'
            | b'='
    )
}

/// Decodes `%XX` at the start of `bytes`; `None` when it is absent or malformed.
pub(crate) fn triplet(bytes: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = bytes else { return None };
    Some(hex(*high)? << 4 | hex(*low)?)
}

/// Appends `%XX`.
pub(crate) fn push_encoded(out: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.push('%');
    out.push(char::from(DIGITS[usize::from(byte >> 4)]));
    out.push(char::from(DIGITS[usize::from(byte & 15)]));
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

    #[test]
    fn every_byte_round_trips() {
        for byte in 0..=255u8 {
            let mut text = String::new();
            push_encoded(&mut text, byte);
            assert_eq!(triplet(text.as_bytes()), Some(byte));
        }
    }
}
