//! The servers of resource links, for gateways with raw URIs.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use mcp_protocol::{Method as _, method};
use mcp_server_core::source::SourceCall;
use parking_lot::Mutex;

use super::{Core, Names, merged::Merged, uris};
use crate::policy;

/// The most URIs of one server for one owner, and the bytes of these URIs. The oldest are forgotten.
const URIS: usize = 512;
const BYTES: usize = 128 << 10;
/// The most owners, and the bytes of all URIs. The links of the owner that received no link for the longest time are forgotten.
const OWNERS: usize = 4096;
const TOTAL_BYTES: usize = 32 << 20;
/// The longest URI, in bytes.
const LONGEST: usize = 2048;
/// The bytes that the table needs for a URI, beside its text.
const PLACE: usize = 128;

/// The client that received links. Other clients do not use them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    Principal(Box<str>),
    /// The session of a client without a principal.
    Session(Box<str>),
    /// All clients without a principal and without a session.
    Anonymous,
}

/// The servers whose results contained a URI. The first server of a URI stays while the gateway serves it.
#[derive(Default)]
pub(super) struct Links {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    owners: HashMap<Owner, Owned>,
    bytes: usize,
    /// The number of results with links.
    results: u64,
}

/// The server of a link, and the fingerprint of its definition. Another server can have its name later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) server: Arc<str>,
    pub(super) fingerprint: Arc<str>,
}

/// The links of one owner.
#[derive(Default)]
struct Owned {
    origins: HashMap<Arc<str>, Origin>,
    /// The URIs of each server, the oldest first, and their bytes.
    of_server: HashMap<Arc<str>, (VecDeque<Arc<str>>, usize)>,
    bytes: usize,
    /// The last result with a link.
    last: u64,
}

impl Owner {
    pub(super) fn of(call: &SourceCall) -> Self {
        let context = call.context();
        match (context.principal(), context.session_id()) {
            (Some(principal), _) => Self::Principal(policy::identity(principal).into()),
            (None, Some(session)) => Self::Session(session.into()),
            (None, None) => Self::Anonymous,
        }
    }
}

impl Owned {
    fn add(&mut self, origin: &Origin, uri: &str, is_served: &impl Fn(&Origin) -> bool) {
        if uri.len() > LONGEST {
            return;
        }
        match self.origins.get(uri) {
            Some(known) if is_served(known) => return,
            Some(_) => self.forget(uri),
            None => {}
        }
        let uri: Arc<str> = uri.into();
        let (oldest, bytes) = self.of_server.entry(Arc::clone(&origin.server)).or_default();
        oldest.push_back(Arc::clone(&uri));
        (*bytes, self.bytes) = (*bytes + size(&uri), self.bytes + size(&uri));
        self.origins.insert(uri, origin.clone());
        while oldest.len() > URIS || *bytes > BYTES {
            let Some(uri) = oldest.pop_front() else { return };
            (*bytes, self.bytes) = (*bytes - size(&uri), self.bytes - size(&uri));
            self.origins.remove(&uri);
        }
    }

    /// Forgets the server of a URI.
    fn forget(&mut self, uri: &str) {
        let Some(Origin { server, .. }) = self.origins.remove(uri) else { return };
        let Some((uris, bytes)) = self.of_server.get_mut(&server) else { return };
        uris.retain(|known| **known != *uri);
        (*bytes, self.bytes) = (*bytes - size(uri), self.bytes - size(uri));
        if uris.is_empty() {
            self.of_server.remove(&server);
        }
    }
}

/// Returns the bytes that a URI needs.
fn size(uri: &str) -> usize {
    uri.len() + PLACE
}

impl Links {
    /// `is_served` is whether the gateway serves the server of a link.
    fn add<'a>(
        &self,
        owner: &Owner,
        origin: &Origin,
        uris: impl IntoIterator<Item = &'a str>,
        is_served: impl Fn(&Origin) -> bool,
    ) {
        let mut known = self.known.lock();
        known.results += 1;
        let result = known.results;
        let owned = known.owners.entry(owner.clone()).or_default();
        let before = owned.bytes;
        owned.last = result;
        uris.into_iter().for_each(|uri| owned.add(origin, uri, &is_served));
        let after = owned.bytes;
        known.bytes = known.bytes + after - before;
        while known.owners.len() > 1 && (known.owners.len() > OWNERS || known.bytes > TOTAL_BYTES) {
            let oldest = known.owners.iter().min_by_key(|(_, owned)| owned.last).map(|(owner, _)| owner.clone());
            let removed = oldest.and_then(|oldest| known.owners.remove(&oldest));
            known.bytes -= removed.map_or(0, |removed| removed.bytes);
        }
    }

    /// Returns the server whose result contained a URI.
    pub(super) fn origin_of(&self, owner: &Owner, uri: &str) -> Option<Origin> {
        self.known.lock().owners.get(owner)?.origins.get(uri).cloned()
    }
}

impl Core {
    /// Whether the URIs of the gateway do not name their server. Another server can replace a single server later.
    fn needs_links(&self) -> bool {
        self.names == Names::Raw
    }

