//! The arguments of a call, typed or unparsed.

use mcp_protocol::{JsonObject, RpcError};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Arguments, Description, FromCall, HandlerCall, StringArgument, ToolError, strings};

/// Extracts the arguments as a Rust type.
///
/// The JSON Schema of the type becomes the input schema of the tool, and its doc comment becomes the description. In a prompt,
/// the fields are the arguments of the prompt. In a resource template, the fields take the variables. Both are texts, from
/// which numbers and booleans are parsed.
///
/// Arguments that do not fit are a tool error that names the location, so that the model can correct its call.
///
/// ```
/// use mcp_server_core::{Args, ToolRoute, tool};
///
/// /// Add two numbers.
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Add { a: f64, b: f64 }
///
/// let route: ToolRoute = tool("add", async |Args(Add { a, b }): Args<Add>| (a + b).to_string());
/// # let _ = route;
/// ```
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::exhaustive_structs, reason = "made to be taken apart in a handler's arguments")]
pub struct Args<T: DeserializeOwned + JsonSchema>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + JsonSchema> FromCall<S> for Args<T> {
    fn describe(description: &mut Description) {
        let (schema, text) = schema_of::<T>();
        description.input = Some(schema);
        if description.text.is_none() {
            description.text = text;
        }
    }

    async fn from_call(call: HandlerCall, _state: &S) -> Result<Self, ToolError> {
        match call.arguments {
            Arguments::Json(mut value) => {
                whole_numbers(&mut value);
                serde_path_to_error::deserialize(value).map(Args).map_err(|error| {
                    let place = pointer(error.path());
                    ToolError::new(format!("Invalid arguments: `{place}`: {}", error.inner()))
                })
            }
            Arguments::Strings(list) => strings::from_strings(list)
                .map(Args)
                .map_err(|e| ToolError::protocol(RpcError::invalid_params(format!("invalid arguments: {e}")))),
        }
    }
}

/// Replaces `2.0` by `2`. JSON Schema treats both as the same integer, serde does not, and some clients send floats only.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            // Above 2^53, several integers have the same float.
            let whole = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0);
            if let Some(whole) = whole {
                #[expect(clippy::cast_possible_truncation, reason = "it is whole and in range")]
                let integer = whole as i64;
                *value = integer.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(members) => members.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

/// Replaces each `format` that names a Rust number type by its bounds.
///
/// Then the schema refuses a number that is too large, and clients see the bounds. Without them, serde would turn a number
/// that no `f32` can hold into infinity. JSON Schema does not define these formats, and some validators reject them. The
/// bounds of 64-bit types are omitted, because many clients cannot represent them. The Rust type refuses such numbers.
fn explain_numbers(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            let is_number = match members.get("type") {
                Some(Value::String(name)) => is_numeric(name),
                Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).any(is_numeric),
                _ => false,
            };
            let format = members.get("format").and_then(Value::as_str).filter(|_| is_number);
            if let Some(format) = format.filter(|format| names_rust_number(format)) {
                let bounds = bounds_of(format);
                members.remove("format");
                if let Some((least, most)) = bounds {
                    members.entry("minimum").or_insert(least);
                    members.entry("maximum").or_insert(most);
                }
            }
            for (name, member) in members {
                match name.as_str() {
                    // Their values are not schemas.
                    "const" | "default" | "enum" | "examples" => {}
                    // Their members are schemas with arbitrary names.
                    "$defs" | "definitions" | "dependentSchemas" | "patternProperties" | "properties" => {
                        member
                            .as_object_mut()
                            .into_iter()
                            .for_each(|named| named.values_mut().for_each(explain_numbers));
                    }
                    _ => explain_numbers(member),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(explain_numbers),
        _ => {}
    }
}

fn is_numeric(name: &str) -> bool {
    matches!(name, "integer" | "number")
}

fn names_rust_number(format: &str) -> bool {
    let integer = format.strip_prefix('u').unwrap_or(format).strip_prefix("int");
    let is_integer = integer.is_some_and(|bits| matches!(bits, "" | "8" | "16" | "32" | "64" | "128"));
    is_integer || matches!(format, "float" | "double")
}

fn bounds_of(format: &str) -> Option<(Value, Value)> {
    Some(match format {
        "int8" => (i8::MIN.into(), i8::MAX.into()),
        "int16" => (i16::MIN.into(), i16::MAX.into()),
        "int32" => (i32::MIN.into(), i32::MAX.into()),
        "uint8" => (u8::MIN.into(), u8::MAX.into()),
        "uint16" => (u16::MIN.into(), u16::MAX.into()),
        "uint32" => (u32::MIN.into(), u32::MAX.into()),
        "float" => (f32::MIN.into(), f32::MAX.into()),
        _ => return None,
    })
}

/// Returns the location of an error in the arguments, in the form of schema errors.
fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;

    path.iter()
        .map(|segment| match segment {
            Segment::Seq { index } => format!("/{index}"),
            Segment::Map { key } => format!("/{key}"),
            Segment::Enum { variant } => format!("/{variant}"),
            Segment::Unknown => "/?".into(),
        })
        .collect()
}

/// Extracts the arguments as a JSON object. The tool provides its schema by `input_schema` or `parameters`.
///
/// ```
/// use mcp_server_core::{RawArgs, ToolRoute, tool};
///
/// let route: ToolRoute = tool("keys", async |RawArgs(arguments): RawArgs| arguments.len().to_string())
///     .input_schema(serde_json::json!({ "type": "object" }));
/// # let _ = route;
/// ```
#[derive(Debug, Clone, Default)]
#[expect(clippy::exhaustive_structs, reason = "made to be taken apart in a handler's arguments")]
pub struct RawArgs(pub JsonObject);

impl<S: Send + Sync> FromCall<S> for RawArgs {
    fn describe(description: &mut Description) {
        description.takes_raw_arguments = true;
    }

    async fn from_call(call: HandlerCall, _state: &S) -> Result<Self, ToolError> {
        Ok(Self(match call.arguments {
            Arguments::Json(Value::Object(object)) => object.into(),
            Arguments::Json(_) => JsonObject::default(),
            Arguments::Strings(list) => list
                .into_iter()
                .map(|(name, value)| {
                    let value = match value {
                        StringArgument::One(text) => Value::String(text),
                        StringArgument::Many(texts) => Value::from(texts),
                    };
                    (name, value)
                })
                .collect(),
        }))
    }
}

/// Returns the schema of a type, and its doc comment. Members that a definition repeats elsewhere are removed.
pub(crate) fn schema_of<T: JsonSchema>() -> (Value, Option<String>) {
    let mut schema = schemars::schema_for!(T).to_value();
    explain_numbers(&mut schema);
    let mut text = None;
    if let Some(object) = schema.as_object_mut() {
        // Every branch of a tagged enum is an object. The root has to declare it.
        let branches = object.get("oneOf").or_else(|| object.get("anyOf")).and_then(Value::as_array);
        let are_objects = branches.is_some_and(|all| all.iter().all(|branch| branch["type"] == "object"));
        if are_objects && !object.contains_key("type") {
            object.insert("type".to_owned(), "object".into());
        }
        // 2020-12 is the default dialect, and the title is only the name of the Rust type.
        object.remove("$schema");
        object.remove("title");
        if let Some(Value::String(description)) = object.remove("description") {
            text = Some(description);
        }
    }
    (schema, text)
}
