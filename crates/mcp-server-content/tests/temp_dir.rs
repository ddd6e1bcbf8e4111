//! Temporary directories for tests: empty at the start, one per test.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A directory of a test's own.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        // The build directory may be a symbolic link.
        Self(path.canonicalize().unwrap())
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.0.join(relative)
    }

    pub(crate) fn write(&self, relative: &str, content: impl AsRef<[u8]>) {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn remove(&self, relative: &str) {
        fs::remove_file(self.path(relative)).unwrap();
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
