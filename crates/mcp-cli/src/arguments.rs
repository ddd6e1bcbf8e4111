//! Arguments of tools, prompts and completions, parsed from the words of a command line.

mod object;
mod schema;

use mcp_protocol::{JsonObject, Tool};
use serde_json::{Map, Value, map::Entry};

pub(crate) use self::schema::{choices, signature, type_names};
use self::{
    object::Members,
    schema::{Names, has_type, items, types},
};
use crate::{failure::Failure, input::Input, suggestion::nearest, text::line};

/// Adds the arguments of the tool to a failure.
pub(crate) fn with_signature(tool: &Tool, failure: Failure) -> Failure {
    failure.with_line(&format!("{} takes: {}", line(&tool.name), signature(&tool.input_schema)))
}

/// Parses the arguments of a tool. The input schema decides the types of `key=value`.
pub(crate) async fn tool_arguments(
    words: &[String],
    schema: &JsonObject,
    input: &Input,
) -> Result<Map<String, Value>, Failure> {
    let mut arguments = Map::new();
    for (key, given) in parse(words, input).await? {
        match given {
            Given::Json(_) if arguments.contains_key(&key) => return Err(repeated(&key)),
            Given::Json(value) => _ = arguments.insert(key, value),
            Given::Text(text) => insert(&mut arguments, &key, &text, schema)?,
        }
    }
    Ok(arguments)
}

/// Parses the arguments of a prompt or a completion, which are strings. Keeps the order of the command line.
pub(crate) async fn string_arguments(words: &[String], input: &Input) -> Result<Vec<(String, String)>, Failure> {
    let mut arguments: Vec<(String, String)> = Vec::new();
    for (key, given) in parse(words, input).await? {
        let text = match given {
            Given::Text(text) | Given::Json(Value::String(text)) => text,
            Given::Json(value) => {
                let given = with_article(type_of(&value));
                return Err(Failure::usage(format!(
                    "`{key}` must be a string; {} is {given}",
                    quote(&value.to_string())
                )));
            }
        };
        if arguments.iter().any(|(other, _)| *other == key) {
            return Err(repeated(&key));
        }
        arguments.push((key, text));
    }
    Ok(arguments)
}

/// Parses the answers to questions. Each word is one field, or a JSON object of fields.
pub(crate) async fn answers(words: &[String], input: &Input) -> Result<Vec<(String, Given)>, Failure> {
    let mut answers: Vec<(String, Given)> = Vec::new();
    for word in words {
        for (field, given) in parse(std::slice::from_ref(word), input).await? {
            if answers.iter().any(|(other, _)| *other == field) {
                return Err(repeated(&field));
            }
            answers.push((field, given));
        }
    }
    Ok(answers)
}

/// Checks the names of a tool's arguments against its schema.
///
/// Returns warnings for unknown names, unless the schema explicitly allows other names and no declared name is similar.
///
/// # Errors
///
/// Fails if the schema does not allow a name.
pub(crate) fn check_names(arguments: &Map<String, Value>, schema: &JsonObject) -> Result<Vec<String>, Failure> {
    let names = Names::of(schema);
    let mut warnings = Vec::new();
    for name in arguments.keys().filter(|name| !names.declared.contains(name.as_str())) {
        let problem = misspelt(name, names.declared.iter().copied(), |other| arguments.contains_key(other));
        if !names.allows_others {
            return Err(Failure::usage(
                problem.unwrap_or_else(|| format!("the tool has no argument `{}`", line(name))),
            ));
        }
        let unknown = || (!names.expects_others).then(|| format!("the tool declares no argument `{}`", line(name)));
        warnings.extend(problem.or_else(unknown));
    }
    Ok(warnings)
}

/// Returns an error text if an unknown name is similar to a declared name that is not given.
pub(crate) fn misspelt<'a>(
    name: &str,
    declared: impl IntoIterator<Item = &'a str>,
    is_given: impl Fn(&str) -> bool,
) -> Option<String> {
    let similar = nearest(name, declared.into_iter().filter(|other| !is_given(other)))?;
    Some(format!("there is no argument `{}`; did you mean `{}`?", line(name), line(similar)))
}

