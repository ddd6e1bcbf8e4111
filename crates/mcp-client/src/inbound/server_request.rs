//! A request of the server: selects its handler, checks the declared capability, and serializes the answer.

use std::time::Duration;

use mcp_protocol::{
    ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitParams, EmptyParams, JsonObject,
    ListRootsResult, Method, RequestMeta, RpcError, Shape, jsonrpc, method, shape_object,
};
use serde::Serialize;
use serde_json::{Value, value::RawValue};
use tokio::{task::JoinSet, time::timeout};

use super::{HandlerSet, InputContext, RawRequest, RequestSource, form};
use crate::connection::Connection;

/// A request of the server that is ready to be answered.
pub(crate) struct ServerRequest {
    handlers: HandlerSet,
    request: RawRequest,
    source: RequestSource,
    limit: Duration,
}

impl ServerRequest {
    pub(super) fn new(
        handlers: HandlerSet,
        method: &str,
        params: Option<&RawValue>,
        source: RequestSource,
        limit: Duration,
    ) -> Self {
        Self { handlers, request: RawRequest::new(method, params), source, limit }
    }

    /// Lets the handler report progress, if the server sent a token for it.
    pub(crate) fn with_progress(mut self, connection: &std::sync::Arc<Connection>) -> Self {
        if let Ok(Some(RequestMeta { progress_token: Some(token), .. })) =
            RequestMeta::from_params(self.request.raw_params())
        {
            self.source = self.source.with_progress(token, connection);
        }
        self
    }

    /// Answers the request within its time limit. A panic of the handler becomes an error.
    pub(crate) async fn answer(self) -> Result<Value, RpcError> {
        match self.source.progress.clone() {
            Some(reports) => reports.beside(self.answer_in_time()).await,
            None => self.answer_in_time().await,
        }
    }

    async fn answer_in_time(self) -> Result<Value, RpcError> {
        let limit = self.limit;
        // The handler runs on its own task, so that a panic is caught. Dropping this future aborts the task.
        let mut running = JoinSet::new();
        running.spawn(self.run());
        match timeout(limit, running.join_next()).await {
            Ok(Some(Ok(answer))) => answer,
            Ok(Some(Err(error))) => {
                tracing::error!(%error, "a handler of the client panicked");
                Err(RpcError::internal("the client failed to answer"))
            }
            Ok(None) => Err(RpcError::internal("the client failed to answer")),
            Err(_) => {
                tracing::warn!(?limit, "a handler of the client took too long");
                Err(RpcError::internal("the client did not answer in time"))
            }
        }
    }

    async fn run(self) -> Result<Value, RpcError> {
        let Self { handlers, request, source, .. } = self;
        match request.method() {
            method::Ping::NAME => Ok(Value::Object(serde_json::Map::new())),
            method::Elicit::NAME => elicit(&handlers, &request, source).await,
            method::CreateMessage::NAME => sample(&handlers, &request, source).await,
            method::ListRoots::NAME => {
                decode::<EmptyParams>(&request)?;
                let has_closure = handlers.roots.is_some() || handlers.roots_of_call.is_some();
                if let Some(relay) = handlers.relay(ClientCapabilities::supports_roots, has_closure) {
                    return relay.request(InputContext::new(request, source)).await;
                }
                let roots = match (&handlers.roots_of_call, &handlers.roots, &handlers.handler) {
                    (Some(handler), _, _) | (None, None, Some(handler)) => handler.list_roots().await?,
                    (None, Some(roots), _) => roots.list(),
                    (None, None, None) => return Err(refuse(request.method())),
                };
                write(&ListRootsResult::new(roots))
            }
            _ => match (&handlers.other, &handlers.handler) {
                (Some(answer), _) => answer(InputContext::new(request, source)).await,
                (None, Some(handler)) => handler.request(InputContext::new(request, source)).await,
                (None, None) => Err(refuse(request.method())),
            },
        }
    }
}

/// Returns the error for a request without a handler.
pub(crate) fn refuse(method: &str) -> RpcError {
    RpcError::method_not_found(method)
}

async fn elicit(handlers: &HandlerSet, request: &RawRequest, source: RequestSource) -> Result<Value, RpcError> {
    let declared = handlers.capabilities();
    if declared.elicitation.is_none() {
        return Err(refuse(request.method()));
    }
    let undeclared =
        |mode: &str| RpcError::invalid_params(format!("the client does not support elicitation in {mode} mode"));
    match decode::<ElicitParams>(request)? {
        ElicitParams::Form(params) => {
            if !declared.supports_form_elicitation() {
                return Err(undeclared("form"));
            }
            let has_closure = handlers.elicit.is_some();
            if let Some(relay) = handlers.relay(ClientCapabilities::supports_form_elicitation, has_closure) {
                return relay.request(InputContext::new(request.clone(), source)).await;
            }
            let context = InputContext::new(params.clone(), source);
            let result = match (&handlers.elicit, &handlers.handler) {
                (Some(answer), _) => answer(context).await?,
                (None, Some(handler)) => handler.elicit(context).await?,
                (None, None) => return Err(undeclared("form")),
            };
            write(&form::complete(&params, result)?)
        }
        ElicitParams::Url(params) => {
            if !declared.supports_url_elicitation() {
                return Err(undeclared("url"));
            }
            let has_closure = handlers.elicit_url.is_some();
            if let Some(relay) = handlers.relay(ClientCapabilities::supports_url_elicitation, has_closure) {
                return relay.request(InputContext::new(request.clone(), source)).await;
            }
            let context = InputContext::new(params, source);
            let mut result = match (&handlers.elicit_url, &handlers.handler) {
                (Some(answer), _) => answer(context).await?,
                (None, Some(handler)) => handler.elicit_url(context).await?,
                (None, None) => return Err(undeclared("url")),
            };
            // An answer to a URL request has no content.
            result.content = None;
            write(&result)
        }
        _ => Err(undeclared("this")),
    }
}

async fn sample(handlers: &HandlerSet, request: &RawRequest, source: RequestSource) -> Result<Value, RpcError> {
    let declared = handlers.capabilities();
    if !declared.supports_sampling() {
        return Err(refuse(request.method()));
    }
    let params: CreateMessageParams = decode(request)?;
    if (params.tools.is_some() || params.tool_choice.is_some()) && !declared.supports_sampling_tools() {
        return Err(RpcError::invalid_params("the client does not support tools in sampling"));
    }
    let version = source.negotiated.version;
    if let Some(relay) = handlers.relay(ClientCapabilities::supports_sampling, handlers.sample.is_some()) {
        let result = relay.request(InputContext::new(request.clone(), source)).await?;
        let Value::Object(result) = result else { return Ok(result) };
        let mut result = JsonObject::from(result);
        // The server decides about a result that is not valid.
        let _ = shape_object::<CreateMessageResult>(&mut result, version);
        return Ok(result.into());
    }
    let context = InputContext::new(params, source);
    let mut result = match (&handlers.sample, &handlers.handler) {
        (Some(answer), _) => answer(context).await?,
        (None, Some(handler)) => handler.sample(context).await?,
        (None, None) => return Err(refuse(request.method())),
    };
    result.shape(version);
    write(&result)
}

fn decode<T: serde::de::DeserializeOwned>(request: &RawRequest) -> Result<T, RpcError> {
    jsonrpc::decode_params(request.method(), request.raw_params())
}

fn write(result: &impl Serialize) -> Result<Value, RpcError> {
    serde_json::to_value(result).map_err(|error| {
        tracing::error!(%error, "an answer cannot be serialized");
        RpcError::internal("the answer of the client cannot be serialized")
    })
}
