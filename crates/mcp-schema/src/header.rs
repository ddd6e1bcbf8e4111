//! Tool parameters that are mirrored in HTTP headers: the `x-mcp-header` annotation of an input schema
//! (revision 2026-07-28, streamable HTTP), its rules, and the comparison of a header with its argument.

use std::{collections::HashSet, fmt};

use serde_json::{Map, Value};

use crate::{
    dialect::Dialect,
    keywords::{self, Applies, Token, push_token},
    text::{quote, shorten},
};

/// The annotation.
const ANNOTATION: &str = "x-mcp-header";
/// The largest integer that every JSON implementation keeps exactly, 2^53 - 1.
const MAX_SAFE: i64 = (1 << 53) - 1;

/// A parameter that is mirrored in a header.
///
/// ```
/// use mcp_schema::header::{HeaderKind, header_params};
/// use serde_json::json;
///
/// let schema = json!({
///     "type": "object",
///     "properties": {
///         "range": {
///             "type": "object",
///             "properties": { "limit": { "type": "integer", "x-mcp-header": "Limit" } },
///         },
///     },
/// });
/// let param = &header_params(&schema)?[0];
/// assert_eq!((param.header_name().as_str(), param.kind), ("Mcp-Param-Limit", HeaderKind::Integer));
/// assert_eq!(param.path, ["range", "limit"]);
///
/// let arguments = json!({ "range": { "limit": 42 } });
/// let argument = param.argument(&arguments).unwrap();
/// assert_eq!(param.text(argument).as_deref(), Some("42"));
/// assert!(param.matches(argument, "42.0") && !param.matches(argument, "43"));
/// # Ok::<(), mcp_schema::header::HeaderParamError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeaderParam {
    /// The value of the annotation as written; the header is `Mcp-Param-` and this.
    pub name: String,
    /// Names of the properties that lead from the root of the arguments to the value; never empty.
    pub path: Vec<String>,
    /// The type of the value.
    pub kind: HeaderKind,
}

/// The types that a mirrored parameter can have.
///
/// ```
/// use mcp_schema::header::{HeaderKind, header_params};
/// use serde_json::json;
///
/// let schema = json!({
///     "type": "object",
///     "properties": { "dry_run": { "type": "boolean", "x-mcp-header": "Dry-Run" } },
/// });
/// assert_eq!(header_params(&schema)?[0].kind, HeaderKind::Boolean);
/// # Ok::<(), mcp_schema::header::HeaderParamError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HeaderKind {
    /// `"type": "string"`
    String,
    /// `"type": "integer"`
    Integer,
    /// `"type": "boolean"`
    Boolean,
}

/// An annotation that breaks a rule, which makes the whole tool definition invalid over HTTP.
///
/// ```
/// use mcp_schema::header::{HeaderParamErrorKind, header_params};
/// use serde_json::json;
///
/// let schema = json!({ "properties": { "price": { "type": "number", "x-mcp-header": "Price" } } });
/// let error = header_params(&schema).unwrap_err();
/// assert_eq!(error.kind(), HeaderParamErrorKind::Type);
/// assert_eq!(error.pointer(), "/properties/price/x-mcp-header");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderParamError {
    kind: HeaderParamErrorKind,
    pointer: String,
    message: String,
}

/// The rule that an annotation breaks.
///
/// ```
/// use mcp_schema::header::{HeaderParamErrorKind, header_params};
/// use serde_json::json;
///
/// for (annotation, kind) in [
///     (json!(""), HeaderParamErrorKind::Empty),
///     (json!("two words"), HeaderParamErrorKind::NotToken),
/// ] {
///     let schema = json!({ "properties": { "a": { "type": "string", "x-mcp-header": annotation } } });
///     assert_eq!(header_params(&schema).unwrap_err().kind(), kind);
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HeaderParamErrorKind {
    /// It is empty or not a string.
    Empty,
    /// It is not a token of RFC 9110 §5.6.2.
    NotToken,
    /// Another annotation is equal but for case.
    Duplicate,
    /// The property is not of type string, integer or boolean.
    Type,
    /// It is not on a property that is reached from the root through `properties` alone.
    Misplaced,
}

