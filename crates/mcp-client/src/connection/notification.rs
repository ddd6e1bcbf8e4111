//! One notification of the server.

use std::{fmt, sync::Arc};

use mcp_protocol::{NotificationMethod, jsonrpc};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::Error;

/// The name of the notification that replaces lost notifications. Servers of `mcp-server` send it when their event log has lost events.
/// The client adds it when a stream cannot be resumed, and when it replaces a lost connection.
const MISSED: &str = "notifications/replay_truncated";

/// A notification of the server. Clones are cheap.
///
/// # Example
/// ```
/// use mcp_client::{
///     Notification,
///     protocol::notification::{ResourceUpdated},
/// };
///
/// fn print(notification: &Notification) {
///     if notification.is_missed() {
///         println!("reload the state of the server");
///     } else if let Some(Ok(update)) = notification.params::<ResourceUpdated>() {
///         println!("{} changed", update.uri);
///     } else if let Ok(params) = notification.decode::<serde_json::Value>() {
///         println!("{} {params} {:?}", notification.method(), notification.raw_params());
///     }
/// }
/// # let _ = print;
/// ```
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

    /// Returns the notification that replaces lost notifications.
    pub(crate) fn missed() -> Self {
        Self { inner: Arc::new(Inner { method: MISSED.into(), params: None }) }
    }

    /// Returns true if this notification replaces lost ones, for example after a session stream over HTTP could not be
    /// resumed, or after a reconnection. Request the state that notifications report anew.
    #[must_use]
    pub fn is_missed(&self) -> bool {
        self.method() == MISSED
    }

    /// Returns the bytes of its name and parameters.
    pub(crate) fn size(&self) -> usize {
        self.inner.method.len() + self.inner.params.as_ref().map_or(0, |params| params.get().len())
    }

    /// Returns the method.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn method(&self) -> &str {
        &self.inner.method
    }

    /// Returns the parameters as JSON; `None` if the notification has no parameters.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn raw_params(&self) -> Option<&RawValue> {
        self.inner.params.as_deref()
    }

    /// Returns the parameters if this notification has the type `N`; `None` if it has another one.
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// [`Error::is_invalid_response`] if the parameters are invalid.
    pub fn params<N: NotificationMethod>(&self) -> Option<Result<N::Params, Error>> {
        (self.method() == N::NAME).then(|| self.decode())
    }

    /// Decodes the parameters.
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// [`Error::is_invalid_response`] if they have another form.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let raw = self.inner.params.as_ref().map_or("{}", |params| params.get());
        serde_json::from_str(raw).map_err(|error| Error::invalid(format!("{}: {error}", self.method())))
    }
}

impl fmt::Debug for Notification {
    /// Omits the parameters, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notification").field("method", &self.inner.method).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use mcp_protocol::{Message, notification::ToolListChanged};

    use super::*;

    fn notification(method: &str) -> Notification {
        let json = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"a":1}}}}"#);
        let Message::Notification(raw) = Message::parse(json.as_bytes()).unwrap() else { panic!("a notification") };
        Notification::new(&raw)
    }

    #[test]
    fn the_name_determines_the_type_of_the_parameters() {
        let changed = notification("notifications/tools/list_changed");
        assert!(changed.params::<ToolListChanged>().unwrap().is_ok());
        assert!(notification("x").params::<ToolListChanged>().is_none());
        assert!(changed.decode::<Vec<u8>>().unwrap_err().is_invalid_response());
        assert!(!format!("{changed:?}").contains("\"a\""));
    }
}