/// The value of an argument on the command line.
#[derive(Debug)]
pub(crate) enum Given {
    Text(String),
    Json(Value),
}

/// Parses `key=value`, `key:=json` and `key=@file`, or one JSON object with all arguments.
async fn parse(words: &[String], input: &Input) -> Result<Vec<(String, Given)>, Failure> {
    if let [only] = words
        && (only.starts_with('{') || only.starts_with('@') || only == "-")
    {
        let members = object(only, input).await?;
        return Ok(members.into_iter().map(|(key, value)| (key, Given::Json(value))).collect());
    }
    let mut arguments = Vec::new();
    for word in words {
        arguments.push(pair(word, input).await?);
    }
    Ok(arguments)
}

/// Parses one argument.
async fn pair(word: &str, input: &Input) -> Result<(String, Given), Failure> {
    let Some((key, text)) = word.split_once('=') else {
        return Err(Failure::usage(format!(
            "`{word}` is not an argument; write key=value, key:=json or a JSON object"
        )));
    };
    if let Some(key) = key.strip_suffix(':') {
        let value = serde_json::from_str(text)
            .map_err(|error| Failure::usage(format!("the value of `{key}` is not valid JSON: {error}")))?;
        return Ok((key.to_owned(), Given::Json(value)));
    }
    let text = match text.strip_prefix('@') {
        Some(file) => input.read(file).await.map_err(|failure| {
            Failure::usage(format!("{failure}; write {key}:='\"@…\"' for a text that begins with @"))
        })?,
        None => text.to_owned(),
    };
    Ok((key.to_owned(), Given::Text(text)))
}

fn repeated(key: &str) -> Failure {
    Failure::usage(format!("`{key}` is given twice"))
}

/// Parses all arguments from one JSON object, in its order.
async fn object(word: &str, input: &Input) -> Result<Vec<(String, Value)>, Failure> {
    let text = match word.strip_prefix('@') {
        Some(file) => input.read(file).await?,
        None if word == "-" => input.read("-").await?,
        None => word.to_owned(),
    };
    match serde_json::from_str(&text) {
        Ok(Members(members)) => Ok(members),
        Err(error) if error.is_data() => Err(Failure::usage("the arguments must be a JSON object")),
        Err(error) => Err(Failure::usage(format!("the arguments are not valid JSON: {error}"))),
    }
}

/// Inserts a value. If the schema allows an array, each further value of the same key extends it. If the schema allows a text
/// too, one value is a text.
fn insert(arguments: &mut Map<String, Value>, key: &str, text: &str, schema: &JsonObject) -> Result<(), Failure> {
    let property = schema.get("properties").and_then(|properties| properties.get(key));
    let allowed = property.map(|property| types(schema, property)).unwrap_or_default();
    let may_be_list = allowed.contains(&"array") && !text.starts_with('[');
    let is_list = may_be_list && (arguments.contains_key(key) || !allowed.contains(&"string"));
    let kind = if is_list { property.and_then(|property| items(schema, property)) } else { property };
    let convert = |text: &str| typed(text, schema, kind).map_err(|types| mismatch(key, text, &types));
    let value = convert(text)?;
    match arguments.entry(key) {
        Entry::Vacant(entry) => {
            entry.insert(if is_list { Value::Array(vec![value]) } else { value });
        }
        Entry::Occupied(mut entry) if is_list => match entry.get_mut() {
            Value::Array(list) => list.push(value),
            Value::String(first) => {
                let first = convert(first)?;
                entry.insert(Value::Array(vec![first, value]));
            }
            _ => return Err(repeated(key)),
        },
        Entry::Occupied(_) => return Err(repeated(key)),
    }
    Ok(())
}

