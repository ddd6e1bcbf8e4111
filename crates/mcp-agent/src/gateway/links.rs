//! The servers of resource links, for gateways with raw URIs.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use mcp_protocol::{Method as _, method};
use parking_lot::Mutex;

use super::{Core, Names, uris};

/// The largest number of URIs. The oldest are forgotten.
const URIS: usize = 4096;
/// The longest URI, in bytes.
const LONGEST: usize = 2048;

/// The servers whose results contained a URI. The first server of a URI stays.
#[derive(Default)]
pub(super) struct Links {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    servers: HashMap<Arc<str>, Arc<str>>,
    oldest: VecDeque<Arc<str>>,
}

impl Links {
    fn add(&self, server: &Arc<str>, uri: &str) {
        let mut known = self.known.lock();
        if uri.len() > LONGEST || known.servers.contains_key(uri) {
            return;
        }
        if known.oldest.len() >= URIS
            && let Some(oldest) = known.oldest.pop_front()
        {
            known.servers.remove(&oldest);
        }
        let uri: Arc<str> = uri.into();
        known.oldest.push_back(Arc::clone(&uri));
        known.servers.insert(uri, Arc::clone(server));
    }

    /// Returns the server whose result contained a URI.
    pub(super) fn server_of(&self, uri: &str) -> Option<Arc<str>> {
        self.known.lock().servers.get(uri).cloned()
    }
}

impl Core {
    /// Remembers the URIs in a result, if the URIs of the gateway do not name their server.
    pub(super) fn learn_links(&self, method: &str, server: &Arc<str>, result: &[u8]) {
        let has_links = method == method::CallTool::NAME || method == method::GetPrompt::NAME;
        if self.names != Names::Raw || !has_links || self.host.catalog().shared_servers().len() < 2 {
            return;
        }
        // The renamed result is not used.
        let _ = uris::rename(method, result, |uri| {
            self.links.add(server, uri);
            uri.into()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_bounded_and_the_first_server_stays() {
        let links = Links::default();
        let [one, two] = ["one", "two"].map(Arc::from);
        links.add(&one, "a:0");
        links.add(&two, "a:0");
        links.add(&two, &"x".repeat(LONGEST + 1));
        assert_eq!(links.server_of("a:0"), Some(one));
        for n in 1..=URIS {
            links.add(&two, &format!("a:{n}"));
        }
        assert_eq!((links.server_of("a:0"), links.server_of("a:1")), (None, Some(two)));
        assert_eq!(links.known.lock().servers.len(), URIS);
    }
}
