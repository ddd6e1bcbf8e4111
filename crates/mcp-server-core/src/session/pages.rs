//! The pages that a session sent its user to, until the user is done there.

use std::collections::VecDeque;

use parking_lot::{Mutex, MutexGuard};

/// The most pages that a session remembers. The oldest is dropped first.
const PAGES: usize = 64;

/// The ids of pages.
#[derive(Debug, Default)]
pub(super) struct Pages {
    ids: Mutex<VecDeque<Box<str>>>,
}

impl Pages {
    fn ids(&self) -> MutexGuard<'_, VecDeque<Box<str>>> {
        self.ids.lock()
    }

    pub(super) fn add(&self, id: &str) {
        let mut ids = self.ids();
        ids.retain(|known| **known != *id);
        if ids.len() >= PAGES {
            ids.pop_front();
        }
        ids.push_back(id.into());
    }

    /// Removes a page. Returns false when its id is unknown.
    pub(super) fn remove(&self, id: &str) -> bool {
        let mut ids = self.ids();
        let found = ids.iter().position(|known| **known == *id);
        found.and_then(|at| ids.remove(at)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_latest_pages() {
        let pages = Pages::default();
        for n in 0..=PAGES {
            pages.add(&n.to_string());
            pages.add("0");
        }
        assert_eq!(pages.ids().len(), PAGES);
        assert!(pages.remove("0") && !pages.remove("0") && !pages.remove("1") && pages.remove("64"));
    }
}
