//! Raw results and definitions in the form of a revision. Unknown members, the order of members and numbers stay as they are.

use std::{borrow::Cow, sync::LazyLock};

use serde::{
    Deserialize, Serialize,
    de::{DeserializeOwned, Error as _},
};
use serde_json::{
    Map, Value,
    value::{RawValue, to_raw_value},
};

use super::Shape;
use crate::{
    ContentBlock, MemberFinder, Method, Prompt, ProtocolVersion, RawMembers, Resource, ResourceTemplate, Tool,
    json::raw,
    method::{CallTool, GetPrompt, ListPrompts, ListResourceTemplates, ListResources, ListTools, ReadResource},
};

/// A raw result in the form of a revision ([`shape_raw_result`]).
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the writer of a result handles each form")]
pub enum RawShape {
    /// The result has the form already.
    Unchanged,
    /// The result lacks only the members that open each result of the revision: `resultType`, and the cache hints of a read.
    Unopened {
        /// The result has metadata.
        has_meta: bool,
        /// The result has no members.
        is_empty: bool,
    },
    /// The result in its new form, without the members that open each result of the revision.
    Rewritten {
        /// The JSON object.
        json: String,
        /// The result has metadata.
        has_meta: bool,
        /// The result has no members.
        is_empty: bool,
    },
}

/// Returns the form of a raw result for another revision. `from` is the revision of its form.
///
/// It scans the members of the result. It copies the result only if the revision lacks a member, or a type of content.
///
/// ```
/// use mcp_protocol::{ProtocolVersion, RawShape, shape_raw_result};
///
/// let result = br#"{"resultType":"complete","content":[],"vendor":1.50}"#;
/// let shape = shape_raw_result("tools/call", result, ProtocolVersion::LATEST, ProtocolVersion::LATEST_LEGACY)?;
/// assert!(matches!(shape, RawShape::Rewritten { json, .. } if json == r#"{"content":[],"vendor":1.50}"#));
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// # Errors
/// When the result is not a JSON object.
pub fn shape_raw_result(
    method: &str,
    result: &[u8],
    from: ProtocolVersion,
    to: ProtocolVersion,
) -> Result<RawShape, serde_json::Error> {
    if from == to {
        return Ok(RawShape::Unchanged);
    }
    let RawMembers(mut members) = RawMembers::read(std::str::from_utf8(result).map_err(serde_json::Error::custom)?)?;
    let count = members.len();
    let has_hints = is_list(method) || method == ReadResource::NAME;
    // One of the revisions is older than these members. A result of an older revision cannot use them with their meaning.
    members.retain(|(name, _)| match &**name {
        "resultType" => false,
        "ttlMs" | "cacheScope" => !has_hints,
        _ => true,
    });
    let mut is_rewritten = members.len() != count;
    let mut owned = Vec::new();
    shape_members(method, &mut members, &mut owned, to)?;
    is_rewritten |= !owned.is_empty();
    let has_meta = members.iter().any(|(name, _)| name == "_meta");
    let is_empty = members.is_empty() && owned.iter().all(|(_, value)| value.is_none());
    if !is_rewritten {
        return Ok(match to.has_result_type() {
            true => RawShape::Unopened { has_meta, is_empty },
            false => RawShape::Unchanged,
        });
    }
    Ok(RawShape::Rewritten { json: write(&members, &owned), has_meta, is_empty })
}

/// Returns a raw definition of a list in the form of a revision; `None` if it already has this form. `method` is the method
/// of the list.
///
/// Definitions have the newest form, so a peer of the newest revision receives them unchanged, except for the task support of
/// tools (`execution`), which only 2025-11-25 has. A definition that the library cannot decode stays unchanged too.
///
/// ```
/// use mcp_protocol::{ProtocolVersion, shape_raw_definition};
///
/// let tool = r#"{"name":"t","inputSchema":{},"icons":[{"src":"data:,"}],"vendor":1}"#;
/// let first = shape_raw_definition("tools/list", tool, ProtocolVersion::V2024_11_05);
/// assert_eq!(first.as_deref(), Some(r#"{"name":"t","inputSchema":{},"vendor":1}"#));
/// assert_eq!(shape_raw_definition("tools/list", tool, ProtocolVersion::LATEST), None);
/// ```
#[must_use]
pub fn shape_raw_definition(method: &str, definition: &str, to: ProtocolVersion) -> Option<String> {
    if to == ProtocolVersion::LATEST {
        // The newest form of a tool can contain the task support of a server of 2025-11-25.
        return (method == ListTools::NAME).then(|| without(definition, "execution", &EXECUTION)).flatten();
    }
    match method {
        ListTools::NAME => shaped::<Tool>(definition, to),
        ListResources::NAME => shaped::<Resource>(definition, to),
        ListResourceTemplates::NAME => shaped::<ResourceTemplate>(definition, to),
        ListPrompts::NAME => shaped::<Prompt>(definition, to),
        _ => None,
    }
}

