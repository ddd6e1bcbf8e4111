//! Objects whose members stay raw, and the search for a member in JSON that is not parsed.

use std::{borrow::Cow, fmt, sync::LazyLock};

use memchr::memmem::Finder;
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value, value::RawValue};

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

    /// Replaces each member with a name by one member at the end.
    ///
    /// ```
    /// use mcp_protocol::RawMembers;
    /// use serde_json::value::to_raw_value;
    ///
    /// let two = to_raw_value(&2)?;
    /// let mut members = RawMembers::read(r#"{"a":1,"b":1.50}"#)?;
    /// members.set("a", &two);
    /// assert_eq!(members.write(), r#"{"b":1.50,"a":2}"#);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn set(&mut self, name: &'a str, value: &'a RawValue) {
        self.remove(name);
        self.0.push((name.into(), value));
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

/// A JSON value whose objects have each name once. Two readers of an object with a repeated name can use different values.
///
/// ```
/// use mcp_protocol::UniqueNames;
///
/// let value: UniqueNames = serde_json::from_str(r#"{"a":[{"b":1}]}"#)?;
/// assert_eq!(value.into_value()["a"][0]["b"], 1);
/// let error = serde_json::from_str::<UniqueNames>(r#"{"a":[{"b":1,"\u0062":2}]}"#).unwrap_err();
/// assert!(error.to_string().starts_with("the member \"b\" occurs twice"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct UniqueNames(Value);

impl UniqueNames {
    /// Returns the value.
    #[must_use]
    pub fn into_value(self) -> Value {
        self.0
    }
}

impl<'de> Deserialize<'de> for UniqueNames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Self)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(UniqueNames(value)) = items.next_element()? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            if members.contains_key(&name) {
                return Err(A::Error::custom(format_args!("the member {name:?} occurs twice")));
            }
            let UniqueNames(value) = map.next_value()?;
            members.insert(name, value);
        }
        Ok(Value::Object(members))
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
    fn values_with_unique_names_are_unchanged() {
        for json in ["null", "true", "7", "-7", "1.5", r#""a""#, r#""\n""#, r#"[1,{"a":{"b":[]}},{"a":2}]"#] {
            let read: UniqueNames = serde_json::from_str(json).unwrap();
            assert_eq!(read.into_value(), serde_json::from_str::<Value>(json).unwrap(), "{json}");
        }
    }

    #[test]
    fn members_with_a_literal_are_found() {
        for (json, expected) in [
            (r#"{"task":true}"#, true),
            (r#"{"task" : true}"#, true),
            (r#"{"task":false,"a":{"task":true}}"#, true),
            (r#"{"t\u0061sk":true}"#, true),
            (r#"{"task":false}"#, false),
            (r#"{"a":"task","b":true}"#, false),
            (r#"{"tasks":true}"#, false),
        ] {
            assert_eq!(MemberFinder::new("task").may_have_literal(json.as_bytes(), "true"), expected, "{json}");
        }
    }

    #[test]
    fn each_member_with_a_name_is_removed() {
        let mut members = RawMembers::read(r#"{"a": 1e400, "b":1,"\u0062":[ 2 ],"\"c":""}"#).unwrap();
        assert_eq!(members.remove("b").map(RawValue::get), Some("[ 2 ]"));
        assert!(members.remove("b").is_none());
        assert_eq!(members.write(), r#"{"a":1e400,"\"c":""}"#);
        let two: &RawValue = serde_json::from_str("2").unwrap();
        for (name, written) in [("a", r#"{"\"c":"","a":2}"#), ("d", r#"{"\"c":"","a":2,"d":2}"#)] {
            members.set(name, two);
            assert_eq!(members.write(), written);
        }
        for invalid in ["[]", "7", "{", r#"{"\ud800":1}"#] {
            assert!(RawMembers::read(invalid).is_err(), "{invalid}");
        }
    }
}
