//! The shapes of the skills extension (SEP-2640, a draft): directories of instructions, served as resources.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;

use crate::{CacheScope, JsonObject, Meta, json};

/// The identifier of the extension in capabilities.
pub const IDENTIFIER: &str = "io.modelcontextprotocol/skills";

/// The setting of the extension for servers that can list directories.
pub const DIRECTORY_READ: &str = "directoryRead";

/// The media type of a directory.
pub const DIRECTORY_MIME_TYPE: &str = "inode/directory";

/// A skill: an entry of `skills/list`, and the result of `skills/get`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Skill {
    /// The URI of its `SKILL.md`, which is its identity.
    pub uri: String,
    /// The front matter of its `SKILL.md`, all of it, as JSON.
    pub frontmatter: JsonObject,
    /// Its files.
    pub resources: SkillResources,
}

impl Skill {
    /// Returns a skill whose files are known.
    pub fn new(uri: impl Into<String>, frontmatter: impl Into<JsonObject>, files: Vec<SkillFile>) -> Self {
        Self { uri: uri.into(), frontmatter: frontmatter.into(), resources: SkillResources::Files(files) }
    }
}

/// The files of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkillResources {
    /// All of them, each once, `SKILL.md` included.
    Files(Vec<SkillFile>),
    /// The server generates the files on request, so it cannot list them in advance.
    Dynamic,
}

const DYNAMIC: &str = "dynamic";

impl Serialize for SkillResources {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Files(files) => files.serialize(serializer),
            Self::Dynamic => serializer.serialize_str(DYNAMIC),
        }
    }
}

impl<'de> Deserialize<'de> for SkillResources {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(word) if word == DYNAMIC => Ok(Self::Dynamic),
            files @ Value::Array(_) => serde_json::from_value(files).map(Self::Files).map_err(D::Error::custom),
            _ => Err(D::Error::custom("`resources` is a list of files, or \"dynamic\"")),
        }
    }
}

/// A file of a skill, and what its bytes are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SkillFile {
    /// The URI to read it by.
    pub uri: String,
    /// `sha256:` and 64 hexadecimal digits, of its bytes.
    pub digest: String,
    /// How many bytes it has.
    #[serde(default, deserialize_with = "json::size", skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

impl SkillFile {
    /// Returns a file.
    pub fn new(uri: impl Into<String>, digest: impl Into<String>, size: u64) -> Self {
        Self { uri: uri.into(), digest: digest.into(), size: Some(size) }
    }
}

list_result! {
    /// The result of `skills/list`: one page. A page can be empty although the server has skills.
    ListSkillsResult {
        /// The skills of this page.
        skills: Skill
    }
}

/// The parameters of `skills/get`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct GetSkillParams {
    /// The URI of the skill's `SKILL.md`.
    pub uri: String,
    /// Metadata of the request.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl GetSkillParams {
    /// Returns a request for the skill with this URI of its `SKILL.md`.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), meta: None }
    }
}

setters! {
    GetSkillParams {
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// The result of `skills/get`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct GetSkillResult {
    /// The skill.
    pub skill: Skill,
    /// For how long it is fresh, in milliseconds (2026-07-28).
    #[serde(default, deserialize_with = "json::millis", skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// The callers that may share the cached result (2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_scope: Option<CacheScope>,
    /// Metadata of the result.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// The parameters of `resources/directory/read`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ReadDirectoryParams {
    /// The URI of the directory, without a slash at its end.
    pub uri: String,
    /// The cursor of the page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Metadata of the request.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ReadDirectoryParams {
    /// Returns a request for the first page of a directory.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), cursor: None, meta: None }
    }
}

setters! {
    ReadDirectoryParams {
        /// Sets the cursor of the page.
        with_cursor = text cursor;
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn skills_round_trip_in_the_form_of_the_draft() {
        let file = json!({ "uri": "skill://a/SKILL.md", "digest": "sha256:00", "size": 3 });
        let listed = json!({ "uri": "skill://a/SKILL.md", "frontmatter": { "name": "a" }, "resources": [file] });
        let dynamic = json!({ "uri": "skill://a/SKILL.md", "frontmatter": {}, "resources": "dynamic" });
        for value in [listed, dynamic] {
            let skill: Skill = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(serde_json::to_value(&skill).unwrap(), value);
        }
        for resources in [json!("other"), json!({}), json!(null), json!([1])] {
            let value = json!({ "uri": "u", "frontmatter": {}, "resources": resources });
            assert!(serde_json::from_value::<Skill>(value).is_err(), "{resources}");
        }
    }
}