static EXECUTION: LazyLock<MemberFinder> = LazyLock::new(|| MemberFinder::new("execution"));

/// Returns an object without a member; `None` if it lacks the member.
fn without(json: &str, name: &str, member: &MemberFinder) -> Option<String> {
    if !member.may_have(json.as_bytes()) {
        return None;
    }
    let mut members = RawMembers::read(json).ok()?;
    members.remove(name)?;
    Some(members.write())
}

fn is_list(method: &str) -> bool {
    matches!(method, ListTools::NAME | ListResources::NAME | ListResourceTemplates::NAME | ListPrompts::NAME)
}

fn shaped<T: Shape + Clone + PartialEq + Serialize + DeserializeOwned>(
    json: &str,
    to: ProtocolVersion,
) -> Option<String> {
    let value: T = serde_json::from_str(json).ok()?;
    let mut shaped = value.clone();
    shaped.shape(to);
    if shaped == value {
        return None;
    }
    // A number of another member can have more digits than the type keeps.
    let (before, after) = (members_of(&value)?, members_of(&shaped)?);
    let mut members = RawMembers::read(json).ok()?.0;
    members.retain(|(name, _)| after.contains_key(&**name) || !before.contains_key(&**name));
    let changed = after.iter().filter(|(name, value)| before.get(*name) != Some(value));
    let changed: Vec<_> =
        changed.map(|(name, value)| Some((name, to_raw_value(value).ok()?))).collect::<Option<_>>()?;
    for (name, value) in &changed {
        match members.iter_mut().find(|(known, _)| known == *name) {
            Some((_, member)) => *member = value,
            None => members.push((Cow::Borrowed(name), value)),
        }
    }
    Some(raw::write(members.iter().map(|(name, value)| (&**name, *value))))
}

fn members_of(value: &impl Serialize) -> Option<Map<String, Value>> {
    match serde_json::to_value(value).ok()? {
        Value::Object(members) => Some(members),
        _ => None,
    }
}

