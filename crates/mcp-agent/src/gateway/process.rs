//! The process of a server that has a task: the ids of tasks name it, because a process numbers its tasks as it likes.

use std::{
    fmt,
    hash::{BuildHasher as _, RandomState},
    sync::LazyLock,
};

/// The random id of this program. The processes of other gateways, and those before a restart, have other ids.
static PROGRAM: LazyLock<String> = LazyLock::new(|| {
    let [first, second] = [(); 2].map(|()| RandomState::new().hash_one(std::process::id()));
    format!("{first:016x}{second:016x}")
});

/// A process that this gateway or another one has started. No later process has an equal value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Process(Box<str>);

impl Process {
    /// Returns the process of a connection of this program.
    pub(super) fn of(connection: u64) -> Self {
        Self(format!("{}-{connection}", *PROGRAM).into())
    }

    /// Reads the text of a process.
    pub(super) fn read(text: String) -> Self {
        Self(text.into())
    }

    /// Returns the number of bytes of its text.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of its connection; `None` for a process of another gateway, or of this one before a restart.
    pub(super) fn number(&self) -> Option<u64> {
        self.0.strip_prefix(&**PROGRAM)?.strip_prefix('-')?.parse().ok()
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_process_of_this_program_has_a_number() {
        let own = Process::of(7);
        assert_eq!(Process::read(own.to_string()), own);
        for (text, expected) in
            [(own.to_string(), Some(7)), (format!("{}7", *PROGRAM), None), ("0123-7".to_owned(), None)]
        {
            assert_eq!(Process::read(text.clone()).number(), expected, "{text}");
        }
    }
}
