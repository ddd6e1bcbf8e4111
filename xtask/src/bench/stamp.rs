//! The inputs of a built program, in a file beside it: its compiler, its sources and its lock file.

use std::{
    ffi::OsString,
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Error};

use crate::{process, workspace};

const VERSION_LIMIT: Duration = Duration::from_secs(20);

/// The inputs of a program as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp(String);

impl Stamp {
    /// Reads the inputs of a program: the compiler, and the files below some paths, without tests. A lock file is one of these files.
    pub(super) fn read(root: &Path, below: &[&str]) -> Result<Self, Error> {
        let mut compiler = Command::new("rustc");
        let compiler = process::capture(compiler.arg("-vV").current_dir(root), VERSION_LIMIT)?;
        Ok(Self::new(&compiler.stdout, sources(root, below)?))
    }

    fn new(compiler: &str, sources: u64) -> Self {
        Self(format!("{}\nsources: {sources:016x}\n", compiler.trim()))
    }

    /// Whether a program has these inputs.
    pub(super) fn is_of(&self, program: &Path) -> bool {
        program.exists() && fs::read_to_string(beside(program)).is_ok_and(|text| text == self.0)
    }

    /// Copies a binary, and then stores its inputs. Returns its size in bytes.
    pub(super) fn store(&self, binary: &Path, program: &Path) -> Result<u64, Error> {
        let stamp = beside(program);
        if stamp.exists() {
            fs::remove_file(&stamp).with_context(|| stamp.display().to_string())?;
        }
        let size = fs::copy(binary, program).with_context(|| binary.display().to_string())?;
        fs::write(&stamp, &self.0).with_context(|| stamp.display().to_string())?;
        Ok(size)
    }
}

/// The file with the inputs of a program.
fn beside(program: &Path) -> PathBuf {
    let mut name: OsString = program.as_os_str().to_owned();
    name.push(".stamp");
    name.into()
}

/// The digest of the names and the contents of the files below some paths, without tests.
fn sources(root: &Path, below: &[&str]) -> Result<u64, Error> {
    let mut digest = DefaultHasher::new();
    let mut files = workspace::files(root)?;
    files.sort();
    for file in files {
        let text = file.to_string_lossy().replace('\\', "/");
        if below.iter().any(|prefix| text.starts_with(prefix)) && !text.contains("/tests/") {
            let contents = fs::read(root.join(&file)).with_context(|| text.clone())?;
            (&text, contents).hash(&mut digest);
        }
    }
    Ok(digest.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_stale_for_another_compiler_or_other_sources() {
        let folder = std::env::temp_dir().join(format!("mcp-bench-stamp-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (binary, program) = (folder.join("binary"), folder.join("program"));
        fs::write(&binary, "text").unwrap();
        let stamp = Stamp::new("rustc 1.95.0\nhost: a\n", 7);
        assert!(!stamp.is_of(&program));
        assert_eq!(stamp.store(&binary, &program).unwrap(), 4);
        for (other, expected) in [
            (stamp.clone(), true),
            (Stamp::new("rustc 1.96.0\nhost: a\n", 7), false),
            (Stamp::new("rustc 1.95.0\nhost: a\n", 8), false),
        ] {
            assert_eq!(other.is_of(&program), expected, "{other:?}");
        }
        fs::remove_file(&program).unwrap();
        assert!(!stamp.is_of(&program));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_lock_file_is_a_source() {
        let root = workspace::root();
        let lock = sources(&root, &["Cargo.lock"]).unwrap();
        assert_eq!(lock, sources(&root, &["Cargo.lock"]).unwrap());
        assert_ne!(lock, sources(&root, &["Cargo."]).unwrap());
        assert_ne!(lock, sources(&root, &[]).unwrap());
    }
}
