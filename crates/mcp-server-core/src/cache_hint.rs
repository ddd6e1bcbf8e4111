//! Caching hints: how long, and by whom, a result may be kept (2026-07-28 utilities/caching).

use std::time::Duration;

use mcp_protocol::CacheScope;

/// How long a result may be kept, and whether it may be shared between callers.
///
/// # Example
/// ```
/// use std::time::Duration;
///
/// use mcp_server_core::{CacheHint, ResourceRoute, resource};
///
/// let route: ResourceRoute =
///     resource("news://today", async || "no news").cache(CacheHint::public(Duration::from_secs(60)));
/// let own = CacheHint::private(Duration::from_secs(5));
/// # let _ = (route, own);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheHint {
    /// How long it is fresh. Zero: it is stale at once.
    pub ttl: Duration,
    /// Whether others may be given the same copy.
    pub scope: CacheScope,
}

impl CacheHint {
    /// Stale at once, for this caller only.
    pub const NONE: Self = Self { ttl: Duration::ZERO, scope: CacheScope::Private };

    /// Fresh for a while, for this caller only.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub const fn private(ttl: Duration) -> Self {
        Self { ttl, scope: CacheScope::Private }
    }

    /// Fresh for a while, the same for everybody. The server still checks access on every request.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub const fn public(ttl: Duration) -> Self {
        Self { ttl, scope: CacheScope::Public }
    }

    pub(crate) fn ttl_ms(self) -> u64 {
        u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX).min((1 << 53) - 1)
    }

    /// The two members of a result, without braces.
    pub(crate) fn members(self) -> String {
        let scope = match self.scope {
            CacheScope::Public => "public",
            _ => "private",
        };
        format!("\"ttlMs\":{},\"cacheScope\":\"{scope}\"", self.ttl_ms())
    }
}

impl Default for CacheHint {
    fn default() -> Self {
        Self::NONE
    }
}
