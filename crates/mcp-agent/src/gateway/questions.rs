//! The input requests of servers with sessions: the client of the call answers them, during the call or in a later round.

use std::sync::Arc;

use mcp_client::{Client, Handler, InputContext, transport::BoxFuture};
use mcp_protocol::{
    ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitAction, ElicitParams, ElicitResult,
    FormElicitParams, InputRequest, ListRootsResult, LoggingMessageParams, ProgressParams, ProtocolVersion, Root,
    RpcError, Shape as _, UrlElicitParams, meta::keys,
};
use mcp_server_core::source::SourceCall;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{
    asked::{ParkedResult, park},
    pages::Pages,
    parked::Questions,
};

/// Sends the input requests of a call to the client of the call.
pub(super) struct Asker {
    pub(super) client: AskedClient,
    pub(super) server: Arc<str>,
    /// The client of the connection that asks.
    pub(super) upstream: Client,
    pub(super) pages: Pages,
    pub(super) capabilities: ClientCapabilities,
    /// The notices are boxed, because each call has a channel and most calls have no notices.
    pub(super) notices: mpsc::Sender<Box<Notice>>,
    /// The id of the task that asks, for the client.
    pub(super) task: Option<Arc<str>>,
}

/// A notification of a server during a call.
pub(super) enum Notice {
    Progress(ProgressParams),
    Log(LoggingMessageParams),
}

/// The client that answers.
#[derive(Clone)]
pub(super) enum AskedClient {
    /// A session answers on the stream of its call.
    Session(SourceCall),
    /// A stateless client answers in a later round.
    LaterRound(Questions<ParkedResult, SourceCall>),
}

impl AskedClient {
    /// Returns the request of the client that waits now.
    pub(super) fn waiting(&self) -> Option<SourceCall> {
        match self {
            Self::Session(call) => Some(call.clone()),
            Self::LaterRound(questions) => questions.request(),
        }
    }
}

impl Asker {
    async fn ask<T: DeserializeOwned>(&self, request: Result<InputRequest, serde_json::Error>) -> Result<T, RpcError> {
        let invalid = |error: serde_json::Error| {
            tracing::warn!(%error, "an input request or its answer is not valid");
            RpcError::internal("the input request or its answer is not valid")
        };
        let request = request.map_err(invalid)?;
        let answer = match &self.client {
            AskedClient::Session(call) => {
                let request = match &self.task {
                    Some(task) => related_to(request, task),
                    None => request,
                };
                call.ask(request).await?
            }
            AskedClient::LaterRound(questions) => park(questions, unrelated(request)).await?,
        };
        serde_json::from_value(answer).map_err(invalid)
    }
}

/// Returns a question with the task that asks it (2025-11-25).
pub(super) fn related_to(mut request: InputRequest, task: &str) -> InputRequest {
    if let Value::Object(params) = request.params.get_or_insert_with(|| json!({})) {
        let meta = params.entry("_meta").or_insert_with(|| json!({}));
        if let Value::Object(meta) = meta {
            meta.insert(keys::RELATED_TASK.to_owned(), json!({ "taskId": task }));
        }
    }
    request
}

/// Returns a question without its task, which 2026-07-28 does not name.
fn unrelated(mut request: InputRequest) -> InputRequest {
    if let Some(Value::Object(params)) = &mut request.params
        && let Some(Value::Object(meta)) = params.get_mut("_meta")
        && meta.shift_remove(keys::RELATED_TASK).is_some()
        && meta.is_empty()
    {
        params.shift_remove("_meta");
    }
    request
}

impl Handler for Asker {
    fn capabilities(&self) -> ClientCapabilities {
        self.capabilities.clone()
    }

    fn elicit(&self, form: InputContext<FormElicitParams>) -> BoxFuture<'_, Result<ElicitResult, RpcError>> {
        Box::pin(async move { self.ask(InputRequest::elicit(&ElicitParams::Form(form.into_params()))).await })
    }

    fn elicit_url(&self, page: InputContext<UrlElicitParams>) -> BoxFuture<'_, Result<ElicitResult, RpcError>> {
        let mut page = page.into_params();
        let mut open = None;
        let params = match &self.client {
            // A notification about the completion names the id of the page.
            AskedClient::Session(call) => {
                let notices = self.upstream.notifications();
                open = self.pages.forward(&self.server, &mut page, notices, call.page_notifier());
                ElicitParams::Url(page)
            }
            AskedClient::LaterRound(_) => {
                let mut params = ElicitParams::Url(page);
                params.shape(ProtocolVersion::LATEST);
                params
            }
        };
        Box::pin(async move {
            let result: ElicitResult = self.ask(InputRequest::elicit(&params)).await?;
            if let Some(open) = open.filter(|_| result.action == ElicitAction::Accept) {
                open.keep();
            }
            Ok(result)
        })
    }

    fn sample(
        &self,
        message: InputContext<CreateMessageParams>,
    ) -> BoxFuture<'_, Result<CreateMessageResult, RpcError>> {
        Box::pin(async move { self.ask(InputRequest::create_message(&message.into_params())).await })
    }

    fn log(&self, record: LoggingMessageParams) {
        // A slow client misses records.
        let _ = self.notices.try_send(Box::new(Notice::Log(record)));
    }

    fn list_roots(&self) -> BoxFuture<'_, Result<Vec<Root>, RpcError>> {
        Box::pin(async move { Ok(self.ask::<ListRootsResult>(Ok(InputRequest::list_roots())).await?.roots) })
    }
}
