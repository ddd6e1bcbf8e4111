//! The limit of failed authentications for each address of a peer: a token bucket, in a table of bounded size.

mod bucket;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash as _, Hasher as _, RandomState},
    net::{IpAddr, Ipv6Addr},
    sync::atomic::{AtomicBool, Ordering},
};

use http::{Extensions, HeaderMap, HeaderName};
use mcp_auth::{Authenticated, Rejection};
use mcp_http_listener::PeerAddr;
use mcp_protocol::Principal;
use parking_lot::Mutex;

use self::bucket::Bucket;
use crate::config::AttemptLimit;

/// The largest number of addresses in each of the two halves of the table.
const HALF: usize = 5_000;

/// The failed authentications of an endpoint.
pub(super) struct Attempts {
    limit: AttemptLimit,
    table: Mutex<Table>,
    /// The key of the tags, which an attacker does not know.
    hasher: RandomState,
    has_warned: AtomicBool,
}

/// The addresses with failures or running checks. The older half is dropped when the younger half is full.
#[derive(Default)]
struct Table {
    young: HashMap<IpAddr, Bucket>,
    old: HashMap<IpAddr, Bucket>,
}

/// The credentials of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Credentials {
    /// Equal tags only mean that the credentials are checked.
    tag: u64,
    /// Whether more than one header has credentials.
    are_several: bool,
}

/// The result of a check for the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The credentials are those of this principal, by its tag.
    Accepted {
        principal: u64,
    },
    /// The check accepted some credentials of the request, and rejected others.
    PartlyAccepted {
        principal: u64,
    },
    Failed,
    /// An outage prevented the check. A provider that works may have rejected the credentials.
    Unchecked,
    /// The check rejected the request for a reason that does not count.
    Uncounted,
}

/// A running check. A check that is dropped counts as failed: a client must not avoid the limit when it closes its connection.
struct Attempt<'a> {
    attempts: &'a Attempts,
    peer: IpAddr,
    tag: u64,
    is_reserved: bool,
    verdict: Verdict,
}

impl Attempt<'_> {
    fn end(mut self, verdict: Verdict) {
        self.verdict = verdict;
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.attempts.end(self);
    }
}

impl Attempts {
    pub(super) fn new(limit: AttemptLimit) -> Self {
        Self { limit, table: Mutex::default(), hasher: RandomState::new(), has_warned: AtomicBool::new(false) }
    }

    /// Runs a check of credentials, unless the address of the request has too many failures. A request without credentials
    /// has no check that could be limited.
    pub(super) async fn limited(
        &self,
        headers: &HeaderMap,
        names: &[HeaderName],
        extensions: &Extensions,
        check: impl Future<Output = Result<Authenticated, Rejection>>,
    ) -> Result<Authenticated, Rejection> {
        let (Some(credentials), Some(peer)) = (self.credentials(headers, names), self.peer(extensions)) else {
            return check.await;
        };
        let attempt = self.begin(peer, credentials)?;
        let result = check.await;
        attempt.end(match &result {
            // A caller with valid credentials must not guess a key in another header.
            Ok(authenticated) if credentials.are_several && authenticated.has_rejected_credentials => {
                Verdict::PartlyAccepted { principal: self.principal(&authenticated.principal) }
            }
            Ok(authenticated) => Verdict::Accepted { principal: self.principal(&authenticated.principal) },
            Err(Rejection::Invalid | Rejection::Malformed | Rejection::InvalidProof) => Verdict::Failed,
            // A chain reports the outage of one provider, also if another provider rejected the credentials.
            Err(Rejection::Unavailable { .. }) => Verdict::Unchecked,
            // The rejection may be that of a token, and hide that a key in another header is wrong.
            Err(rejection) if credentials.are_several && *rejection != Rejection::Missing => Verdict::Failed,
            // Credentials that expired were valid, and a forbidden caller has valid ones.
            Err(_) => Verdict::Uncounted,
        });
        result
    }

    /// Reserves a failure for the check of new credentials, so that parallel checks cannot exceed the limit.
    fn begin(&self, peer: IpAddr, credentials: Credentials) -> Result<Attempt<'_>, Rejection> {
        let mut table = self.table.lock();
        let bucket = table.get_or_insert(peer, self.limit);
        bucket.refill(self.limit);
        let is_reserved = !bucket.has_accepted(credentials.tag);
        let reserved = if is_reserved { bucket.reserve(credentials, self.limit) } else { Ok(()) };
        drop(table);
        if let Err(retry_after) = reserved {
            tracing::debug!(%peer, ?retry_after, "rejected credentials unchecked, because the address has too many failures");
            return Err(Rejection::TooManyFailures { retry_after });
        }
        Ok(Attempt { attempts: self, peer, tag: credentials.tag, is_reserved, verdict: Verdict::Failed })
    }

    fn end(&self, attempt: &Attempt<'_>) {
        let mut table = self.table.lock();
        // The table may have dropped the address.
        let Some(bucket) = table.get(attempt.peer) else { return };
        bucket.refill(self.limit);
        match attempt.is_reserved {
            true => bucket.release(attempt.tag, attempt.verdict, self.limit),
            // Credentials that were accepted earlier have no reserved failure. The same guess beside them was counted then.
            false if attempt.verdict == Verdict::Failed => bucket.charge(self.limit),
            false => {}
        }
        if bucket.is_unused() {
            table.remove(attempt.peer);
        }
    }

    /// Returns the credentials of a request, if it has some.
    fn credentials(&self, headers: &HeaderMap, names: &[HeaderName]) -> Option<Credentials> {
        let mut hasher = self.hasher.build_hasher();
        let mut count = 0;
        // Each request has another proof, so proofs would make equal credentials different.
        for name in names.iter().filter(|name| name.as_str() != "dpop") {
            for value in headers.get_all(name) {
                (name.as_str(), value.as_bytes()).hash(&mut hasher);
            }
            count += usize::from(headers.contains_key(name));
        }
        (count > 0).then(|| Credentials { tag: hasher.finish(), are_several: count > 1 })
    }

    /// Returns the tag of a principal.
    fn principal(&self, principal: &Principal) -> u64 {
        self.hasher.hash_one((&principal.issuer, &principal.client_id, &principal.subject))
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
    fn get(&mut self, peer: IpAddr) -> Option<&mut Bucket> {
        self.young.get_mut(&peer).or_else(|| self.old.get_mut(&peer))
    }

    /// Returns the bucket of an address, and moves it into the younger half.
    fn get_or_insert(&mut self, peer: IpAddr, limit: AttemptLimit) -> &mut Bucket {
        let known = self.old.remove(&peer);
        if self.young.len() >= HALF && !self.young.contains_key(&peer) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.entry(peer).or_insert_with(|| known.unwrap_or_else(|| Bucket::new(limit)))
    }

    fn remove(&mut self, peer: IpAddr) {
        self.young.remove(&peer);
        self.old.remove(&peer);
    }
}
