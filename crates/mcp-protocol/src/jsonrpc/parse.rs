//! Reads the envelope of a message: strict about JSON-RPC's own members, indifferent to others.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Deserializer, de};
use serde_json::value::RawValue;

use super::{
    Beginning, Message, Notification, Request, RequestId, Response,
    scan::{Rejected, Scanner},
};
use crate::{ErrorCode, RpcError, meta::ParamsScan};

/// Limits for messages, checked before their content is decoded.
///
/// # Example
/// ```
/// use mcp_protocol::jsonrpc::{Limits, Message};
///
/// let nested = br#"{"jsonrpc":"2.0","method":"m","params":{"a":{"b":1}}}"#;
/// assert!(Message::parse_with(nested, &Limits::default().depth(2)).is_err());
/// assert!(Message::parse_with(nested, &Limits::default().depth(3)).is_ok());
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Limits {
    /// The deepest nesting of arrays and objects. Default 128.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { depth: 128 }
    }
}

impl Limits {
    /// Sets the deepest nesting of arrays and objects.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn depth(mut self, depth: usize) -> Self {
        self.depth = depth;
        self
    }
}

/// The reason why a message was rejected before its method was read.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EnvelopeError {
    /// The id of the message when it could be read.
    pub id: Option<RequestId>,
    /// The error for the response: `-32700` when the text is not JSON, `-32600` when it is not a JSON-RPC message.
    pub error: RpcError,
    /// Whether the message was a JSON array.
    pub is_batch: bool,
}

impl fmt::Display for EnvelopeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.error.message)
    }
}

impl std::error::Error for EnvelopeError {}

impl EnvelopeError {
    fn parse(text: impl Into<String>) -> Self {
        Self { id: None, error: RpcError::new(ErrorCode::PARSE_ERROR, text), is_batch: false }
    }

    fn invalid(id: Option<RequestId>, text: impl Into<String>) -> Self {
        Self { id, error: RpcError::new(ErrorCode::INVALID_REQUEST, text), is_batch: false }
    }
}

pub(super) fn message<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Message<'a>, EnvelopeError> {
    let text = text(bytes)?;
    match scan(text, limits) {
        Ok(members) => members.into_message(),
        Err(Rejected) => parse_slowly(text, limits),
    }
}

/// Reads the envelope, the names of the parameters and `_meta` in one pass.
fn scan<'a>(text: &'a str, limits: &Limits) -> Result<Members<'a>, Rejected> {
    let mut scanner = Scanner::new(text, limits.depth);
    scanner.next_token()?;
    let mut members = Members::default();
    scanner.object(|scanner, key| {
        let value = if key == "params" && members.params.is_none() && scanner.next_token()? == b'{' {
            let scanned = ParamsScan::of(scanner)?;
            let params = scanned.params;
            members.scanned = Some(Box::new(scanned));
            params
        } else {
            scanner.value()?
        };
        members.add(key, value);
        Ok(())
    })?;
    scanner.end()?;
    Ok(members)
}

/// Reads a message that [`scan`] has rejected, for the reason.
fn parse_slowly<'a>(text: &'a str, limits: &Limits) -> Result<Message<'a>, EnvelopeError> {
    check_depth(text, limits)?;
    match text.bytes().find(|b| !b.is_ascii_whitespace()) {
        Some(b'{') => {}
        Some(b'[') => {
            // The array is parsed to distinguish invalid JSON from a batch.
            serde_json::from_str::<&RawValue>(text).map_err(|e| syntax(&e))?;
            let mut error =
                EnvelopeError::invalid(None, "a JSON array is not a message: batches are not supported here");
            error.is_batch = true;
            return Err(error);
        }
        None => return Err(EnvelopeError::parse("the message is empty")),
        Some(_) => {
            serde_json::from_str::<&RawValue>(text).map_err(|e| syntax(&e))?;
            return Err(EnvelopeError::invalid(None, "a message is a JSON object"));
        }
    }
    let mut members = Members::default();
    each_member(text, |key, value| members.add(key, value)).map_err(|e| syntax(&e))?;
    members.into_message()
}

