//! The URIs in results: resource links, embedded resources, the contents of reads, and user interfaces.

use std::{borrow::Cow, sync::LazyLock};

use mcp_protocol::{MemberFinder, Method as _, method};
use serde_json::value::{RawValue, to_raw_value};

use super::{definition::UI_KEYS, members::Members};

/// A changed value; `None` for an unchanged one. The error is that of an object with a member twice, of which a client could read the
/// URI that stays.
type Changed = serde_json::Result<Option<Box<RawValue>>>;

/// Returns a result with other URIs; `None` if it contains no URI. Texts and structured content stay unchanged.
///
/// # Errors
/// If an object that can contain a URI has a member twice.
pub(super) fn rename(method: &str, result: &[u8], rename: impl Fn(&str) -> Cow<'_, str> + Copy) -> Changed {
    // The search for members is faster than the parser. A result that is parsed anyway needs no search in its content.
    let has_ui = || method == method::CallTool::NAME && META.may_have(result) && may_have_ui(result);
    if !(URI.may_have(result) || has_ui()) {
        return Ok(None);
    }
    let mut members: Members<'_> = serde_json::from_slice(result)?;
    let changed = match method {
        method::CallTool::NAME => {
            let meta = members.get("_meta").filter(|meta| may_have_ui(meta.get().as_bytes()));
            let meta = meta.map(|meta| in_meta(meta, rename)).transpose()?.flatten();
            let has_changed = meta.is_some();
            if let Some(meta) = meta {
                members.set("_meta", &meta);
            }
            Ok(change_list(&mut members, "content", |block| in_block(block, rename))? || has_changed)
        }
        method::GetPrompt::NAME => change_list(&mut members, "messages", |message| in_message(message, rename)),
        method::ReadResource::NAME => change_list(&mut members, "contents", |contents| in_contents(contents, rename)),
        _ => Ok(false),
    };
    Ok(changed?.then(|| members.write()))
}

/// JSON that cannot contain a member `uri` is not parsed.
static URI: LazyLock<MemberFinder> = LazyLock::new(|| MemberFinder::new("uri"));

/// The member of a result that can contain the URI of a user interface.
static META: LazyLock<MemberFinder> = LazyLock::new(|| MemberFinder::new("_meta"));

/// Whether JSON can contain the URI of a user interface.
fn may_have_ui(json: &[u8]) -> bool {
    static UI: LazyLock<[MemberFinder; 3]> =
        LazyLock::new(|| [UI_KEYS[0], UI_KEYS[1], "resourceUri"].map(MemberFinder::new));
    UI.iter().any(|finder| finder.may_have(json))
}

/// Changes the entries of a list. Returns false if no entry changes.
fn change_list(
    members: &mut Members<'_>,
    name: &'static str,
    change: impl Fn(&RawValue) -> Changed,
) -> serde_json::Result<bool> {
    let Some(list) = members.get(name) else { return Ok(false) };
    let Ok(entries) = serde_json::from_str::<Vec<&RawValue>>(list.get()) else { return Ok(false) };
    let changed: Vec<Option<Box<RawValue>>> = entries.iter().map(|entry| change(entry)).collect::<Result<_, _>>()?;
    if changed.iter().all(Option::is_none) {
        return Ok(false);
    }
    let all: Vec<&RawValue> =
        entries.iter().zip(&changed).map(|(entry, changed)| changed.as_deref().unwrap_or(entry)).collect();
    let list = to_raw_value(&all)?;
    members.set(name, &list);
    Ok(true)
}

fn in_message(message: &RawValue, rename: impl Fn(&str) -> Cow<'_, str> + Copy) -> Changed {
    change_member(message, "content", |content| in_block(content, rename))
}

fn in_block(block: &RawValue, rename: impl Fn(&str) -> Cow<'_, str> + Copy) -> Changed {
    let Some(members) = read(block)? else { return Ok(None) };
    match members.decode::<String>("type").as_deref() {
        Some("resource_link") => in_contents(block, rename),
        Some("resource") => change_member(block, "resource", |resource| in_contents(resource, rename)),
        _ => Ok(None),
    }
}

fn in_contents(contents: &RawValue, rename: impl Fn(&str) -> Cow<'_, str> + Copy) -> Changed {
    change_member(contents, "uri", |uri| in_uri(uri, rename))
}

fn in_uri(uri: &RawValue, rename: impl Fn(&str) -> Cow<'_, str>) -> Changed {
    match serde_json::from_str::<String>(uri.get()) {
        Ok(uri) => to_raw_value(&*rename(&uri)).map(Some),
        Err(_) => Ok(None),
    }
}