/// Converts a text to a type that the property allows. Returns the allowed types if none fits.
fn typed<'a>(text: &str, schema: &'a JsonObject, property: Option<&'a Value>) -> Result<Value, Vec<&'a str>> {
    let types = property.map(|property| types(schema, property)).unwrap_or_default();
    let json = serde_json::from_str::<Value>(text).ok();
    let fits = |value: &Value| types.iter().any(|name| has_type(value, name));
    match json {
        // Without declared types, the text decides the type.
        Some(value) if types.is_empty() || !types.contains(&"string") && fits(&value) => Ok(value),
        // A text that has one of several types besides string takes that type.
        Some(value) if fits(&value) && !value.is_string() => Ok(value),
        _ if types.is_empty() || types.contains(&"string") => Ok(Value::String(text.to_owned())),
        _ => Err(types),
    }
}

/// Returns the failure for a text without one of the required types.
fn mismatch(key: &str, text: &str, types: &[&str]) -> Failure {
    let required: Vec<String> = types.iter().map(|name| with_article(name)).collect();
    let found = match &*required {
        [only] => format!("is not {only}"),
        _ => "has another type".to_owned(),
    };
    Failure::usage(format!("`{key}` must be {}; {} {found}", required.join(" or "), quote(text)))
}

/// Quotes a value in an error text, unless it is long.
pub(crate) fn quote(text: &str) -> String {
    if text.len() > 40 { "the given value".to_owned() } else { format!("`{text}`") }
}

