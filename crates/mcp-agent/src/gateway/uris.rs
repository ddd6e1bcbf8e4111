//! The URIs in results: resource links, embedded resources, and the contents of reads.

use std::borrow::Cow;

use mcp_protocol::{Method as _, method};
use memchr::memmem;
use serde_json::value::{RawValue, to_raw_value};

use super::members::Members;

/// Returns a result with other URIs; `None` if it contains no URI. Texts and structured content stay unchanged.
pub(super) fn rename(method: &str, result: &[u8], rename: impl Fn(&str) -> Cow<'_, str> + Copy) -> Option<Box<str>> {
    // A result without a URI is not parsed.
    memmem::find(result, b"\"uri\"")?;
    let mut members = Members::read(std::str::from_utf8(result).ok()?).ok()?;
    let changed = match method {
        method::CallTool::NAME => change_list(&mut members, "content", |block| in_block(block, rename)),
        method::GetPrompt::NAME => change_list(&mut members, "messages", |message| in_message(message, rename)),
        method::ReadResource::NAME => change_list(&mut members, "contents", |contents| in_contents(contents, rename)),
        _ => false,
    };
    changed.then(|| Box::<RawValue>::into(members.write()))
}

/// Changes the entries of a list. Returns false if no entry changes.
fn change_list(
    members: &mut Members<'_>,
    name: &'static str,
    change: impl Fn(&RawValue) -> Option<Box<RawValue>>,
) -> bool {
    let Some(list) = members.get(name) else { return false };
    let Ok(entries) = serde_json::from_str::<Vec<&RawValue>>(list.get()) else { return false };
    let changed: Vec<Option<Box<RawValue>>> = entries.iter().map(|entry| change(entry)).collect();
    if changed.iter().all(Option::is_none) {
        return false;
    }
    let all: Vec<&RawValue> =
        entries.iter().zip(&changed).map(|(entry, changed)| changed.as_deref().unwrap_or(entry)).collect();
    let Ok(list) = to_raw_value(&all) else { return false };
    members.set(name, &list);
    true
}

fn in_message(message: &RawValue, rename: impl Fn(&str) -> Cow<'_, str> + Copy) -> Option<Box<RawValue>> {
    let mut members = read(message)?;
    let content = in_block(members.get("content")?, rename)?;
    members.set("content", &content);
    Some(members.write())
}

fn in_block(block: &RawValue, rename: impl Fn(&str) -> Cow<'_, str> + Copy) -> Option<Box<RawValue>> {
    let mut members = read(block)?;
    match members.decode::<String>("type")?.as_str() {
        "resource_link" => in_contents(block, rename),
        "resource" => {
            let resource = in_contents(members.get("resource")?, rename)?;
            members.set("resource", &resource);
            Some(members.write())
        }
        _ => None,
    }
}

fn in_contents(contents: &RawValue, rename: impl Fn(&str) -> Cow<'_, str>) -> Option<Box<RawValue>> {
    let mut members = read(contents)?;
    let uri: String = members.decode("uri")?;
    members.set("uri", &*rename(&uri));
    Some(members.write())
}

/// Reads an object that contains a URI.
fn read(json: &RawValue) -> Option<Members<'_>> {
    memmem::find(json.get().as_bytes(), b"\"uri\"")?;
    Members::read(json.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_embedded_resources_have_the_uris_of_the_gateway() {
        let renamed = |method: &str, json: &str| {
            rename(method, json.as_bytes(), |uri| format!("new:{uri}").into()).map(String::from)
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
    }
}
