//! One question of a server: which handler it is for, whether it was announced, and its answer as JSON.

use std::time::Duration;

use mcp_protocol::{
    CreateMessageParams, ElicitParams, EmptyParams, ListRootsResult, Method, RequestMeta, RpcError, Shape, jsonrpc,
    method,
};
use serde::Serialize;
use serde_json::{Value, value::RawValue};
use tokio::{task::JoinSet, time::timeout};

use super::{HandlerSet, InputContext, RawRequest, RequestSource, form};
use crate::connection::Connection;

/// A question, ready to be answered.
pub(crate) struct ServerRequest {
    handlers: HandlerSet,
    request: RawRequest,
    asker: RequestSource,
    limit: Duration,
}

impl ServerRequest {
    pub(super) fn new(
        handlers: HandlerSet,
        method: &str,
        params: Option<&RawValue>,
        asker: RequestSource,
        limit: Duration,
    ) -> Self {
        Self { handlers, request: RawRequest::new(method, params), asker, limit }
    }

    /// The same question, whose asker hears of progress when it gave a token.
    pub(crate) fn with_progress(mut self, connection: &std::sync::Arc<Connection>) -> Self {
        if let Ok(Some(RequestMeta { progress_token: Some(token), .. })) =
            RequestMeta::from_params(self.request.raw_params())
        {
            self.asker = self.asker.with_progress(token, connection);
        }
        self
    }

    /// Answers it: within the limit, and whatever the handler does.
    pub(crate) async fn answer(self) -> Result<Value, RpcError> {
        let limit = self.limit;
        // On a task of its own, which is aborted with this future: a handler that panics is a handler that failed.
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
                Err(RpcError::internal("nobody answered in time"))
            }
        }
    }

    async fn run(self) -> Result<Value, RpcError> {
        let Self { handlers, request, asker, .. } = self;
        match request.method() {
            method::Ping::NAME => Ok(Value::Object(serde_json::Map::new())),
            method::Elicit::NAME => elicit(&handlers, &request, asker).await,
            method::CreateMessage::NAME => sample(&handlers, &request, asker).await,
            method::ListRoots::NAME => {
                decode::<EmptyParams>(&request)?;
                let roots = match (&handlers.roots, &handlers.handler) {
                    (Some(roots), _) => roots.list(),
                    (None, Some(handler)) => handler.list_roots().await?,
                    (None, None) => return Err(refuse(request.method())),
                };
                write(&ListRootsResult::new(roots))
            }
            _ => match (&handlers.other, &handlers.handler) {
                (Some(answer), _) => answer(InputContext::new(request, asker)).await,
                (None, Some(handler)) => handler.request(InputContext::new(request, asker)).await,
                (None, None) => Err(refuse(request.method())),
            },
        }
    }
}

/// Nobody answers this method.
pub(crate) fn refuse(method: &str) -> RpcError {
    RpcError::method_not_found(method)
}

async fn elicit(handlers: &HandlerSet, request: &RawRequest, asker: RequestSource) -> Result<Value, RpcError> {
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
            let asked = InputContext::new(params.clone(), asker);
            let result = match (&handlers.elicit, &handlers.handler) {
                (Some(answer), _) => answer(asked).await?,
                (None, Some(handler)) => handler.elicit(asked).await?,
                (None, None) => return Err(undeclared("form")),
            };
            write(&form::complete(&params, result)?)
        }
        ElicitParams::Url(params) => {
            if !declared.supports_url_elicitation() {
                return Err(undeclared("url"));
            }
            let asked = InputContext::new(params, asker);
            let mut result = match (&handlers.elicit_url, &handlers.handler) {
                (Some(answer), _) => answer(asked).await?,
                (None, Some(handler)) => handler.elicit_url(asked).await?,
                (None, None) => return Err(undeclared("url")),
            };
            // Agreeing to visit a page fills nothing in.
            result.content = None;
            write(&result)
        }
        _ => Err(undeclared("this")),
    }
}

async fn sample(handlers: &HandlerSet, request: &RawRequest, asker: RequestSource) -> Result<Value, RpcError> {
    let declared = handlers.capabilities();
    if !declared.supports_sampling() {
        return Err(refuse(request.method()));
    }
    let params: CreateMessageParams = decode(request)?;
    if (params.tools.is_some() || params.tool_choice.is_some()) && !declared.supports_sampling_tools() {
        return Err(RpcError::invalid_params("the client does not support tools in sampling"));
    }
    let version = asker.negotiated.version;
    let asked = InputContext::new(params, asker);
    let mut result = match (&handlers.sample, &handlers.handler) {
        (Some(answer), _) => answer(asked).await?,
        (None, Some(handler)) => handler.sample(asked).await?,
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
        tracing::error!(%error, "an answer has no JSON form");
        RpcError::internal("the answer of the client cannot be written")
    })
}
