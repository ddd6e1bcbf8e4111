//! Opaque cursors: the list and the number of the last entry on a page. A cursor stays valid when the list changes.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};

use super::List;

/// The longest cursor that is decoded.
const MAX_LEN: usize = 1024;
const FORM: u8 = 1;

pub(super) fn encode(list: List, last_seen: u64) -> String {
    let mut bytes = [0; 11];
    bytes[0] = FORM;
    bytes[1] = list.tag();
    bytes[2..10].copy_from_slice(&last_seen.to_be_bytes());
    bytes[10] = check(&bytes[..10]);
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns the number in a cursor, or `None` if the text is not a cursor of this list.
pub(super) fn decode(list: List, cursor: &str) -> Option<u64> {
    if cursor.len() > MAX_LEN {
        return None;
    }
    let bytes: [u8; 11] = BASE64_URL_SAFE_NO_PAD.decode(cursor).ok()?.try_into().ok()?;
    let number = u64::from_be_bytes(bytes[2..10].try_into().ok()?);
    (bytes[0] == FORM && bytes[1] == list.tag() && bytes[10] == check(&bytes[..10])).then_some(number)
}

/// Detects typing errors. A client that invents a cursor receives only entries that it could list anyway.
fn check(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0x5a, |sum, byte| sum.rotate_left(3) ^ byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_round_trip_and_foreign_cursors_are_rejected() {
        for number in [0, 1, 1000, u64::MAX] {
            assert_eq!(decode(List::Tools, &encode(List::Tools, number)), Some(number));
            assert_eq!(decode(List::Prompts, &encode(List::Tools, number)), None);
        }
        for bad in ["", "x", "%%%", "AAAAAAAAAAAAAAA", &"A".repeat(2000)] {
            assert_eq!(decode(List::Tools, bad), None, "{bad}");
        }
    }
}
