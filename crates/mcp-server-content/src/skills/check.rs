//! Checks a skill against the rules of the Agent Skills format and the limits of the extension.

use std::{collections::BTreeMap, sync::Arc};

use mcp_schema::{FrontMatter, is_canonical_relative_path};
use mcp_server_core::RegistrationError;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::{Skill, catalog::File};

/// The file that makes a directory a skill.
pub(super) const SKILL_MD: &str = "SKILL.md";
/// The number of files that a skill may have.
pub(super) const MAX_FILES: usize = 512;
/// The size of all files of a skill together, in bytes.
pub(super) const MAX_BYTES: u64 = 16 * 1024 * 1024;
const MAX_NAME: usize = 64;
const MAX_DESCRIPTION: usize = 1024;

/// A skill that passed all checks.
pub(super) struct Checked {
    /// The files by their path among all skills.
    pub(super) files: BTreeMap<String, Arc<File>>,
    /// The skill itself, and the skills inside of it.
    pub(super) skills: Vec<Head>,
}

/// The front matter of a skill.
#[derive(Clone)]
pub(super) struct Head {
    /// The path of the `SKILL.md`.
    pub(super) path: String,
    pub(super) name: String,
    pub(super) description: String,
    pub(super) frontmatter: Map<String, Value>,
}

pub(super) fn check(skill: Skill) -> Result<Checked, RegistrationError> {
    let Skill { path, files } = skill;
    let refuse = |what: String| RegistrationError::new(format!("the skill `{path}`: {what}"));
    if !path.split('/').all(is_segment) {
        return Err(refuse(
            "its path must have segments of letters, digits and `-._~`, separated by single slashes".into(),
        ));
    }
    let Some(skill_md) = files.get(SKILL_MD) else { return Err(refuse(format!("there is no `{SKILL_MD}`"))) };
    let own =
        head(&format!("{path}/{SKILL_MD}"), skill_md).map_err(|reason| refuse(format!("{SKILL_MD}: {reason}")))?;
    if files.len() > MAX_FILES {
        return Err(refuse(format!("it has more than {MAX_FILES} files")));
    }
    if files.values().map(|bytes| bytes.len() as u64).sum::<u64>() > MAX_BYTES {
        return Err(refuse(format!("it has more than {MAX_BYTES} bytes")));
    }
    if let Some(bad) = files.keys().find(|file| !is_canonical_relative_path(file)) {
        return Err(refuse(format!("`{bad}` is not a valid path of a file in the skill")));
    }
    let is_below = |file: &&String| {
        files.keys().any(|other| other.strip_prefix(file.as_str()).is_some_and(|rest| rest.starts_with('/')))
    };
    if let Some(both) = files.keys().find(is_below) {
        return Err(refuse(format!("`{both}` is a file and a directory")));
    }
    let mut skills = vec![own];
    for (file, bytes) in &files {
        if !file.ends_with(&format!("/{SKILL_MD}")) {
            continue;
        }
        match head(&format!("{path}/{file}"), bytes) {
            Ok(inner) => skills.push(inner),
            // The outer skill keeps it as an ordinary file.
            Err(reason) => tracing::warn!(skill = path, file, reason, "a skill inside of another one is not listed"),
        }
    }
    let files = files.into_iter().map(|(file, bytes)| (format!("{path}/{file}"), Arc::new(File::new(bytes)))).collect();
    Ok(Checked { files, skills })
}

/// Reads the front matter of a `SKILL.md`.
fn head(path: &str, bytes: &[u8]) -> Result<Head, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    let frontmatter = FrontMatter::read(text).map_err(|error| error.to_string())?.members;
    let word = |key: &str| match frontmatter.get(key) {
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(text.clone()),
        _ => Err(format!("the front matter has no text for `{key}`")),
    };
    let (name, description) = (word("name")?, word("description")?);
    if !is_name(&name) {
        return Err(format!(
            "`{name}` is not a valid name: a name has 1 to {MAX_NAME} small letters and digits, and single hyphens between them"
        ));
    }
    if description.chars().count() > MAX_DESCRIPTION {
        return Err(format!("the description is longer than {MAX_DESCRIPTION} characters"));
    }
    if path.rsplit('/').nth(1) != Some(&*name) {
        return Err(format!("its name is `{name}`, which is not the name of its directory"));
    }
    Ok(Head { path: path.to_owned(), name, description, frontmatter })
}