/// Returns the mirrored parameters of an input schema, in the order of the document.
///
/// ```
/// use mcp_schema::header::header_params;
/// use serde_json::json;
///
/// let schema = json!({
///     "type": "object",
///     "properties": { "region": { "type": "string", "x-mcp-header": "Region" } },
/// });
/// let params = header_params(&schema)?;
/// assert_eq!(params[0].header_name(), "Mcp-Param-Region");
/// assert_eq!(params[0].argument(&json!({ "region": "eu" })), Some(&json!("eu")));
/// # Ok::<(), mcp_schema::header::HeaderParamError>(())
/// ```
///
/// # Errors
///
/// The first annotation that breaks a rule.
pub fn header_params(input_schema: &Value) -> Result<Vec<HeaderParam>, HeaderParamError> {
    let dialect = Dialect::of(input_schema).unwrap_or_default();
    let mut params = Vec::new();
    let mut names = HashSet::new();
    let mut stack = vec![Place { schema: input_schema, pointer: String::new(), path: Some(Vec::new()) }];
    while let Some(place) = stack.pop() {
        let Value::Object(schema) = place.schema else { continue };
        // Keywords beside `$ref` do nothing in the older dialects, `properties` included.
        let hidden = dialect.ref_hides_siblings() && schema.contains_key("$ref");
        let path = place.path.filter(|_| !hidden);
        if let Some(annotation) = schema.get(ANNOTATION) {
            let mut pointer = place.pointer.clone();
            push_token(&mut pointer, ANNOTATION);
            let param = read(schema, annotation, path.as_deref())
                .and_then(|param| match names.insert(param.name.to_ascii_lowercase()) {
                    true => Ok(param),
                    false => Err((
                        HeaderParamErrorKind::Duplicate,
                        format!("{} is used more than once (case does not count)", quote(annotation)),
                    )),
                })
                .map_err(|(kind, message)| HeaderParamError { kind, pointer, message })?;
            params.push(param);
        }
        let first = stack.len();
        keywords::subschemas(schema, dialect, &mut |sub| {
            let mut pointer = place.pointer.clone();
            sub.push_pointer(&mut pointer);
            let path = match (&path, sub.applies, sub.token) {
                (Some(path), Applies::Member, Some(Token::Name(name))) => {
                    Some(path.iter().cloned().chain([name.to_owned()]).collect())
                }
                _ => None,
            };
            stack.push(Place { schema: sub.schema, pointer, path });
        });
        stack[first..].reverse();
    }
    Ok(params)
}

/// Whether an argument equals a decoded header value, by the type of the argument.
///
/// Strings match exactly, integers match numerically (`42`, `42.0`, `4.2e1`) within ±(2^53 - 1), and booleans match
/// `true` and `false`. Arguments of other types never match.
///
/// ```
/// use mcp_schema::header::matches;
/// use serde_json::json;
///
/// assert!(matches(&json!("eu"), "eu"));
/// assert!(matches(&json!(42), "4.2e1"));
/// assert!(matches(&json!(true), "true"));
/// assert!(!matches(&json!("42"), "42.0"));
/// assert!(!matches(&json!(["eu"]), "eu"));
/// ```
pub fn matches(argument: &Value, header: &str) -> bool {
    match argument {
        Value::String(text) => text == header,
        Value::Bool(flag) => header == if *flag { "true" } else { "false" },
        Value::Number(_) => match (safe_integer(argument), parse_integer(header)) {
            (Some(argument), Some(header)) => argument == header,
            _ => false,
        },
        _ => false,
    }
}

impl HeaderParam {
    /// Returns the name of the header, `Mcp-Param-` and the annotation.
    pub fn header_name(&self) -> String {
        format!("Mcp-Param-{}", self.name)
    }

    /// Returns the argument that is mirrored; `None` when it is absent or `null`, and no header belongs to the call.
    pub fn argument<'a>(&self, arguments: &'a Value) -> Option<&'a Value> {
        self.path
            .iter()
            .try_fold(arguments, |value, name| value.as_object()?.get(name))
            .filter(|value| !value.is_null())
    }

    /// Returns the header value of an argument, not yet encoded. `None` when the argument is not of the parameter's
    /// type, or an integer outside ±(2^53 - 1).
    pub fn text(&self, argument: &Value) -> Option<String> {
        match self.kind {
            HeaderKind::String => argument.as_str().map(str::to_owned),
            HeaderKind::Integer => safe_integer(argument).map(|integer| integer.to_string()),
            HeaderKind::Boolean => argument.as_bool().map(|flag| flag.to_string()),
        }
    }

    /// Whether an argument has the type of the parameter and equals a decoded header value; see [`matches()`].
    pub fn matches(&self, argument: &Value, header: &str) -> bool {
        self.text(argument).is_some() && matches(argument, header)
    }
}

