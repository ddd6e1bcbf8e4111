//! Whom a task belongs to, and the names of its records.

use std::sync::Arc;

use mcp_protocol::Principal;

/// Whom a task belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Owner(Arc<str>);

const ANYONE: &str = "anyone";
const LOCAL: &str = "local";
const PREFIX: &str = "mcp/task/";

impl Owner {
    /// Somebody who was authenticated, else whoever owns the process, else whoever knows the id of the task.
    pub(crate) fn of(principal: Option<&Principal>, is_local: bool) -> Self {
        Self(match principal {
            // The key of a principal is a JSON array, which no word can be.
            Some(principal) => principal.key().into(),
            None if is_local => LOCAL.into(),
            None => ANYONE.into(),
        })
    }

    /// Whether it is one caller. Where callers cannot be told apart, nobody is shown a list.
    pub(crate) fn is_one(&self) -> bool {
        &*self.0 != ANYONE
    }

    /// An owner as a record names it.
    pub(crate) fn named(name: &str) -> Self {
        Self(name.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// What the names of all records of this owner begin with. Names are short and owners are not, so that it is a hash;
    /// who shares it with somebody else is told apart by the record itself.
    pub(crate) fn prefix(&self) -> String {
        let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = self.0.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, fnv);
        format!("{PREFIX}{hash:016x}/")
    }

    /// The name of the record of a task.
    pub(crate) fn key(&self, id: &str) -> String {
        self.prefix() + id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_told_apart() {
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
