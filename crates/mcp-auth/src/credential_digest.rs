//! The digests by which tables and caches find credentials.

#![expect(deprecated, reason = "`DefaultHasher` does not name its algorithm, and `SipHasher` is SipHash-2-4")]

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher, SipHasher},
    sync::OnceLock,
    time::Duration,
};

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, Tag, UnboundKey};

use crate::{authenticator::Rejection, crypto};

/// A keyed digest of credentials: SipHash-2-4 under two random keys of this process.
///
/// A digest never leaves the process, and an attacker does not know the keys. Other credentials therefore have the digest of
/// an entry with a probability of about 2^-117, and the time of a comparison shows nothing about the credentials. A hash without
/// a key would need the cost of SHA-256, because an attacker could search for equal digests.
///
/// SipHash is slow for a token of several hundred bytes. A long part is therefore first compressed by the universal hash function
/// of GMAC (NIST SP 800-38D) under a random key. Two parts of at most 16 KiB have one tag with a probability of at most 2^-117.
/// GMAC with one nonce is safe here, because no tag leaves this module: it is an input of SipHash.
pub(crate) type Digest = u128;

/// A map by digests. They are uniform and secret, so the map does not hash them again.
pub(crate) type DigestMap<E> = HashMap<Digest, E, BuildHasherDefault<Uniform>>;

/// The length above which a part is compressed, in bytes.
const LONG: usize = 96;

/// The keys of this process.
struct Keys {
    hashers: [SipHasher; 2],
    compression: LessSafeKey,
}

/// Returns the digest of some parts under the keys of this process. The length of each part counts, so that no two lists are
/// confused.
///
/// # Errors
/// [`Rejection::Unavailable`] if the system has no random numbers for the keys.
pub(crate) fn digest(parts: &[&[u8]]) -> Result<Digest, Rejection> {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    let keys = match KEYS.get() {
        Some(keys) => keys,
        None => {
            let keys = Keys::random(crypto::random)?;
            KEYS.get_or_init(|| keys)
        }
    };
    let mut input = Input { hashers: keys.hashers.clone(), bytes: [0; 256], length: 0 };
    for part in parts {
        input.push(&(part.len() as u64).to_le_bytes());
        if part.len() > LONG { input.push(keys.compress(part)?.as_ref()) } else { input.push(part) }
    }
    Ok(input.finish())
}

impl Keys {
    fn random(random: impl Fn(&mut [u8]) -> bool) -> Result<Self, Rejection> {
        let number = || {
            let mut bytes = [0; 8];
            random(&mut bytes).then(|| u64::from_le_bytes(bytes))
        };
        let hasher = || Some(SipHasher::new_with_keys(number()?, number()?));
        let compression = || {
            let mut key = [0; 16];
            random(&mut key).then(|| UnboundKey::new(&AES_128_GCM, &key).ok().map(LessSafeKey::new)).flatten()
        };
        match (hasher(), hasher(), compression()) {
            (Some(one), Some(other), Some(compression)) => Ok(Self { hashers: [one, other], compression }),
            _ => {
                tracing::error!("the system has no random numbers, so credentials cannot be checked");
                Err(OUTAGE)
            }
        }
    }

    /// Returns the tag of a long part.
    fn compress(&self, part: &[u8]) -> Result<Tag, Rejection> {
        let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
        // The only error is a part of more than 2^61 bytes.
        self.compression.seal_in_place_separate_tag(nonce, Aad::from(part), &mut []).map_err(|_| OUTAGE)
    }
}

const OUTAGE: Rejection = Rejection::Unavailable { retry_after: Duration::from_secs(5) };

/// The input of the hash functions. Most inputs fit into the buffer, and one long write is faster than many short ones.
struct Input {
    hashers: [SipHasher; 2],
    bytes: [u8; 256],
    length: usize,
}

impl Input {
    /// Adds bytes, at most as many as the buffer has.
    fn push(&mut self, bytes: &[u8]) {
        if self.bytes.len() - self.length < bytes.len() {
            self.flush();
        }
        let end = self.length + bytes.len();
        if let Some(free) = self.bytes.get_mut(self.length..end) {
            free.copy_from_slice(bytes);
            self.length = end;
        }
    }

    fn flush(&mut self) {
        for hasher in &mut self.hashers {
            hasher.write(&self.bytes[..self.length]);
        }
        self.length = 0;
    }

    fn finish(mut self) -> Digest {
        self.flush();
        let [high, low] = &self.hashers;
        u128::from(high.finish()) << 64 | u128::from(low.finish())
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
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn digests_depend_on_each_part() {
        assert_eq!(digest(&[b"a", b"b"]).unwrap(), digest(&[b"a", b"b"]).unwrap());
        assert_ne!(digest(&[b"a", b"b"]), digest(&[b"ab"]));
        assert_ne!(digest(&[b"a", b"b"]), digest(&[b"ab", b""]));
        assert_ne!(digest(&[b"a", b"b"]), digest(&[b"a", b"c"]));
    }

    #[test]
    fn digests_depend_on_each_byte_and_the_length_of_a_long_part() {
        let texts = [0, 1, 15, 16, 95, 96, 97, 112, 255, 256, 257, 1_000, 16_000].map(|length| vec![b'a'; length]);
        let of = |text: &[u8]| digest(&[b"form", text, b"resource"]).unwrap();
        let digests: HashSet<Digest> = texts.iter().map(|text| of(text)).collect();
        assert_eq!(digests.len(), texts.len());
        for text in &texts {
            assert_eq!(of(text), of(&text.clone()), "{}", text.len());
            // A long text has many bytes, so not each one is changed.
            for place in (0..text.len()).step_by(1 + text.len() / 100).chain(text.len().checked_sub(1)) {
                let mut changed = text.clone();
                changed[place] ^= 1;
                assert_ne!(of(&changed), of(text), "{} {place}", text.len());
            }
        }
    }

    #[test]
    fn long_parts_and_their_tags_are_not_confused() {
        let long = [b'a'; 200];
        let keys = Keys::random(crypto::random).unwrap();
        let tag = keys.compress(&long).unwrap();
        assert_eq!(keys.compress(&long).unwrap().as_ref(), tag.as_ref());
        assert_ne!(digest(&[&long]).unwrap(), digest(&[tag.as_ref()]).unwrap());
        // The parts do not fit into the buffer together.
        let parts: [&[u8]; 5] = [&long[..90]; 5];
        assert_eq!(digest(&parts).unwrap(), digest(&parts).unwrap());
        assert_ne!(digest(&parts).unwrap(), digest(&parts[..4]).unwrap());
        let mut other = parts;
        other[4] = &long[..89];
        assert_ne!(digest(&parts).unwrap(), digest(&other).unwrap());
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
        assert!(Keys::random(fill).is_ok());
        assert!(matches!(Keys::random(|_| false), Err(Rejection::Unavailable { .. })));
    }

    #[test]
    fn the_hash_is_siphash_2_4() {
        // Appendix A of "SipHash: a fast short-input PRF" by Aumasson and Bernstein.
        let mut hasher = SipHasher::new_with_keys(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
        hasher.write(&(0..15).collect::<Vec<u8>>());
        assert_eq!(hasher.finish(), 0xa129_ca61_49be_45e5);
    }
}
