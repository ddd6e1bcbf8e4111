//! The handler of the client of a server: the handler of the host, and the capabilities that calls can have.

use std::sync::Arc;

use mcp_client::{Handler, InputContext, RawRequest, transport::BoxFuture};
use mcp_protocol::{
    ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitResult, FormElicitParams, LoggingMessageParams,
    Root, RpcError, UrlElicitParams,
};
use serde_json::Value;

use super::Settings;
#[cfg(feature = "gateway")]
use super::records::Records;

/// Answers the input requests of a server that no call answers.
pub(super) struct HostHandler {
    inner: Option<Arc<dyn Handler>>,
    declared: ClientCapabilities,
    #[cfg(feature = "gateway")]
    records: Arc<Records>,
    #[cfg(feature = "gateway")]
    server: Box<str>,
}

impl HostHandler {
    /// `declared` are the capabilities of callers. Their connections do not use the handler of the host.
    pub(super) fn new(settings: &Settings, server: &str, declared: Option<&ClientCapabilities>) -> Self {
        if let Some(declared) = declared {
            return Self::with(server, None, declared.clone());
        }
        let inner = settings.handler_of.as_ref().map(|handler_of| handler_of(server));
        let mut declared = inner.as_ref().map(|inner| inner.capabilities()).unwrap_or_default();
        // A session declares its capabilities once, so they include those of the handlers of calls.
        let calls = &settings.declared;
        declared.elicitation = calls.elicitation.clone().or(declared.elicitation);
        declared.sampling = calls.sampling.clone().or(declared.sampling);
        declared.roots = calls.roots.clone().or(declared.roots);
        Self::with(server, inner, declared)
    }

    #[cfg_attr(not(feature = "gateway"), expect(unused_variables, reason = "only records name the server"))]
    fn with(server: &str, inner: Option<Arc<dyn Handler>>, declared: ClientCapabilities) -> Self {
        Self {
            inner,
            declared,
            #[cfg(feature = "gateway")]
            records: Arc::default(),
            #[cfg(feature = "gateway")]
            server: server.into(),
        }
    }

    /// Sets the receiver of log records without a call.
    #[cfg(feature = "gateway")]
    pub(super) fn records(self, records: &Arc<Records>) -> Self {
        Self { records: Arc::clone(records), ..self }
    }
}

/// Returns the error of a request that only calls answer.
fn refused<T: Send + 'static>(method: &str) -> BoxFuture<'static, Result<T, RpcError>> {
    Box::pin(std::future::ready(Err(RpcError::method_not_found(method))))
}

impl Handler for HostHandler {
    fn capabilities(&self) -> ClientCapabilities {
        self.declared.clone()
    }

    fn elicit(&self, context: InputContext<FormElicitParams>) -> BoxFuture<'_, Result<ElicitResult, RpcError>> {
        self.inner.as_ref().map_or_else(|| refused("elicitation/create"), |inner| inner.elicit(context))
    }

    fn elicit_url(&self, context: InputContext<UrlElicitParams>) -> BoxFuture<'_, Result<ElicitResult, RpcError>> {
        self.inner.as_ref().map_or_else(|| refused("elicitation/create"), |inner| inner.elicit_url(context))
    }

    fn sample(
        &self,
        context: InputContext<CreateMessageParams>,
    ) -> BoxFuture<'_, Result<CreateMessageResult, RpcError>> {
        self.inner.as_ref().map_or_else(|| refused("sampling/createMessage"), |inner| inner.sample(context))
    }

    fn list_roots(&self) -> BoxFuture<'_, Result<Vec<Root>, RpcError>> {
        self.inner.as_ref().map_or_else(|| refused("roots/list"), |inner| inner.list_roots())
    }

    fn request(&self, context: InputContext<RawRequest>) -> BoxFuture<'_, Result<Value, RpcError>> {
        let method = context.method().to_owned();
        self.inner.as_ref().map_or_else(|| refused(&method), |inner| inner.request(context))
    }

    fn log_without_call(&self, record: LoggingMessageParams) {
        #[cfg(feature = "gateway")]
        self.records.forward(&self.server, &record);
        if let Some(inner) = &self.inner {
            inner.log_without_call(record);
        }
    }
}