/// Returns the id of a cut-off request; `None` when the text does not contain it, or is not a request.
pub(super) fn request_id(start: &[u8]) -> Option<RequestId> {
    let text = whole_text(start)?;
    let (mut ids, mut is_request) = (Vec::new(), false);
    // Parsing ends where the text is cut off. The members before that place are known.
    let _ = each_member(text, |key, value| match key {
        "id" => ids.push(value),
        "method" => is_request = true,
        _ => {}
    });
    // A number at the very end may continue after the cut.
    let is_whole = |id: &RawValue| id.get().as_bytes().as_ptr_range().end < text.as_bytes().as_ptr_range().end;
    match ids[..] {
        [id] if is_request && is_whole(id) => read_id(id).ok(),
        _ => None,
    }
}

pub(super) fn beginning(start: &[u8]) -> Beginning {
    let Some(text) = whole_text(start) else { return Beginning::Unknown };
    let (mut ids, mut is_response, mut is_other) = (Vec::new(), false, false);
    let mut end = 0;
    let _ = each_member(text, |key, value| {
        match key {
            "id" => ids.push(value),
            "result" | "error" => is_response = true,
            "method" => is_other = true,
            _ => {}
        }
        end = value.get().as_bytes().as_ptr_range().end.addr() - text.as_bytes().as_ptr().addr();
    });
    // The member that was cut off has a name too.
    let opened =
        text[end..].trim_start().strip_prefix(if end == 0 { '{' } else { ',' }).unwrap_or_default().trim_start();
    let is_next = |key: &str| opened.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with(':'));
    is_response |= is_next("\"result\"") || is_next("\"error\"");
    is_other |= is_next("\"method\"");
    match (is_response, is_other, &ids[..]) {
        (_, true, _) => Beginning::Other,
        (false, false, _) => Beginning::Unknown,
        // A number at the very end may continue after the cut.
        (true, false, [id]) if !text.ends_with(id.get()) => Beginning::Response(read_id(id).ok()),
        (true, false, _) => Beginning::Response(None),
    }
}

/// Returns the part of a cut-off text that is valid UTF-8.
fn whole_text(start: &[u8]) -> Option<&str> {
    let len = std::str::from_utf8(start).map_or_else(|error| error.valid_up_to(), str::len);
    std::str::from_utf8(&start[..len]).ok()
}

pub(super) fn batch<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Vec<&'a RawValue>, EnvelopeError> {
    let text = text(bytes)?;
    check_depth(text, limits)?;
    let members: Vec<&'a RawValue> = serde_json::from_str(text).map_err(|e| syntax(&e))?;
    if members.is_empty() {
        return Err(EnvelopeError::invalid(None, "a batch has at least one message"));
    }
    Ok(members)
}

fn syntax(error: &serde_json::Error) -> EnvelopeError {
    EnvelopeError::parse(format!("the message is not valid JSON: {error}"))
}

fn text(bytes: &[u8]) -> Result<&str, EnvelopeError> {
    std::str::from_utf8(bytes)
        .map_err(|e| EnvelopeError::parse(format!("the message is not UTF-8 (byte {})", e.valid_up_to())))
}

