//! Nonces of the server (RFC 9449 §8): a number of the time and its keyed digest, so that no node stores them.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use http::HeaderValue;
use ring::hmac;

use crate::crypto;

/// The seconds for which the server issues one nonce. It accepts the nonce for as long again.
const PERIOD: u64 = 120;

/// The age of a nonce.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    /// The server issues this nonce now.
    Current,
    /// The server issued this nonce in the period before.
    Previous,
    /// The server did not issue this nonce, or it is too old.
    Unknown,
}

pub(super) struct Nonces(hmac::Key);

impl Nonces {
    pub(super) fn new(key: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// Returns the nonce that the server issues now.
    pub(super) fn current(&self, now: SystemTime) -> HeaderValue {
        // A nonce consists of letters, digits, `-` and `_`.
        HeaderValue::try_from(self.of(period(now))).unwrap_or_else(|_| HeaderValue::from_static(""))
    }

    /// Returns the age of the nonce of a proof.
    pub(super) fn check(&self, nonce: Option<&str>, now: SystemTime) -> Freshness {
        let Some(nonce) = nonce else { return Freshness::Unknown };
        let is = |period| crypto::is_equal(nonce.as_bytes(), self.of(period).as_bytes());
        let period = period(now);
        if is(period) {
            Freshness::Current
        } else if period > 0 && is(period - 1) {
            Freshness::Previous
        } else {
            Freshness::Unknown
        }
    }

    fn of(&self, period: u64) -> String {
        let digest = crypto::keyed_digest(&self.0, &[b"dpop nonce", &period.to_be_bytes()]);
        BASE64_URL_SAFE_NO_PAD.encode(&digest[..16])
    }
}

fn period(now: SystemTime) -> u64 {
    now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / PERIOD
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_nonce_is_valid_for_two_periods() {
        let (nonces, other) = (Nonces::new(&[1; 32]), Nonces::new(&[2; 32]));
        let start = UNIX_EPOCH + Duration::from_secs(PERIOD * 1_000);
        let at = |seconds| start + Duration::from_secs(seconds);
        let nonce = nonces.current(start);
        let nonce = nonce.to_str().unwrap();
        for (second, expected) in [
            (0, Freshness::Current),
            (119, Freshness::Current),
            (120, Freshness::Previous),
            (239, Freshness::Previous),
            (240, Freshness::Unknown),
        ] {
            assert_eq!(nonces.check(Some(nonce), at(second)), expected, "{second}");
        }
        assert_eq!(other.check(Some(nonce), start), Freshness::Unknown);
        assert_eq!(nonces.check(Some(""), start), Freshness::Unknown);
        assert_eq!(nonces.check(None, start), Freshness::Unknown);
    }
}