fn with_article(name: &str) -> String {
    match name {
        "null" => name.to_owned(),
        "array" | "integer" | "object" => format!("an {name}"),
        _ => format!("a {}", line(name)),
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
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
                "years": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
                "q": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}]},
            },
        }))
        .unwrap_or_default()
    }

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(ToOwned::to_owned).collect()
    }

    #[tokio::test]
    async fn converts_values_to_the_types_of_the_schema() {
        for (line, expected) in [
            ("text=5", json!({"text": "5"})),
            ("text=", json!({"text": ""})),
            ("text=a=b", json!({"text": "a=b"})),
            ("n=5 x=1.5 on=true", json!({"n": 5, "x": 1.5, "on": true})),
            ("tags=a tags=b ids=1 ids=2", json!({"tags": ["a", "b"], "ids": [1, 2]})),
            (r#"tags=["a","b"]"#, json!({"tags": ["a", "b"]})),
            ("years=2024", json!({"years": ["2024"]})),
            ("q=5", json!({"q": "5"})),
            ("q=[5]", json!({"q": [5]})),
            ("q=[5] q=6", json!({"q": [5, 6]})),
            ("q=5 q=6", json!({"q": [5, 6]})),
            ("maybe=null", json!({"maybe": null})),
            ("either=5", json!({"either": 5})),
            ("either=x", json!({"either": "x"})),
            ("mode=1", json!({"mode": "1"})),
            ("any=5 other=x third={}", json!({"any": 5, "other": "x", "third": {}})),
            (r#"text:="x" o={"a":1}"#, json!({"text": "x", "o": {"a": 1}})),
            (r#"{"n":"unchanged"}"#, json!({"n": "unchanged"})),
            ("", json!({})),
        ] {
            let arguments = tool_arguments(&words(line), &schema(), &Input::default()).await;
            let arguments = arguments.map(Value::Object).map_err(|failure| failure.to_string());
            assert_eq!(arguments, Ok(expected), "{line}");
        }
    }

    #[tokio::test]
    async fn rejects_invalid_arguments_with_the_reason() {
        for (line, message) in [
            ("n=five", "`n` must be an integer; `five` is not an integer"),
            ("n=1.5", "`n` must be an integer; `1.5` is not an integer"),
            ("x=much", "`x` must be a number; `much` is not a number"),
            ("on=1", "`on` must be a boolean; `1` is not a boolean"),
            ("ids=x", "`ids` must be an integer; `x` is not an integer"),
            ("maybe=x", "`maybe` must be an integer or null; `x` has another type"),
            ("n=1 n=2", "`n` is given twice"),
            ("q:=true q=6", "`q` is given twice"),
            ("q=x q=6", "`q` must be an integer; `x` is not an integer"),
            (r#"{"n":1,"n":2}"#, "`n` is given twice"),
            ("n:=x", "the value of `n` is not valid JSON: expected value at line 1 column 1"),
            ("word", "`word` is not an argument; write key=value, key:=json or a JSON object"),
            ("[1]", "`[1]` is not an argument; write key=value, key:=json or a JSON object"),
            ("{1}", "the arguments are not valid JSON: key must be a string at line 1 column 2"),
            ("n=1 n:=2", "`n` is given twice"),
            (
                "text=@/no/such/file",
                "cannot read /no/such/file: No such file or directory (os error 2); \
                 write text:='\"@…\"' for a text that begins with @",
            ),
            ("@/no/such/file", "cannot read /no/such/file: No such file or directory (os error 2)"),
            ("-", "the shell reads its commands from stdin; give a file as `@file`"),
            ("@-", "the shell reads its commands from stdin; give a file as `@file`"),
        ] {
            let arguments = tool_arguments(&words(line), &schema(), &Input::of_shell()).await;
            assert_eq!(arguments.map_err(|failure| failure.to_string()), Err(message.to_owned()), "{line}");
        }
    }

    #[tokio::test]
    async fn string_arguments_keep_their_order_and_accept_every_form() {
        let read = async |line: &str| {
            let arguments = string_arguments(&words(line), &Input::of_shell()).await;
            arguments.map_err(|failure| failure.to_string())
        };
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(read(r#"b=1=2 a:="@x""#).await, Ok(vec![pair("b", "1=2"), pair("a", "@x")]));
        assert_eq!(
            read(r#"{"z":"1","b":"2","a":"3"}"#).await,
            Ok(vec![pair("z", "1"), pair("b", "2"), pair("a", "3")])
        );
        for (line, message) in [
            ("a=1 a=2", "`a` is given twice"),
            ("a:=1", "`a` must be a string; `1` is a number"),
            (r#"{"a":[]}"#, "`a` must be a string; `[]` is an array"),
            ("a", "`a` is not an argument; write key=value, key:=json or a JSON object"),
            ("@-", "the shell reads its commands from stdin; give a file as `@file`"),
        ] {
            assert_eq!(read(line).await, Err(message.to_owned()), "{line}");
        }
    }

    #[test]
    fn reports_misspelt_names() {
        let check = |arguments: Value, schema: Value| {
            let schema = JsonObject::from_value(schema).unwrap_or_default();
            check_names(arguments.as_object().unwrap_or(&Map::new()), &schema).map_err(|failure| failure.to_string())
        };
        let hint = || "there is no argument `color`; did you mean `colour`?".to_owned();
        let open = json!({"properties": {"colour": {}}});
        let closed = json!({"properties": {"colour": {}}, "additionalProperties": false});
        let combined =
            json!({"allOf": [{"$ref": "#/$defs/x"}], "$defs": {"x": {"properties": {"colour": {}, "color": {}}}}});
        assert_eq!(check(json!({"color": 1}), open.clone()), Ok(vec![hint()]));
        let unknown = |name: &str| Ok(vec![format!("the tool declares no argument `{name}`")]);
        assert_eq!(check(json!({"color": 1, "colour": 1}), open.clone()), unknown("color"));
        assert_eq!(check(json!({"size": 1}), open), unknown("size"));
        let by_reference = json!({"$ref": "#/$defs/x", "$defs": {"x": {"properties": {"size": {}}}}});
        for expects_others in [
            json!({"type": "object"}),
            json!({"properties": {"colour": {}}, "additionalProperties": {"type": "integer"}}),
            json!({"properties": {"colour": {}}, "patternProperties": {"^s": {}}}),
            by_reference,
        ] {
            assert_eq!(check(json!({"size": 1}), expects_others.clone()), Ok(Vec::new()), "{expects_others}");
        }
        assert_eq!(check(json!({"color": 1}), closed.clone()), Err(hint()));
        assert_eq!(check(json!({"size": 1}), closed), Err("the tool has no argument `size`".to_owned()));
        assert_eq!(check(json!({"color": 1}), combined), Ok(Vec::new()));
    }
}