/// Checks the nesting of a text that may be invalid JSON. `serde_json` skips raw values of any depth.
fn check_depth(text: &str, limits: &Limits) -> Result<(), EnvelopeError> {
    let mut depth = 0usize;
    let mut rest = text.as_bytes().iter();
    while let Some(&byte) = rest.next() {
        match byte {
            b'"' => skip_string(&mut rest),
            b'{' | b'[' => {
                depth += 1;
                if depth > limits.depth {
                    return Err(EnvelopeError::parse(format!("the message is nested deeper than {}", limits.depth)));
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

fn skip_string(rest: &mut std::slice::Iter<'_, u8>) {
    loop {
        let slice = rest.as_slice();
        let Some(at) = memchr::memchr2(b'"', b'\\', slice) else {
            *rest = [].iter();
            return;
        };
        let is_escape = slice[at] == b'\\';
        let next = at + 1 + usize::from(is_escape);
        *rest = slice.get(next..).unwrap_or_default().iter();
        if !is_escape {
            return;
        }
    }
}

/// The envelope members, each raw, and the first thing that was wrong with them.
#[derive(Default)]
struct Members<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    scanned: Option<Box<ParamsScan<'a>>>,
    problem: Option<String>,
}

impl<'a> Members<'a> {
    fn slot(&mut self, key: &str) -> Option<&mut Option<&'a RawValue>> {
        Some(match key {
            "jsonrpc" => &mut self.jsonrpc,
            "id" => &mut self.id,
            "method" => &mut self.method,
            "params" => &mut self.params,
            "result" => &mut self.result,
            "error" => &mut self.error,
            _ => return None,
        })
    }

    fn add(&mut self, key: &str, value: &'a RawValue) {
        match self.slot(key) {
            Some(slot @ None) => *slot = Some(value),
            Some(Some(_)) => self.note(|| format!("`{key}` is given twice")),
            None => {
                const KEYS: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];
                // Some parsers fold case; a message that two parsers read differently is refused.
                if let Some(meant) = KEYS.iter().find(|k| k.eq_ignore_ascii_case(key)) {
                    self.note(|| format!("`{key}` must be written `{meant}`"));
                }
            }
        }
    }

    fn note(&mut self, problem: impl FnOnce() -> String) {
        if self.problem.is_none() {
            self.problem = Some(problem());
        }
    }

    fn into_message(self) -> Result<Message<'a>, EnvelopeError> {
        let id = match self.id.map(read_id) {
            None => None,
            Some(Ok(id)) => Some(id),
            // An error about an unreadable message has a null id (2024-11-05 … 2025-06-18).
            Some(Err(_)) if self.error.is_some() && self.id.is_some_and(|raw| raw.get() == "null") => None,
            Some(Err(problem)) => return Err(EnvelopeError::invalid(None, problem)),
        };
        let invalid = |text: &str| EnvelopeError::invalid(id.clone(), text);
        if let Some(problem) = &self.problem {
            return Err(invalid(problem));
        }
        match self.jsonrpc {
            Some(raw) if raw.get() == "\"2.0\"" || read_str(raw).as_deref() == Some("2.0") => {}
            Some(_) => return Err(invalid("`jsonrpc` must be \"2.0\"")),
            None => return Err(invalid("`jsonrpc` is missing")),
        }
        let params = self.params.filter(|raw| raw.get() != "null");
        if let Some(method) = self.method {
            if self.result.is_some() || self.error.is_some() {
                return Err(invalid("a message with a `method` has neither `result` nor `error`"));
            }
            let method = read_str(method).ok_or_else(|| invalid("`method` must be a string"))?;
            return Ok(match id {
                Some(id) => Message::Request(Request { id, method, params, scanned: self.scanned }),
                None => Message::Notification(Notification { method, params }),
            });
        }
        match (self.result, self.error, id) {
            (Some(_), Some(_), id) => Err(EnvelopeError::invalid(id, "a response has `result` or `error`, not both")),
            (Some(result), None, Some(id)) => Ok(Message::Response(Response { id: Some(id), outcome: Ok(result) })),
            (Some(_), None, None) => Err(EnvelopeError::invalid(None, "a response with a `result` needs an `id`")),
            (None, Some(error), id) => {
                let error: RpcError = serde_json::from_str(error.get())
                    .map_err(|e| EnvelopeError::invalid(id.clone(), format!("`error`: {}", super::describe(&e))))?;
                Ok(Message::Response(Response { id, outcome: Err(error) }))
            }
            (None, None, id) => {
                Err(EnvelopeError::invalid(id, "a message has a `method`, a `result` or an `error`; this one has none"))
            }
        }
    }
}

fn read_id(raw: &RawValue) -> Result<RequestId, String> {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'"' | b'-' | b'0'..=b'9') => {
            serde_json::from_str(text).map_err(|e| format!("`id`: {}", super::describe(&e)))
        }
        _ => Err("`id` must be a string or an integer".into()),
    }
}

/// The text of a raw value that is a string, borrowed unless it was written with escapes.
pub(crate) fn read_str(raw: &RawValue) -> Option<Cow<'_, str>> {
    let text = raw.get();
    if let Some(plain) = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).filter(|t| !t.contains('\\')) {
        return Some(Cow::Borrowed(plain));
    }
    serde_json::from_str::<String>(text).ok().map(Cow::Owned)
}

/// Hands the members of a JSON object over, each raw, in their order.
///
/// # Errors
/// Where the text is no JSON object. The members before that place were handed over.
pub(crate) fn each_member<'a>(text: &'a str, take: impl FnMut(&str, &'a RawValue)) -> serde_json::Result<()> {
    struct Taker<F>(F);
    impl<'de, F: FnMut(&str, &'de RawValue)> de::Visitor<'de> for Taker<F> {
        type Value = ();
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: de::MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
            while let Some(Key(key)) = map.next_key()? {
                (self.0)(&key, map.next_value()?);
            }
            Ok(())
        }
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    reader.deserialize_map(Taker(take))?;
    reader.end()
}

