//! Parameters of requests in the form of a revision.

use serde_json::Value;

use crate::{
    JsonObject, Method, ProtocolVersion,
    method::{CallTool, Complete, GetPrompt, ReadResource},
};

/// A member, and whether a revision knows it.
type Member = (&'static str, fn(ProtocolVersion) -> bool);

const CALL: &[Member] = &[("task", ProtocolVersion::has_core_tasks), INPUTS[0], INPUTS[1]];
const INPUTS: [Member; 2] =
    [("inputResponses", ProtocolVersion::has_input_required), ("requestState", ProtocolVersion::has_input_required)];
const COMPLETE: &[Member] = &[("context", ProtocolVersion::has_completion_context)];

/// Returns the parameters of a request in the form of a revision; `None` when they already have it, as nearly all do.
/// It costs a look at the name, and a search where a member could have to go.
#[must_use]
pub fn shape_params(method: &str, params: &str, version: ProtocolVersion) -> Option<String> {
    let members: &[Member] = match method {
        CallTool::NAME => CALL,
        GetPrompt::NAME | ReadResource::NAME => &INPUTS,
        Complete::NAME => COMPLETE,
        _ => return None,
    };
    let is_foreign = |(name, knows): &&Member| !knows(version) && params.contains(*name);
    let has_title = method == Complete::NAME && !version.has_titles() && params.contains("title");
    let foreign: Vec<&str> = members.iter().filter(is_foreign).map(|(name, _)| *name).collect();
    if foreign.is_empty() && !has_title {
        return None;
    }
    let mut members: JsonObject = serde_json::from_str(params).ok()?;
    for name in foreign {
        members.shift_remove(name);
    }
    if has_title && let Some(Value::Object(reference)) = members.get_mut("ref") {
        reference.shift_remove("title");
    }
    serde_json::to_string(&members).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// `expected` has one value per revision, oldest first. The last value holds for all newer revisions.
    #[track_caller]
    fn check(method: &str, full: &Value, expected: &[&Value]) {
        for (index, &version) in ProtocolVersion::ALL.iter().rev().enumerate() {
            let expected = *expected.get(index).or(expected.last()).unwrap();
            let text = full.to_string();
            let shaped = shape_params(method, &text, version);
            assert_eq!(shaped.is_none(), expected == full, "{version}: the parameters are borrowed if nothing changes");
            let shaped = shaped.unwrap_or(text);
            assert_eq!(serde_json::from_str::<Value>(&shaped).unwrap(), *expected, "{version}");
            assert_eq!(shape_params(method, &shaped, version), None, "{version} twice");
        }
    }

    #[test]
    fn members_of_other_revisions_are_dropped() {
        let reference = json!({"type": "ref/prompt", "name": "p"});
        let titled = json!({"type": "ref/prompt", "name": "p", "title": "P"});
        let argument = json!({"name": "a", "value": "v"});
        let full = json!({"ref": titled, "argument": argument, "context": {"arguments": {"b": "c"}}, "later": 1});
        let first = json!({"ref": reference, "argument": argument, "later": 1});
        check("completion/complete", &full, &[&first, &first, &full]);

        let full = json!({"name": "t", "arguments": {"x": 1}, "task": {}, "inputResponses": {}, "requestState": "s"});
        let (plain, fourth, fifth) = (
            json!({"name": "t", "arguments": {"x": 1}}),
            json!({"name": "t", "arguments": {"x": 1}, "task": {}}),
            json!({"name": "t", "arguments": {"x": 1}, "inputResponses": {}, "requestState": "s"}),
        );
        check("tools/call", &full, &[&plain, &plain, &plain, &fourth, &fifth]);
        let other = json!({"task": {}, "context": {}, "requestState": "s"});
        check("x/y", &other, &[&other]);
    }

    #[test]
    fn arguments_with_reserved_names_are_kept() {
        let arguments = json!({"name": "t", "arguments": {"task": 1, "requestState": 2}});
        let shaped = shape_params("tools/call", &arguments.to_string(), ProtocolVersion::V2024_11_05).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&shaped).unwrap(), arguments);
    }
}
