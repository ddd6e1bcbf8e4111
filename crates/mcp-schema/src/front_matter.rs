//! Markdown with front matter: YAML between two lines of three dashes, then the text.

mod yaml;

use std::fmt;

use serde_json::{Map, Value};

/// The maximum bytes of front matter.
const MAX: usize = 64 * 1024;

/// A Markdown file, split into front matter and body (feature `front-matter`).
///
/// ```
/// use mcp_schema::FrontMatter;
///
/// let file = FrontMatter::read("---\nname: review\ntags: [a, b]\n---\n# Review\n")?;
/// assert_eq!(file.members["name"], "review");
/// assert_eq!(file.body, "# Review\n");
/// # Ok::<(), mcp_schema::FrontMatterError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FrontMatter<'a> {
    /// The front matter between the dashes: YAML 1.2 (core schema) as JSON.
    pub members: Map<String, Value>,
    /// The text after the front matter.
    pub body: &'a str,
}

/// The reason why the front matter of a file cannot be read.
///
/// ```
/// use mcp_schema::FrontMatter;
///
/// let error = FrontMatter::read("---\nname: review\n").unwrap_err();
/// assert_eq!(error.to_string(), "the front matter has no end: a line of three dashes");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontMatterError {
    reason: String,
}

/// Reads a YAML document (core schema) as JSON, with the limits of front matter except for its size. For other crates of the
/// workspace.
///
/// # Errors
/// The reason with its line, for a text that is not such a document.
#[doc(hidden)]
pub fn yaml_document(text: &str) -> Result<Value, String> {
    yaml::parse(text)
}

impl<'a> FrontMatter<'a> {
    /// Splits a file. Without front matter there are no members, and the whole text is the body.
    ///
    /// ```
    /// use mcp_schema::FrontMatter;
    ///
    /// let file = FrontMatter::read("# A page\n")?;
    /// assert!(file.members.is_empty());
    /// assert_eq!(file.body, "# A page\n");
    /// # Ok::<(), mcp_schema::FrontMatterError>(())
    /// ```
    ///
    /// # Errors
    /// The front matter has no end, is longer than 64 KiB or is not a mapping. Values without a JSON form are errors
    /// too: keys that are not texts, infinite numbers, tags. Aliases are rejected, so a text cannot grow when it is
    /// read.
    pub fn read(text: &'a str) -> Result<Self, FrontMatterError> {
        Self::split_file(text).map_err(|reason| FrontMatterError { reason })
    }

    fn split_file(text: &'a str) -> Result<Self, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let Some((yaml, body)) = split(text)? else { return Ok(Self { members: Map::new(), body: text }) };
        if yaml.len() > MAX {
            return Err(format!("the front matter is longer than {MAX} bytes"));
        }
        match yaml::parse(yaml).map_err(|error| format!("the front matter: {error}"))? {
            Value::Object(members) => Ok(Self { members, body }),
            Value::Null => Ok(Self { members: Map::new(), body }),
            _ => Err("the front matter is no list of `name: value`".to_owned()),
        }
    }
}

impl fmt::Display for FrontMatterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for FrontMatterError {}

/// The YAML and the body; nothing when the first line is not three dashes.
fn split(text: &str) -> Result<Option<(&str, &str)>, String> {
    let mut lines = text.split_inclusive('\n');
    let Some(first) = lines.next().filter(|line| line.trim_end() == "---") else { return Ok(None) };
    let start = first.len();
    let mut at = start;
    for line in lines {
        let end = at + line.len();
        if line.trim_end() == "---" {
            return Ok(Some((&text[start..at], &text[end..])));
        }
        at = end;
    }
    Err("the front matter has no end: a line of three dashes".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn files_are_split_into_front_matter_and_body() {
        for (text, members, body) in [
            ("---\na: 1\n---\nbody\n", json!({ "a": 1 }), "body\n"),
            ("\u{feff}---\r\na: x\r\n---\r\nbody", json!({ "a": "x" }), "body"),
            ("---\n---", json!({}), ""),
            ("no front\n---\nx: 1\n---\n", json!({}), "no front\n---\nx: 1\n---\n"),
            ("", json!({}), ""),
        ] {
            let read = FrontMatter::read(text).unwrap();
            assert_eq!((Value::Object(read.members), read.body), (members, body), "{text:?}");
        }
        for (text, reason) in
            [("---\na: 1\n", "no end"), ("---\n- a\n---\n", "no list of"), ("---\na: [\n---\n", "the front matter: ")]
        {
            let error = FrontMatter::read(text).unwrap_err();
            assert!(error.to_string().contains(reason), "{text:?}: {error}");
        }
        assert_eq!(yaml_document("a: 1"), Ok(json!({ "a": 1 })));
        let of_length = |length: usize| format!("---\na: {}\n---\n", "x".repeat(length - "a: \n".len()));
        assert!(FrontMatter::read(&of_length(64 << 10)).is_ok());
        assert!(FrontMatter::read(&of_length((64 << 10) + 1)).unwrap_err().to_string().contains("longer"));
    }
}
