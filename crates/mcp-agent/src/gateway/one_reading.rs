//! The check that JSON has one reading: each object has each name once.

use std::{collections::HashSet, fmt};

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Whether each reader of JSON finds the same values. If an object has a name twice, one reader can use the first value and another
/// reader the last one.
pub(super) fn has_one_reading(json: &str) -> bool {
    serde_json::from_str::<OneReading>(json).is_ok()
}

/// A value whose objects have each name once.
struct OneReading;

impl<'de> Deserialize<'de> for OneReading {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Values)
    }
}

struct Values;

impl<'de> Visitor<'de> for Values {
    type Value = OneReading;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<OneReading, E> {
        Ok(OneReading)
    }

    fn visit_i64<E>(self, _: i64) -> Result<OneReading, E> {
        Ok(OneReading)
    }

    fn visit_u64<E>(self, _: u64) -> Result<OneReading, E> {
        Ok(OneReading)
    }

    fn visit_f64<E>(self, _: f64) -> Result<OneReading, E> {
        Ok(OneReading)
    }

    fn visit_str<E>(self, _: &str) -> Result<OneReading, E> {
        Ok(OneReading)
    }

    fn visit_unit<E>(self) -> Result<OneReading, E> {
        Ok(OneReading)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<OneReading, A::Error> {
        while entries.next_element::<OneReading>()?.is_some() {}
        Ok(OneReading)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<OneReading, A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if !names.insert(name) {
                return Err(A::Error::custom("a name occurs twice"));
            }
            members.next_value::<OneReading>()?;
        }
        Ok(OneReading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_occurs_once_in_each_object() {
        for (json, is_accepted) in [
            (r#"{"a":1,"b":[{"a":-1},{"a":1.5}],"c":{"a":null,"b":true,"c":"a"}}"#, true),
            (r#"{"a":1,"a":1}"#, false),
            (r#"{"a":1,"\u0061":1}"#, false),
            (r#"{"a":{"b":1,"b":2}}"#, false),
            (r#"{"a":[1,{"b":1,"b":2}]}"#, false),
            (r#"[{"a":1},{"a":1}]"#, true),
            ("18446744073709551616", true),
            (r#"{"a":1"#, false),
        ] {
            assert_eq!(has_one_reading(json), is_accepted, "{json}");
        }
    }
}
