//! The JSON-RPC 2.0 envelope: a strict parser that borrows from its input, and writers for the four message forms.
//!
//! The parser reads the envelope and the metadata of a request. `params`, `result` and `error` stay raw until the
//! method is known. So an unreadable message, an invalid request, an unknown method and invalid parameters are four
//! different errors.

mod parse;
mod scan;
mod write;

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;

use crate::{
    RpcError, decode_error,
    meta::{ParamsScan, RequestMeta, RequestMetaError},
};

pub use self::{
    parse::{EnvelopeError, Limits},
    write::{error_response, notification, request, response},
};
pub(crate) use self::{
    parse::{each_member, read_str},
    scan::{Rejected, Scanner},
};
pub use crate::decode_error::decode_value;
pub(crate) use crate::decode_error::plain as describe;

/// The `id` of a request: a string or an integer, which keeps its JSON type (`1` and `"1"` are two ids).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "JSON-RPC and MCP allow these two forms and no other")]
pub enum RequestId {
    /// An integer id.
    Integer(i64),
    /// A string id.
    String(Box<str>),
}

impl RequestId {
    /// The maximum bytes of a string id. Responses repeat the id, so its size must be bounded.
    pub const MAX_LEN: usize = 256;
}

impl fmt::Display for RequestId {
    /// Keeps `92` and `"92"` apart.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(n) => write!(f, "{n}"),
            Self::String(s) => write!(f, "{s:?}"),
        }
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<i64> for RequestId {
    fn from(n: i64) -> Self {
        Self::Integer(n)
    }
}

impl From<&str> for RequestId {
    fn from(s: &str) -> Self {
        Self::String(s.into())
    }
}

impl From<String> for RequestId {
    fn from(s: String) -> Self {
        Self::String(s.into())
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Integer(n) => serializer.serialize_i64(*n),
            Self::String(s) => serializer.serialize_str(s),
        }
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = RequestId;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or an integer")
            }
            fn visit_i64<E: de::Error>(self, n: i64) -> Result<RequestId, E> {
                Ok(RequestId::Integer(n))
            }
            fn visit_u64<E: de::Error>(self, n: u64) -> Result<RequestId, E> {
                i64::try_from(n).map(RequestId::Integer).map_err(|_| E::custom("the integer is out of range"))
            }
            fn visit_str<E: de::Error>(self, s: &str) -> Result<RequestId, E> {
                if s.len() > RequestId::MAX_LEN {
                    return Err(E::custom(format_args!("the string is longer than {} bytes", RequestId::MAX_LEN)));
                }
                Ok(RequestId::String(s.into()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// One JSON-RPC message, borrowed from the bytes it came in.
///
/// ```
/// use mcp_protocol::Message;
///
/// let bytes = br#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"add"}}"#;
/// let Message::Request(request) = Message::parse(bytes)? else { panic!("not a request") };
/// assert_eq!((request.id, &*request.method), ("a".into(), "tools/call"));
///
/// let error = Message::parse(br#"{"jsonrpc":"2.0","id":7,"method":1}"#).unwrap_err();
/// assert_eq!((error.id, error.error.code.0), (Some(7.into()), -32600));
/// # Ok::<(), mcp_protocol::jsonrpc::EnvelopeError>(())
/// ```
#[derive(Debug, Clone)]
#[expect(clippy::exhaustive_enums, reason = "JSON-RPC has these three forms")]
pub enum Message<'a> {
    /// A message that expects one response with this id.
    Request(Request<'a>),
    /// Never answered.
    Notification(Notification<'a>),
    /// The response to a request of this process.
    Response(Response<'a>),
}

/// A request: an id, a method and its raw parameters.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Request<'a> {
    /// The id that the response must carry.
    pub id: RequestId,
    /// The method name.
    pub method: Cow<'a, str>,
    /// The raw `params`; `None` when absent or `null`.
    pub params: Option<&'a RawValue>,
    /// The members of `params` that the parser recorded.
    scanned: Option<Box<ParamsScan<'a>>>,
}

impl<'a> Request<'a> {
    /// Returns a request that was not parsed from a message.
    pub fn new(id: RequestId, method: impl Into<Cow<'a, str>>, params: Option<&'a RawValue>) -> Self {
        Self { id, method: method.into(), params, scanned: None }
    }

    /// Returns the metadata of the request; `None` when there is no `_meta`, or a `null` one.
    ///
    /// For a request of [`Message::parse`] this does not scan the parameters again.
    ///
    /// # Errors
    /// See [`RequestMeta::from_params`].
    pub fn meta(&self) -> Result<Option<RequestMeta<'a>>, RequestMetaError> {
        match (&self.scanned, self.params) {
            (Some(scanned), Some(params)) if std::ptr::eq(scanned.params, params) => (**scanned).clone().into_meta(),
            (_, params) => RequestMeta::from_params(params),
        }
    }

    /// Returns the text of `name`, `uri` or `taskId` in the parameters of a request of [`Message::parse`], without another scan.
    /// `None` if the parser did not record the member. The parameters can contain the member nevertheless.
    ///
    /// ```
    /// use mcp_protocol::Message;
    ///
    /// let bytes = br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add"}}"#;
    /// let Message::Request(request) = Message::parse(bytes)? else { panic!("not a request") };
    /// assert_eq!(request.mirrored("name").as_deref(), Some("add"));
    /// # Ok::<(), mcp_protocol::jsonrpc::EnvelopeError>(())
    /// ```
    #[must_use]
    pub fn mirrored(&self, member: &str) -> Option<Cow<'a, str>> {
        let scanned = self.scanned.as_ref().zip(self.params);
        let (scanned, _) = scanned.filter(|(scanned, params)| std::ptr::eq(scanned.params, *params))?;
        scanned.mirrored(member)
    }
}

/// A notification: a method and its raw parameters.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Notification<'a> {
    /// The method name.
    pub method: Cow<'a, str>,
    /// The raw `params`; `None` when absent or `null`.
    pub params: Option<&'a RawValue>,
}

/// A response: the raw result, or the error that the peer answered.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Response<'a> {
    /// The id of the request; `None` only for an error about a message whose id could not be read.
    pub id: Option<RequestId>,
    /// The result or the error.
    pub outcome: Result<&'a RawValue, RpcError>,
}

