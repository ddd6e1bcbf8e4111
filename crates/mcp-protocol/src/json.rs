//! The JSON object type of open shapes, and the lenient readers that the wire types share.

pub(crate) mod raw;
pub(crate) mod write;

use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::LazyLock,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use serde_json::{Map, Value};

/// A JSON object whose members are not fixed by the protocol.
///
/// ```
/// use mcp_protocol::JsonObject;
///
/// let object = JsonObject::new().with("city", "Bern").with("days", 3);
/// assert_eq!(object.get("days").and_then(|days| days.as_u64()), Some(3));
/// ```
///
/// It derefs to [`serde_json::Map`], so the methods of a map are available. An object without members has the size of a pointer,
/// because most wire types have such objects and most messages leave them empty.
#[derive(Clone, Default)]
pub struct JsonObject(Option<Box<Map<String, Value>>>);

static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

impl JsonObject {
    /// Returns an object without members.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the members of a value that is an object; `None` for any other value.
    #[must_use]
    pub fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Object(map) => Some(map.into()),
            _ => None,
        }
    }

    /// Adds a member.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.insert(key.into(), value.into());
        self
    }

    /// Returns the members.
    #[must_use]
    pub fn into_inner(self) -> Map<String, Value> {
        self.0.map_or_else(Map::new, |members| *members)
    }
}

impl Deref for JsonObject {
    type Target = Map<String, Value>;
    fn deref(&self) -> &Self::Target {
        self.0.as_deref().unwrap_or_else(|| &EMPTY)
    }
}

impl DerefMut for JsonObject {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.0.get_or_insert_default()
    }
}

impl fmt::Debug for JsonObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JsonObject").field(&**self).finish()
    }
}

impl PartialEq for JsonObject {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for JsonObject {}

impl Serialize for JsonObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for JsonObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Map::deserialize(deserializer).map(Self::from)
    }
}

impl From<Map<String, Value>> for JsonObject {
    fn from(map: Map<String, Value>) -> Self {
        Self((!map.is_empty()).then(|| Box::new(map)))
    }
}

impl From<JsonObject> for Map<String, Value> {
    fn from(object: JsonObject) -> Self {
        object.into_inner()
    }
}

impl From<JsonObject> for Value {
    fn from(object: JsonObject) -> Self {
        Self::Object(object.into_inner())
    }
}

impl<K: Into<String>, V: Into<Value>> FromIterator<(K, V)> for JsonObject {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(members: I) -> Self {
        members.into_iter().map(|(k, v)| (k.into(), v.into())).collect::<Map<_, _>>().into()
    }
}

impl IntoIterator for JsonObject {
    type Item = (String, Value);
    type IntoIter = serde_json::map::IntoIter;
    fn into_iter(self) -> Self::IntoIter {
        self.into_inner().into_iter()
    }
}

impl<'a> IntoIterator for &'a JsonObject {
    type Item = (&'a String, &'a Value);
    type IntoIter = serde_json::map::Iter<'a>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Reads `null` as the default: peers write `null` for what they leave out.
pub(crate) fn null_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Reads a member that is there, `null` included, as `Some`. With `default`, an absent member stays `None`.
pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Reads a size: an integer, or a float without a fraction (some schemas have the type `number`).
pub(crate) fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let Some(number) = Option::<serde_json::Number>::deserialize(deserializer)? else { return Ok(None) };
    whole(&number).map(Some).ok_or_else(|| de::Error::custom("expected an integer of at least 0"))
}

/// Reads a duration in milliseconds: a negative one counts as 0, a fraction is cut off.
pub(crate) fn millis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(Option::<serde_json::Number>::deserialize(deserializer)?.map(|number| duration(&number)))
}

fn duration(number: &serde_json::Number) -> u64 {
    // The cast saturates at both ends, which is what a duration out of range should do.
    number.as_u64().unwrap_or_else(|| number.as_f64().unwrap_or(0.0) as u64)
}

fn whole(number: &serde_json::Number) -> Option<u64> {
    if let Some(n) = number.as_u64() {
        return Some(n);
    }
    // Floats are exact integers up to 2^53 only.
    let float = number.as_f64()?;
    (float.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&float)).then_some(float as u64)
}

/// Reads a member of a closed set of words, and drops a word that this library does not know.
pub(crate) fn known<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: de::DeserializeOwned,
{
    Ok(Option::<Value>::deserialize(deserializer)?.and_then(|value| T::deserialize(value).ok()))
}

