//! The digests by which tables and caches find credentials.

#![expect(deprecated, reason = "`DefaultHasher` does not name its algorithm, and `SipHasher` is SipHash-2-4")]

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher, SipHasher},
    sync::OnceLock,
    time::Duration,
};

use crate::{authenticator::Rejection, crypto};

/// A keyed digest of credentials: SipHash-2-4 under two random keys of this process.
///
/// A digest never leaves the process, and an attacker does not know the keys. Other credentials therefore have the digest of
/// an entry with a probability of 2^-128, and the time of a comparison shows nothing about the credentials. A hash without
/// a key would need the cost of SHA-256, because an attacker could search for equal digests.
pub(crate) type Digest = u128;

/// A map by digests. They are uniform and secret, so the map does not hash them again.
pub(crate) type DigestMap<E> = HashMap<Digest, E, BuildHasherDefault<Uniform>>;

/// Returns the digest of some parts under the keys of this process. The length of each part counts, so that no two lists are
/// confused.
///
/// # Errors
/// [`Rejection::Unavailable`] if the system has no random numbers for the keys.
pub(crate) fn digest(parts: &[&[u8]]) -> Result<Digest, Rejection> {
    static KEYS: OnceLock<[SipHasher; 2]> = OnceLock::new();
    let keys = match KEYS.get() {
        Some(keys) => keys,
        None => {
            let keys = random_keys(crypto::random)?;
            KEYS.get_or_init(|| keys)
        }
    };
    let [high, low] = keys.each_ref().map(|key| {
        let mut hasher = key.clone();
        for part in parts {
            hasher.write(&(part.len() as u64).to_le_bytes());
            hasher.write(part);
        }
        u128::from(hasher.finish())
    });
    Ok(high << 64 | low)
}

fn random_keys(random: impl Fn(&mut [u8]) -> bool) -> Result<[SipHasher; 2], Rejection> {
    let number = || {
        let mut bytes = [0; 8];
        random(&mut bytes).then(|| u64::from_le_bytes(bytes))
    };
    let key = || Some(SipHasher::new_with_keys(number()?, number()?));
    match (key(), key()) {
        (Some(one), Some(other)) => Ok([one, other]),
        _ => {
            tracing::error!("the system has no random numbers, so credentials cannot be checked");
            Err(Rejection::Unavailable { retry_after: Duration::from_secs(5) })
        }
    }
}

/// The hasher of a [`DigestMap`]: a half of the digest is its hash.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Uniform(u64);

impl Hasher for Uniform {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, digest: u128) {
        // The cast keeps the lower half.
        self.0 = digest as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_depend_on_each_part() {
        assert_eq!(digest(&[b"a", b"b"]).unwrap(), digest(&[b"a", b"b"]).unwrap());
        assert_ne!(digest(&[b"a", b"b"]), digest(&[b"ab"]));
        assert_ne!(digest(&[b"a", b"b"]), digest(&[b"ab", b""]));
        assert_ne!(digest(&[b"a", b"b"]), digest(&[b"a", b"c"]));
    }

    #[test]
    fn the_halves_of_a_digest_have_different_keys() {
        let digest = digest(&[b"a"]).unwrap();
        assert_ne!(digest >> 64, digest & u128::from(u64::MAX));
    }

    #[test]
    fn keys_without_random_numbers_are_an_outage() {
        let fill = |bytes: &mut [u8]| {
            bytes.fill(7);
            true
        };
        assert!(random_keys(fill).is_ok());
        assert!(matches!(random_keys(|_| false), Err(Rejection::Unavailable { .. })));
    }

    #[test]
    fn the_hash_is_siphash_2_4() {
        // Appendix A of "SipHash: a fast short-input PRF" by Aumasson and Bernstein.
        let mut hasher = SipHasher::new_with_keys(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
        hasher.write(&(0..15).collect::<Vec<u8>>());
        assert_eq!(hasher.finish(), 0xa129_ca61_49be_45e5);
    }
}
