//! A skill before its registration: its path and its files.

use std::{collections::BTreeMap, fmt, path::Path};

use super::check::{MAX_BYTES, MAX_FILES, SKILL_MD};
use crate::{ContentError, listing::list, sandbox::Sandbox};

/// The number of files that a directory of skills may hold.
const MAX_LISTED: usize = 100_000;

/// A skill: a directory of instructions for agents, with a file `SKILL.md` that begins with front matter in YAML.
///
/// # Example
/// ```
/// use mcp_server_content::{Skill, Skills};
/// use mcp_server_core::Server;
///
/// let skill = Skill::new("acme/git-workflow", "---\nname: git-workflow\ndescription: How we commit.\n---\nSmall.\n")
///     .file("references/style.md", "# Style\n");
/// let server = Server::builder("skills", "1.0.0").extension(Skills::new().skill(skill)).build();
/// # let _: Server = server;
/// ```
#[derive(Clone)]
#[must_use = "a skill does nothing until a server has it"]
pub struct Skill {
    pub(super) path: String,
    pub(super) files: BTreeMap<String, Vec<u8>>,
}

impl Skill {
    /// Creates a skill from its path and the content of its `SKILL.md`.
    ///
    /// The path has segments of letters, digits and `-._~`. Its last segment is the name of the skill.
    ///
    /// See the [example](Self#example).
    pub fn new(path: impl Into<String>, skill_md: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), files: BTreeMap::from([(SKILL_MD.to_owned(), skill_md.into())]) }
    }

    /// Adds a file by its path in the directory of the skill. It replaces a file with the same path.
    ///
    /// See the [example](Self#example).
    pub fn file(mut self, path: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        self.files.insert(path.into(), content.into());
        self
    }

    /// Reads a skill from a directory. The server serves it under `path`.
    ///
    /// Hidden files are not a part of the skill. Links are followed to files inside of the directory only.
    ///
    /// # Errors
    /// Returns an error when a file cannot be read, or the directory has more than 512 files or 16 MiB.
    ///
    /// ```no_run
    /// let skill = mcp_server_content::Skill::from_dir("acme/git-workflow", "skills/git-workflow")?;
    /// # let _: mcp_server_content::Skill = skill;
    /// # Ok::<(), mcp_server_content::ContentError>(())
    /// ```
    pub fn from_dir(path: impl Into<String>, dir: impl AsRef<Path>) -> Result<Self, ContentError> {
        let dir = dir.as_ref();
        let sandbox = Sandbox::new(dir);
        let listed = list(&sandbox, MAX_FILES + 1, u64::MAX).map_err(|error| ContentError::new(dir, error))?;
        if listed.len() > MAX_FILES {
            return Err(ContentError::new(dir, format!("the skill has more than {MAX_FILES} files")));
        }
        let mut files = BTreeMap::new();
        let mut left = MAX_BYTES;
        for name in listed.into_keys() {
            let bytes = sandbox.read(&name, left).map_err(|error| ContentError::new(dir.join(&name), error))?;
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

/// Returns the paths of the skills in a directory. Outer skills come before the skills inside of them.
pub(super) fn paths_in(root: &Path) -> Result<Vec<String>, ContentError> {
    let listed = list(&Sandbox::new(root), MAX_LISTED, u64::MAX).map_err(|error| ContentError::new(root, error))?;
    if listed.contains_key(SKILL_MD) {
        let reason =
            format!("`{SKILL_MD}` is in the directory of skills itself, but each skill needs a directory of its own");
        return Err(ContentError::new(root, reason));
    }
    let directory = |file: &String| Some(file.strip_suffix(SKILL_MD)?.strip_suffix('/')?.to_owned());
    let mut paths: Vec<String> = listed.keys().filter_map(directory).collect();
    paths.sort_by_cached_key(|path| (path.matches('/').count(), path.clone()));
    Ok(paths)
}

/// Returns the directories above a path, the innermost first.
pub(super) fn parents(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(path.rsplit_once('/'), |(outer, _)| outer.rsplit_once('/')).map(|(outer, _)| outer)
}
