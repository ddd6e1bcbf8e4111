//! The fragment of a reference: percent-encoded text (RFC 3986 §3.5) that names a schema.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::text::quote_str;

/// Decodes a fragment. The error is the rest of a sentence about the reference.
pub(crate) fn decode(fragment: &str) -> Result<Cow<'_, str>, String> {
    for (at, _) in fragment.match_indices('%') {
        let digits = fragment.as_bytes().get(at + 1..at + 3);
        if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            let triplet: String = fragment[at..].chars().take(3).collect();
            return Err(format!("contains {}, which is not a percent-encoded byte", quote_str(&triplet)));
        }
    }
    percent_decode_str(fragment).decode_utf8().map_err(|_| "is not UTF-8 when it is percent-decoded".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_triplets_decode() {
        let broken = |triplet: &str| Err(format!("contains \"{triplet}\", which is not a percent-encoded byte"));
        for (fragment, expected) in [
            ("", Ok("")),
            ("/$defs/a%20b", Ok("/$defs/a b")),
            ("%c3%A9é", Ok("éé")),
            ("/a%", broken("%")),
            ("/a%4", broken("%4")),
            ("%41%zz", broken("%zz")),
            ("%+5", broken("%+5")),
            ("%éa", broken("%éa")),
            ("%ff", Err("is not UTF-8 when it is percent-decoded".to_owned())),
        ] {
            assert_eq!(decode(fragment), expected.map(Cow::Borrowed), "{fragment}");
        }
    }
}