    /// Adds links to the URIs of a server.
    fn add_links<'a>(&self, owner: &Owner, server: &Arc<str>, uris: impl IntoIterator<Item = &'a str>) {
        let Some(fingerprint) = self.fingerprint(server) else { return };
        let origin = Origin { server: Arc::clone(server), fingerprint };
        let merged = self.newest_merged();
        self.links.add(owner, &origin, uris, |origin| self.is_served(&merged, origin));
    }

    /// Whether the host has the server of a link, and the server does not lead to this gateway.
    pub(super) fn is_served(&self, merged: &Merged, Origin { server, fingerprint }: &Origin) -> bool {
        merged.serves(server) && self.fingerprint(server).is_some_and(|now| now == *fingerprint)
    }

    /// Remembers the server of a part of a resource, for a client that is notified of its change.
    pub(super) fn learn_part(&self, owner: &Owner, server: &Arc<str>, uri: &str) {
        if self.needs_links() {
            self.add_links(owner, server, [uri]);
        }
    }

    /// Remembers the URIs in a result for its client.
    pub(super) fn learn_links(&self, call: &SourceCall, method: &str, server: &Arc<str>, result: &[u8]) {
        let has_links = method == method::CallTool::NAME || method == method::GetPrompt::NAME;
        if !has_links || !self.needs_links() {
            return;
        }
        let found = std::cell::RefCell::new(Vec::new());
        // The renamed result is not used.
        let _ = uris::rename(method, result, |uri| {
            found.borrow_mut().push(uri.to_owned());
            uri.into()
        });
        let found = found.into_inner();
        if !found.is_empty() {
            self.add_links(&Owner::of(call), server, found.iter().map(String::as_str));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(server: &str) -> Origin {
        Origin { server: server.into(), fingerprint: "f".into() }
    }

    #[test]
    fn the_links_of_an_owner_and_of_a_server_are_bounded_and_the_first_server_stays() {
        let links = Links::default();
        let [one, two] = ["one", "two"].map(origin);
        let (ada, grace) = (Owner::Principal("ada".into()), Owner::Session("ada".into()));
        links.add(&ada, &one, ["a:0"], |_| true);
        links.add(&ada, &two, ["a:0", &"x".repeat(LONGEST + 1)], |_| true);
        assert_eq!(links.origin_of(&ada, "a:0"), Some(one));
        assert_eq!(links.origin_of(&grace, "a:0"), None);
        assert_eq!(links.origin_of(&ada, &"x".repeat(LONGEST + 1)), None);
        let many: Vec<String> = (1..=URIS + 1).map(|n| format!("a:{n}")).collect();
        links.add(&ada, &two, many.iter().map(String::as_str), |_| true);
        // The oldest link of the same server is forgotten.
        for (uri, is_known) in [("a:0", true), ("a:1", false), ("a:2", true)] {
            assert_eq!(links.origin_of(&ada, uri).is_some(), is_known, "{uri}");
        }
        let long: Vec<String> = (0..URIS).map(|n| format!("{n}{}", "x".repeat(LONGEST - 8))).collect();
        links.add(&ada, &two, long.iter().map(String::as_str), |_| true);
        let known = links.known.lock();
        let owned = &known.owners[&ada];
        assert!(owned.of_server["two"].1 <= BYTES && known.bytes == owned.bytes, "{} {}", known.bytes, owned.bytes);
        assert_eq!(owned.origins.len(), owned.of_server.values().map(|(uris, _)| uris.len()).sum::<usize>());
    }

    #[test]
    fn the_link_to_a_server_that_the_gateway_does_not_serve_is_replaced() {
        let (links, owner) = (Links::default(), Owner::Anonymous);
        let [one, two] = ["one", "two"].map(origin);
        for (from, served, expected) in
            [(&one, "one two", &one), (&two, "one two", &one), (&two, "two", &two), (&one, "one two", &two)]
        {
            links.add(&owner, from, ["a:0"], |origin| served.contains(&*origin.server));
            assert_eq!(links.origin_of(&owner, "a:0").as_ref(), Some(expected), "{} {served}", from.server);
            let known = links.known.lock();
            let owned = &known.owners[&owner];
            assert_eq!((known.bytes, owned.bytes), (size("a:0"), size("a:0")));
            let of_server: Vec<_> = owned.of_server.iter().map(|(server, (uris, _))| (server, uris.len())).collect();
            assert_eq!(of_server, [(&expected.server, 1)]);
        }
    }

    #[test]
    fn the_links_of_all_owners_are_bounded() {
        let links = Links::default();
        let (server, owner) = (origin("s"), |n: usize| Owner::Principal(n.to_string().into()));
        for n in 0..OWNERS {
            links.add(&owner(n), &server, ["a:0"], |_| true);
        }
        links.add(&owner(0), &server, ["a:1"], |_| true);
        links.add(&owner(OWNERS), &server, ["a:0"], |_| true);
        for (n, is_known) in [(0, true), (1, false), (2, true), (OWNERS, true)] {
            assert_eq!(links.origin_of(&owner(n), "a:0").is_some(), is_known, "{n}");
        }
        let long: Vec<String> = (0..URIS).map(|n| format!("{n}{}", "x".repeat(LONGEST - 8))).collect();
        for n in 0..1000 {
            links.add(&owner(n), &server, long.iter().map(String::as_str), |_| true);
        }
        let known = links.known.lock();
        assert!(known.bytes <= TOTAL_BYTES && known.owners.len() <= OWNERS, "{}", known.bytes);
        assert_eq!(known.bytes, known.owners.values().map(|owned| owned.bytes).sum::<usize>());
    }
}
