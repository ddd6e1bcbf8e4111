//! Arguments of tools from the command line, read as the tool's schema says.

use std::collections::{BTreeMap, HashSet};

use mcp_protocol::JsonObject;
use serde_json::{Map, Value, map::Entry};

use crate::{failure::Failure, input::Input};

/// Reads the arguments: `key=value`, `key:=json`, `key=@file`, or one JSON object (`{…}`, `@file`, `-`).
pub(crate) async fn arguments(
    words: &[String],
    schema: &JsonObject,
    input: &Input,
) -> Result<Map<String, Value>, Failure> {
    if let [only] = words
        && (only.starts_with('{') || only.starts_with('@') || only == "-")
    {
        return whole(only, input).await;
    }
    let mut arguments = Map::new();
    for word in words {
        let Some((key, given)) = pair(word, input).await? else {
            return Err(Failure::usage(format!(
                "`{word}` is no argument: write key=value, key:=json or a JSON object"
            )));
        };
        match given {
            Given::Json(_) if arguments.contains_key(key) => return Err(twice(key)),
            Given::Json(value) => _ = arguments.insert(key.to_owned(), value),
            Given::Text(text) => add(&mut arguments, key, &text, schema)?,
        }
    }
    Ok(arguments)
}

/// Reads the arguments of a prompt, which are texts.
pub(crate) async fn texts(words: &[String], input: &Input) -> Result<BTreeMap<String, String>, Failure> {
    let mut arguments = BTreeMap::new();
    for word in words {
        let (key, text) = match pair(word, input).await? {
            Some((key, Given::Text(text) | Given::Json(Value::String(text)))) => (key, text),
            Some((key, Given::Json(_))) => {
                return Err(Failure::usage(format!("`{key}` wants a text: arguments of prompts are nothing else")));
            }
            None => return Err(Failure::usage(format!("`{word}` is no argument: write key=value"))),
        };
        if arguments.insert(key.to_owned(), text).is_some() {
            return Err(twice(key));
        }
    }
    Ok(arguments)
}

/// What an argument is given as.
enum Given {
    Text(String),
    Json(Value),
}

/// One argument; `None` where the word is none.
async fn pair<'a>(word: &'a str, input: &Input) -> Result<Option<(&'a str, Given)>, Failure> {
    let Some((key, text)) = word.split_once('=') else { return Ok(None) };
    if let Some(key) = key.strip_suffix(':') {
        let value = serde_json::from_str(text)
            .map_err(|error| Failure::usage(format!("the value of `{key}` is no JSON: {error}")))?;
        return Ok(Some((key, Given::Json(value))));
    }
    let text = match text.strip_prefix('@') {
        Some(file) => input.read(file).await.map_err(|failure| {
            Failure::usage(format!("{failure}; a text that begins with @ is written {key}:='\"@…\"'"))
        })?,
        None => text.to_owned(),
    };
    Ok(Some((key, Given::Text(text))))
}

fn twice(key: &str) -> Failure {
    Failure::usage(format!("`{key}` is given twice"))
}

/// All arguments as one JSON object.
async fn whole(word: &str, input: &Input) -> Result<Map<String, Value>, Failure> {
    let text = match word.strip_prefix('@') {
        Some(file) => input.read(file).await?,
        None if word == "-" => input.read("-").await?,
        None => word.to_owned(),
    };
    match serde_json::from_str(&text) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(_) => Err(Failure::usage("the arguments are a JSON object")),
        Err(error) => Err(Failure::usage(format!("the arguments are no JSON: {error}"))),
    }
}

/// Adds a value. Where the schema wants an array, the same key may come several times.
fn add(arguments: &mut Map<String, Value>, key: &str, text: &str, schema: &JsonObject) -> Result<(), Failure> {
    let property = schema.get("properties").and_then(|properties| properties.get(key));
    let is_list = property.is_some_and(|property| types(schema, property).contains(&"array")) && !text.starts_with('[');
    let kind = if is_list { property.and_then(|property| property.get("items")) } else { property };
    let value = read(text, schema, kind).map_err(|wanted| {
        let given = if text.len() > 40 { "what was given" } else { text };
        Failure::usage(format!("`{key}` wants {wanted}, and `{given}` is none"))
    })?;
    match arguments.entry(key) {
        Entry::Vacant(entry) => {
            entry.insert(if is_list { Value::Array(vec![value]) } else { value });
        }
        Entry::Occupied(mut entry) => match entry.get_mut() {
            Value::Array(list) if is_list => list.push(value),
            _ => return Err(twice(key)),
        },
    }
    Ok(())
}

