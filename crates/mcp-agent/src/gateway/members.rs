//! The members of a JSON object in their order, without decoding their values.

use std::{borrow::Cow, collections::HashSet, fmt};

use mcp_protocol::UniqueNames;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeOwned, Error as _, MapAccess, Visitor},
    ser::SerializeMap as _,
};
use serde_json::value::{RawValue, to_raw_value};

/// The number of members that are compared one by one.
const FEW: usize = 8;

/// The members of a JSON object. Unchanged values stay byte for byte.
#[derive(Debug, Clone, Default)]
pub(super) struct Members<'a>(Vec<(Cow<'a, str>, Cow<'a, RawValue>)>);

/// Checks that each object in a JSON text has each name once. Two readers of an object with a repeated name can use different values.
///
/// # Errors
/// If a name is repeated, or if a value cannot be read.
pub(super) fn check_names(json: &str) -> Result<(), serde_json::Error> {
    serde_json::from_str::<UniqueNames>(json).map(drop)
}

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Members<'a> {
    /// Reads an object.
    pub(super) fn read(json: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }

    pub(super) fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Decodes a member. A member that cannot be decoded counts as absent.
    pub(super) fn decode<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    /// Replaces a member in its place, or adds it.
    pub(super) fn set(&mut self, name: &'static str, value: &(impl Serialize + ?Sized)) {
        let Ok(value) = to_raw_value(value) else { return };
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, place)) => *place = Cow::Owned(value),
            None => self.0.push((name.into(), Cow::Owned(value))),
        }
    }

    /// Replaces a member in its place, or adds it.
    pub(super) fn replace(&mut self, name: &str, value: Box<RawValue>) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, place)) => *place = Cow::Owned(value),
            None => self.0.push((Cow::Owned(name.to_owned()), Cow::Owned(value))),
        }
    }

    /// Changes the name of a member. A member with the new name stays instead.
    pub(super) fn rename(&mut self, from: &str, to: &'static str) {
        if self.get(to).is_some() {
            self.remove(from);
        } else if let Some((name, _)) = self.0.iter_mut().find(|(known, _)| known == from) {
            *name = to.into();
        }
    }

    /// Adds the members of another object whose names are missing here.
    pub(super) fn add_missing(&mut self, other: Members<'a>) {
        for (name, value) in other.0 {
            if self.get(&name).is_none() {
                self.0.push((name, value));
            }
        }
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Cow<'a, RawValue>> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(at).1)
    }

    pub(super) fn write(&self) -> Box<RawValue> {
        // Names and raw values always serialize.
        to_raw_value(self).unwrap_or_default()
    }
}

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(&**name, &**value)?;
        }
        map.end()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let (mut members, mut known) = (Vec::<(Cow<'de, str>, _)>::with_capacity(FEW), HashSet::new());
                while let Some((Name(name), value)) = map.next_entry::<Name<'de>, &'de RawValue>()? {
                    // Two readers could use different values of a name that occurs twice.
                    let is_known = if members.len() < FEW {
                        members.iter().any(|(known, _)| *known == name)
                    } else {
                        if known.is_empty() {
                            known.extend(members.iter().map(|(known, _)| known.clone()));
                        }
                        !known.insert(name.clone())
                    };
                    if is_known {
                        return Err(A::Error::custom(format_args!("the member {name:?} occurs twice")));
                    }
                    members.push((name, Cow::Borrowed(value)));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_object_of_a_json_text_has_each_name_once() {
        for (json, expected) in [
            (r#"{"a":1,"b":[{"a":-1},{"a":1.5}],"c":{"a":null,"b":true,"c":"a"}}"#, true),
            (r#"[{"a":1},{"a":1}]"#, true),
            ("18446744073709551616", true),
            (r#"{"a":1,"a":1}"#, false),
            (r#"{"a":1,"\u0061":1}"#, false),
            (r#"{"a":{"b":1,"b":2}}"#, false),
            (r#"{"a":[1,{"b":1,"b":2}]}"#, false),
            (r#"{"a":1"#, false),
        ] {
            assert_eq!(check_names(json).is_ok(), expected, "{json}");
        }
    }

    #[test]
    fn unchanged_members_keep_their_bytes_and_their_order() {
        let mut members = Members::read(r#"{"a": 1.50, "n\u0061me":"x", "b":{ "c" : [ ] }}"#).unwrap();
        assert_eq!(members.decode::<String>("name").as_deref(), Some("x"));
        members.set("name", "y");
        members.set("new", &7);
        assert_eq!(members.remove("missing").is_none(), members.get("missing").is_none());
        assert_eq!(members.write().get(), r#"{"a":1.50,"name":"y","b":{ "c" : [ ] },"new":7}"#);
        for invalid in [r#"{"a":1,"\u0061":2}"#, "[]", "7", "{"] {
            assert!(Members::read(invalid).is_err(), "{invalid}");
        }
        let many: Vec<String> = (0..3 * FEW).map(|n| format!(r#""m{n}":{n}"#)).collect();
        assert!(Members::read(&format!("{{{}}}", many.join(","))).is_ok());
        for n in [0, FEW - 1, FEW, 3 * FEW - 1] {
            assert!(Members::read(&format!("{{{},\"m{n}\":0}}", many.join(","))).is_err(), "{n}");
        }
    }
}
