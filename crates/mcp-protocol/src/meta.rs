//! Metadata (`_meta`): the keys that the protocol reserves, their grammar, and typed access to them.

mod context;
pub mod keys;
mod request;
mod trace;

use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Implementation, JsonObject, ProgressToken, RequestId};

pub(crate) use self::request::ParamsScan;
pub use self::{
    context::TraceContext,
    request::{RequestMeta, RequestMetaError},
    trace::{is_valid_baggage, is_valid_traceparent, is_valid_tracestate},
};

/// The `_meta` object of a message, a definition or a content block. Unknown keys are kept.
///
/// ```
/// use mcp_protocol::Meta;
///
/// let mut meta = Meta::new().with("com.example/tenant", "t1");
/// meta.set_progress_token(7);
/// assert_eq!(meta.progress_token(), Some(7.into()));
/// assert_eq!(meta.get("com.example/tenant").and_then(|tenant| tenant.as_str()), Some("t1"));
/// ```
///
/// It derefs to [`serde_json::Map`], so the methods of a map are available.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
#[expect(clippy::exhaustive_structs, reason = "metadata is its members and nothing else")]
pub struct Meta(pub JsonObject);

impl Meta {
    /// Metadata without keys.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a key.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.insert(key.into(), value.into());
        self
    }

    /// Returns the token that progress notices must carry; `None` also when the value is neither string nor integer.
    #[must_use]
    pub fn progress_token(&self) -> Option<ProgressToken> {
        self.typed(keys::PROGRESS_TOKEN)
    }

    /// Asks for progress notices with this token.
    pub fn set_progress_token(&mut self, token: impl Into<ProgressToken>) {
        self.insert(keys::PROGRESS_TOKEN.into(), Value::from(token.into()));
    }

    /// Returns the identity of the server (2026-07-28, on results).
    #[must_use]
    pub fn server_info(&self) -> Option<Implementation> {
        self.typed(keys::SERVER_INFO)
    }

    /// Returns the identity of the client (2026-07-28, on requests).
    #[must_use]
    pub fn client_info(&self) -> Option<Implementation> {
        self.typed(keys::CLIENT_INFO)
    }

    /// Returns the `subscriptions/listen` request that a notification belongs to (2026-07-28).
    #[must_use]
    pub fn subscription_id(&self) -> Option<RequestId> {
        self.typed(keys::SUBSCRIPTION_ID)
    }

    /// Returns the task that a message belongs to (2025-11-25).
    #[must_use]
    pub fn related_task(&self) -> Option<&str> {
        self.get(keys::RELATED_TASK)?.get("taskId")?.as_str()
    }

    /// Ties a message to a task (2025-11-25).
    pub fn set_related_task(&mut self, task_id: &str) {
        self.insert(keys::RELATED_TASK.into(), serde_json::json!({ "taskId": task_id }));
    }

    /// Returns the W3C trace parent, when it is well-formed.
    #[must_use]
    pub fn traceparent(&self) -> Option<&str> {
        self.text(keys::TRACEPARENT).filter(|text| is_valid_traceparent(text))
    }

    /// Returns the W3C trace state, when it is well-formed.
    #[must_use]
    pub fn tracestate(&self) -> Option<&str> {
        self.text(keys::TRACESTATE).filter(|text| is_valid_tracestate(text))
    }

    /// Returns the W3C baggage, when it is well-formed.
    #[must_use]
    pub fn baggage(&self) -> Option<&str> {
        self.text(keys::BAGGAGE).filter(|text| is_valid_baggage(text))
    }

    /// Returns the trace context of the message, without malformed values.
    #[must_use]
    pub fn trace_context(&self) -> Option<TraceContext> {
        TraceContext::from_meta(self)
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    fn typed<'a, T: Deserialize<'a>>(&'a self, key: &str) -> Option<T> {
        T::deserialize(self.get(key)?).ok()
    }
}

impl Deref for Meta {
    type Target = Map<String, Value>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Meta {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl From<JsonObject> for Meta {
    fn from(members: JsonObject) -> Self {
        Self(members)
    }
}

impl From<Map<String, Value>> for Meta {
    fn from(members: Map<String, Value>) -> Self {
        Self(members.into())
    }
}

impl From<Meta> for Value {
    fn from(meta: Meta) -> Self {
        meta.0.into()
    }
}

impl<K: Into<String>, V: Into<Value>> FromIterator<(K, V)> for Meta {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(members: I) -> Self {
        Self(members.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn typed_keys_round_trip() {
        let mut meta = Meta::new().with("com.example/a", 1);
        meta.set_progress_token("1");
        meta.set_related_task("t");
        let json = json!({
            "com.example/a": 1, "progressToken": "1", "io.modelcontextprotocol/related-task": {"taskId": "t"}
        });
        assert_eq!(serde_json::to_value(&meta).unwrap(), json);
        assert_eq!(meta.progress_token(), Some("1".into()));
        assert_eq!(meta.related_task(), Some("t"));
        assert_eq!(meta.subscription_id(), None);
    }

    #[test]
    fn values_of_a_wrong_type_are_absent() {
        let meta: Meta = serde_json::from_value(json!({
            "progressToken": 1.5, "traceparent": "00-xyz", "tracestate": 7, "baggage": "",
            "io.modelcontextprotocol/serverInfo": "me", "io.modelcontextprotocol/related-task": "t"
        }))
        .unwrap();
        assert_eq!(meta.progress_token(), None);
        assert_eq!((meta.traceparent(), meta.tracestate(), meta.baggage()), (None, None, None));
        assert_eq!(meta.server_info(), None);
        assert_eq!(meta.related_task(), None);
        assert_eq!(meta.len(), 6);
    }
}
