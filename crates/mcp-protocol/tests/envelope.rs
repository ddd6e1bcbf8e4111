//! Properties of the envelope parser: it accepts the messages that `serde_json` reads, with the same parts.

mod common;

use std::collections::BTreeMap;

use mcp_protocol::{Message, RequestId, RpcError, jsonrpc::Limits};
use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, value::RawValue};

use self::common::check;

/// The members of a message. A derived reader rejects a member that occurs twice.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// Reads a member that is present. A `null` is a value.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

/// The parts of an accepted message: the kind, the id, the method, and the raw text of the parameters or the result.
type Parts = (&'static str, Option<Value>, Option<String>, Option<String>);

/// Returns the parts as `serde_json` reads them; `None` if the text is not a message.
fn expected(text: &str) -> Option<Parts> {
    let names: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
    // A message that another parser reads differently is not accepted.
    let known = ["jsonrpc", "id", "method", "params", "result", "error"];
    let is_folded = |name: &str| !known.contains(&name) && known.iter().any(|known| known.eq_ignore_ascii_case(name));
    if names.keys().any(|name| is_folded(name)) || !text.trim_ascii_start().starts_with('{') {
        return None;
    }
    let Envelope { jsonrpc, id, method, params, result, error } = serde_json::from_str(text).ok()?;
    let read = |raw: &RawValue| serde_json::from_str::<Value>(raw.get()).ok();
    if read(jsonrpc?)? != "2.0" {
        return None;
    }
    let id = match id.map(read) {
        Some(Some(Value::Null)) if error.is_some() => None,
        Some(Some(Value::String(text))) if text.len() <= RequestId::MAX_LEN => Some(Value::String(text)),
        Some(Some(Value::Number(number))) if number.is_i64() => Some(Value::Number(number)),
        Some(_) => return None,
        None => None,
    };
    let params = params.map(RawValue::get).filter(|raw| *raw != "null").map(str::to_owned);
    match (method, result, error) {
        (Some(method), None, None) => {
            let method = serde_json::from_str(method.get()).ok()?;
            Some((if id.is_some() { "request" } else { "notification" }, id, Some(method), params))
        }
        (None, Some(result), None) => id.is_some().then(|| ("result", id, None, Some(result.get().to_owned()))),
        (None, None, Some(error)) => {
            let error: RpcError = serde_json::from_str(error.get()).ok()?;
            Some(("error", id, None, Some(error.message)))
        }
        _ => None,
    }
}

/// Returns the parts of a message of the library.
fn parts(message: Message<'_>) -> Parts {
    let id = |id: RequestId| match id {
        RequestId::Integer(number) => Value::from(number),
        RequestId::String(text) => Value::from(&*text),
    };
    let raw = |raw: &RawValue| raw.get().to_owned();
    match message {
        Message::Request(request) => {
            ("request", Some(id(request.id)), Some(request.method.into_owned()), request.params.map(raw))
        }
        Message::Notification(notice) => {
            ("notification", None, Some(notice.method.into_owned()), notice.params.map(raw))
        }
        Message::Response(response) => match response.outcome {
            Ok(result) => ("result", response.id.map(id), None, Some(raw(result))),
            Err(error) => ("error", response.id.map(id), None, Some(error.message)),
        },
    }
}

/// A JSON text with spaces, escapes and numbers of each form. Few texts are not JSON.
fn json() -> BoxedStrategy<String> {
    let valid =
        ["null", "true", "0", "-0", "7", "1.5", "1e3", "1E-2", "18446744073709551615", "-9223372036854775809", "1e999"];
    let invalid = ["01", "-", "1.", "nul", "NaN", "+1", "'a'", ""];
    let leaf = prop_oneof![
        20 => select(valid.to_vec()).prop_map(str::to_owned),
        20 => string(),
        1 => select(invalid.to_vec()).prop_map(str::to_owned),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            vec((space(), inner.clone()), 0..3).prop_map(|items| {
                let items: Vec<_> = items.into_iter().map(|(space, item)| format!("{space}{item}{space}")).collect();
                format!("[{}]", items.join(","))
            }),
            object(vec((name(), inner), 0..3)),
        ]
    })
    .boxed()
}

fn object(members: impl Strategy<Value = Vec<(String, String)>>) -> impl Strategy<Value = String> {
    (members, space(), space()).prop_map(|(members, before, after)| {
        let members: Vec<_> =
            members.into_iter().map(|(name, value)| format!("{before}{name}{after}:{before}{value}{after}")).collect();
        format!("{{{}}}", members.join(","))
    })
}

fn string() -> impl Strategy<Value = String> {
    let valid = ["a", "é", "😀", "\\n", "\\\"", "\\\\", "\\/", "\\u0041", "\\ud83d\\ude00", "\u{7f}", "[", "{", "}"];
    let invalid = ["\\ud800", "\\u12", "\\x", "\u{1}"];
    let piece = prop_oneof![30 => select(valid.to_vec()), 1 => select(invalid.to_vec())];
    vec(piece, 0..4).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

fn space() -> impl Strategy<Value = &'static str> {
    prop_oneof![60 => select(vec!["", "", " ", "\t", "\r\n"]), 1 => select(vec!["\u{b}", "\u{a0}", ","])]
}

fn name() -> impl Strategy<Value = String> {
    let known = [
        "_meta",
        "name",
        "uri",
        "taskId",
        "progressToken",
        "n\\u0061me",
        "arguments",
        "inputResponses",
        "requestState",
    ];
    prop_oneof![select(known.to_vec()).prop_map(|name| format!("\"{name}\"")), string()]
}

