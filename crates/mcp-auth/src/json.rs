//! JSON without duplicate members: two readers of a token could otherwise see two values.

use std::{collections::HashSet, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

/// Parses an object. `None` if the text is not an object, or an object in it has two members with one name.
pub(crate) fn object(bytes: &[u8]) -> Option<Map<String, Value>> {
    serde_json::from_slice::<Unique>(bytes).ok()?;
    // A feature of serde_json shows numbers to visitors as objects, so the values come from serde_json itself.
    serde_json::from_slice(bytes).ok()
}

/// Accepts each value without duplicate members.
struct Unique;

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Unique;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_str<E>(self, _: &str) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_unit<E>(self) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Unique, A::Error> {
        while items.next_element::<Unique>()?.is_some() {}
        Ok(Unique)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Unique, A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            members.next_value::<Unique>()?;
            if !names.insert(name) {
                return Err(A::Error::custom("an object has two members with one name"));
            }
        }
        Ok(Unique)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_with_duplicate_members_are_rejected() {
        for (text, expected) in [
            (r#"{"a":1,"b":[true,null,-1,0.5,"x",{"c":{}}]}"#, true),
            ("{}", true),
            (r#"{"a":1,"a":1}"#, false),
            (r#"{"a":1,"\u0061":2}"#, false),
            (r#"{"a":{"b":1,"b":2}}"#, false),
            (r#"{"a":[{"b":1,"b":2}]}"#, false),
            ("[]", false),
            ("1", false),
            ("", false),
            ("{} {}", false),
        ] {
            let object = object(text.as_bytes());
            assert_eq!(object.is_some(), expected, "{text}");
            if let Some(object) = object {
                assert_eq!(Value::Object(object), serde_json::from_str::<Value>(text).unwrap());
            }
        }
        assert!(object("{\"a\":".repeat(1_000).as_bytes()).is_none());
    }
}
