//! Parameters of requests in the form of a revision.

use std::sync::LazyLock;

use serde_json::value::RawValue;

use crate::{
    MemberFinder, Method, ProtocolVersion, RawMembers,
    method::{CallTool, Complete, GetPrompt, ReadResource},
};

/// A member, and whether a revision knows it.
struct Member {
    name: &'static str,
    is_known: fn(ProtocolVersion) -> bool,
    finder: LazyLock<MemberFinder>,
}

macro_rules! member {
    ($name:literal, $is_known:ident) => {
        Member { name: $name, is_known: ProtocolVersion::$is_known, finder: LazyLock::new(|| MemberFinder::new($name)) }
    };
}

static CALL: [Member; 3] = [
    member!("task", has_core_tasks),
    member!("inputResponses", has_input_required),
    member!("requestState", has_input_required),
];
static COMPLETE: [Member; 1] = [member!("context", has_completion_context)];
static TITLE: LazyLock<MemberFinder> = LazyLock::new(|| MemberFinder::new("title"));

/// Returns the parameters of a request in the form of a revision; `None` when they already have it, as nearly all do.
/// It costs a look at the name, and a search where a member could have to go. The other members keep their bytes.
///
/// ```
/// use mcp_protocol::{ProtocolVersion, shape_params};
///
/// let params = r#"{"name":"t","arguments":{"n":1.50},"requestState":"s"}"#;
/// let shaped = shape_params("tools/call", params, ProtocolVersion::LATEST_LEGACY)?;
/// assert_eq!(shaped.as_deref(), Some(r#"{"name":"t","arguments":{"n":1.50}}"#));
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// # Errors
/// When a member could have to go, and the parameters are not a JSON object.
pub fn shape_params(method: &str, params: &str, version: ProtocolVersion) -> Result<Option<String>, serde_json::Error> {
    let known: &[Member] = match method {
        CallTool::NAME => &CALL,
        GetPrompt::NAME | ReadResource::NAME => &CALL[1..],
        Complete::NAME => &COMPLETE,
        _ => return Ok(None),
    };
    let may_go = |member: &&Member| !(member.is_known)(version) && member.finder.may_have(params.as_bytes());
    let may_have_title = method == Complete::NAME && !version.has_titles() && TITLE.may_have(params.as_bytes());
    let mut foreign = known.iter().filter(may_go).peekable();
    if foreign.peek().is_none() && !may_have_title {
        return Ok(None);
    }
    let reference: Box<RawValue>;
    let mut members = RawMembers::read(params)?;
    let count = members.0.len();
    for member in foreign {
        members.remove(member.name);
    }
    let mut is_changed = members.0.len() != count;
    let found = members.0.iter_mut().find(|(name, value)| name == "ref" && value.get().starts_with('{'));
    if may_have_title && let Some((_, value)) = found {
        let mut inner = RawMembers::read(value.get())?;
        if inner.remove("title").is_some() {
            reference = RawValue::from_string(inner.write())?;
            *value = &reference;
            is_changed = true;
        }
    }
    Ok(is_changed.then(|| members.write()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// `expected` has one value per revision, oldest first. The last value holds for all newer revisions.
    #[track_caller]
    fn check(method: &str, full: &Value, expected: &[&Value]) {
        for (index, &version) in ProtocolVersion::ALL.iter().rev().enumerate() {
            let expected = *expected.get(index).or(expected.last()).unwrap();
            let text = full.to_string();
            let shaped = shape_params(method, &text, version).unwrap();
            assert_eq!(shaped.is_none(), expected == full, "{version}: the parameters are borrowed if nothing changes");
            let shaped = shaped.unwrap_or(text);
            assert_eq!(serde_json::from_str::<Value>(&shaped).unwrap(), *expected, "{version}");
            assert_eq!(shape_params(method, &shaped, version).unwrap(), None, "{version} twice");
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
    fn the_other_members_keep_their_bytes() {
        let call = |params: &str| shape_params("tools/call", params, ProtocolVersion::V2025_06_18);
        for unchanged in [
            r#"{"name":"create_task","arguments":{"n":12345678901234567890123,"m":1.50,"a":1,"a":2}}"#,
            r#"{"name":"t","arguments":{"task":1e400,"requestState":2,"input\u0052esponses":{}}}"#,
        ] {
            assert_eq!(call(unchanged).unwrap(), None, "{unchanged}");
        }
        for (params, expected) in [
            (r#"{"name":"t","request\u0053tate":"s"}"#, r#"{"name":"t"}"#),
            (r#"{"name":"t","requestState":"s","requestState":"u"}"#, r#"{"name":"t"}"#),
            (
                r#"{"name":"t","arguments":{"n": 1e400,"task":1.50},"t\u0061sk":{},"requestState":"s"}"#,
                r#"{"name":"t","arguments":{"n": 1e400,"task":1.50}}"#,
            ),
        ] {
            assert_eq!(call(params).unwrap().as_deref(), Some(expected), "{params}");
        }
        let complete = r#"{"ref":{"type":"ref/prompt","t\u0069tle":"P","n":1e400},"argument":{"title":1.50}}"#;
        let expected = r#"{"ref":{"type":"ref/prompt","n":1e400},"argument":{"title":1.50}}"#;
        let shaped = shape_params("completion/complete", complete, ProtocolVersion::V2024_11_05).unwrap();
        assert_eq!(shaped.as_deref(), Some(expected));
        assert!(call(r#"{"name":"t","requestState":"s","\ud800":1}"#).is_err());
    }
}
