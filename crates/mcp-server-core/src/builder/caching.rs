//! The cache hints of a new server.

use super::ServerBuilder;
use crate::cache_hint::CacheHint;

impl<S: Clone + Send + Sync + 'static> ServerBuilder<S> {
    /// Sets how long clients may cache lists (2026-07-28). By default clients do not cache them.
    ///
    /// See the [example](Self#example).
    pub fn list_cache(mut self, hint: CacheHint) -> Self {
        self.config.list_cache = hint;
        self
    }

    /// Sets how long clients may cache contents of resources (2026-07-28). By default clients do not cache them.
    ///
    /// See the [example](Self#example).
    pub fn read_cache(mut self, hint: CacheHint) -> Self {
        self.config.read_cache = hint;
        self
    }

    /// Sets how long clients may cache the result of `server/discover` (2026-07-28). By default clients do not cache it.
    ///
    /// See the [example](Self#example).
    pub fn discover_cache(mut self, hint: CacheHint) -> Self {
        self.config.discover_cache = hint;
        self
    }
}
