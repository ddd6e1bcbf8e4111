//! The pages that a session sent its user to, until the user is done there.

use std::collections::{HashMap, VecDeque};

use parking_lot::{Mutex, MutexGuard};

/// The most pages that a session remembers. The oldest page of the origin with the most pages is dropped first.
const PAGES: usize = 64;

/// The longest id of a page that a session remembers, in bytes.
const LONGEST_ID: usize = 1024;

/// The pages, with the oldest one first.
#[derive(Debug, Default)]
pub(super) struct Pages(Mutex<VecDeque<Page>>);

#[derive(Debug)]
struct Page {
    id: Box<str>,
    /// The number of questions about the page without an answer.
    open: usize,
    /// An error named the page, or the client answered a question about it.
    is_kept: bool,
}

impl Pages {
    fn pages(&self) -> MutexGuard<'_, VecDeque<Page>> {
        self.0.lock()
    }

    /// Adds a page of an error.
    pub(super) fn add(&self, id: &str) {
        self.change(id, |page| page.is_kept = true);
    }

    /// Adds a page of a question, until the value is dropped.
    pub(super) fn open(&self, id: String) -> OpenPage<'_> {
        self.change(&id, |page| page.open += 1);
        OpenPage { pages: self, id, is_kept: false }
    }

    /// Changes a page, which becomes the newest one.
    fn change(&self, id: &str, change: impl FnOnce(&mut Page)) {
        if id.len() > LONGEST_ID {
            return;
        }
        let mut pages = self.pages();
        let known = pages.iter().position(|known| *known.id == *id).and_then(|at| pages.remove(at));
        let mut page = known.unwrap_or_else(|| Page { id: id.into(), open: 0, is_kept: false });
        if pages.len() >= PAGES
            && let Some(at) = oldest_of_most(&pages, origin(id))
        {
            pages.remove(at);
        }
        change(&mut page);
        pages.push_back(page);
    }

    fn close(&self, id: &str, is_kept: bool) {
        let mut pages = self.pages();
        let Some(at) = pages.iter().position(|known| *known.id == *id) else { return };
        if let Some(page) = pages.get_mut(at) {
            page.open = page.open.saturating_sub(1);
            page.is_kept |= is_kept;
            if page.open == 0 && !page.is_kept {
                pages.remove(at);
            }
        }
    }

    /// Removes a page. Returns false when its id is unknown.
    pub(super) fn remove(&self, id: &str) -> bool {
        let mut pages = self.pages();
        let found = pages.iter().position(|known| *known.id == *id);
        found.and_then(|at| pages.remove(at)).is_some()
    }
}

/// The page of a question without an answer. At the drop of the value, the session forgets the page, unless an error or another question
/// keeps it.
#[must_use = "the drop of the value ends the question"]
pub(crate) struct OpenPage<'a> {
    pages: &'a Pages,
    id: String,
    is_kept: bool,
}

impl OpenPage<'_> {
    /// Keeps the page after the question.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for OpenPage<'_> {
    fn drop(&mut self) {
        self.pages.close(&self.id, self.is_kept);
    }
}

/// Returns the origin of a page: the part of its id before the first `/`. A gateway writes the name of the server there, so the pages of
/// one server cannot displace those of all others.
fn origin(id: &str) -> &str {
    id.split_once('/').map_or("", |(origin, _)| origin)
}

/// Returns the place of the oldest page of the origin that has the most pages, after one more page of `added`.
fn oldest_of_most(pages: &VecDeque<Page>, added: &str) -> Option<usize> {
    let mut counts = HashMap::from([(added, 1_usize)]);
    pages.iter().for_each(|page| *counts.entry(origin(&page.id)).or_default() += 1);
    let most = counts.values().max().copied();
    pages.iter().position(|page| counts.get(origin(&page.id)).copied() == most)
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
        assert_eq!(pages.pages().len(), PAGES);
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
        assert_eq!(pages.pages().len(), PAGES);
        for id in ["a/1", "plain", "b/1", "a/2", "b/2"] {
            assert!(pages.remove(id), "{id}");
        }
        // The newest pages of the origin stay.
        assert!(pages.remove(&format!("flood/{}", 10 * PAGES - 1)) && !pages.remove("flood/0"));
    }

    #[test]
    fn a_question_without_an_answer_removes_no_page_that_an_error_or_another_question_keeps() {
        let pages = Pages::default();
        let open = || pages.open("p".to_owned());
        drop(open());
        assert!(!pages.remove("p"));
        let question = open();
        pages.add("p");
        drop(question);
        assert!(pages.remove("p"), "an error during the question");
        pages.add("p");
        drop(open());
        assert!(pages.remove("p"), "an error before the question");
        let (first, second) = (open(), open());
        drop(first);
        assert_eq!(pages.pages().len(), 1, "another question is open");
        second.keep();
        drop(open());
        assert!(pages.remove("p"), "another question has an answer");
    }

    #[test]
    fn a_session_remembers_no_long_id() {
        let pages = Pages::default();
        for (length, is_kept) in [(LONGEST_ID, true), (LONGEST_ID + 1, false)] {
            let id = "i".repeat(length);
            pages.add(&id);
            drop(pages.open(id.clone()));
            assert_eq!(pages.remove(&id), is_kept, "{length}");
        }
    }
}
