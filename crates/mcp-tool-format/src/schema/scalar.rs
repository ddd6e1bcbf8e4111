//! Keywords whose value is a number, a text or a flag: the table of names, types and merges.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::Types;

/// A keyword of [`TABLE`], by its position there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scalar(usize);

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// A number; in a merge the larger or the smaller one wins.
    Number(Ordering),
    /// A positive number.
    Divisor,
    /// A count; in a merge the larger or the smaller one wins.
    Count(Ordering),
    Text,
    Flag,
}

use Ordering::{Greater, Less};

/// Keyword, type that it applies to, kind of value.
const TABLE: &[(&str, Types, Kind)] = &[
    ("minLength", Types::STRING, Kind::Count(Greater)),
    ("maxLength", Types::STRING, Kind::Count(Less)),
    ("pattern", Types::STRING, Kind::Text),
    ("format", Types::STRING, Kind::Text),
    ("contentEncoding", Types::STRING, Kind::Text),
    ("contentMediaType", Types::STRING, Kind::Text),
    ("minimum", Types::INTEGER, Kind::Number(Greater)),
    ("maximum", Types::INTEGER, Kind::Number(Less)),
    ("exclusiveMinimum", Types::INTEGER, Kind::Number(Greater)),
    ("exclusiveMaximum", Types::INTEGER, Kind::Number(Less)),
    ("multipleOf", Types::INTEGER, Kind::Divisor),
    ("minItems", Types::ARRAY, Kind::Count(Greater)),
    ("maxItems", Types::ARRAY, Kind::Count(Less)),
    ("uniqueItems", Types::ARRAY, Kind::Flag),
    ("minProperties", Types::OBJECT, Kind::Count(Greater)),
    ("maxProperties", Types::OBJECT, Kind::Count(Less)),
];

impl Scalar {
    /// Returns the keyword of a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        TABLE.iter().position(|(keyword, ..)| *keyword == name).map(Self)
    }

    pub(crate) fn name(self) -> &'static str {
        TABLE[self.0].0
    }

    /// Returns the type that the keyword applies to.
    pub(crate) fn types(self) -> Types {
        TABLE[self.0].1
    }

    /// Returns the value in its normal form. `None`: the value is not valid for the keyword.
    pub(crate) fn value(self, value: &Value) -> Option<Value> {
        match TABLE[self.0].2 {
            Kind::Number(_) => value.is_number().then(|| value.clone()),
            Kind::Divisor => value.as_f64().filter(|number| *number > 0.0).map(|_| value.clone()),
            Kind::Count(_) => count(value).map(Value::from),
            Kind::Text => value.as_str().filter(|text| !text.is_empty()).map(Value::from),
            Kind::Flag => value.as_bool().map(Value::from),
        }
    }

    /// Returns the value that both values imply. `None`: one keyword cannot express both.
    pub(crate) fn merge(self, a: &Value, b: &Value) -> Option<Value> {
        if a == b {
            return Some(a.clone());
        }
        match TABLE[self.0].2 {
            Kind::Number(wins) | Kind::Count(wins) => {
                let order = a.as_f64()?.partial_cmp(&b.as_f64()?)?;
                Some(if order == wins { a.clone() } else { b.clone() })
            }
            Kind::Flag => Some(Value::Bool(a == true || b == true)),
            Kind::Divisor | Kind::Text => None,
        }
    }
}

/// Returns a count: an integer of at least 0, or a float without a fraction.
fn count(value: &Value) -> Option<u64> {
    let number: &Number = value.as_number()?;
    number.as_u64().or_else(|| {
        let float = number.as_f64()?;
        (float.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&float)).then_some(float as u64)
    })
}

/// Returns the type that a keyword with a number, a text or a flag applies to.
pub(crate) fn scalar_types(keyword: &str) -> Option<Types> {
    Scalar::named(keyword).map(Scalar::types)
}