/// One value of a property, or what it should be.
fn read(text: &str, schema: &JsonObject, property: Option<&Value>) -> Result<Value, String> {
    let types = property.map(|property| types(schema, property)).unwrap_or_default();
    let json = serde_json::from_str::<Value>(text).ok();
    let fits = |value: &Value| types.iter().any(|kind| is(value, kind));
    match json {
        // Without a type it is what it looks like.
        Some(value) if types.is_empty() || !types.contains(&"string") && fits(&value) => Ok(value),
        // A text that also may be something else is that, unless it can only be a text.
        Some(value) if fits(&value) && !value.is_string() => Ok(value),
        _ if types.is_empty() || types.contains(&"string") => Ok(Value::String(text.to_owned())),
        _ => Err(types.join(" or ")),
    }
}

/// Branches of one property that are looked at: what a server sends costs no more than that.
const BRANCHES: usize = 1000;

/// The types that a property allows; none where its schema does not say.
fn types<'a>(root: &'a JsonObject, property: &'a Value) -> Vec<&'a str> {
    let mut found = Vec::new();
    for branch in branches(root, property) {
        match branch.get("type") {
            Some(Value::String(name)) => found.push(name.as_str()),
            Some(Value::Array(names)) => found.extend(names.iter().filter_map(Value::as_str)),
            _ => {
                let values = branch.get("enum").and_then(Value::as_array);
                let are_texts = values.is_some_and(|values| values.iter().all(Value::is_string));
                if are_texts || branch.get("const").is_some_and(Value::is_string) {
                    found.push("string");
                }
            }
        }
    }
    let mut seen = HashSet::new();
    found.retain(|name| seen.insert(*name));
    found
}

/// The values that a property allows, where it allows some only.
pub(crate) fn choices<'a>(root: &'a JsonObject, property: &'a Value) -> Vec<&'a Value> {
    let mut found = Vec::new();
    for branch in branches(root, property) {
        found.extend(branch.get("enum").and_then(Value::as_array).into_iter().flatten());
        found.extend(branch.get("const"));
    }
    found
}

/// The types of a property in words; `any` where it does not say.
pub(crate) fn kind(root: &JsonObject, property: &Value) -> String {
    match types(root, property).join("|") {
        kind if kind.is_empty() => "any".to_owned(),
        kind => kind,
    }
}

/// Every alternative of a schema in its order, with its references followed, and each one once.
fn branches<'a>(root: &'a JsonObject, schema: &'a Value) -> Vec<&'a Value> {
    let (mut found, mut seen, mut next) = (Vec::new(), HashSet::new(), vec![schema]);
    while let Some(branch) = next.pop() {
        if found.len() == BRANCHES {
            break;
        }
        if !seen.insert(std::ptr::from_ref(branch)) {
            continue;
        }
        found.push(branch);
        let own = next.len();
        next.extend(target(root, branch));
        let alternatives =
            ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|keyword| branch.get(keyword)?.as_array());
        next.extend(alternatives.flatten().take(BRANCHES));
        next[own..].reverse();
    }
    found
}

/// What a schema refers to in its own document.
fn target<'a>(root: &'a JsonObject, schema: &Value) -> Option<&'a Value> {
    let path = schema.get("$ref")?.as_str()?.strip_prefix("#/")?;
    let mut parts = path.split('/').map(|part| part.replace("~1", "/").replace("~0", "~"));
    let first = root.get(&parts.next()?)?;
    parts.try_fold(first, |value, part| value.get(part))
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

