//! The cryptography of all providers, which is that of ring.

#[cfg(feature = "oauth")]
use ring::hmac;
use ring::{
    digest,
    rand::{SecureRandom as _, SystemRandom},
};

/// A SHA-256 of credentials, by which tables and caches find them. Memory then has no passwords and no keys. Other credentials with
/// the same digest are not known.
pub(crate) type Digest = [u8; 32];

/// Fills a buffer with random bytes. `false` if the system has none.
pub(crate) fn random(bytes: &mut [u8]) -> bool {
    SystemRandom::new().fill(bytes).is_ok()
}

/// Returns the SHA-256 of a byte string.
pub(crate) fn sha256(bytes: &[u8]) -> Digest {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(bytes);
    finish(context)
}

/// Returns the SHA-256 of some parts. The length of each part counts, so that no two lists are confused.
pub(crate) fn digest(parts: &[&[u8]]) -> Digest {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    finish(context)
}

fn finish(context: digest::Context) -> Digest {
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

/// Returns the digest of some parts under a key. The length of each part counts, so that no two lists are confused.
#[cfg(feature = "oauth")]
pub(crate) fn keyed_digest(key: &hmac::Key, parts: &[&[u8]]) -> [u8; 32] {
    let mut context = hmac::Context::with_key(key);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let tag = context.sign();
    let mut digest = [0; 32];
    digest.copy_from_slice(tag.as_ref());
    digest
}

/// Returns the SHA-256 that a text has in 64 hexadecimal digits.
pub(crate) fn sha256_of_hexadecimal(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    // `from_str_radix` alone accepts a sign.
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * place..2 * place + 2)?, 16).ok()?;
    }
    Some(bytes)
}

/// Compares two byte strings in a time that depends on their lengths only.
pub(crate) fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let difference = one.iter().zip(other).fold(0, |all, (one, other)| all | (one ^ other));
    one.len() == other.len() && std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_depend_on_each_part() {
        let expected = digest(&[b"a", b"b"]);
        assert_eq!(digest(&[b"a", b"b"]), expected);
        for other in [&[&b"ab"[..]][..], &[b"ab", b""], &[b"", b"ab"], &[b"a", b"c"], &[b"b", b"b"], &[b"a"]] {
            assert_ne!(digest(other), expected, "{other:?}");
        }
    }

    #[test]
    fn byte_strings_are_compared() {
        for (one, other, expected) in [("a", "a", true), ("a", "b", false), ("a", "ab", false), ("", "", true)] {
            assert_eq!(is_equal(one.as_bytes(), other.as_bytes()), expected, "{one} {other}");
        }
    }
}
