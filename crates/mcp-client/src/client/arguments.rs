//! The arguments of tools and prompts, serialized from the types of the caller.

use mcp_protocol::EmptyParams;
use serde::Serialize;
use serde_json::{
    Value, from_value, to_value,
    value::{RawValue, to_raw_value},
};

use crate::Error;

/// Serializes parameters or arguments to a JSON object. `()` becomes an empty object, because some servers require one.
pub(super) fn object(value: &impl Serialize) -> Result<Box<RawValue>, Error> {
    let raw = to_raw_value(value).map_err(|error| Error::request(error.to_string()))?;
    match raw.get() {
        "null" => to_raw_value(&EmptyParams::new()).map_err(|error| Error::request(error.to_string())),
        text if text.starts_with('{') => Ok(raw),
        _ => Err(Error::request("arguments must be a JSON object")),
    }
}

/// Serializes the arguments of a prompt. Absent values are left out.
pub(super) fn texts(arguments: &impl Serialize) -> Result<Vec<(String, String)>, Error> {
    let pairs: Vec<(String, Value)> = match to_value(arguments) {
        Ok(Value::Null) => Vec::new(),
        Ok(Value::Object(members)) => members.into_iter().collect(),
        Ok(pairs) => {
            from_value(pairs).map_err(|_| Error::request("the arguments of a prompt must be strings with names"))?
        }
        Err(error) => return Err(Error::request(error.to_string())),
    };
    let text = |(name, value)| match value {
        Value::Null => None,
        Value::String(text) => Some(Ok((name, text))),
        _ => Some(Err(Error::request(format!("the argument {name:?} of a prompt must be a string")))),
    };
    pairs.into_iter().filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_of_prompts_can_have_several_forms() {
        let pair = || Some(vec![("a".to_owned(), "1".to_owned())]);
        assert_eq!(texts(&()).ok(), Some(Vec::new()));
        assert_eq!(texts(&[("a", "1")]).ok(), pair());
        assert_eq!(texts(&vec![("a".to_owned(), "1".to_owned())]).ok(), pair());
        assert_eq!(texts(&std::collections::BTreeMap::from([("a", "1")])).ok(), pair());
        assert_eq!(texts(&json!({ "a": "1", "b": null })).ok(), pair());
        for bad in [json!({ "a": 1 }), json!([1]), json!("a"), json!([["a", "1", "b"]])] {
            assert!(texts(&bad).unwrap_err().to_string().contains("string"), "{bad}");
        }
    }
}
