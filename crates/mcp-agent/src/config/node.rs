//! A value of a configuration file with its JSON path, and checked access to its members.

use std::time::Duration;

use serde_json::{Map, Value};

use super::{code::Code, error::Fault};
use crate::Glob;

/// The longest time of a configuration file.
const MAX_TIME: Duration = Duration::from_secs(7 * 24 * 3600);

/// A value with its JSON path.
#[derive(Debug, Clone)]
pub(super) struct Node<'a> {
    pub(super) value: &'a Value,
    pub(super) path: String,
}

/// The unit of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Milliseconds,
}

/// Returns the path of a member.
pub(super) fn member(path: &str, name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if is_plain { format!("{path}.{name}") } else { format!("{path}[{}]", Value::from(name)) }
}

impl<'a> Node<'a> {
    pub(super) fn root(value: &'a Value) -> Self {
        Self { value, path: "$".to_owned() }
    }

    /// Returns a member. A null counts as absent.
    pub(super) fn get(&self, name: &str) -> Option<Self> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        Some(Self { value, path: member(&self.path, name) })
    }

    pub(super) fn fault(&self, code: Code, message: impl Into<String>, remedy: impl Into<String>) -> Fault {
        Fault::new(code, self.path.clone(), message, remedy)
    }

    fn wrong_type(&self, expected: &str) -> Fault {
        let message = format!("{expected} is required here, and the value is {}", kind(self.value));
        self.fault(Code::WrongType, message, format!("write {expected}"))
    }

    pub(super) fn object(&self) -> Result<&'a Map<String, Value>, Fault> {
        self.value.as_object().ok_or_else(|| self.wrong_type("an object"))
    }

    /// Returns the members of an object in their order.
    pub(super) fn members(&self) -> Result<Vec<(&'a str, Self)>, Fault> {
        let node =
            |(name, value): (&'a String, &'a Value)| (name.as_str(), Self { value, path: member(&self.path, name) });
        Ok(self.object()?.iter().map(node).collect())
    }

    /// Returns the items of an array.
    pub(super) fn items(&self) -> Result<Vec<Self>, Fault> {
        let items = self.value.as_array().ok_or_else(|| self.wrong_type("an array"))?;
        let node = |(index, value)| Self { value, path: format!("{}[{index}]", self.path) };
        Ok(items.iter().enumerate().map(node).collect())
    }

    pub(super) fn text(&self) -> Result<&'a str, Fault> {
        self.value.as_str().ok_or_else(|| self.wrong_type("a string"))
    }

    /// Returns an array of strings.
    pub(super) fn texts(&self) -> Result<Vec<String>, Fault> {
        self.items()?.iter().map(|item| item.text().map(ToOwned::to_owned)).collect()
    }

    /// Returns an array of patterns for names.
    pub(super) fn patterns(&self) -> Result<Vec<String>, Fault> {
        for item in self.items()? {
            if let Err(error) = item.text()?.parse::<Glob>() {
                return Err(item.fault(Code::InvalidPattern, error.to_string(), "correct the pattern, or remove it"));
            }
        }
        self.texts()
    }

    pub(super) fn flag(&self) -> Result<bool, Fault> {
        self.value.as_bool().ok_or_else(|| self.wrong_type("`true` or `false`"))
    }

    /// Returns the number of a port to which a program can bind.
    pub(super) fn port(&self) -> Result<u16, Fault> {
        let port = self.value.as_u64().and_then(|number| u16::try_from(number).ok()).filter(|port| *port != 0);
        port.ok_or_else(|| self.wrong_type("a port between 1 and 65535"))
    }

    pub(super) fn time(&self, unit: Unit) -> Result<Duration, Fault> {
        let number = self.value.as_f64().ok_or_else(|| self.wrong_type("a number"))?;
        let (seconds, name, largest) = match unit {
            Unit::Seconds => (number, "seconds", MAX_TIME.as_secs().into()),
            Unit::Milliseconds => (number / 1000.0, "milliseconds", MAX_TIME.as_millis()),
        };
        match Duration::try_from_secs_f64(seconds) {
            Ok(time) if time <= MAX_TIME && !time.is_zero() => Ok(time),
            _ => {
                let bound = if seconds <= 1.0 { "not greater than zero" } else { "greater than seven days" };
                let message = format!("the time of {} {name} is {bound}", self.value);
                let remedy = format!("write a number of {name} greater than 0, at most {largest}");
                Err(self.fault(Code::InvalidTimeout, message, remedy))
            }
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_have_the_unit_of_their_format() {
        for (value, unit, millis) in [
            (json!(2), Unit::Seconds, Some(2000)),
            (json!(0.25), Unit::Seconds, Some(250)),
            (json!(2), Unit::Milliseconds, Some(2)),
            (json!(600_000), Unit::Milliseconds, Some(600_000)),
            (json!(0), Unit::Seconds, None),
            (json!(-1), Unit::Milliseconds, None),
            (json!(1e300), Unit::Seconds, None),
            (json!(8 * 24 * 3600), Unit::Seconds, None),
            (json!("5"), Unit::Seconds, None),
        ] {
            let time = Node::root(&value).time(unit).ok().map(|time| time.as_millis());
            assert_eq!(time, millis, "{value} {unit:?}");
        }
    }

    #[test]
    fn paths_quote_names_with_other_characters() {
        assert_eq!(member("$", "a-b_1"), "$.a-b_1");
        assert_eq!(member("$.x", "my server"), "$.x[\"my server\"]");
        assert_eq!(member("$", "1\""), "$[\"1\\\"\"]");
    }
}
