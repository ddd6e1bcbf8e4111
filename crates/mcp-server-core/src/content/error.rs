//! What of a directory could not be served, and why.

use std::{
    fmt,
    path::{Path, PathBuf},
};

/// A file that could not be served, and why. The others are.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContentProblem {
    path: PathBuf,
    reason: String,
}

impl ContentProblem {
    pub(crate) fn new(path: impl Into<PathBuf>, reason: impl fmt::Display) -> Self {
        Self { path: path.into(), reason: reason.to_string() }
    }

    /// The file, or the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Why it is not served, in a sentence.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    pub(crate) fn log(&self) {
        tracing::warn!(path = %self.path.display(), reason = self.reason, "a file is not served");
    }
}

impl fmt::Display for ContentProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

impl fmt::Debug for ContentProblem {
    /// The sentence, since that is what a program prints whose `main` returns the error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ContentProblem {}
