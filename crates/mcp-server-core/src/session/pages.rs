//! The pages that a session sent its user to, until the user is done there.

use std::collections::{HashMap, VecDeque};

use parking_lot::{Mutex, MutexGuard};

/// The most pages that a session remembers. The oldest page of the origin with the most pages is dropped first.
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
        if ids.len() >= PAGES
            && let Some(at) = oldest_of_most(&ids, origin(id))
        {
            ids.remove(at);
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

/// Returns the origin of a page: the part of its id before the first `/`. A gateway writes the name of the server there, so the pages of
/// one server cannot displace those of all others.
fn origin(id: &str) -> &str {
    id.split_once('/').map_or("", |(origin, _)| origin)
}

/// Returns the place of the oldest page of the origin that has the most pages, after one more page of `added`.
fn oldest_of_most(ids: &VecDeque<Box<str>>, added: &str) -> Option<usize> {
    let mut counts = HashMap::from([(added, 1_usize)]);
    ids.iter().for_each(|id| *counts.entry(origin(id)).or_default() += 1);
    let most = counts.values().max().copied();
    ids.iter().position(|id| counts.get(origin(id)).copied() == most)
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

    #[test]
    fn the_pages_of_one_origin_displace_no_page_of_another_origin() {
        let pages = Pages::default();
        for id in ["a/1", "plain", "b/1", "a/2"] {
            pages.add(id);
        }
        for n in 0..10 * PAGES {
            pages.add(&format!("flood/{n}"));
        }
        pages.add("b/2");
        assert_eq!(pages.ids().len(), PAGES);
        for id in ["a/1", "plain", "b/1", "a/2", "b/2"] {
            assert!(pages.remove(id), "{id}");
        }
        // The newest pages of the origin stay.
        assert!(pages.remove(&format!("flood/{}", 10 * PAGES - 1)) && !pages.remove("flood/0"));
    }
}
