//! Digests of Argon2id in the PHC string format: `$argon2id$v=19$m=19456,t=2,p=1$salt$hash`.

use std::{fmt, ops::RangeInclusive};

use argon2::{Algorithm, Argon2, Block, Params, Version};
use base64::prelude::{BASE64_STANDARD_NO_PAD, Engine as _};

use crate::crypto;

const PREFIX: &str = "$argon2id$";
/// The lengths of a salt in bytes.
const SALT: RangeInclusive<usize> = 8..=64;
/// The lengths of a hash in bytes.
const HASH: RangeInclusive<usize> = 10..=64;
/// The length of a new hash in bytes.
const NEW_HASH: usize = 32;

/// A digest with its settings.
#[derive(Clone)]
pub(crate) struct Argon2id {
    version: Version,
    params: Params,
    salt: Vec<u8>,
    hash: Vec<u8>,
}

impl Argon2id {
    /// Parses a digest. A digest without a version has version 1.0, as in the reference implementation.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.strip_prefix(PREFIX)?.split('$').collect();
        let (version, params, salt, hash) = match parts[..] {
            ["v=19", params, salt, hash] => (Version::V0x13, params, salt, hash),
            ["v=16", params, salt, hash] | [params, salt, hash] => (Version::V0x10, params, salt, hash),
            _ => return None,
        };
        let decode = |text: &str, lengths: RangeInclusive<usize>| {
            BASE64_STANDARD_NO_PAD.decode(text).ok().filter(|bytes| lengths.contains(&bytes.len()))
        };
        let (salt, hash) = (decode(salt, SALT)?, decode(hash, HASH)?);
        let params: Vec<&str> = params.split(',').collect();
        let [memory, passes, lanes] = params[..] else { return None };
        let (memory, passes, lanes) = (number(memory, "m=")?, number(passes, "t=")?, number(lanes, "p=")?);
        let params = Params::new(memory, passes, lanes, Some(hash.len())).ok()?;
        Some(Self { version, params, salt, hash })
    }

    /// Computes the digest of a password with the default settings.
    pub(super) fn hash(password: &str, salt: Vec<u8>) -> Option<Self> {
        let params =
            Params::new(Params::DEFAULT_M_COST, Params::DEFAULT_T_COST, Params::DEFAULT_P_COST, Some(NEW_HASH));
        let digest = Self { version: Version::V0x13, params: params.ok()?, salt, hash: Vec::new() };
        let hash = digest.compute(password, NEW_HASH)?;
        Some(Self { hash, ..digest })
    }

    /// Returns the settings on which the time of a computation depends.
    pub(super) fn params(&self) -> &Params {
        &self.params
    }

    /// Whether the digest belongs to a password.
    pub(super) fn verify(&self, password: &str) -> bool {
        self.compute(password, self.hash.len()).is_some_and(|hash| crypto::is_equal(&hash, &self.hash))
    }

    fn compute(&self, password: &str, length: usize) -> Option<Vec<u8>> {
        let mut hash = vec![0; length];
        let memory = vec![Block::default(); self.params.block_count()];
        let argon2 = Argon2::new(Algorithm::Argon2id, self.version, self.params.clone());
        argon2.hash_password_into_with_memory(password.as_bytes(), &self.salt, &mut hash, memory).ok()?;
        Some(hash)
    }
}

impl fmt::Display for Argon2id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (version, params) = (self.version as u32, &self.params);
        let (memory, passes, lanes) = (params.m_cost(), params.t_cost(), params.p_cost());
        let [salt, hash] = [&self.salt, &self.hash].map(|bytes| BASE64_STANDARD_NO_PAD.encode(bytes));
        write!(f, "{PREFIX}v={version}$m={memory},t={passes},p={lanes}${salt}${hash}")
    }
}

/// Parses a decimal number with its name.
fn number(text: &str, name: &str) -> Option<u32> {
    let digits = text.strip_prefix(name)?;
    // `parse` alone accepts a sign.
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_of_the_reference_implementation_verify() {
        // From `test.c` of https://github.com/P-H-C/phc-winner-argon2.
        for digest in [
            "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
            "$argon2id$v=19$m=256,t=2,p=2$c29tZXNhbHQ$bQk8UB/VmZZF4Oo79iDXuL5/0ttZwg2f/5U52iv1cDc",
        ] {
            let parsed = Argon2id::parse(digest).unwrap();
            assert!(parsed.verify("password") && !parsed.verify("passwore"), "{digest}");
            assert_eq!(parsed.to_string(), digest);
        }
    }

    #[test]
    fn a_digest_without_a_version_has_version_1_0() {
        let rest = "m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";
        let [old, without, new] =
            ["v=16$", "", "v=19$"].map(|version| Argon2id::parse(&format!("{PREFIX}{version}{rest}")).unwrap());
        let hash = |digest: &Argon2id| digest.compute("password", 32);
        assert_eq!(hash(&old), hash(&without));
        assert_ne!(hash(&old), hash(&new));
    }

    #[test]
    fn other_texts_are_rejected() {
        let (salt, hash) = ("c29tZXNhbHQ", "A".repeat(43));
        for text in [
            format!("$argon2i$v=19$m=256,t=2,p=1${salt}${hash}"),
            format!("$argon2id$v=18$m=256,t=2,p=1${salt}${hash}"),
            format!("$argon2id$v=19$t=2,m=256,p=1${salt}${hash}"),
            format!("$argon2id$v=19$m=+256,t=2,p=1${salt}${hash}"),
            format!("$argon2id$v=19$m=,t=2,p=1${salt}${hash}"),
            format!("$argon2id$v=19$m=256,t=2${salt}${hash}"),
            format!("$argon2id$v=19$m=256,t=2,p=1,x=1${salt}${hash}"),
            format!("$argon2id$v=19$m=256,t=0,p=1${salt}${hash}"),
            format!("$argon2id$v=19$m=256,t=2,p=1$c2hvcnQ${hash}"),
            format!("$argon2id$v=19$m=256,t=2,p=1${salt}$AAAA"),
            format!("$argon2id$v=19$m=256,t=2,p=1${salt}${hash}="),
            format!("$argon2id$v=19$m=256,t=2,p=1${salt}${hash}$"),
        ] {
            assert!(Argon2id::parse(&text).is_none(), "{text}");
        }
    }
}