/// Reads a list of words of a closed set, without those that this library does not know.
pub(crate) fn known_list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: de::DeserializeOwned,
{
    let values = Option::<Vec<Value>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(values.into_iter().filter_map(|value| T::deserialize(value).ok()).collect())
}

/// Writes a float without a fraction as an integer (`1`, not `1.0`), as every other implementation does. One that
/// JSON has no form for is an error: `null` would be another message.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
pub(crate) fn number<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if !value.is_finite() {
        return Err(ser::Error::custom("a number that is not finite has no JSON form"));
    }
    if value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0 {
        serializer.serialize_i64(*value as i64)
    } else {
        serializer.serialize_f64(*value)
    }
}

/// [`number`] for an optional member.
pub(crate) fn optional_number<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => number(value, serializer),
        None => serializer.serialize_none(),
    }
}

/// Whether a flag keeps its default and is left out.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
pub(crate) fn is_false(flag: &bool) -> bool {
    !flag
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_without_members_is_one_object() {
        let mut emptied = JsonObject::new().with("a", 1);
        emptied.remove("a");
        let read: JsonObject = serde_json::from_str("{}").unwrap();
        for empty in [emptied, read, Map::new().into(), JsonObject::new()] {
            assert_eq!(empty, JsonObject::default());
            assert_eq!(json!(empty), json!({}));
            assert_eq!(format!("{empty:?}"), "JsonObject({})");
            assert_eq!(empty.iter().count() + empty.into_iter().count(), 0);
        }
        assert_eq!(size_of::<JsonObject>(), size_of::<usize>());
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Probe {
        #[serde(default, deserialize_with = "size", skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
        #[serde(default, deserialize_with = "millis", skip_serializing_if = "Option::is_none")]
        ttl: Option<u64>,
        #[serde(default, serialize_with = "optional_number", skip_serializing_if = "Option::is_none")]
        float: Option<f64>,
        #[serde(default, deserialize_with = "null_default")]
        list: Vec<u8>,
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        any: Option<Value>,
    }

    fn check(cases: &[(&str, &str)]) {
        for (input, expected) in cases {
            let got = match serde_json::from_str::<Probe>(input) {
                Ok(probe) => serde_json::to_string(&probe).unwrap(),
                Err(error) => error.to_string(),
            };
            assert!(got.starts_with(expected), "{input}\n  got      {got}\n  expected {expected}");
        }
    }

    #[test]
    fn lenient_forms_are_read_and_one_form_is_written() {
        check(&[
            ("{}", r#"{"list":[]}"#),
            (r#"{"size":null,"ttl":null,"float":null,"list":null}"#, r#"{"list":[]}"#),
            (r#"{"size":7,"list":[1]}"#, r#"{"size":7,"list":[1]}"#),
            (r#"{"size":7.0}"#, r#"{"size":7,"#),
            (r#"{"size":1e3}"#, r#"{"size":1000,"#),
            (r#"{"size":18446744073709551615}"#, r#"{"size":18446744073709551615,"#),
            (r#"{"size":7.5}"#, "expected an integer of at least 0"),
            (r#"{"size":-1}"#, "expected an integer of at least 0"),
            (r#"{"size":1e300}"#, "expected an integer of at least 0"),
            (r#"{"size":"7"}"#, "invalid type: string"),
            (r#"{"ttl":-5}"#, r#"{"ttl":0,"#),
            (r#"{"ttl":5.9}"#, r#"{"ttl":5,"#),
            (r#"{"ttl":1e300}"#, r#"{"ttl":18446744073709551615,"#),
            (r#"{"float":1.0}"#, r#"{"float":1,"#),
            (r#"{"float":-0.5}"#, r#"{"float":-0.5,"#),
            (r#"{"float":1e300}"#, r#"{"float":1e+300,"#),
            (r#"{"any":null}"#, r#"{"list":[],"any":null}"#),
            (r#"{"any":0}"#, r#"{"list":[],"any":0}"#),
        ]);
    }

    #[test]
    fn numbers_without_a_json_form_are_errors() {
        for float in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let probe = Probe { size: None, ttl: None, float: Some(float), list: vec![], any: None };
            assert!(serde_json::to_string(&probe).is_err(), "{float}");
        }
    }
}
