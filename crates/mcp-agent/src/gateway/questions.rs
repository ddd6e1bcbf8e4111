//! The input requests of servers with sessions: the client of the call answers them, during the call or in a later round.

use mcp_client::{Handler, InputContext, transport::BoxFuture};
use mcp_protocol::{
    ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, FormElicitParams,
    InputRequest, ListRootsResult, ProtocolVersion, Root, RpcError, Shape as _, UrlElicitParams,
};
use mcp_server_core::source::SourceCall;
use serde::de::DeserializeOwned;

use super::{
    asked::{ParkedResult, park},
    parked::Questions,
};

/// Sends the input requests of a call to the client of the call.
pub(super) struct Asker {
    pub(super) client: AskedClient,
    pub(super) capabilities: ClientCapabilities,
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
            AskedClient::Session(call) => call.ask(request).await?,
            AskedClient::LaterRound(questions) => park(questions, request).await?,
        };
        serde_json::from_value(answer).map_err(invalid)
    }
}

impl Handler for Asker {
    fn capabilities(&self) -> ClientCapabilities {
        self.capabilities.clone()
    }

    fn elicit(&self, form: InputContext<FormElicitParams>) -> BoxFuture<'_, Result<ElicitResult, RpcError>> {
        Box::pin(async move { self.ask(InputRequest::elicit(&ElicitParams::Form(form.into_params()))).await })
    }

    fn elicit_url(&self, page: InputContext<UrlElicitParams>) -> BoxFuture<'_, Result<ElicitResult, RpcError>> {
        let mut params = ElicitParams::Url(page.into_params());
        // A session keeps the id of the page, which the notification about its completion names.
        if let AskedClient::LaterRound(_) = &self.client {
            params.shape(ProtocolVersion::LATEST);
        }
        Box::pin(async move { self.ask(InputRequest::elicit(&params)).await })
    }

    fn sample(
        &self,
        message: InputContext<CreateMessageParams>,
    ) -> BoxFuture<'_, Result<CreateMessageResult, RpcError>> {
        Box::pin(async move { self.ask(InputRequest::create_message(&message.into_params())).await })
    }

    fn list_roots(&self) -> BoxFuture<'_, Result<Vec<Root>, RpcError>> {
        Box::pin(async move { Ok(self.ask::<ListRootsResult>(Ok(InputRequest::list_roots())).await?.roots) })
    }
}