impl HeaderParamError {
    /// Returns the rule that is broken.
    pub fn kind(&self) -> HeaderParamErrorKind {
        self.kind
    }

    /// JSON pointer to the annotation.
    pub fn pointer(&self) -> &str {
        &self.pointer
    }
}

impl fmt::Display for HeaderParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", shorten(&self.pointer, 200), self.message)
    }
}

impl std::error::Error for HeaderParamError {}

struct Place<'a> {
    schema: &'a Value,
    pointer: String,
    /// Property names from the root; `None` once anything but `properties` was passed.
    path: Option<Vec<String>>,
}

fn read(
    schema: &Map<String, Value>,
    annotation: &Value,
    path: Option<&[String]>,
) -> Result<HeaderParam, (HeaderParamErrorKind, String)> {
    use HeaderParamErrorKind as Kind;
    let Some(path) = path.filter(|path| !path.is_empty()) else {
        let message = "stands on a schema that is not reached from the root through `properties` alone";
        return Err((Kind::Misplaced, message.to_owned()));
    };
    let Some(name) = annotation.as_str().filter(|name| !name.is_empty()) else {
        return Err((Kind::Empty, format!("must be a string that is not empty, got {}", quote(annotation))));
    };
    if !name.bytes().all(is_token_char) {
        let message = format!("{} is not a token (letters, digits and !#$%&'*+-.^_`|~)", quote(annotation));
        return Err((Kind::NotToken, message));
    }
    let kind = match schema.get("type").and_then(Value::as_str) {
        Some("string") => HeaderKind::String,
        Some("integer") => HeaderKind::Integer,
        Some("boolean") => HeaderKind::Boolean,
        _ => {
            let found = schema.get("type").map_or_else(|| "no type".to_owned(), quote);
            let message =
                format!("stands on a property with {found}, and needs \"string\", \"integer\" or \"boolean\"");
            return Err((Kind::Type, message));
        }
    };
    Ok(HeaderParam { name: name.to_owned(), path: path.to_vec(), kind })
}

/// `tchar` of RFC 9110 §5.6.2.
fn is_token_char(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Returns the integer value of a JSON number within ±(2^53 - 1).
fn safe_integer(value: &Value) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "whole and within the safe range, so the conversion is exact")]
    let integer = match value.as_i64() {
        Some(integer) => integer,
        None => value.as_f64().filter(|f| f.fract() == 0.0 && f.abs() <= MAX_SAFE as f64)? as i64,
    };
    (-MAX_SAFE..=MAX_SAFE).contains(&integer).then_some(integer)
}

/// Returns the integer value of a text in the grammar of JSON numbers, computed exactly.
fn parse_integer(text: &str) -> Option<i64> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = match rest.find(['e', 'E']) {
        Some(at) => (&rest[..at], Some(&rest[at + 1..])),
        None => (rest, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || (whole.len() > 1 && whole.starts_with('0')) || !fraction.is_none_or(digits) {
        return None;
    }
    let exponent = match exponent {
        None => 0,
        Some(exponent) => {
            let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if !digits(unsigned) {
                return None;
            }
            // An exponent beyond any integer type is only harmless when the number is zero.
            let size = unsigned.parse::<i64>().unwrap_or(i64::MAX / 4).min(i64::MAX / 4);
            if exponent.starts_with('-') { -size } else { size }
        }
    };
    let fraction = fraction.unwrap_or_default();
    let all = format!("{whole}{fraction}");
    let significant = all.trim_start_matches('0').trim_end_matches('0');
    if significant.is_empty() {
        return Some(0);
    }
    let trailing = all.len() - all.trim_end_matches('0').len();
    let shift = exponent + i64::try_from(trailing).ok()? - i64::try_from(fraction.len()).ok()?;
    let shift = u32::try_from(shift).ok()?;
    if significant.len() > 16 || shift > 16 {
        return None;
    }
    let magnitude = significant.parse::<i64>().ok()?.checked_mul(10i64.checked_pow(shift)?)?;
    (magnitude <= MAX_SAFE).then_some(if negative { -magnitude } else { magnitude })
}
