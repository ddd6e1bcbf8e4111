//! Task ids: unguessable, and sorted by the time of creation.

use crate::random::{self, NoRandomNumbers};

const PREFIX: &str = "task_";
const DIGITS: usize = 2 * 32;

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
    text.strip_prefix(PREFIX).is_some_and(|digits| digits.len() == DIGITS && digits.bytes().all(is_digit))
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
}
