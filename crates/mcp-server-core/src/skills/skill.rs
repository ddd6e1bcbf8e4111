//! A skill on its way into a server: its path and its files.

use std::{collections::BTreeMap, fmt, path::Path};

use super::check::{MAX_BYTES, MAX_FILES, SKILL_MD};
use crate::content::{ContentProblem, Sandbox, list};

/// Files beneath a directory of skills that are looked at.
const MAX_LISTED: usize = 100_000;

/// A skill: a directory of instructions for agents, with a file `SKILL.md` that begins with front matter in YAML.
///
/// ```
/// use mcp_server_core::{Server, Skill};
///
/// let skill = Skill::new("acme/git-workflow", "---\nname: git-workflow\ndescription: How we commit.\n---\nSmall.\n")
///     .file("references/style.md", "# Style\n");
/// let server = Server::builder("skills", "1.0.0").skill(skill).build();
/// # let _: Server = server;
/// ```
#[derive(Clone)]
#[must_use = "a skill is served by a server"]
pub struct Skill {
    pub(super) path: String,
    pub(super) files: BTreeMap<String, Vec<u8>>,
}

impl Skill {
    /// A skill at a path: segments of letters, digits and `-._~`, whose last one is the skill's name. `skill_md` is the
    /// content of its `SKILL.md`.
    pub fn new(path: impl Into<String>, skill_md: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), files: BTreeMap::from([(SKILL_MD.to_owned(), skill_md.into())]) }
    }

    /// Adds a file, by its path from the skill's directory on. One of the same path is replaced.
    pub fn file(mut self, path: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        self.files.insert(path.into(), content.into());
        self
    }

    /// Reads a skill from a directory, to be served under a path. Files and directories whose names begin with a dot are
    /// no part of it; links are followed to files inside of the directory only.
    ///
    /// # Errors
    /// When a file cannot be read, or there are more than 512 of them, or more than 16 MiB.
    pub fn from_dir(path: impl Into<String>, dir: impl AsRef<Path>) -> Result<Self, ContentProblem> {
        let dir = dir.as_ref();
        let sandbox = Sandbox::new(dir);
        let listed = list(&sandbox, MAX_FILES + 1, u64::MAX).map_err(|error| ContentProblem::new(dir, error))?;
        if listed.len() > MAX_FILES {
            return Err(ContentProblem::new(dir, format!("the skill has more than {MAX_FILES} files")));
        }
        let mut files = BTreeMap::new();
        let mut left = MAX_BYTES;
        for name in listed.into_keys() {
            let bytes = sandbox.read(&name, left).map_err(|error| ContentProblem::new(dir.join(&name), error))?;
            left -= bytes.len() as u64;
            files.insert(name, bytes);
        }
        Ok(Self { path: path.into(), files })
    }
}

impl fmt::Debug for Skill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Skill").field("path", &self.path).field("files", &self.files.keys()).finish()
    }
}

/// The paths beneath a directory at which there are skills, the outer ones first.
pub(super) fn beneath(root: &Path) -> Result<Vec<String>, ContentProblem> {
    let listed = list(&Sandbox::new(root), MAX_LISTED, u64::MAX).map_err(|error| ContentProblem::new(root, error))?;
    if listed.contains_key(SKILL_MD) {
        let reason = format!("`{SKILL_MD}` lies in the directory of skills itself, and not in one of its own");
        return Err(ContentProblem::new(root, reason));
    }
    let directory = |file: &String| Some(file.strip_suffix(SKILL_MD)?.strip_suffix('/')?.to_owned());
    let mut paths: Vec<String> = listed.keys().filter_map(directory).collect();
    paths.sort_by_cached_key(|path| (path.matches('/').count(), path.clone()));
    Ok(paths)
}

/// The directories that a path lies in, the innermost first.
pub(super) fn above(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(path.rsplit_once('/'), |(outer, _)| outer.rsplit_once('/')).map(|(outer, _)| outer)
}
