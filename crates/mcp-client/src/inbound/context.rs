//! What a handler is given: the question, who asks, and a way to tell how the answer comes along.

use std::{
    fmt,
    ops::Deref,
    sync::{Arc, Weak},
};

use mcp_protocol::{
    FormElicitParams, Implementation, NotificationMethod, ProgressParams, ProgressToken, ProtocolVersion, Shape,
    jsonrpc, notification::Progress,
};
use mcp_schema::elicitation::{Form, FormError};
use serde_json::{Value, value::RawValue};

use crate::connection::{Connection, Negotiated};

/// A question of a server. It derefs to the parameters.
#[derive(Clone)]
pub struct InputContext<P> {
    /// What is asked.
    params: P,
    asker: RequestSource,
}

impl<P> InputContext<P> {
    pub(crate) fn new(params: P, asker: RequestSource) -> Self {
        Self { params, asker }
    }

    /// What is asked.
    #[must_use]
    pub fn params(&self) -> &P {
        &self.params
    }

    /// What is asked, by value.
    #[must_use]
    pub fn into_params(self) -> P {
        self.params
    }

    /// Who asks, as it calls itself; without a name when it did not say. Only for showing: anybody can take any name.
    #[must_use]
    pub fn server(&self) -> &Implementation {
        &self.asker.negotiated.server_info
    }

    /// The revision that is spoken.
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.asker.negotiated.version
    }

    /// Tells the server how the answer comes along, where it wants to know (up to 2025-11-25). `progress` grows with each call,
    /// up to `total` when that is known. Told without waiting: a notice that finds no room is dropped.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        let Some((token, connection)) = &self.asker.progress else { return };
        let Some(connection) = connection.upgrade() else { return };
        let mut params = ProgressParams::new(token.clone(), progress);
        params.total = total;
        params.message = message.map(Into::into);
        params.shape(self.version());
        if let Ok(message) = jsonrpc::notification(Progress::NAME, &params) {
            let _ = connection.sender.try_send(connection.notice(Progress::NAME, message));
        }
    }
}

impl InputContext<FormElicitParams> {
    /// The fields of the form, as the schema describes them.
    ///
    /// # Errors
    /// When the schema is not one that a form can be made of.
    pub fn form(&self) -> Result<Form, FormError> {
        Form::parse(&Value::from(self.params.requested_schema.clone()))
    }
}

impl<P> Deref for InputContext<P> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.params
    }
}

impl<P: fmt::Debug> fmt::Debug for InputContext<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InputContext")
            .field("params", &self.params)
            .field("server", &self.server().name)
            .field("version", &self.version())
            .finish()
    }
}

/// A request by its name and raw parameters.
#[derive(Debug, Clone)]
pub struct RawRequest {
    method: Box<str>,
    params: Option<Box<RawValue>>,
}

impl RawRequest {
    pub(crate) fn new(method: &str, params: Option<&RawValue>) -> Self {
        Self { method: method.into(), params: params.map(ToOwned::to_owned) }
    }

    /// The method.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The parameters as they came; `None` when there are none.
    #[must_use]
    pub fn raw_params(&self) -> Option<&RawValue> {
        self.params.as_deref()
    }
}

/// Who asks.
#[derive(Clone)]
pub(crate) struct RequestSource {
    pub(crate) negotiated: Arc<Negotiated>,
    pub(crate) progress: Option<(ProgressToken, Weak<Connection>)>,
}

impl RequestSource {
    /// The server of a connection. Before anything was agreed on it, that is one of the newest revision with sessions.
    pub(crate) fn on(connection: &Arc<Connection>) -> Self {
        let negotiated = connection.agreed().map(|agreed| agreed.negotiated.clone());
        let unknown = || Arc::new(Negotiated::new(ProtocolVersion::LATEST_LEGACY));
        Self { negotiated: negotiated.unwrap_or_else(unknown), progress: None }
    }

    /// The same, with notices of progress for this token.
    pub(crate) fn with_progress(mut self, token: ProgressToken, connection: &Arc<Connection>) -> Self {
        self.progress = Some((token, Arc::downgrade(connection)));
        self
    }
}