/// A member with a name and one of these values.
fn member(name: &'static str, values: &[&'static str]) -> BoxedStrategy<(String, String)> {
    select(values.to_vec()).prop_map(move |value| (format!("\"{name}\""), value.to_owned())).boxed()
}

/// The members that a message of one kind has.
fn skeleton() -> impl Strategy<Value = Vec<(String, String)>> {
    let version = || member("jsonrpc", &["\"2.0\"", "\"2.0\"", "\"2.0\"", "\"2\\u002e0\""]);
    let id = || member("id", &["1", "\"a\"", "-7", "\"\\u0031\"", "9223372036854775807"]);
    let method = || member("method", &["\"tools/call\"", "\"ping\"", "\"to\\u006fls/list\"", "\"\""]);
    let value = |name: &'static str| json().prop_map(move |value| (format!("\"{name}\""), value)).boxed();
    let error = member("error", &[r#"{"code":-32601,"message":"no"}"#, r#"{"code":1,"message":"","data":[1e2]}"#]);
    prop_oneof![
        (version(), id(), method(), value("params")).prop_map(|(a, b, c, d)| vec![a, b, c, d]),
        (version(), id(), method()).prop_map(|(a, b, c)| vec![a, b, c]),
        (version(), method(), value("params")).prop_map(|(a, b, c)| vec![a, b, c]),
        (version(), id(), value("result")).prop_map(|(a, b, c)| vec![a, b, c]),
        (version(), id(), error).prop_map(|(a, b, c)| vec![a, b, c]),
    ]
}

/// A member that makes most messages invalid, or a member with an unknown name.
fn extra() -> impl Strategy<Value = (String, String)> {
    let any = |names: &[&'static str]| {
        (select(names.to_vec()), json()).prop_map(|(name, value)| (format!("\"{name}\""), value)).boxed()
    };
    prop_oneof![
        6 => (name(), json()),
        1 => member("jsonrpc", &["\"2.0\"", "\"1.0\"", "2.0", "null"]),
        1 => member("id", &["null", "1.0", "1e0", "-0", "true", "9223372036854775808", "{}"]),
        1 => member("method", &["\"ping\"", "7", "null"]),
        1 => member("error", &[r#"{"code":1}"#, "null", "7"]),
        1 => any(&["params", "result", "i\\u0064", "ID", "Method", "param\\u0073", "jsonRpc", "\\u0065rror"]),
    ]
}

/// A message in any order of its members. Some messages lack a member, have another member, or have a damaged character.
fn message() -> impl Strategy<Value = String> {
    let members = (skeleton(), prop::option::weighted(0.2, any::<Index>()), prop::option::weighted(0.4, extra()));
    let members = members.prop_map(|(mut members, missing, extra)| {
        if let Some(missing) = missing {
            members.remove(missing.index(members.len()));
        }
        members.extend(extra);
        members
    });
    let edit = prop::option::weighted(0.1, (any::<Index>(), select(vec!["", ",", "{", "\"", "}", "\\", "0"])));
    (space(), object(members.prop_shuffle()), space(), edit).prop_map(|(before, object, after, edit)| {
        let mut text = format!("{before}{object}{after}");
        if let Some((at, replacement)) = edit {
            let starts: Vec<usize> = text.char_indices().map(|(start, _)| start).collect();
            let start = starts[at.index(starts.len())];
            let end = text[start..].chars().next().map_or(start, |c| start + c.len_utf8());
            text.replace_range(start..end, replacement);
        }
        text
    })
}

#[test]
fn the_parser_accepts_the_messages_that_serde_json_reads() {
    check(&message(), |text| {
        let found = Message::parse(text.as_bytes()).map(parts);
        let expected = expected(&text);
        prop_assert_eq!(found.as_ref().ok(), expected.as_ref(), "{}: {:?}", text, found);
        Ok(())
    });
}

/// The generator creates messages of each kind, and invalid ones.
#[test]
fn the_messages_have_each_kind() {
    let counts = std::cell::RefCell::new(BTreeMap::<&str, usize>::new());
    check(&message(), |text| {
        let kind = expected(&text).map_or("none", |(kind, ..)| kind);
        *counts.borrow_mut().entry(kind).or_default() += 1;
        Ok(())
    });
    let counts = counts.into_inner();
    let kinds = ["request", "notification", "result", "error", "none"];
    assert!(kinds.iter().all(|kind| counts.get(kind).is_some_and(|count| *count > 10)), "{counts:?}");
}

#[test]
fn the_parser_counts_the_nesting_of_brackets_outside_strings() {
    check(&(0..6_usize, message()), |(depth, text)| {
        let mut nesting = 0_usize;
        let mut deepest = 0;
        let mut characters = text.chars();
        let mut is_string = false;
        while let Some(character) = characters.next() {
            match character {
                '"' => is_string = !is_string,
                '\\' if is_string => _ = characters.next(),
                '[' | '{' if !is_string => {
                    nesting += 1;
                    deepest = deepest.max(nesting);
                }
                ']' | '}' if !is_string => nesting = nesting.saturating_sub(1),
                _ => {}
            }
        }
        let found = Message::parse_with(text.as_bytes(), &Limits::default().depth(depth)).is_ok();
        prop_assert_eq!(found, deepest <= depth && expected(&text).is_some(), "{} at {}", text, depth);
        Ok(())
    });
}
