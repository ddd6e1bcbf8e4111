//! Verifies skills against their entries. Each refusal is a sentence.

use std::collections::HashSet;

use mcp_protocol::skills::{Skill, SkillFile, SkillResources};
use mcp_schema::{FrontMatter, is_canonical_relative_path};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The file that makes a directory a skill.
const SKILL_MD: &str = "SKILL.md";

type Refusal = Box<str>;

/// Returns the file of the `SKILL.md`, if the entry is valid.
pub(super) fn entry(skill: &Skill) -> Result<&SkillFile, Refusal> {
    let refuse = |what: &str| Refusal::from(format!("{}: {what}", skill.uri));
    let directory = directory(skill).ok_or_else(|| refuse("the URI is not that of a SKILL.md in a directory"))?;
    let word = |key: &str| skill.frontmatter.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let (Some(name), Some(_)) = (word("name"), word("description")) else {
        return Err(refuse("the front matter has no name or no description"));
    };
    if directory.trim_end_matches('/').rsplit('/').next() != Some(name) {
        return Err(refuse("its name differs from the name of its directory"));
    }
    let SkillResources::Files(files) = &skill.resources else {
        return Err(refuse("the entry lists no files"));
    };
    let mut seen = HashSet::new();
    for file in files {
        if !file.uri.strip_prefix(directory).is_some_and(is_canonical_relative_path) {
            return Err(refuse(&format!("{} is not a file in its directory", file.uri)));
        }
        if !seen.insert(&*file.uri) {
            return Err(refuse(&format!("{} is listed twice", file.uri)));
        }
        if !is_digest(&file.digest) {
            return Err(refuse(&format!("the digest of {} is not a SHA-256 digest", file.uri)));
        }
    }
    files.iter().find(|file| file.uri == skill.uri).ok_or_else(|| refuse("its SKILL.md is not among its files"))
}

/// Returns the files of a skill.
pub(super) fn files(skill: &Skill) -> &[SkillFile] {
    match &skill.resources {
        SkillResources::Files(files) => files,
        _ => &[],
    }
}

/// Finds a file by its path in the directory of the skill, or by its URI.
pub(super) fn find<'a>(skill: &'a Skill, path: &str) -> Result<&'a SkillFile, Refusal> {
    let path = path.strip_prefix("./").unwrap_or(path);
    let directory = directory(skill).unwrap_or_default();
    let is_meant = |file: &&SkillFile| file.uri == path || file.uri.strip_prefix(directory) == Some(path);
    files(skill).iter().find(is_meant).ok_or_else(|| {
        let path: String = path.chars().take(256).collect();
        format!("{}: it has no file {path:?}", skill.uri).into()
    })
}

/// Verifies the bytes of a file.
pub(super) fn bytes(file: &SkillFile, bytes: &[u8]) -> Result<(), Refusal> {
    let length = bytes.len() as u64;
    if let Some(size) = file.size.filter(|size| *size != length) {
        return Err(format!("{} has {length} bytes instead of {size}", file.uri).into());
    }
    if digest(bytes) != file.digest {
        return Err(format!("the digest of {} differs from its entry", file.uri).into());
    }
    Ok(())
}

/// Returns the text of a `SKILL.md` and the position of its instructions, if the front matter matches the entry.
pub(super) fn instructions(skill: &Skill, bytes: Vec<u8>) -> Result<(String, usize), Refusal> {
    let refuse = |what: &str| Refusal::from(format!("{}: {what}", skill.uri));
    let text = String::from_utf8(bytes).map_err(|_| refuse("it is not UTF-8"))?;
    let read = FrontMatter::read(&text).map_err(|error| refuse(&error.to_string()))?;
    let at = text.len() - read.body.len();
    if !is_same(&Value::Object(read.members), &Value::from(skill.frontmatter.clone())) {
        return Err(refuse("its front matter differs from its entry"));
    }
    Ok((text, at))
}

/// Returns the URI of the directory of a skill, with a trailing slash.
fn directory(skill: &Skill) -> Option<&str> {
    skill.uri.strip_suffix(SKILL_MD).filter(|directory| directory.ends_with('/'))
}

fn digest(bytes: &[u8]) -> String {
    let mut digest = "sha256:".to_owned();
    for byte in Sha256::digest(bytes) {
        digest.push_str(&format!("{byte:02x}"));
    }
    digest
}