impl<'a> Message<'a> {
    /// Parses one message under the default [`Limits`].
    ///
    /// # Errors
    /// [`EnvelopeError`] describes the fault. It contains the id if the id could be read, so that the caller can answer
    /// the message.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, EnvelopeError> {
        Self::parse_with(bytes, &Limits::default())
    }

    /// Parses one message under the given limits.
    ///
    /// # Errors
    /// See [`Message::parse`].
    pub fn parse_with(bytes: &'a [u8], limits: &Limits) -> Result<Self, EnvelopeError> {
        parse::message(bytes, limits)
    }
}

/// Returns the members of a JSON array of messages, each raw. Only a 2025-03-26 session may send one (basic,
/// §Batching).
///
/// # Errors
/// [`EnvelopeError`] when the bytes are not a JSON array, or when it is empty.
pub fn split_batch<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Vec<&'a RawValue>, EnvelopeError> {
    parse::batch(bytes, limits)
}

/// Returns the id of a request from its first bytes, so that an oversized request can be rejected with its id. `None`
/// when the bytes do not contain both the whole id and `method`: the id of a response belongs to a request of the
/// other peer.
///
/// ```
/// use mcp_protocol::jsonrpc;
///
/// let start = br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"data":"AAAA"#;
/// assert_eq!(jsonrpc::request_id(start), Some(7.into()));
/// ```
#[must_use]
pub fn request_id(start: &[u8]) -> Option<RequestId> {
    parse::request_id(start)
}

/// The kind of a lost message, for example of one over a limit, as far as its first bytes show it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Beginning {
    /// A response. It has the id of its request, if the first bytes contain it, so that the caller of the request can
    /// be notified.
    Response(Option<RequestId>),
    /// A request or a notification.
    Other,
    /// The bytes do not show the kind.
    Unknown,
}

/// Returns the kind of a message from its first bytes.
#[must_use]
pub fn beginning(start: &[u8]) -> Beginning {
    parse::beginning(start)
}

/// Decodes raw parameters; absent and `null` ones read as an empty object.
///
/// # Errors
/// An `invalid params` [`RpcError`] that names the method and what did not fit.
pub fn decode_params<'a, T: Deserialize<'a>>(method: &str, params: Option<&'a RawValue>) -> Result<T, RpcError> {
    let raw = params.map_or("{}", RawValue::get);
    // A derived reader would accept an array as the members in their order.
    if !raw.starts_with('{') {
        return Err(RpcError::invalid_params(format!("{method}: `params` must be an object")));
    }
    decode_error::decode(raw).map_err(|problem| RpcError::invalid_params(format!("{method}: {problem}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PaginatedParams;

    #[test]
    fn parameters_are_an_object_or_absent() {
        for (params, expected) in [
            (None, "None"),
            (Some("{}"), "None"),
            (Some(r#"{"cursor":"c"}"#), r#"Some("c")"#),
            (Some(r#"["c"]"#), "-32602 m: `params` must be an object"),
            (Some("7"), "-32602 m: `params` must be an object"),
            (Some(r#"{"cursor":7}"#), "-32602 m: `/cursor`: invalid type: integer `7`, expected a string"),
        ] {
            let raw: Option<Box<RawValue>> = params.map(|text| serde_json::from_str(text).unwrap());
            let got = match decode_params::<PaginatedParams>("m", raw.as_deref()) {
                Ok(params) => format!("{:?}", params.cursor),
                Err(error) => format!("{} {}", error.code, error.message),
            };
            assert_eq!(got, expected);
        }
    }

    #[test]
    fn a_parsed_request_has_its_mirrored_members() {
        let text =
            br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add","arguments":{"uri":"a:b"}}}"#;
        let Ok(Message::Request(mut request)) = Message::parse(text) else { panic!("the text is a request") };
        assert_eq!(["name", "uri"].map(|member| request.mirrored(member)), [Some("add".into()), None]);
        // The record belongs to the parameters of the message alone.
        let other: Box<RawValue> = serde_json::from_str(r#"{"name":"other"}"#).unwrap();
        request.params = Some(&other);
        assert_eq!(request.mirrored("name"), None);
    }
}
