//! The cryptography of all providers, which is that of ring.

use std::{sync::OnceLock, time::Duration};

use ring::{
    hmac,
    rand::{SecureRandom as _, SystemRandom},
};

use crate::authenticator::Rejection;

/// Fills a buffer with random bytes. `false` if the system has none.
pub(crate) fn random(bytes: &mut [u8]) -> bool {
    SystemRandom::new().fill(bytes).is_ok()
}

/// A keyed digest of credentials, by which tables and caches find them. The time of a comparison shows nothing about the
/// credentials, because an attacker does not know the key.
pub(crate) type Digest = [u8; 32];

/// Returns the digest of some parts under the key of this process.
///
/// # Errors
/// [`Rejection::Unavailable`] if the system has no random numbers for the key.
pub(crate) fn digest(parts: &[&[u8]]) -> Result<Digest, Rejection> {
    static KEY: OnceLock<hmac::Key> = OnceLock::new();
    let key = match KEY.get() {
        Some(key) => key,
        None => {
            let key = random_key(random)?;
            KEY.get_or_init(|| key)
        }
    };
    Ok(keyed_digest(key, parts))
}

fn random_key(random: impl FnOnce(&mut [u8]) -> bool) -> Result<hmac::Key, Rejection> {
    let mut bytes = [0; 32];
    if !random(&mut bytes) {
        tracing::error!("the system has no random numbers, so credentials cannot be checked");
        return Err(Rejection::Unavailable { retry_after: Duration::from_secs(5) });
    }
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}

/// Returns the digest of some parts under a key. The length of each part counts, so that no two lists are confused.
pub(crate) fn keyed_digest(key: &hmac::Key, parts: &[&[u8]]) -> Digest {
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
        assert_eq!(digest(&[b"a", b"b"]).unwrap(), digest(&[b"a", b"b"]).unwrap());
        assert_ne!(digest(&[b"a", b"b"]), digest(&[b"ab"]));
        assert_ne!(digest(&[b"a", b"b"]), digest(&[b"ab", b""]));
    }

    #[test]
    fn a_key_without_random_numbers_is_an_outage() {
        let fill = |bytes: &mut [u8]| {
            bytes.fill(7);
            true
        };
        assert!(random_key(fill).is_ok());
        assert!(matches!(random_key(|_| false), Err(Rejection::Unavailable { .. })));
    }

    #[test]
    fn byte_strings_are_compared() {
        for (one, other, expected) in [("a", "a", true), ("a", "b", false), ("a", "ab", false), ("", "", true)] {
            assert_eq!(is_equal(one.as_bytes(), other.as_bytes()), expected, "{one} {other}");
        }
    }
}