fn is_segment(segment: &str) -> bool {
    !matches!(segment, "" | "." | "..")
        && segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
}

fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME
        && name
            .split('-')
            .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()))
}

impl File {
    fn new(bytes: Vec<u8>) -> Self {
        let mut digest = "sha256:".to_owned();
        for byte in Sha256::digest(&bytes) {
            digest.push_str(&format!("{byte:02x}"));
        }
        Self { digest, bytes: bytes.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill_md(name: &str) -> String {
        format!("---\nname: {name}\ndescription: d\n---\n")
    }

    #[test]
    fn check_rejects_skills_that_break_a_rule() {
        let long = format!("---\nname: a\ndescription: {}\n---\n", "x".repeat(MAX_DESCRIPTION + 1));
        for (skill, reason) in [
            (Skill::new("a", "no front matter"), "no text for `name`"),
            (Skill::new("a", "---\nname: a\n---\n"), "no text for `description`"),
            (Skill::new("a", "---\nname: 1\ndescription: d\n---\n"), "no text for `name`"),
            (Skill::new("a", [0xff]), "not UTF-8"),
            (Skill::new("a", "---\nname: a\n"), "no end"),
            (Skill::new("a", long), "longer than 1024"),
            (Skill::new("a", skill_md("b")), "not the name of its directory"),
            (Skill::new("A", skill_md("A")), "`A` is not a valid name"),
            (Skill::new("a--b", skill_md("a--b")), "is not a valid name"),
            (Skill::new("a-", skill_md("a-")), "is not a valid name"),
            (Skill::new("a".repeat(65), skill_md(&"a".repeat(65))), "is not a valid name"),
            (Skill::new("", skill_md("a")), "segments"),
            (Skill::new("/a", skill_md("a")), "segments"),
            (Skill::new("x/../a", skill_md("a")), "segments"),
            (Skill::new("x y/a", skill_md("a")), "segments"),
            (Skill::new("a", skill_md("a")).file("../b", ""), "not a valid path of a file"),
            (Skill::new("a", skill_md("a")).file("b//c", ""), "not a valid path of a file"),
            (Skill::new("a", skill_md("a")).file("b", "").file("b/c", ""), "`b` is a file and a directory"),
            (Skill::new("a", skill_md("a")).file("b", vec![0; 16 * 1024 * 1024]), "more than 16777216 bytes"),
            (
                (0..MAX_FILES).fold(Skill::new("a", skill_md("a")), |skill, n| skill.file(n.to_string(), "")),
                "more than 512 files",
            ),
        ] {
            let error = check(skill.clone()).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(reason), "{skill:?}: {error}");
        }
    }

    #[test]
    fn check_accepts_skills_at_the_limits() {
        let name = format!("a-{}", "1".repeat(62));
        let most = (1..MAX_FILES).fold(Skill::new("a", skill_md("a")), |skill, n| skill.file(n.to_string(), ""));
        let size = usize::try_from(MAX_BYTES).unwrap() - skill_md("a").len();
        for skill in [Skill::new(&name, skill_md(&name)), Skill::new("a", skill_md("a")).file("b", vec![0; size]), most]
        {
            assert!(check(skill.clone()).is_ok(), "{skill:?}");
        }
    }

    #[test]
    fn check_returns_the_skills_inside_of_a_skill() {
        let skill = Skill::new("x/outer", skill_md("outer"))
            .file("inner/SKILL.md", skill_md("inner"))
            .file("wrong/SKILL.md", skill_md("other"))
            .file("plain/SKILL.md", "no front matter");
        let checked = check(skill).unwrap();
        let paths: Vec<_> = checked.skills.iter().map(|skill| skill.path.as_str()).collect();
        assert_eq!(paths, ["x/outer/SKILL.md", "x/outer/inner/SKILL.md"]);
        assert_eq!(checked.files.len(), 4);
    }
}
