//! The input of a handler: the request of the server, and a way to report progress.

use std::{fmt, ops::Deref, sync::Arc};

use mcp_protocol::{FormElicitParams, Implementation, ProgressParams, ProgressToken, ProtocolVersion};
use mcp_schema::elicitation::{Form, FormError};
use serde_json::{Value, value::RawValue};

use super::reports::Reports;
use crate::connection::{CallInfo, Connection, Negotiated, RunningCall};

/// A request of the server for a handler. It derefs to the parameters.
///
/// # Example
/// ```
/// use mcp_client::{
///     Client, InputContext,
///     protocol::{CreateMessageParams, CreateMessageResult, ElicitResult, FormElicitParams, RpcError},
/// };
///
/// async fn sample(request: InputContext<CreateMessageParams>) -> Result<CreateMessageResult, RpcError> {
///     request.progress(0.5, Some(1.0), Some("thinking"));
///     println!("{} messages from {} in {}", request.messages.len(), request.server().name, request.version());
///     println!("{:?}", request.params().system_prompt);
///     Err(RpcError::internal("no model"))
/// }
///
/// async fn answer(request: InputContext<FormElicitParams>) -> Result<ElicitResult, RpcError> {
///     let fields = request.form().map_or(0, |form| form.fields().len());
///     println!("{} ({fields} fields)", request.into_params().message);
///     Ok(ElicitResult::decline())
/// }
///
/// let builder = Client::builder("my-app", "1.0").on_sample(sample).on_elicit(answer);
/// ```
#[derive(Clone)]
pub struct InputContext<P> {
    params: P,
    source: RequestSource,
}

impl<P> InputContext<P> {
    pub(crate) fn new(params: P, source: RequestSource) -> Self {
        Self { params, source }
    }

    /// Returns the parameters.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn params(&self) -> &P {
        &self.params
    }

    /// Returns the parameters by value.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn into_params(self) -> P {
        self.params
    }

    /// Returns the name and version of the server; empty if it did not send them. Only for display: any server can use
    /// any name.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn server(&self) -> &Implementation {
        &self.source.negotiated.server_info
    }

    /// Returns the negotiated revision.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.source.negotiated.version
    }

    /// Returns the call that caused the request; `None` if the server asks outside of calls, or if the relation is not
    /// known.
    ///
    /// The relation is known in 2026-07-28, and over Streamable HTTP. On other connections of a session it is known while a
    /// single call is running. See [`Call::answers`](crate::Call::answers).
    ///
    /// See the example of [`CallInfo`].
    #[must_use]
    pub fn call(&self) -> Option<&CallInfo> {
        self.source.call.as_deref().map(|call| &call.info)
    }

    /// Reports progress to the server, if it asked for that (up to 2025-11-25). `progress` must grow with each call, up
    /// to `total` if that is known.
    ///
    /// The method does not wait. At most one report of a request waits, the newest. The client sends a report each 50 milliseconds at
    /// most, and the last report before the answer, unless the server does not read for one second. Over Streamable HTTP, the server
    /// can receive them in another order, because each of them is a request.
    ///
    /// See the [example](Self#example).
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        // The token of the server replaces this token.
        let mut params = ProgressParams::new(0, progress);
        params.total = total;
        params.message = message.map(Into::into);
        self.forward_progress(params);
    }

    /// Forwards progress that another client reports, for a relay. The notification receives the token of the server. Its metadata
    /// and unknown members stay.
    ///
    /// ```
    /// use mcp_client::{InputContext, RawRequest, protocol::ProgressParams};
    ///
    /// fn relay(question: &InputContext<RawRequest>, notice: ProgressParams) {
    ///     question.forward_progress(notice);
    /// }
    /// # let _ = relay;
    /// ```
    pub fn forward_progress(&self, params: ProgressParams) {
        if let Some(reports) = &self.source.progress {
            reports.add(params, self.version());
        }
    }
}

impl InputContext<FormElicitParams> {
    /// Returns the fields of the form.
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// If the schema does not describe a form.
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

/// A request with its method and raw parameters ([`ClientBuilder::on_request`](crate::ClientBuilder::on_request)).
///
/// # Example
/// ```
/// use mcp_client::{Client, protocol::RpcError};
///
/// let builder = Client::builder("my-app", "1.0").on_request(async |request| {
///     println!("{} {:?}", request.params().method(), request.params().raw_params());
///     Err(RpcError::method_not_found(request.params().method()))
/// });
/// ```
#[derive(Debug, Clone)]
pub struct RawRequest {
    method: Box<str>,
    params: Option<Box<RawValue>>,
}

impl RawRequest {
    pub(crate) fn new(method: &str, params: Option<&RawValue>) -> Self {
        Self { method: method.into(), params: params.map(ToOwned::to_owned) }
    }

    /// Returns the method.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    /// Returns the parameters as JSON; `None` if the request has no parameters.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn raw_params(&self) -> Option<&RawValue> {
        self.params.as_deref()
    }
}

/// The server that sent a request, and the call that caused it.
#[derive(Clone)]
pub(crate) struct RequestSource {
    pub(crate) negotiated: Arc<Negotiated>,
    pub(crate) progress: Option<Arc<Reports>>,
    pub(crate) call: Option<Arc<RunningCall>>,
}

impl RequestSource {
    /// Returns the server of a connection. During the negotiation this is a server of the newest session revision.
    pub(crate) fn on(connection: &Arc<Connection>) -> Self {
        let negotiated = connection.agreed().map(|agreed| agreed.negotiated.clone());
        let unknown = || Arc::new(Negotiated::new(ProtocolVersion::LATEST_LEGACY));
        Self { negotiated: negotiated.unwrap_or_else(unknown), progress: None, call: None }
    }

    /// Adds the call that caused the request.
    pub(crate) fn during(mut self, call: Option<&Arc<RunningCall>>) -> Self {
        self.call = call.cloned();
        self
    }

    /// Adds the token with which the server asked for progress.
    pub(crate) fn with_progress(mut self, token: ProgressToken, connection: &Arc<Connection>) -> Self {
        self.progress = Some(Reports::new(token, connection));
        self
    }
}
