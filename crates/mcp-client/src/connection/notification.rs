//! One notification of the server.

use std::{fmt, sync::Arc};

use mcp_protocol::{NotificationMethod, jsonrpc};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::Error;

/// What stands for notifications that are lost. Servers of `mcp-server` say it where they could not keep everything for a client
/// that was away; here it is also said where a stream could not be gone on with.
const MISSED: &str = "notifications/replay_truncated";

/// A notification of the server. Cheap to clone.
#[derive(Clone)]
pub struct Notification {
    inner: Arc<Inner>,
}

struct Inner {
    method: Box<str>,
    params: Option<Box<RawValue>>,
}

impl Notification {
    pub(crate) fn new(raw: &jsonrpc::Notification<'_>) -> Self {
        Self { inner: Arc::new(Inner { method: (*raw.method).into(), params: raw.params.map(ToOwned::to_owned) }) }
    }

    /// Stands for notifications that were lost on the way.
    pub(crate) fn missed() -> Self {
        Self { inner: Arc::new(Inner { method: MISSED.into(), params: None }) }
    }

    /// Whether it stands for notifications that are lost: what they told of is to be asked for again. Comes in sessions over HTTP,
    /// when the stream of the session broke off and could not be gone on with.
    #[must_use]
    pub fn is_missed(&self) -> bool {
        self.method() == MISSED
    }

    /// Bytes of what came.
    /// Returns the bytes of its name and parameters.
    pub(crate) fn size(&self) -> usize {
        self.inner.method.len() + self.inner.params.as_ref().map_or(0, |params| params.get().len())
    }

    /// Its name on the wire.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.inner.method
    }

    /// Its parameters as they came; `None` when there are none.
    #[must_use]
    pub fn raw_params(&self) -> Option<&RawValue> {
        self.inner.params.as_deref()
    }

    /// Its parameters, when it is this notification; `None` when it is another one.
    ///
    /// # Errors
    /// [`Error::is_invalid_response`] when the parameters are not those of this notification.
    pub fn params<N: NotificationMethod>(&self) -> Option<Result<N::Params, Error>> {
        (self.method() == N::NAME).then(|| self.decode())
    }

    /// Its parameters as whatever they are expected to be.
    ///
    /// # Errors
    /// [`Error::is_invalid_response`] when they are something else.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let raw = self.inner.params.as_ref().map_or("{}", |params| params.get());
        serde_json::from_str(raw).map_err(|error| Error::invalid(format!("{}: {error}", self.method())))
    }
}

impl fmt::Debug for Notification {
    /// Leaves out the parameters, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notification").field("method", &self.inner.method).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use mcp_protocol::{Message, notification::ToolListChanged};

    use super::*;

    fn notification(method: &str) -> Notification {
        let wire = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"a":1}}}}"#);
        let Message::Notification(raw) = Message::parse(wire.as_bytes()).unwrap() else { panic!("a notification") };
        Notification::new(&raw)
    }

    #[test]
    fn parameters_are_typed_by_the_name() {
        let changed = notification("notifications/tools/list_changed");
        assert!(changed.params::<ToolListChanged>().unwrap().is_ok());
        assert!(notification("x").params::<ToolListChanged>().is_none());
        assert!(changed.decode::<Vec<u8>>().unwrap_err().is_invalid_response());
        assert!(!format!("{changed:?}").contains("\"a\""));
    }
}
