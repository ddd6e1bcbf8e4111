//! The names and capabilities of clients. Sessions of equal clients share one value.

use std::{collections::VecDeque, sync::Arc};

use mcp_protocol::{ClientCapabilities, Implementation};
use parking_lot::Mutex;

/// The number of remembered clients. Most servers have few different clients.
const REMEMBERED: usize = 8;

/// The part of a session that the client sent with `initialize`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ClientIdentity {
    pub(super) info: Implementation,
    pub(super) capabilities: ClientCapabilities,
}

impl ClientIdentity {
    pub(crate) fn new(info: Implementation, capabilities: ClientCapabilities) -> Self {
        Self { info, capabilities }
    }
}

/// The latest different clients of a server.
#[derive(Debug, Default)]
pub(crate) struct ClientIdentities(Mutex<VecDeque<Arc<ClientIdentity>>>);

impl ClientIdentities {
    /// Returns the remembered value that is equal to `identity`, or remembers `identity`.
    pub(crate) fn share(&self, identity: ClientIdentity) -> Arc<ClientIdentity> {
        let mut latest = self.0.lock();
        if let Some(known) = latest.iter().find(|known| ***known == identity) {
            return Arc::clone(known);
        }
        let identity = Arc::new(identity);
        latest.truncate(REMEMBERED - 1);
        latest.push_front(Arc::clone(&identity));
        identity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(name: usize, capabilities: &ClientCapabilities) -> ClientIdentity {
        ClientIdentity::new(Implementation::new(name.to_string(), "1"), capabilities.clone())
    }

    #[test]
    fn equal_clients_share_one_value() {
        let identities = ClientIdentities::default();
        let plain = ClientCapabilities::default();
        let mut with_roots = plain.clone();
        with_roots.roots = Some(Default::default());
        let first = identities.share(identity(0, &plain));
        assert!(Arc::ptr_eq(&first, &identities.share(identity(0, &plain))));
        for other in [identity(0, &with_roots), identity(1, &plain)] {
            let shared = identities.share(other);
            assert!(!Arc::ptr_eq(&first, &shared));
            assert_ne!(first, shared);
        }
    }

    #[test]
    fn the_number_of_remembered_clients_has_a_limit() {
        let identities = ClientIdentities::default();
        let plain = ClientCapabilities::default();
        let first = identities.share(identity(0, &plain));
        for name in 1..=REMEMBERED {
            identities.share(identity(name, &plain));
        }
        assert_eq!(identities.0.lock().len(), REMEMBERED);
        assert!(!Arc::ptr_eq(&first, &identities.share(identity(0, &plain))));
    }
}
