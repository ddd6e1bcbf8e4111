//! Task ids: unguessable, and sorted by the time of creation.

use crate::random::{self, NoRandomNumbers};

const PREFIX: &str = "task_";
const DIGITS: usize = 2 * 32;
/// The digits of ids of earlier versions: the time, and a UUID of version 4. A fleet may have nodes of both versions.
const FORMER_DIGITS: usize = 12 + 32;

/// Returns a new id: a UUID of version 7, by which ids of one node sort by age, and 122 random bits (a UUID of version 4).
///
/// The random bits of version 7 alone can be guessed by a client that creates a task in the same millisecond.
///
/// # Errors
/// Fails when the system has no random numbers.
pub(super) fn new_id() -> Result<String, NoRandomNumbers> {
    Ok(format!("{PREFIX}{}{}", random::sortable_id()?, random::id()?))
}

/// Whether a text has the form of an id. The store is not asked for any other text.
pub(crate) fn is_id(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.strip_prefix(PREFIX)
        .is_some_and(|digits| matches!(digits.len(), DIGITS | FORMER_DIGITS) && digits.bytes().all(is_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_sorted_by_age_and_recognized() {
        let ids: Vec<_> = (0..1000).map(|_| new_id().unwrap()).collect();
        assert!(ids.is_sorted());
        assert!(ids.iter().all(|id| is_id(id)));
        let random: std::collections::HashSet<_> = ids.iter().map(|id| &id[PREFIX.len() + 32..]).collect();
        assert_eq!(random.len(), ids.len());
        let id = &ids[0];
        for other in ["", "task_", "task_1", &id.to_uppercase(), &format!("{id}0"), &id[..id.len() - 1], &id[1..]] {
            assert!(!is_id(other), "{other}");
        }
    }

    #[test]
    fn ids_of_earlier_versions_are_recognized_and_sort_by_age_too() {
        let former = "task_018f3c5a9b1e5d0f8c2a7b6e4f1903d2c8a7b6e54d10";
        assert_eq!(former.len(), PREFIX.len() + FORMER_DIGITS);
        assert!(is_id(former));
        assert!(*former < *new_id().unwrap());
        for other in [&format!("{former}0"), &former[..former.len() - 1], &former.to_uppercase()] {
            assert!(!is_id(other), "{other}");
        }
    }
}
