//! The limit of failed authentications for each address of a peer: a token bucket, in a table of bounded size.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher, Hash as _, Hasher as _, RandomState},
    net::{IpAddr, Ipv6Addr},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use http::{Extensions, HeaderMap, HeaderName, header};
use mcp_auth::Rejection;
use mcp_http_listener::PeerAddr;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::config::AttemptLimit;

/// The largest number of addresses in each of the two halves of the table.
const HALF: usize = 5_000;
/// The largest number of accepted credentials that an address with failures keeps.
const ACCEPTED: usize = 8;
/// The error of many small additions to a bucket.
const ROUNDING: f64 = 1e-6;

/// The failed authentications of an endpoint.
pub(super) struct Attempts {
    limit: AttemptLimit,
    table: Mutex<Table>,
    /// The key of the tags, which an attacker does not know.
    hasher: RandomState,
    has_warned: AtomicBool,
}

/// The addresses with failures. The older half is dropped when the younger half is full.
#[derive(Default)]
struct Table {
    young: HashMap<IpAddr, Bucket>,
    old: HashMap<IpAddr, Bucket>,
}

/// The failures of one address.
struct Bucket {
    /// The number of failures that are still allowed. It is negative after many parallel failures.
    left: f64,
    at: Instant,
    /// The tags of credentials that the server accepted from this address since its first failure.
    accepted: VecDeque<u64>,
}

impl Attempts {
    pub(super) fn new(limit: AttemptLimit) -> Self {
        Self { limit, table: Mutex::default(), hasher: RandomState::new(), has_warned: AtomicBool::new(false) }
    }

    /// Runs a check of credentials, unless the address of the request has too many failures. A request without credentials
    /// has no check that could be limited.
    pub(super) async fn limited<T>(
        &self,
        headers: &HeaderMap,
        names: &[HeaderName],
        extensions: &Extensions,
        check: impl Future<Output = Result<T, Rejection>>,
    ) -> Result<T, Rejection> {
        let (Some(tag), Some(peer)) = (self.tag(headers, names), self.peer(extensions)) else { return check.await };
        self.admit(peer, tag)?;
        let result = check.await;
        match &result {
            Ok(_) => self.accepted(peer, tag),
            Err(Rejection::Invalid | Rejection::Malformed | Rejection::InvalidProof) => self.failed(peer),
            // Credentials that expired were valid, a forbidden caller has valid ones, and an outage is the server's fault.
            Err(_) => {}
        }
        result
    }

    fn admit(&self, peer: IpAddr, tag: u64) -> Result<(), Rejection> {
        let mut table = self.table.lock();
        let Some(bucket) = table.get(peer) else { return Ok(()) };
        bucket.refill(self.limit);
        if bucket.left >= 1.0 - ROUNDING || bucket.accepted.contains(&tag) {
            return Ok(());
        }
        let missing = (1.0 - ROUNDING - bucket.left) / self.limit.rate();
        let retry_after = Duration::try_from_secs_f64(missing.ceil()).unwrap_or(self.limit.per);
        drop(table);
        tracing::debug!(%peer, ?retry_after, "rejected credentials unchecked, because the address has too many failures");
        Err(Rejection::TooManyFailures { retry_after })
    }

    fn failed(&self, peer: IpAddr) {
        let mut table = self.table.lock();
        let bucket = table.get_or_insert(peer, self.limit);
        bucket.refill(self.limit);
        // Without the lower bound, one burst could lock out the other callers behind the address for days.
        bucket.left = (bucket.left - 1.0).max(-f64::from(self.limit.count));
    }

    fn accepted(&self, peer: IpAddr, tag: u64) {
        let mut table = self.table.lock();
        let Some(bucket) = table.get(peer) else { return };
        if !bucket.accepted.contains(&tag) {
            if bucket.accepted.len() == ACCEPTED {
                bucket.accepted.pop_front();
            }
            bucket.accepted.push_back(tag);
        }
    }

    /// Returns a tag of the credentials. Equal tags only mean that the credentials are checked.
    fn tag(&self, headers: &HeaderMap, names: &[HeaderName]) -> Option<u64> {
        let mut hasher = self.hasher.build_hasher();
        let mut is_empty = true;
        let authorization = Some(&header::AUTHORIZATION).filter(|name| !names.contains(name));
        for name in names.iter().chain(authorization) {
            for value in headers.get_all(name) {
                (name.as_str(), value.as_bytes()).hash(&mut hasher);
                is_empty = false;
            }
        }
        (!is_empty).then(|| hasher.finish())
    }

    /// Returns the address of the peer. Addresses of one IPv6 network of 64 bits count as one, because one host can have
    /// all of them.
    fn peer(&self, extensions: &Extensions) -> Option<IpAddr> {
        let Some(PeerAddr(address)) = extensions.get() else {
            if !self.has_warned.swap(true, Ordering::Relaxed) {
                tracing::warn!("failed authentications are not limited, because the requests have no `PeerAddr`");
            }
            return None;
        };
        Some(match address.ip().to_canonical() {
            IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX))),
            ip @ IpAddr::V4(_) => ip,
        })
    }
}

impl Table {
    /// Returns the bucket of an address, and moves it into the younger half.
    fn get(&mut self, peer: IpAddr) -> Option<&mut Bucket> {
        if let Some(bucket) = self.old.remove(&peer) {
            self.insert(peer, bucket);
        }
        self.young.get_mut(&peer)
    }