fn is_digest(text: &str) -> bool {
    let digits = text.strip_prefix("sha256:");
    digits.is_some_and(|d| d.len() == 64 && d.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
}

/// Compares two values by member. `1` and `1.0` are equal, because some writers know only one kind of number.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| is_same(value, other)))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b)),
        (Value::Number(a), Value::Number(b)) => a == b || ((a.is_f64() || b.is_f64()) && a.as_f64() == b.as_f64()),
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = "---\nname: a\ndescription: d\n---\nDo it.\n";
    const URI: &str = "skill://x/a/SKILL.md";

    fn skill(frontmatter: &Value, files: &[(&str, &str)]) -> Skill {
        let files: Vec<Value> =
            files.iter().map(|(uri, text)| json!({ "uri": uri, "digest": digest(text.as_bytes()) })).collect();
        serde_json::from_value(json!({ "uri": URI, "frontmatter": frontmatter, "resources": files })).unwrap()
    }

    fn plain() -> Skill {
        skill(&json!({ "name": "a", "description": "d" }), &[(URI, TEXT), ("skill://x/a/refs/b.md", "b")])
    }

    #[test]
    fn invalid_entries_are_rejected() {
        assert_eq!(entry(&plain()).unwrap().uri, URI);
        let changed = |change: &dyn Fn(&mut Value)| {
            let mut entry_json = serde_json::to_value(plain()).unwrap();
            change(&mut entry_json);
            serde_json::from_value::<Skill>(entry_json).unwrap()
        };
        for (skill, reason) in [
            (changed(&|entry_json| entry_json["uri"] = json!("skill://x/a/other.md")), "not that of a SKILL.md"),
            (changed(&|entry_json| entry_json["uri"] = json!("skill:SKILL.md")), "not that of a SKILL.md"),
            (
                changed(&|entry_json| entry_json["frontmatter"]["name"] = json!("b")),
                "differs from the name of its directory",
            ),
            (changed(&|entry_json| entry_json["frontmatter"]["description"] = json!(" ")), "no name or no description"),
            (changed(&|entry_json| entry_json["frontmatter"] = json!({})), "no name or no description"),
            (changed(&|entry_json| entry_json["resources"] = json!("dynamic")), "lists no files"),
            (
                changed(&|entry_json| drop(entry_json["resources"].as_array_mut().unwrap().remove(0))),
                "not among its files",
            ),
            (changed(&|entry_json| entry_json["resources"][1]["uri"] = json!(URI)), "listed twice"),
            (
                changed(&|entry_json| entry_json["resources"][1]["uri"] = json!("skill://x/b/c.md")),
                "not a file in its directory",
            ),
            (
                changed(&|entry_json| entry_json["resources"][1]["uri"] = json!("skill://x/a/../b")),
                "not a file in its directory",
            ),
            (
                changed(&|entry_json| entry_json["resources"][1]["uri"] = json!("skill://x/a/%2e%2e/b")),
                "not a file in its directory",
            ),
            (
                changed(&|entry_json| entry_json["resources"][1]["uri"] = json!("skill://x/a/")),
                "not a file in its directory",
            ),
            (changed(&|entry_json| entry_json["resources"][1]["digest"] = json!("sha256:00")), "not a SHA-256 digest"),
            (
                changed(&|entry_json| entry_json["resources"][1]["digest"] = json!(digest(b"").to_uppercase())),
                "not a SHA-256 digest",
            ),
        ] {
            let refusal = entry(&skill).unwrap_err();
            assert!(refusal.contains(reason), "{skill:?}: {refusal}");
        }
    }

    #[test]
    fn files_are_found_by_path_and_by_uri() {
        let skill = plain();
        for path in ["refs/b.md", "./refs/b.md", "skill://x/a/refs/b.md"] {
            assert_eq!(find(&skill, path).unwrap().uri, "skill://x/a/refs/b.md");
        }
        for path in ["b.md", "../a/refs/b.md", "/refs/b.md", "", "skill://other/SKILL.md"] {
            assert!(find(&skill, path).is_err(), "{path}");
        }
    }

    #[test]
    fn bytes_must_match_size_and_digest() {
        // The value of FIPS 180-4's example for "abc".
        let digest = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        for (size, content, reason) in [
            (3, "abc", None),
            (4, "abc", Some("3 bytes instead of 4")),
            (3, "abd", Some("differs from its entry")),
            (4, "abcd", Some("differs from its entry")),
        ] {
            let checked = bytes(&SkillFile::new("u", digest, size), content.as_bytes());
            assert_eq!(checked.is_ok(), reason.is_none(), "{content}");
            assert!(checked.err().unwrap_or_default().contains(reason.unwrap_or_default()), "{content}");
        }
    }

    #[test]
    fn front_matter_must_match_the_entry() {
        let declared = |frontmatter: &Value| skill(frontmatter, &[]);
        let yaml = "name: a\ndescription: d\nmetadata:\n  version: 1.0\n  tags: [x]\n";
        let text = format!("---\n{yaml}---\nDo it.\n");
        let metadata = json!({ "version": 1, "tags": ["x"] });
        for (frontmatter, is_taken) in [
            (json!({ "metadata": metadata, "description": "d", "name": "a" }), true),
            (json!({ "name": "a", "description": "d" }), false),
            (json!({ "name": "a", "description": "e", "metadata": metadata }), false),
            (json!({ "name": "a", "description": "d", "metadata": metadata, "license": "MIT" }), false),
            (json!({ "name": "a", "description": "d", "metadata": { "version": "1.0", "tags": ["x"] } }), false),
            (json!({ "name": "a", "description": "d", "metadata": { "version": 1, "tags": ["x", "y"] } }), false),
        ] {
            let read = instructions(&declared(&frontmatter), text.clone().into_bytes());
            assert_eq!(read.is_ok(), is_taken, "{frontmatter}");
            let instructions = read.map(|(text, at)| text[at..].to_owned());
            assert!(instructions.is_err() || instructions.unwrap() == "Do it.\n");
        }
        for other in [&b"\xff"[..], b"no front matter", b"---\nname: a\n"] {
            assert!(instructions(&plain(), other.to_vec()).is_err());
        }
    }
}
