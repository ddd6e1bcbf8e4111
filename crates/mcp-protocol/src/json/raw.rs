//! Objects whose members stay raw, and the search for a member in JSON that is not parsed.

use std::{borrow::Cow, fmt, sync::LazyLock};

use memchr::memmem::Finder;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// The members of a JSON object in their order, without decoding their values. Names are decoded.
///
/// ```
/// use mcp_protocol::RawMembers;
///
/// let mut members = RawMembers::read(r#"{"n":1.50,"t\u0061sk":{}}"#)?;
/// assert_eq!(members.remove("task").map(|task| task.get()), Some("{}"));
/// assert_eq!(members.write(), r#"{"n":1.50}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct RawMembers<'a>(pub(crate) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> RawMembers<'a> {
    /// Reads an object. A name can occur several times.
    ///
    /// # Errors
    /// If the text is not a JSON object, or if a name is not valid Unicode.
    pub fn read(json: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }

    /// Returns the names and the values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> + Clone {
        self.0.iter().map(|(name, value)| (&**name, *value))
    }

    /// Removes each member with a name. Returns the value of the last one.
    pub fn remove(&mut self, name: &str) -> Option<&'a RawValue> {
        let mut removed = None;
        self.0.retain(|(known, value)| {
            let stays = known != name;
            removed = if stays { removed } else { Some(*value) };
            stays
        });
        removed
    }

    /// Returns the object as JSON. Each value keeps its bytes.
    #[must_use]
    pub fn write(&self) -> String {
        write(self.iter())
    }
}

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for RawMembers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = RawMembers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawMembers<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some((Name(name), value)) = map.next_entry::<Name<'de>, &'de RawValue>()? {
                    members.push((name, value));
                }
                Ok(RawMembers(members))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// Writes an object.
pub(crate) fn write<'n>(members: impl Iterator<Item = (&'n str, &'n RawValue)> + Clone) -> String {
    let len: usize = members.clone().map(|(name, value)| name.len() + value.get().len() + 8).sum();
    let mut out = String::with_capacity(len + 2);
    out.push('{');
    for (name, value) in members {
        if out.len() > 1 {
            out.push(',');
        }
        // A string is always written.
        out.push_str(&serde_json::to_string(name).unwrap_or_default());
        out.push(':');
        out.push_str(value.get());
    }
    out.push('}');
    out
}

/// Searches JSON text for members with one name, without parsing the text.
///
/// ```
/// use mcp_protocol::MemberFinder;
///
/// let finder = MemberFinder::new("task");
/// assert!(finder.may_have(br#"{"t\u0061sk":{}}"#));
/// assert!(!finder.may_have(br#"{"name":"create_task","text":"a\n"}"#));
/// ```
#[derive(Debug, Clone)]
pub struct MemberFinder {
    quoted: Finder<'static>,
    has_slash: bool,
}

impl MemberFinder {
    /// Returns the finder of a name that contains ASCII letters, digits and `-._/` only. Builds the tables of the search.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let quoted = Finder::new(&format!("\"{name}\"")).into_owned();
        Self { quoted, has_slash: name.contains('/') }
    }

    /// Whether the text can contain a member with the name, at any depth. False is exact, also for names with escaped characters.
    #[must_use]
    pub fn may_have(&self, json: &[u8]) -> bool {
        self.quoted.find(json).is_some() || self.may_be_escaped(json)
    }

    /// Whether the text can contain a member with the name and this literal value, such as `true`.
    pub(crate) fn may_have_literal(&self, json: &[u8], literal: &str) -> bool {
        let length = self.quoted.needle().len();
        let has_value = |start: usize| {
            let value = json[start + length..].trim_ascii_start().strip_prefix(b":");
            value.is_some_and(|value| value.trim_ascii_start().starts_with(literal.as_bytes()))
        };
        self.quoted.find_iter(json).any(has_value) || self.may_be_escaped(json)
    }

    fn may_be_escaped(&self, json: &[u8]) -> bool {
        /// Each other escape is a character that the names do not contain.
        static ASCII: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\\u00"));
        static SLASH: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\\/"));
        // Most texts have no escaped characters, and the search for one byte is the fastest.
        memchr::memchr(b'\\', json).is_some_and(|at| {
            ASCII.find(&json[at..]).is_some() || (self.has_slash && SLASH.find(&json[at..]).is_some())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_with_escaped_names_are_found() {
        for (name, json, expected) in [
            ("task", r#"{"task":1}"#, true),
            ("task", r#"{"a":{"t\u0061sk":1}}"#, true),
            ("task", r#"{"tas\u006B":1}"#, true),
            ("task", r#"{"a":"the \"task\""}"#, false),
            ("task", r#"{"tasks":1,"a":"\n\/\u2028"}"#, false),
            ("a/b", r#"{"a\/b":1}"#, true),
            ("a/b", r#"{"a\u002fb":1}"#, true),
            ("a/b", r#"{"a":"\n"}"#, false),
        ] {
            assert_eq!(MemberFinder::new(name).may_have(json.as_bytes()), expected, "{name} {json}");
        }
    }

    #[test]
    fn each_member_with_a_name_is_removed() {
        let mut members = RawMembers::read(r#"{"a": 1e400, "b":1,"\u0062":[ 2 ],"\"c":""}"#).unwrap();
        assert_eq!(members.remove("b").map(RawValue::get), Some("[ 2 ]"));
        assert!(members.remove("b").is_none());
        assert_eq!(members.write(), r#"{"a":1e400,"\"c":""}"#);
        for invalid in ["[]", "7", "{", r#"{"\ud800":1}"#] {
            assert!(RawMembers::read(invalid).is_err(), "{invalid}");
        }
    }
}