    fn get_or_insert(&mut self, peer: IpAddr, limit: AttemptLimit) -> &mut Bucket {
        if self.get(peer).is_none() {
            self.insert(peer, Bucket::new(limit));
        }
        self.young.entry(peer).or_insert_with(|| Bucket::new(limit))
    }

    fn insert(&mut self, peer: IpAddr, bucket: Bucket) {
        if self.young.len() >= HALF {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(peer, bucket);
    }
}

impl Bucket {
    fn new(limit: AttemptLimit) -> Self {
        Self { left: f64::from(limit.count), at: Instant::now(), accepted: VecDeque::new() }
    }

    fn refill(&mut self, limit: AttemptLimit) {
        let now = Instant::now();
        let forgiven = now.duration_since(self.at).as_secs_f64() * limit.rate();
        self.left = (self.left + forgiven).min(f64::from(limit.count));
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

    use std::net::SocketAddr;

    use super::*;

    fn attempts(count: u32, seconds: u64) -> Attempts {
        Attempts::new(AttemptLimit { count, per: Duration::from_secs(seconds) })
    }

    fn address(text: &str) -> IpAddr {
        let mut extensions = Extensions::new();
        extensions.insert(PeerAddr(SocketAddr::new(text.parse().unwrap(), 1)));
        attempts(1, 1).peer(&extensions).unwrap()
    }

    fn wait(attempts: &Attempts, peer: IpAddr) -> Option<u64> {
        match attempts.admit(peer, 0) {
            Ok(()) => None,
            Err(Rejection::TooManyFailures { retry_after }) => Some(retry_after.as_secs()),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_forgiven_at_a_constant_rate() {
        let (attempts, peer) = (attempts(3, 30), address("192.0.2.1"));
        for _ in 0..3 {
            assert_eq!(wait(&attempts, peer), None);
            attempts.failed(peer);
        }
        assert_eq!(wait(&attempts, peer), Some(10));
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(wait(&attempts, peer), Some(1));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(wait(&attempts, peer), None);
        attempts.failed(peer);
        assert_eq!(wait(&attempts, peer), Some(10));
        tokio::time::advance(Duration::from_secs(3600)).await;
        for _ in 0..3 {
            assert_eq!(wait(&attempts, peer), None);
            attempts.failed(peer);
        }
        assert_eq!(wait(&attempts, peer), Some(10));
    }

    #[tokio::test(start_paused = true)]
    async fn many_parallel_failures_cost_at_most_twice_the_time() {
        let (attempts, peer) = (attempts(3, 30), address("192.0.2.1"));
        for _ in 0..1_000 {
            attempts.failed(peer);
        }
        assert_eq!(wait(&attempts, peer), Some(40));
    }

    #[tokio::test(start_paused = true)]
    async fn credentials_that_were_accepted_stay_usable() {
        let (attempts, peer) = (attempts(1, 60), address("192.0.2.1"));
        // Without failures of the address, nothing is stored.
        attempts.accepted(peer, 7);
        assert_eq!(attempts.table.lock().young.len(), 0);
        attempts.failed(peer);
        attempts.accepted(peer, 7);
        assert!(attempts.admit(peer, 7).is_ok() && attempts.admit(peer, 8).is_err());
        for tag in 100..100 + ACCEPTED as u64 {
            attempts.accepted(peer, tag);
        }
        assert!(attempts.admit(peer, 7).is_err() && attempts.admit(peer, 100).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_addresses_is_bounded_and_used_addresses_stay() {
        let (attempts, known) = (attempts(1, 3600), address("192.0.2.1"));
        attempts.failed(known);
        for number in 0..4 * HALF as u32 {
            attempts.failed(IpAddr::from(number.to_be_bytes()));
            assert!(wait(&attempts, known).is_some(), "{number}");
        }
        let table = attempts.table.lock();
        assert!(table.young.len() <= HALF && table.old.len() <= HALF);
    }

    #[test]
    fn addresses_of_one_host_count_as_one() {
        for (first, second, expected) in [
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("2001:db8:1:2::1", "2001:db8:1:2:ffff::7", true),
            ("2001:db8:1:2::1", "2001:db8:1:3::1", false),
            ("::1", "127.0.0.1", false),
        ] {
            assert_eq!(address(first) == address(second), expected, "{first} {second}");
        }
    }

    #[test]
    fn tags_depend_on_each_header_with_credentials() {
        let attempts = attempts(1, 1);
        let names = [HeaderName::from_static("x-api-key")];
        let tag = |headers: &[(&'static str, &'static str)]| {
            let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            attempts.tag(&HeaderMap::from_iter(headers), &names)
        };
        assert_eq!(tag(&[]), None);
        assert_eq!(tag(&[("x-other", "a")]), None);
        let tags = [
            tag(&[("x-api-key", "a")]),
            tag(&[("x-api-key", "b")]),
            tag(&[("authorization", "a")]),
            tag(&[("x-api-key", "a"), ("authorization", "a")]),
        ];
        for (place, one) in tags.iter().enumerate() {
            assert!(one.is_some() && tags.iter().filter(|other| *other == one).count() == 1, "{place}");
        }
        assert_eq!(tag(&[("x-api-key", "a")]), tags[0]);
    }
}
