//! Parses a Rust type from named texts: prompt arguments and template variables are texts on the wire.

use std::fmt;

use serde::de::{
    self, DeserializeOwned, Deserializer, IntoDeserializer,
    value::{MapDeserializer, SeqDeserializer, StringDeserializer},
};
use serde_path_to_error::Segment;

use super::StringArgument;

pub(super) fn from_strings<T: DeserializeOwned>(list: Vec<(String, StringArgument)>) -> Result<T, Error> {
    let members = MapDeserializer::new(list.into_iter().map(|(name, value)| (name, Value(value))));
    serde_path_to_error::deserialize(members).map_err(|error| match error.path().iter().next() {
        Some(Segment::Map { key }) => Error(format!("`{key}`: {}", error.inner())),
        _ => error.into_inner(),
    })
}

/// The reason why the texts do not fit the type.
#[derive(Debug)]
pub(super) struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl de::Error for Error {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self(text.to_string())
    }
}

/// The value of one argument, as a deserializer.
struct Value(StringArgument);

impl IntoDeserializer<'_, Error> for Value {
    type Deserializer = Self;
    fn into_deserializer(self) -> Self {
        self
    }
}

impl Value {
    fn parse<T: std::str::FromStr>(self, what: &str) -> Result<T, Error> {
        let text = self.one()?;
        text.parse().map_err(|_| not(&text, what))
    }

    /// Parses a finite number: JSON has no infinity and no NaN.
    fn finite<T: std::str::FromStr + Into<f64> + Copy>(self, what: &str) -> Result<T, Error> {
        let text = self.one()?;
        text.parse().ok().filter(|number: &T| (*number).into().is_finite()).ok_or_else(|| not(&text, what))
    }

    fn one(self) -> Result<String, Error> {
        match self.0 {
            StringArgument::One(text) => Ok(text),
            StringArgument::Many(_) => Err(Error("the value is a list of texts, but must be one text".into())),
        }
    }
}

fn not(text: &str, what: &str) -> Error {
    Error(format!("{:?} is not {what}", text.chars().take(60).collect::<String>()))
}

macro_rules! parsed {
    ($($method:ident $visit:ident $type:ty, $what:literal;)*) => {$(
        fn $method<V: de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            visitor.$visit(self.parse::<$type>($what)?)
        }
    )*};
}

impl<'de> Deserializer<'de> for Value {
    type Error = Error;

    fn deserialize_any<V: de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            StringArgument::One(text) => visitor.visit_string(text),
            StringArgument::Many(texts) => visitor.visit_seq(SeqDeserializer::new(texts.into_iter())),
        }
    }

    parsed! {
        deserialize_bool visit_bool bool, "true or false";
        deserialize_i8 visit_i8 i8, "an integer in range";
        deserialize_i16 visit_i16 i16, "an integer in range";
        deserialize_i32 visit_i32 i32, "an integer in range";
        deserialize_i64 visit_i64 i64, "an integer in range";
        deserialize_u8 visit_u8 u8, "an integer in range";
        deserialize_u16 visit_u16 u16, "an integer in range";
        deserialize_u32 visit_u32 u32, "an integer in range";
        deserialize_u64 visit_u64 u64, "an integer in range";
    }

    fn deserialize_f64<V: de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_f64(self.finite("a number")?)
    }

    fn deserialize_f32<V: de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_f32(self.finite("a number in range")?)
    }

    fn deserialize_option<V: de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_enum<V: de::Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let text: StringDeserializer<Error> = self.one()?.into_deserializer();
        text.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_newtype_struct<V: de::Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let texts = match self.0 {
            StringArgument::One(text) => vec![text],
            StringArgument::Many(texts) => texts,
        };
        visitor.visit_seq(SeqDeserializer::new(texts.into_iter()))
    }

    serde::forward_to_deserialize_any! {
        i128 u128 char str string bytes byte_buf unit unit_struct tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Color {
        Red,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Sample {
        name: String,
        count: Option<u32>,
        color: Option<Color>,
        path: Option<Vec<String>>,
        flag: Option<bool>,
        single: Option<f32>,
        double: Option<f64>,
    }

    fn one(name: &str, text: &str) -> (String, StringArgument) {
        (name.into(), StringArgument::One(text.into()))
    }

    #[test]
    fn converts_string_arguments_to_types() {
        let many = ("path".to_owned(), StringArgument::Many(vec!["a".into(), "b".into()]));
        let list = vec![
            one("name", "x"),
            one("count", "7"),
            one("color", "red"),
            one("flag", "true"),
            one("single", "1.5"),
            many,
        ];
        let expected = Sample {
            name: "x".into(),
            count: Some(7),
            color: Some(Color::Red),
            path: Some(vec!["a".into(), "b".into()]),
            flag: Some(true),
            single: Some(1.5),
            double: None,
        };
        assert_eq!(from_strings::<Sample>(list).unwrap(), expected);
    }

    #[test]
    fn errors_name_the_argument_and_the_value() {
        for (list, text) in [
            (vec![one("count", "1")], "missing field `name`"),
            (vec![one("name", "x"), one("count", "-1")], "`count`: \"-1\" is not an integer in range"),
            (vec![one("name", "x"), one("flag", "yes")], "`flag`: \"yes\" is not true or false"),
            (vec![one("name", "x"), one("single", "1e300")], "`single`: \"1e300\" is not a number in range"),
            (vec![one("name", "x"), one("single", "NaN")], "`single`: \"NaN\" is not a number in range"),
            (vec![one("name", "x"), one("double", "inf")], "`double`: \"inf\" is not a number"),
            (vec![one("name", "x"), one("color", "blue")], "`color`: unknown variant `blue`"),
        ] {
            assert!(from_strings::<Sample>(list).unwrap_err().to_string().contains(text), "{text}");
        }
    }
}