/// A member name: borrowed unless it was written with escapes.
struct Key<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a member name")
            }
            fn visit_borrowed_str<E: de::Error>(self, v: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Borrowed(v)))
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(v.to_owned())))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cases: &[(&str, &str)]) {
        for (input, expected) in cases {
            let got = match Message::parse(input.as_bytes()) {
                Ok(Message::Request(r)) => format!("request {} {} {:?}", r.id, r.method, r.params.map(RawValue::get)),
                Ok(Message::Notification(n)) => format!("notification {} {:?}", n.method, n.params.map(RawValue::get)),
                Ok(Message::Response(r)) => match r.outcome {
                    Ok(result) => format!("result {:?} {}", r.id, result.get()),
                    Err(e) => format!("error {:?} {} {}", r.id, e.code, e.message),
                },
                Err(e) => format!("{} {:?} {}", e.error.code, e.id, e),
            };
            assert!(got.starts_with(expected), "{input}\n  got      {got}\n  expected {expected}");
        }
    }

    #[test]
    fn the_id_of_a_truncated_request_is_read() {
        for (start, id) in [
            (r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"a":"xxx"#, Some("7")),
            (r#"{"method":"m","jsonrpc":"2.0","id":"a\"b","params":["#, Some("\"a\\\"b\"")),
            (r#"{"params":{"a":[1]},"id":7,"method":"m"}"#, Some("7")),
            (r#" {"id":12,"method":"m","#, Some("12")),
            // A response, or what might be one.
            (r#"{"jsonrpc":"2.0","id":7,"result":{"#, None),
            (r#"{"jsonrpc":"2.0","id":7,"#, None),
            // The rest of the number is not there.
            (r#"{"method":"m","id":12"#, None),
            (r#"{"method":"m","id":"a"#, None),
            (r#"{"params":{"id":7,"method":"m""#, None),
            (r#"{"id":7,"id":8,"method":"m","#, None),
            (r#"{"id":null,"method":"m","#, None),
            (r#"[{"id":7,"method":"m"}"#, None),
            ("", None),
        ] {
            let found = request_id(start.as_bytes()).map(|id| serde_json::to_string(&id).unwrap());
            assert_eq!(found.as_deref(), id, "{start}");
        }
        let cut = &"{\"id\":7,\"method\":\"m\",\"params\":{\"a\":\"ü".as_bytes();
        assert_eq!(request_id(&cut[..cut.len() - 1]), Some(7.into()));
    }

    #[test]
    fn the_kind_of_a_truncated_message_is_read() {
        let response = |id: RequestId| Beginning::Response(Some(id));
        for (start, expected) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"content":["#, response(7.into())),
            (r#"{"id":7,"jsonrpc":"2.0","result":{"#, response(7.into())),
            (r#"{"error":{"code":-32600,"message":"no"},"id":7,"more":"x"#, response(7.into())),
            (r#"{ "id" : "a" , "error" : {"code""#, response("a".into())),
            (r#"{"result":{"id":7,"result":"#, Beginning::Response(None)),
            (r#"{"id":7,"id":8,"result":1"#, Beginning::Response(None)),
            // The rest of the number is not there.
            (r#"{"error":{"code":-32600,"message":"no"},"id":12"#, Beginning::Response(None)),
            (r#"{"id":null,"error":{"#, Beginning::Response(None)),
            (r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"xxx"#, Beginning::Other),
            // The parser ignores the parameters of a response.
            (r#"{"jsonrpc":"2.0","id":7,"params":{"a"#, Beginning::Unknown),
            (r#"{"params":{},"id":7,"result":{"a"#, response(7.into())),
            (r#"{"method":"m","id":7,"result":{"a"#, Beginning::Other),
            (r#"{"method":"m"#, Beginning::Other),
            (r#"{"id":7"#, Beginning::Unknown),
            (r#"{"id":7,"#, Beginning::Unknown),
            (r#"{"id":7,"result"#, Beginning::Unknown),
            ("garbage", Beginning::Unknown),
            ("", Beginning::Unknown),
        ] {
            assert_eq!(beginning(start.as_bytes()), expected, "{start}");
        }
    }

    #[test]
    fn requests_notifications_and_responses_are_parsed() {
        check(&[
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "request 1 ping None"),
            (r#"{"jsonrpc":"2.0","id":"1","method":"ping","params":null}"#, "request \"1\" ping None"),
            (
                r#"{"id":-9007199254740993,"params":{"a":[1]},"jsonrpc":"2.0","method":"x","more":1}"#,
                "request -9007199254740993 x Some(\"{\\\"a\\\":[1]}\")",
            ),
            (
                r#" {"jsonrpc":"2.0","method":"notifications/initialized"} "#,
                "notification notifications/initialized None",
            ),
            (r#"{"jsonrpc":"2.0","id":"a","result":{}}"#, "result Some(\"a\") {}"),
            (r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32601,"message":"no"}}"#, "error Some(3) -32601 no"),
            (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#, "error None -32700 no"),
            (r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"no"}}"#, "error None -32700 no"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"pi\u006eg"}"#, "request 1 ping None"),
            (r#"{"jsonrpc":"2.0","i\u0064":1,"method":"ping"}"#, "request 1 ping None"),
            (r#"{"jsonrpc":"2\u002e0","id":1,"method":"ping"}"#, "request 1 ping None"),
        ]);
    }

    #[test]
    fn a_name_with_a_nul_is_another_name() {
        check(&[
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","method\u0000":"y","id\u0000":2}"#, "request 1 x None"),
            (r#"{"jsonrpc":"2.0","id":1,"method\u0000":"y"}"#, "-32600 Some(1) a message has a `method`"),
        ]);
    }

    #[test]
    fn invalid_messages_are_rejected_with_a_reason() {
        check(&[
            ("", "-32700 None the message is empty"),
            ("{", "-32700 None the message is not valid JSON"),
            ("[{]", "-32700 None the message is not valid JSON"),
            ("7", "-32600 None a message is a JSON object"),
            ("[]", "-32600 None a JSON array is not a message"),
            ("{}", "-32600 None `jsonrpc` is missing"),
            (r#"{"jsonrpc":"2.0","id":4}"#, "-32600 Some(4) a message has a `method`, a `result` or an `error`"),
            (r#"{"jsonrpc":"1.0","id":4,"method":"x"}"#, "-32600 Some(4) `jsonrpc` must be \"2.0\""),
            (r#"{"id":4,"method":"x"}"#, "-32600 Some(4) `jsonrpc` is missing"),
            (r#"{"jsonrpc":"2.0","id":true,"method":"x"}"#, "-32600 None `id` must be a string or an integer"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, "-32600 None `id` must be a string or an integer"),
            (r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#, "-32600 None `id` must be a string or an integer"),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"x"}"#, "-32600 None `id`: invalid type"),
            (
                r#"{"jsonrpc":"2.0","id":18446744073709551615,"method":"x"}"#,
                "-32600 None `id`: the integer is out of range",
            ),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}"#, "-32600 Some(1) `id` is given twice"),
            (r#"{"jsonrpc":"2.0","id":1,"Method":"x"}"#, "-32600 Some(1) `Method` must be written `method`"),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, "-32600 Some(1) `method` must be a string"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","result":{}}"#, "-32600 Some(1) a message with a `method`"),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#,
                "-32600 Some(1) a response has",
            ),
            (r#"{"jsonrpc":"2.0","result":{}}"#, "-32600 None a response with a `result` needs an `id`"),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":"x"}}"#, "-32600 Some(1) `error`: "),
        ]);
        let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"x"}}"#, "i".repeat(257));
        check(&[(&long, "-32600 None `id`: the string is longer than 256 bytes")]);
        let fits = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"x"}}"#, "i".repeat(256));
        check(&[(&fits, "request")]);
    }

    #[test]
    fn brackets_in_strings_do_not_count_as_depth() {
        let nested = |n: usize| {
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{}{}}}"#, "[".repeat(n), "]".repeat(n))
        };
        check(&[(&nested(127), "request"), (&nested(128), "-32700 None the message is nested deeper than 128")]);
        let quoted = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"s":"\"\\{}"}}}}"#, "[".repeat(500));
        check(&[(&quoted, "request")]);
        check(&[("\"", "-32700"), ("{\"\\", "-32700")]);
        let deep = "[".repeat(1_000_000);
        check(&[(&deep, "-32700 None the message is nested deeper than 128")]);
        assert!(Message::parse(b"{\"\xff\":1}").unwrap_err().error.message.contains("UTF-8"));
    }
}