fn in_meta(meta: &RawValue, rename: impl Fn(&str) -> Cow<'_, str> + Copy) -> Changed {
    if !meta.get().starts_with('{') {
        return Ok(None);
    }
    let mut members = Members::read(meta.get())?;
    let mut has_changed = false;
    for key in UI_KEYS {
        if let Some(uri) = members.get(key).map(|uri| in_uri(uri, rename)).transpose()?.flatten() {
            members.set(key, &uri);
            has_changed = true;
        }
    }
    let ui = members.get("ui").filter(|ui| ui.get().starts_with('{'));
    if let Some(mut ui) = ui.map(|ui| Members::read(ui.get())).transpose()?
        && let Some(uri) = ui.get("resourceUri").map(|uri| in_uri(uri, rename)).transpose()?.flatten()
    {
        ui.set("resourceUri", &uri);
        let ui = ui.write();
        members.set("ui", &ui);
        has_changed = true;
    }
    Ok(has_changed.then(|| members.write()))
}

/// Changes one member of an object.
fn change_member(object: &RawValue, name: &'static str, change: impl Fn(&RawValue) -> Changed) -> Changed {
    let Some(mut members) = read(object)? else { return Ok(None) };
    let changed = members.get(name).map(change).transpose()?.flatten();
    Ok(changed.map(|changed| {
        members.set(name, &changed);
        members.write()
    }))
}

/// Reads an object that can contain a URI; `None` for other values.
fn read(json: &RawValue) -> serde_json::Result<Option<Members<'_>>> {
    if json.get().starts_with('{') && URI.may_have(json.get().as_bytes()) {
        return Members::read(json.get()).map(Some);
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_embedded_resources_have_the_uris_of_the_gateway() {
        let renamed = |method: &str, json: &str| {
            rename(method, json.as_bytes(), |uri| format!("new:{uri}").into())
                .unwrap()
                .map(|json| json.get().to_owned())
        };
        let link = r#"{"type":"resource_link","uri":"a:1","size":1.50}"#;
        let embedded = r#"{"type":"resource","resource":{"uri":"a:2","text":"\"uri\":\"a:2\""},"x":[ ]}"#;
        let text = r#"{"type":"text","text":"a:1","uri":"a:3"}"#;
        let result =
            format!(r#"{{"content":[{link},{embedded},{text}],"structuredContent":{{"uri":"a:1"}},"y": 1.50}}"#);
        let expected = result.replace(r#""uri":"a:1","size""#, r#""uri":"new:a:1","size""#);
        let expected =
            expected.replace(r#"{"uri":"a:2","text""#, r#"{"uri":"new:a:2","text""#).replace(": 1.50", ":1.50");
        assert_eq!(renamed("tools/call", &result).unwrap(), expected);
        let prompt =
            format!(r#"{{"messages":[{{"role":"user","content":{link}}},{{"role":"user","content":{text}}}]}}"#);
        assert_eq!(renamed("prompts/get", &prompt).unwrap(), prompt.replace(r#""a:1","s"#, r#""new:a:1","s"#));
        let read = r#"{"contents":[{"uri":"a:1","text":"t"},{"uri":"a:1#x","blob":""}]}"#;
        assert_eq!(renamed("resources/read", read).unwrap(), read.replace("a:1", "new:a:1"));
        for unchanged in
            [format!(r#"{{"content":[{text}]}}"#), r#"{"content":[]}"#.into(), r#"{"content":{"uri":1}}"#.into()]
        {
            assert_eq!(renamed("tools/call", &unchanged), None, "{unchanged}");
        }
        let apps = r#"{"content":[],"_meta":{"ui/resourceUri":"ui:1","openai/outputTemplate":"ui:2","ui":{"resourceUri":"ui:3","x":1.50},"y":"ui:1"}}"#;
        let expected = ["ui:1", "ui:2", "ui:3"]
            .into_iter()
            .fold(apps.to_owned(), |json, uri| json.replacen(&format!("{uri:?}"), &format!("\"new:{uri}\""), 1));
        assert_eq!(renamed("tools/call", apps).unwrap(), expected);
        for unchanged in
            [r#"{"content":[],"_meta":{"ui":"resourceUri","resourceUri":1}}"#, r#"{"_meta":["resourceUri"]}"#]
        {
            assert_eq!(renamed("tools/call", unchanged), None, "{unchanged}");
        }
        let escaped = r#"{"content":[{"type":"resource_link","\u0075ri":"a:1"}]}"#;
        let expected = r#"{"content":[{"type":"resource_link","uri":"new:a:1"}]}"#;
        assert_eq!(renamed("tools/call", escaped).unwrap(), expected);
        for twice in [
            r#"{"content":[{"type":"resource_link","uri":"a:1","uri":"a:2"}]}"#,
            r#"{"content":[{"type":"resource","resource":{"uri":"a:1","\u0075ri":"a:2"}}]}"#,
            r#"{"content":[],"content":[{"type":"resource_link","uri":"a:1"}]}"#,
        ] {
            assert!(rename("tools/call", twice.as_bytes(), |uri| Cow::Borrowed(uri)).is_err(), "{twice}");
        }
    }
}