/// How a tool is called: its arguments with their types, optional ones in brackets.
pub(crate) fn signature(schema: &JsonObject) -> String {
    let Some(Value::Object(properties)) = schema.get("properties") else { return String::new() };
    let required: Vec<&str> = match schema.get("required") {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let one = |(name, property): (&String, &Value)| {
        // That an optional argument may also be null says its brackets.
        let mut kinds = types(schema, property);
        kinds.retain(|kind| *kind != "null" || required.contains(&name.as_str()));
        let kind = if kinds.is_empty() { String::new() } else { format!(":{}", kinds.join("|")) };
        if required.contains(&name.as_str()) { format!("{name}{kind}") } else { format!("[{name}{kind}]") }
    };
    properties.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> JsonObject {
        JsonObject::from_value(json!({
            "type": "object",
            "required": ["text"],
            "properties": {
                "text": {"type": "string"}, "n": {"type": "integer"}, "x": {"type": "number"}, "on": {"type": "boolean"},
                "tags": {"type": "array", "items": {"type": "string"}}, "ids": {"type": "array", "items": {"type": "integer"}},
                "maybe": {"type": ["integer", "null"]}, "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                "mode": {"enum": ["1", "2"]}, "any": {}, "o": {"type": "object"},
            },
        }))
        .unwrap_or_default()
    }

    #[tokio::test]
    async fn values_are_read_as_the_schema_says() {
        for (words, expected) in [
            ("text=5", json!({"text": "5"})),
            ("text=", json!({"text": ""})),
            ("text=a=b", json!({"text": "a=b"})),
            ("n=5 x=1.5 on=true", json!({"n": 5, "x": 1.5, "on": true})),
            ("tags=a tags=b ids=1 ids=2", json!({"tags": ["a", "b"], "ids": [1, 2]})),
            (r#"tags=["a","b"]"#, json!({"tags": ["a", "b"]})),
            ("maybe=null", json!({"maybe": null})),
            ("either=5", json!({"either": 5})),
            ("either=x", json!({"either": "x"})),
            ("mode=1", json!({"mode": "1"})),
            ("any=5 other=x third={}", json!({"any": 5, "other": "x", "third": {}})),
            (r#"text:="x" o={"a":1}"#, json!({"text": "x", "o": {"a": 1}})),
            (r#"{"n":"as_it_stands"}"#, json!({"n": "as_it_stands"})),
            ("", json!({})),
        ] {
            let words: Vec<String> = words.split_whitespace().map(ToOwned::to_owned).collect();
            let read = arguments(&words, &schema(), &Input::default()).await;
            let read = read.map(Value::Object).map_err(|failure| failure.to_string());
            assert_eq!(read, Ok(expected), "{words:?}");
        }
    }

    #[tokio::test]
    async fn what_does_not_fit_is_told() {
        for (words, problem) in [
            ("n=five", "`n` wants integer, and `five` is none"),
            ("n=1.5", "`n` wants integer, and `1.5` is none"),
            ("on=1", "`on` wants boolean, and `1` is none"),
            ("ids=x", "`ids` wants integer, and `x` is none"),
            ("n=1 n=2", "`n` is given twice"),
            ("n:=x", "the value of `n` is no JSON: expected value at line 1 column 1"),
            ("word", "`word` is no argument: write key=value, key:=json or a JSON object"),
            ("[1]", "`[1]` is no argument: write key=value, key:=json or a JSON object"),
            ("n=1 n:=2", "`n` is given twice"),
            (
                "text=@/no/such/file",
                "cannot read /no/such/file: No such file or directory (os error 2); \
                 a text that begins with @ is written text:='\"@…\"'",
            ),
            ("@/no/such/file", "cannot read /no/such/file: No such file or directory (os error 2)"),
            ("-", "stdin has the lines of this shell: name a file, as `@file`"),
            ("@-", "stdin has the lines of this shell: name a file, as `@file`"),
        ] {
            let words: Vec<String> = words.split_whitespace().map(ToOwned::to_owned).collect();
            let failure = arguments(&words, &schema(), &Input::of_shell()).await.map_err(|failure| failure.to_string());
            assert_eq!(failure, Err(problem.to_owned()), "{words:?}");
        }
    }

    #[tokio::test]
    async fn arguments_of_prompts_are_texts() {
        let read = async |words: &str| {
            let words: Vec<String> = words.split(' ').map(ToOwned::to_owned).collect();
            texts(&words, &Input::of_shell()).await.map_err(|failure| failure.to_string())
        };
        let expected = [("a", "1=2"), ("b", "@x")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(read(r#"a=1=2 b:="@x""#).await, Ok(BTreeMap::from(expected)));
        assert_eq!(read("a=1 a=2").await, Err("`a` is given twice".to_owned()));
        assert_eq!(read("a:=1").await, Err("`a` wants a text: arguments of prompts are nothing else".to_owned()));
        assert_eq!(read("a").await, Err("`a` is no argument: write key=value".to_owned()));
    }

    /// `a` is one of 30 that refer to it each, and in the end one of these texts.
    #[test]
    fn a_schema_that_refers_to_itself_again_and_again_is_read_once() {
        let mut alternatives = vec![json!({"$ref": "#/properties/a"}); 30];
        alternatives.push(json!({"type": ["string", "null"], "enum": ["x", "y", null]}));
        let schema = JsonObject::from_value(json!({"properties": {"a": {"anyOf": alternatives}}})).unwrap_or_default();
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let choices = schema.get("properties").map(|properties| choices(&schema, &properties["a"]).len());
            tell.send((signature(&schema), choices))
        });
        let read = told.recv_timeout(std::time::Duration::from_secs(20));
        assert_eq!(read, Ok(("[a:string]".to_owned(), Some(3))));
    }

    #[test]
    fn a_signature_names_arguments_and_types() {
        let schema = JsonObject::from_value(json!({
            "properties": {"a": {"type": "integer"}, "b": {"type": ["string", "null"]}, "c": {}}, "required": ["a"],
        }))
        .unwrap_or_default();
        assert_eq!(signature(&schema), "a:integer [b:string] [c]");
        assert_eq!(signature(&JsonObject::new()), "");
    }
}
