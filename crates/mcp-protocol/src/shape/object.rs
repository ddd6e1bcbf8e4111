//! JSON objects in the form of a revision, with the members that their types do not know.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::Shape;
use crate::{JsonObject, ProtocolVersion};

/// Gives a JSON object the form of a revision, as a value of the type `T` has it. Other members stay as they are: those that the type
/// does not know, and those that the revision does not change.
///
/// ```
/// use mcp_protocol::{ElicitParams, JsonObject, ProtocolVersion, shape_object};
/// use serde_json::json;
///
/// let question = json!({ "mode": "url", "message": "Log in.", "url": "https://a.example/", "elicitationId": "7", "vendor": 1 });
/// let mut question: JsonObject = serde_json::from_value(question)?;
/// shape_object::<ElicitParams>(&mut question, ProtocolVersion::V2026_07_28)?;
/// assert_eq!((question.get("elicitationId"), question.get("vendor")), (None, Some(&json!(1))));
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// # Errors
/// If the object is not a value of the type. It does not change then.
pub fn shape_object<T: Shape + Serialize + DeserializeOwned>(
    object: &mut JsonObject,
    version: ProtocolVersion,
) -> Result<(), serde_json::Error> {
    let mut typed: T = serde_json::from_value(Value::from(object.clone()))?;
    let before = serde_json::to_value(&typed)?;
    typed.shape(version);
    let after = serde_json::to_value(&typed)?;
    let (Value::Object(before), Value::Object(after)) = (before, after) else { return Ok(()) };
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        object.shift_remove(name);
    }
    for (name, value) in after {
        if before.get(&name) != Some(&value) {
            object.insert(name, value);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{CreateMessageParams, CreateMessageResult, ElicitParams};

    #[test]
    fn a_revision_changes_only_the_members_that_it_lacks() {
        fn shaped<T: Shape + Serialize + DeserializeOwned>(json: Value, version: ProtocolVersion) -> Value {
            let mut object = JsonObject::from_value(json).unwrap();
            shape_object::<T>(&mut object, version).unwrap();
            object.into()
        }
        let (old, new) = (ProtocolVersion::V2025_06_18, ProtocolVersion::V2026_07_28);
        let page =
            json!({ "mode": "url", "message": "m", "url": "https://a.example/", "elicitationId": "7", "later": [1.5] });
        let mut expected = page.clone();
        expected.as_object_mut().unwrap().shift_remove("elicitationId");
        assert_eq!(shaped::<ElicitParams>(page.clone(), ProtocolVersion::V2025_11_25), page);
        assert_eq!(shaped::<ElicitParams>(page, new), expected);
        let text = |text: &str| json!({ "type": "text", "text": text, "later": 1 });
        let question = json!({
            "messages": [{ "role": "user", "content": text("a"), "later": 2 }], "maxTokens": 1, "toolChoice": {}, "later": 3,
        });
        let shaped_question = shaped::<CreateMessageParams>(question.clone(), old);
        let mut expected = question;
        expected.as_object_mut().unwrap().shift_remove("toolChoice");
        assert_eq!(shaped_question, expected);
        let answer = json!({ "role": "assistant", "model": "m", "content": [text("a"), text("b")], "later": 4 });
        let shaped_answer = shaped::<CreateMessageResult>(answer, old);
        assert_eq!((&shaped_answer["content"]["text"], &shaped_answer["later"]), (&json!("ab"), &json!(4)));
        assert!(shape_object::<ElicitParams>(&mut JsonObject::new(), new).is_err());
    }
}
