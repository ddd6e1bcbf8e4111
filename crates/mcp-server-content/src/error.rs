//! The error of a file that could not be served.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;

/// A file that could not be served, and the reason. The server serves the other files.
///
/// ```
/// use mcp_server_content::Skills;
/// use mcp_server_core::Server;
///
/// let builder = Server::builder::<()>("skills", "1.0.0");
/// let (_builder, errors) = Skills::new().dir("missing").add_to(builder)?;
/// assert_eq!(errors[0].path(), "missing");
/// assert_eq!(errors[0].to_string(), format!("missing: {}", errors[0].reason()));
/// # Ok::<(), mcp_server_core::RegistrationError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContentError {
    path: PathBuf,
    reason: String,
}

impl ContentError {
    pub(crate) fn new(path: impl Into<PathBuf>, reason: impl fmt::Display) -> Self {
        Self { path: path.into(), reason: reason.to_string() }
    }

    /// Returns the path of the file or the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the reason, as a sentence.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for ContentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

impl fmt::Debug for ContentError {
    /// Writes the sentence, because a program whose `main` returns the error prints this form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ContentError {}

/// Collects the errors of an extension while a builder registers it. The clones share one list.
#[derive(Debug, Clone, Default)]
pub(crate) struct ErrorReport(Arc<Mutex<Vec<ContentError>>>);

impl ErrorReport {
    /// Logs an error and keeps it.
    pub(crate) fn push(&self, error: ContentError) {
        tracing::warn!(path = %error.path.display(), reason = error.reason, "a file is not served");
        self.0.lock().push(error);
    }

    pub(crate) fn take(&self) -> Vec<ContentError> {
        std::mem::take(&mut self.0.lock())
    }
}
