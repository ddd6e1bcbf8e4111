//! The tokens that were valid at their last check.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
    time::{Duration, SystemTime},
};

use mcp_protocol::Principal;
use parking_lot::Mutex;

use crate::{
    cache::{Generations, Valid},
    clock::Moment,
    crypto,
};

/// The length of the end of a token that determines its place in the table. It is a part of the signature, so it differs between
/// the tokens of an issuer.
const END: usize = 32;

/// The principals of tokens that were valid at their last check, at most 10,000.
///
/// The table compares the whole token. Only the end of a token is hashed, because the hash of a long token costs more than all
/// other work for a known token. Two tokens with one place replace each other. The tokens have passed the check of their
/// signature, so an attacker cannot choose the place of a token.
pub(super) struct KnownTokens {
    places: RandomState,
    tokens: Mutex<Generations<u64, Valid<Known>>>,
}

struct Known {
    token: Box<str>,
    /// The endpoint for which the token was checked.
    resource: Box<str>,
    principal: Arc<Principal>,
}

impl KnownTokens {
    pub(super) fn new() -> Self {
        Self { places: RandomState::new(), tokens: Mutex::new(Generations::new()) }
    }

    /// Returns the principal of a token, if the result of its check is still used.
    pub(super) fn get(&self, token: &str, resource: &str, now: Moment) -> Option<Arc<Principal>> {
        let place = self.place(token, resource);
        let mut tokens = self.tokens.lock();
        let known = tokens.get(&place)?.current(now)?;
        // The time of the comparison must not show how much of a guess is right.
        let is_equal = crypto::is_equal(known.token.as_bytes(), token.as_bytes()) && *known.resource == *resource;
        is_equal.then(|| Arc::clone(&known.principal))
    }

    /// Stores the principal of a valid token for some time, at most until the token expires.
    pub(super) fn insert(
        &self,
        token: &str,
        resource: &str,
        principal: Arc<Principal>,
        expires_at: Option<SystemTime>,
        lifetime: Duration,
        now: Moment,
    ) {
        let known = Known { token: token.into(), resource: resource.into(), principal };
        let place = self.place(token, resource);
        self.tokens.lock().insert(place, Valid::new(known, expires_at, lifetime, now));
    }

    fn place(&self, token: &str, resource: &str) -> u64 {
        let token = token.as_bytes();
        self.places.hash_one((&token[token.len().saturating_sub(END)..], resource))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    const MINUTE: Duration = Duration::from_secs(60);
    const RESOURCE: &str = "https://mcp.example.com/mcp";

    #[test]
    fn a_token_is_known_only_if_each_byte_and_the_resource_are_equal() {
        let (known, now) = (KnownTokens::new(), Clock::system().moment());
        for length in [1, 31, 32, 33, 500] {
            let token: String = "abcdefghij".chars().cycle().take(length).collect();
            known.insert(&token, RESOURCE, Arc::new(Principal::new(length.to_string())), None, MINUTE, now);
            assert_eq!(known.get(&token, RESOURCE, now).unwrap().subject, length.to_string());
            assert!(known.get(&token, "https://mcp.example.com/other", now).is_none(), "{length}");
            assert!(known.get(&format!("x{token}"), RESOURCE, now).is_none(), "{length}");
            assert!(known.get(&token[1..], RESOURCE, now).is_none(), "{length}");
            for place in 0..length {
                let mut changed = token.clone();
                changed.replace_range(place..=place, "x");
                assert!(known.get(&changed, RESOURCE, now).is_none(), "{length} {place}");
            }
        }
    }

    #[test]
    fn tokens_with_one_end_replace_each_other() {
        let (known, now) = (KnownTokens::new(), Clock::system().moment());
        let [first, second] = ["first", "second"].map(|start| format!("{start}.{}", "a".repeat(END)));
        known.insert(&first, RESOURCE, Arc::new(Principal::new("first")), None, MINUTE, now);
        known.insert(&second, RESOURCE, Arc::new(Principal::new("second")), None, MINUTE, now);
        assert!(known.get(&first, RESOURCE, now).is_none());
        assert_eq!(known.get(&second, RESOURCE, now).unwrap().subject, "second");
    }

    #[test]
    fn a_token_is_known_until_it_expires_or_its_result_is_too_old() {
        let known = KnownTokens::new();
        let start = Clock::system().moment();
        let after =
            |time: Duration, instant: Duration| Moment { time: start.time + time, instant: start.instant + instant };
        known.insert("short", RESOURCE, Arc::new(Principal::new("a")), Some(start.time + MINUTE / 2), MINUTE, start);
        known.insert("long", RESOURCE, Arc::new(Principal::new("a")), None, MINUTE, start);
        let second = Duration::from_secs(1);
        for (token, now, expected) in [
            ("short", after(MINUTE / 2 - second, second), true),
            ("short", after(MINUTE / 2, second), false),
            ("long", after(Duration::ZERO, MINUTE - second), true),
            ("long", after(Duration::ZERO, MINUTE), false),
        ] {
            assert_eq!(
                known.get(token, RESOURCE, now).is_some(),
                expected,
                "{token} {:?}",
                now.instant - start.instant
            );
        }
    }
}
