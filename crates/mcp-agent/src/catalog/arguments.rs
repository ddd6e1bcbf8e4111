//! The arguments of a call: validated by the schema of the tool, without the `null`s that the schema rejects.

use mcp_protocol::JsonObject;
use mcp_schema::{Schema, ValidationErrors};
use serde_json::Value;

/// The number of rounds in which `null`s are removed. Each round removes all that the validator reports.
const ROUNDS: usize = 16;

/// Arguments that do not match the schema of their tool. The text helps a model to correct them.
///
/// ```
/// # use mcp_agent::Host;
/// # use mcp_server::prelude::*;
/// # #[derive(Deserialize, JsonSchema)]
/// # struct Days { days: u8 }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = Server::builder("s", "1").tool(tool("forecast", async |Args(Days { days }): Args<Days>| days.to_string())).build();
/// let host = Host::builder("my-app", "1.0").server("weather", &server).start().await?;
/// let error = host.call("weather:forecast", serde_json::json!({ "days": "two" })).await.unwrap_err();
/// assert!(error.to_string().contains("/days"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[error("the arguments of {tool} do not match its schema: {errors}")]
#[non_exhaustive]
pub struct InvalidArguments {
    /// The name of the tool: the name of the call, or the display name.
    pub tool: String,
    /// The reasons.
    pub errors: ValidationErrors,
}

/// Returns the arguments without the `null`s that the schema rejects.
pub(super) fn check(schema: &Schema, arguments: JsonObject) -> Result<JsonObject, ValidationErrors> {
    let mut value = Value::from(arguments);
    let Err(first) = schema.validate(&value) else { return Ok(object(value)) };
    let mut errors = first.clone();
    for _ in 0..ROUNDS {
        let rejected: Vec<String> = errors.iter().map(|error| error.instance_pointer().to_owned()).collect();
        // A loop without `any`, which would stop at the first removed member.
        let removed = rejected.iter().filter(|pointer| remove_null(&mut value, pointer)).count();
        if removed == 0 {
            return Err(first);
        }
        match schema.validate(&value) {
            Ok(()) => return Ok(object(value)),
            Err(others) => errors = others,
        }
    }
    Err(first)
}

/// Removes the member of an object at this pointer if it is `null`.
fn remove_null(value: &mut Value, pointer: &str) -> bool {
    let Some((parent, key)) = pointer.rsplit_once('/') else { return false };
    let key = key.replace("~1", "/").replace("~0", "~");
    let Some(Value::Object(members)) = value.pointer_mut(parent) else { return false };
    let is_null = members.get(&key).is_some_and(Value::is_null);
    if is_null {
        members.shift_remove(&key);
    }
    is_null
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(members) => members.into(),
        _ => JsonObject::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_rejected_nulls_are_removed() {
        let schema = Schema::compile(&json!({
            "type": "object",
            "properties": {
                "text": { "type": "string" }, "maybe": { "type": ["string", "null"] }, "any": {},
                "inner": { "type": "object", "properties": { "n": { "type": "integer" } } },
                "a/b": { "type": "integer" }, "list": { "type": "array", "items": { "type": "integer" } }
            },
            "required": ["text"]
        }))
        .unwrap();
        for (given, expected) in [
            (json!({"text": "x", "maybe": null, "any": null}), Some(json!({"text": "x", "maybe": null, "any": null}))),
            (json!({"text": "x", "inner": {"n": null}, "a/b": null}), Some(json!({"text": "x", "inner": {}}))),
            (json!({"text": "x", "other": null}), Some(json!({"text": "x", "other": null}))),
            (json!({"text": null}), None),
            (json!({"text": "x", "list": [null]}), None),
            (json!({"text": 1, "inner": null}), None),
        ] {
            let checked = check(&schema, JsonObject::from_value(given.clone()).unwrap());
            assert_eq!(checked.ok().map(Value::from), expected, "{given}");
        }
    }
}
