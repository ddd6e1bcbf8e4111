//! The owner of a task, and the keys of its records.

use std::sync::Arc;

use mcp_protocol::Principal;

use crate::store::hash;

/// The caller that owns a task.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Owner(Arc<str>);

const ANYONE: &str = "anyone";
const LOCAL: &str = "local";
/// The prefix of the keys of all records.
pub(super) const PREFIX: &str = "task/";

impl Owner {
    /// Returns the principal; without one, the local caller; otherwise any caller that knows the id of the task.
    pub(crate) fn of(principal: Option<&Principal>, is_local: bool) -> Self {
        Self(match principal {
            // The key of a principal is a JSON array, so it differs from the words below.
            Some(principal) => principal.key().into(),
            None if is_local => LOCAL.into(),
            None => ANYONE.into(),
        })
    }

    /// Whether the owner is a single caller. Other owners cannot list their tasks.
    pub(crate) fn is_one(&self) -> bool {
        &*self.0 != ANYONE
    }

    /// Returns the owner that a record names.
    pub(crate) fn named(name: &str) -> Self {
        Self(name.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the common prefix of the owner's record keys.
    ///
    /// Keys are short and owners are not, so the prefix has a hash. The record itself resolves a collision.
    pub(crate) fn prefix(&self) -> String {
        format!("{PREFIX}{:016x}/", hash(self.0.as_bytes()))
    }

    /// Returns the key of a task's record.
    pub(crate) fn key(&self, id: &str) -> String {
        self.prefix() + id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_distinguished() {
        let (a, b) = (Principal::new("a"), Principal::new("local"));
        let owners =
            [Owner::of(Some(&a), false), Owner::of(Some(&b), false), Owner::of(None, true), Owner::of(None, false)];
        for (n, owner) in owners.iter().enumerate() {
            assert_eq!(owners.iter().position(|other| other == owner), Some(n));
            assert_eq!(owners.iter().position(|other| other.key("t") == owner.key("t")), Some(n));
            assert_eq!(owner.is_one(), n != 3);
        }
        assert_eq!(owners[0], Owner::of(Some(&a), true));
    }
}
