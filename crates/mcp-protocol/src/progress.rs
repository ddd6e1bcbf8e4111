//! Progress and cancellation: the two notices that go along with a running request.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{JsonObject, Meta, RequestId, json};

/// The value that relates progress notifications to a request: a string or an integer that the requestor chose.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "the schema allows these two forms and no other")]
pub enum ProgressToken {
    /// An integer token.
    Integer(i64),
    /// A string token.
    String(Box<str>),
}

impl fmt::Display for ProgressToken {
    /// Keeps `92` and `"92"` apart.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(n) => write!(f, "{n}"),
            Self::String(s) => write!(f, "{s:?}"),
        }
    }
}

impl fmt::Debug for ProgressToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<i64> for ProgressToken {
    fn from(n: i64) -> Self {
        Self::Integer(n)
    }
}

impl From<&str> for ProgressToken {
    fn from(s: &str) -> Self {
        Self::String(s.into())
    }
}

impl From<String> for ProgressToken {
    fn from(s: String) -> Self {
        Self::String(s.into())
    }
}

impl From<RequestId> for ProgressToken {
    fn from(id: RequestId) -> Self {
        match id {
            RequestId::Integer(n) => Self::Integer(n),
            RequestId::String(s) => Self::String(s),
        }
    }
}

impl From<ProgressToken> for serde_json::Value {
    fn from(token: ProgressToken) -> Self {
        match token {
            ProgressToken::Integer(n) => n.into(),
            ProgressToken::String(s) => String::from(s).into(),
        }
    }
}

impl Serialize for ProgressToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Integer(n) => serializer.serialize_i64(*n),
            Self::String(s) => serializer.serialize_str(s),
        }
    }
}

impl<'de> Deserialize<'de> for ProgressToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = ProgressToken;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or an integer")
            }
            fn visit_i64<E: de::Error>(self, n: i64) -> Result<ProgressToken, E> {
                Ok(ProgressToken::Integer(n))
            }
            fn visit_u64<E: de::Error>(self, n: u64) -> Result<ProgressToken, E> {
                i64::try_from(n).map(ProgressToken::Integer).map_err(|_| E::custom("the integer is out of range"))
            }
            fn visit_str<E: de::Error>(self, s: &str) -> Result<ProgressToken, E> {
                Ok(ProgressToken::String(s.into()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// Parameters of `notifications/progress`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ProgressParams {
    /// The token of the request that moves on.
    pub progress_token: ProgressToken,
    /// How far it is; each value is greater than the one before.
    #[serde(serialize_with = "json::number")]
    pub progress: f64,
    /// The value of `progress` at the end, if it is known.
    #[serde(default, serialize_with = "json::optional_number", skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// A description of the current step for people (2025-03-26).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Metadata of the notification.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
    /// Members that are unknown to this library. They are kept.
    #[serde(flatten)]
    pub extra: JsonObject,
}

impl ProgressParams {
    /// Progress of the request with this token.
    pub fn new(progress_token: impl Into<ProgressToken>, progress: f64) -> Self {
        Self {
            progress_token: progress_token.into(),
            progress,
            total: None,
            message: None,
            meta: None,
            extra: JsonObject::new(),
        }
    }

    /// Sets the value of `progress` at the end.
    #[must_use]
    pub fn with_total(mut self, total: f64) -> Self {
        self.total = Some(total);
        self
    }

    /// Sets a message for people.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }
}

setters! {
    ProgressParams {
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// Parameters of `notifications/cancelled`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CancelledParams {
    /// The cancelled request. A notification without it, which 2025-11-25 allows, is ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
    /// Why, for people and logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Metadata of the notification.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl CancelledParams {
    /// Cancels the request with this id.
    pub fn new(request_id: impl Into<RequestId>) -> Self {
        Self { request_id: Some(request_id.into()), ..Self::default() }
    }

    /// Sets the reason.
    #[must_use]
    pub fn with_reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }
}

setters! {
    CancelledParams {
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_numbers_are_written_as_integers() {
        let notice = ProgressParams::new("t", 1.0).with_total(2.5).with_message("half");
        assert_eq!(
            serde_json::to_string(&notice).unwrap(),
            r#"{"progressToken":"t","progress":1,"total":2.5,"message":"half"}"#
        );
        let back: ProgressParams = serde_json::from_value(json!({"progressToken": 7, "progress": 1})).unwrap();
        assert_eq!(back, ProgressParams::new(7, 1.0));
    }

    #[test]
    fn a_token_keeps_its_json_type() {
        for token in [json!(1), json!("1"), json!(-9_007_199_254_740_993_i64)] {
            let read: ProgressToken = serde_json::from_value(token.clone()).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), token);
        }
        for token in [json!(1.5), json!(null), json!(true), json!({}), json!(u64::MAX)] {
            assert!(serde_json::from_value::<ProgressToken>(token.clone()).is_err(), "{token}");
        }
    }

    #[test]
    fn a_cancellation_may_lack_its_id() {
        assert_eq!(serde_json::from_str::<CancelledParams>("{}").unwrap(), CancelledParams::default());
        let notice = CancelledParams::new("1").with_reason("late");
        assert_eq!(serde_json::to_value(&notice).unwrap(), json!({"requestId": "1", "reason": "late"}));
    }
}