/// A member that replaces the member of the same name. `None` removes it.
type Replaced = (&'static str, Option<Box<RawValue>>);

/// Collects the members that have another form in the revision.
fn shape_members(
    method: &str,
    members: &mut Vec<(Cow<'_, str>, &RawValue)>,
    replaced: &mut Vec<Replaced>,
    to: ProtocolVersion,
) -> Result<(), serde_json::Error> {
    let find = |members: &[(Cow<'_, str>, &RawValue)], wanted: &str| {
        members.iter().find(|(name, _)| name == wanted).map(|(_, value)| (*value).to_owned())
    };
    match method {
        CallTool::NAME => {
            let mut content = None;
            if let Some(blocks) = find_ref(members, "content").filter(|_| !to.has_icons()) {
                content = shape_list(blocks, |block| shape_block(block, to))?;
            }
            if let Some(value) = find(members, "structuredContent")
                && !allows(&value, to)
            {
                members.retain(|(name, _)| name != "structuredContent");
                replaced.push(("structuredContent", None));
                let blocks = find_ref(members, "content").map_or("[]", RawValue::get);
                if serde_json::from_str::<Vec<&RawValue>>(blocks).is_ok_and(|blocks| blocks.is_empty()) {
                    content = Some(to_raw_value(&[ContentBlock::text(value.get())])?);
                }
            }
            if let Some(content) = content {
                members.retain(|(name, _)| name != "content");
                replaced.push(("content", Some(content)));
            }
        }
        GetPrompt::NAME if !to.has_icons() => {
            let Some(messages) = find_ref(members, "messages") else { return Ok(()) };
            if let Some(messages) = shape_list(messages, |message| shape_message(message, to))? {
                members.retain(|(name, _)| name != "messages");
                replaced.push(("messages", Some(messages)));
            }
        }
        _ => {}
    }
    Ok(())
}

fn find_ref<'a>(members: &[(Cow<'_, str>, &'a RawValue)], wanted: &str) -> Option<&'a RawValue> {
    members.iter().find(|(name, _)| name == wanted).map(|(_, value)| *value)
}

/// Whether a value may be structured content in a revision.
fn allows(value: &RawValue, to: ProtocolVersion) -> bool {
    to.has_structured_content_of_any_type() || (to.has_structured_content() && value.get().starts_with('{'))
}

/// Returns a list with the changed entries; `None` if no entry changes.
fn shape_list(
    list: &RawValue,
    shape: impl Fn(&RawValue) -> Result<Option<Box<RawValue>>, serde_json::Error>,
) -> Result<Option<Box<RawValue>>, serde_json::Error> {
    let Ok(entries) = serde_json::from_str::<Vec<&RawValue>>(list.get()) else { return Ok(None) };
    let changed: Vec<_> = entries.iter().map(|entry| shape(entry)).collect::<Result<_, _>>()?;
    if changed.iter().all(Option::is_none) {
        return Ok(None);
    }
    let entries: Vec<&RawValue> =
        entries.into_iter().zip(&changed).map(|(entry, changed)| changed.as_deref().unwrap_or(entry)).collect();
    to_raw_value(&entries).map(Some)
}

static LAST_MODIFIED: LazyLock<MemberFinder> = LazyLock::new(|| MemberFinder::new("lastModified"));

/// Returns a content block in the form of a revision without icons; `None` if it has this form.
fn shape_block(block: &RawValue, to: ProtocolVersion) -> Result<Option<Box<RawValue>>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Peek<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
    }
    let Ok(Peek { kind }) = serde_json::from_str(block.get()) else { return Ok(None) };
    if kind == "resource_link" || (kind == "audio" && !to.has_audio()) {
        let Ok(typed) = serde_json::from_str::<ContentBlock>(block.get()) else { return Ok(None) };
        let mut shaped = typed.clone();
        shaped.shape(to);
        return if shaped == typed { Ok(None) } else { to_raw_value(&shaped).map(Some) };
    }
    if to.has_titles() || !LAST_MODIFIED.may_have(block.get().as_bytes()) {
        return Ok(None);
    }
    let mut value: Value = serde_json::from_str(block.get())?;
    let removed =
        value.get_mut("annotations").and_then(Value::as_object_mut).and_then(|a| a.shift_remove("lastModified"));
    removed.map(|_| to_raw_value(&value)).transpose()
}

/// Returns a message of a prompt in the form of a revision without icons; `None` if it has this form.
fn shape_message(message: &RawValue, to: ProtocolVersion) -> Result<Option<Box<RawValue>>, serde_json::Error> {
    let Ok(RawMembers(mut members)) = serde_json::from_str(message.get()) else { return Ok(None) };
    let Some(content) = find_ref(&members, "content") else { return Ok(None) };
    let Some(content) = shape_block(content, to)? else { return Ok(None) };
    members.retain(|(name, _)| name != "content");
    let json = write(&members, &[("content", Some(content))]);
    RawValue::from_string(json).map(Some)
}

/// Writes an object. Replaced members come first, so that `content` is found early.
fn write(members: &[(Cow<'_, str>, &RawValue)], replaced: &[Replaced]) -> String {
    let replaced = replaced.iter().filter_map(|(name, value)| Some((*name, &**value.as_ref()?)));
    raw::write(replaced.chain(members.iter().map(|(name, value)| (&**name, *value))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATEST: ProtocolVersion = ProtocolVersion::LATEST;
    const V25: ProtocolVersion = ProtocolVersion::V2025_11_25;
    const V25_03: ProtocolVersion = ProtocolVersion::V2025_03_26;
    const V24: ProtocolVersion = ProtocolVersion::V2024_11_05;

    #[track_caller]
    fn rewritten(method: &str, result: &str, from: ProtocolVersion, to: ProtocolVersion) -> String {
        match shape_raw_result(method, result.as_bytes(), from, to).unwrap() {
            RawShape::Rewritten { json, .. } => json,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_result_of_the_same_revision_is_not_read() {
        for version in ProtocolVersion::ALL {
            assert_eq!(shape_raw_result("tools/call", b"?", *version, *version).unwrap(), RawShape::Unchanged);
        }
        assert!(shape_raw_result("tools/call", b"[]", V25, LATEST).is_err());
    }

    #[test]
    fn an_older_result_lacks_only_the_opening_of_the_newest_revision() {
        for (result, has_meta, is_empty) in
            [(r#"{"content":[],"n":1e400}"#, false, false), (r#"{"_meta":{}}"#, true, false), ("{}", false, true)]
        {
            let expected = RawShape::Unopened { has_meta, is_empty };
            assert_eq!(shape_raw_result("tools/call", result.as_bytes(), V25, LATEST).unwrap(), expected);
        }
        // A server of an older revision cannot send a result of another type.
        let forged = r#"{"resultType":"input_required","content":[]}"#;
        assert_eq!(rewritten("tools/call", forged, V25, LATEST), r#"{"content":[]}"#);
        let hints = r#"{"contents":[],"ttlMs":1,"cacheScope":"public","x":1}"#;
        assert_eq!(rewritten("resources/read", hints, V25, LATEST), r#"{"contents":[],"x":1}"#);
    }

    #[test]
    fn a_result_of_the_newest_revision_loses_its_opening_in_older_ones() {
        let result = r#"{"resultType":"complete","content":[{"type":"hologram","x":1.0}],"later":1e400,"ttlMs":7}"#;
        let expected = r#"{"content":[{"type":"hologram","x":1.0}],"later":1e400,"ttlMs":7}"#;
        for to in [V25, V24] {
            assert_eq!(rewritten("tools/call", result, LATEST, to), expected);
        }
    }

    #[test]
    fn content_without_a_form_in_the_revision_is_replaced_alone() {
        let result = concat!(
            r#"{"content":[{"type":"audio","data":"AAECAw==","mimeType":"audio/wav"},{"type":"text","text":"a","u":1}],"#,
            r#""structuredContent":{"a":1},"later":true}"#
        );
        assert_eq!(
            shape_raw_result("tools/call", result.as_bytes(), V25, ProtocolVersion::V2025_06_18).unwrap(),
            RawShape::Unchanged
        );
        assert_eq!(
            rewritten("tools/call", result, V25, V24),
            concat!(
                r#"{"content":[{"type":"text","text":"[audio: audio/wav, 4 bytes]"},{"type":"text","text":"a","u":1}],"#,
                r#""later":true}"#
            )
        );
        let lone = r#"{"resultType":"complete","content":[],"structuredContent":[1]}"#;
        assert_eq!(rewritten("tools/call", lone, LATEST, V25), r#"{"content":[{"type":"text","text":"[1]"}]}"#);
        let dated =
            r#"{"content":[{"type":"text","text":"a","annotations":{"priority":1,"lastModified":"2025"},"u":1}]}"#;
        let expected = r#"{"content":[{"type":"text","text":"a","annotations":{"priority":1},"u":1}]}"#;
        assert_eq!(rewritten("tools/call", dated, V25, V24), expected);
        let titled = ProtocolVersion::V2025_06_18;
        assert_eq!(shape_raw_result("tools/call", dated.as_bytes(), LATEST, titled).unwrap(), RawShape::Unchanged);
    }

    #[test]
    fn messages_of_prompts_are_shaped() {
        let result =
            r#"{"messages":[{"role":"user","content":{"type":"audio","data":"AAE=","mimeType":"a/b"},"u":1}],"d":2}"#;
        let expected =
            r#"{"messages":[{"content":{"type":"text","text":"[audio: a/b, 2 bytes]"},"role":"user","u":1}],"d":2}"#;
        assert_eq!(rewritten("prompts/get", result, V25, V24), expected);
    }

    #[test]
    fn definitions_are_unchanged_where_the_revision_has_all_members() {
        let plain = r#"{"name" : "t","inputSchema":{"x":1.0},"later":{"a":[1e2]},"_meta":{}}"#;
        let full =
            r#"{"icons":[{"src":"data:,"}],"execution":{"taskSupport":"optional"},"name":"t","inputSchema":{},"z":1}"#;
        let escaped = r#"{"ex\u0065cution":{},"name":"t","inputSchema":{}}"#;
        let shaped = shape_raw_definition("tools/list", escaped, LATEST);
        assert_eq!(shaped.as_deref(), Some(r#"{"name":"t","inputSchema":{}}"#));
        for to in ProtocolVersion::ALL {
            assert_eq!(shape_raw_definition("tools/list", plain, *to), None);
            let shaped = shape_raw_definition("tools/list", full, *to);
            match *to {
                V25 => assert_eq!(shaped, None),
                LATEST => {
                    assert_eq!(shaped.unwrap(), r#"{"icons":[{"src":"data:,"}],"name":"t","inputSchema":{},"z":1}"#)
                }
                _ => assert_eq!(shaped.unwrap(), r#"{"name":"t","inputSchema":{},"z":1}"#),
            }
        }
        assert_eq!(
            shape_raw_definition("resources/list", r#"{"uri":"a:b","name":"n","title":"T"}"#, V24).unwrap(),
            r#"{"uri":"a:b","name":"n"}"#
        );
        assert_eq!(
            shape_raw_definition("prompts/list", r#"{"name":"n","title":"T"}"#, V24).unwrap(),
            r#"{"name":"n"}"#
        );
        assert_eq!(
            shape_raw_definition(
                "tools/list",
                r#"{"z":1.50,"title":"T","name":"t","inputSchema":{"n":12345678901234567890123}}"#,
                V24
            )
            .unwrap(),
            r#"{"z":1.50,"name":"t","inputSchema":{"n":12345678901234567890123}}"#
        );
        assert_eq!(
            shape_raw_definition("tools/list", r#"{"title":"T","name":"t","z":[1E2],"inputSchema":{}}"#, V25_03)
                .unwrap(),
            r#"{"name":"t","z":[1E2],"inputSchema":{},"annotations":{"title":"T"}}"#
        );
        assert_eq!(shape_raw_definition("tools/list", "[]", V24), None);
    }
}
