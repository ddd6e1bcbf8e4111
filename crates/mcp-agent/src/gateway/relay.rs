//! One request to a server: its parameters, progress and metadata there, and its raw result back.

use std::{sync::Arc, time::Duration};

use mcp_client::{RawResult, Round as UpstreamRound};
use mcp_protocol::{ClientCapabilities, JsonObject, Meta, ProgressParams};
use mcp_server_core::source::{SourceCall, SourceOutcome, SourceResult};
use memchr::memmem;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::{
    Core, Names,
    asked::parks,
    fault::Fault,
    members::Members,
    questions::{AskedClient, Asker},
    reach::Reached,
    uris,
};
use crate::CallError;

/// The number of progress notifications that wait for a slow client. Further ones are dropped.
const WAITING: usize = 64;

/// A request for a server.
pub(super) struct Outgoing {
    /// The name of the tool or the prompt, or the URI of the resource, at the server.
    pub(super) name: Box<str>,
    pub(super) params: Box<RawValue>,
    pub(super) meta: Meta,
    /// The responses to the input requests of the former round, and the state of the server.
    pub(super) responses: Option<(JsonObject, Option<String>)>,
}

/// The capabilities of a client for input requests.
pub(super) struct Answered(pub(super) ClientCapabilities);

impl Answered {
    pub(super) fn can_be_asked(&self) -> bool {
        let capabilities = &self.0;
        capabilities.elicitation.is_some() || capabilities.sampling.is_some() || capabilities.roots.is_some()
    }
}

impl Core {
    /// Sends a request, and returns its outcome. The call of a stateless client at a server with sessions is parked when the server
    /// asks.
    pub(super) async fn relay(
        self: &Arc<Self>,
        call: &SourceCall,
        principal: Option<Arc<str>>,
        answered: Answered,
        reached: Reached,
        outgoing: Outgoing,
    ) -> Result<SourceOutcome, Fault> {
        if !parks(call, &answered, reached.client.version()) {
            let to = AskedClient::Session(call.clone());
            return self.send(call, Asker { to, capabilities: answered.0 }, reached, outgoing).await;
        }
        let (core, own) = (Arc::clone(self), call.clone());
        let started = self.parked.start(principal, |questions| async move {
            let to = AskedClient::LaterRound(questions);
            core.send(&own, Asker { to, capabilities: answered.0 }, reached, outgoing).await
        });
        self.parked_outcome(call, started.await)
    }

    async fn send(
        &self,
        call: &SourceCall,
        asker: Asker,
        reached: Reached,
        outgoing: Outgoing,
    ) -> Result<SourceOutcome, Fault> {
        let (sender, progress) = mpsc::channel(WAITING);
        let capabilities = asker.capabilities.clone();
        let mut request = reached
            .client
            .request_raw(call.method(), &*outgoing.params)
            .raw_result()
            .answers(Arc::new(asker))
            .capabilities(capabilities)
            .meta(outgoing.meta);
        if let Some(limit) = reached.limit {
            let limit = limit.max(Duration::from_millis(1));
            request = request.total_timeout(limit).idle_timeout(limit);
        }
        if call.context().progress().is_wanted() {
            request = request.on_progress(move |notice| drop(sender.try_send(notice)));
        } else {
            drop(sender);
        }
        let mut request = request.raw_inputs();
        if let Some((responses, state)) = outgoing.responses {
            request = request.resume(responses, state);
        }
        let (round, ()) = tokio::join!(request.into_future(), forward(call, progress));
        let failed = |error| CallError::Client { name: call.name().to_owned(), error };
        match round.map_err(failed)? {
            UpstreamRound::Complete(result) => {
                Ok(SourceOutcome::Complete(self.result(call.method(), &reached.server, result)))
            }
            UpstreamRound::InputRequired(required) => {
                Ok(self.required(call, &reached.server, &outgoing.name, &required)?)
            }
        }
    }

    /// Returns the result for the client.
    fn result(&self, method: &str, server: &str, result: RawResult) -> SourceResult {
        let version = result.version();
        let mut bytes = result.into_bytes();
        let is_error = memmem::find(&bytes, b"\"isError\"").is_some() && is_error(&bytes);
        if self.names == Names::Provider
            && let Some(renamed) = uris::rename(method, &bytes, |uri| self.names.uri(server, uri))
        {
            bytes = String::from(renamed).into();
        }
        let result = SourceResult::new(bytes, version);
        if is_error { result.failed() } else { result }
    }
}

/// Whether a result is that of a failed tool.
fn is_error(result: &[u8]) -> bool {
    let members = std::str::from_utf8(result).ok().and_then(|json| Members::read(json).ok());
    members.and_then(|members| members.decode("isError")) == Some(true)
}

/// Forwards progress until the request ends.
async fn forward(call: &SourceCall, mut notices: mpsc::Receiver<ProgressParams>) {
    while let Some(notice) = notices.recv().await {
        call.context().progress().report(notice.progress, notice.total, notice.message.as_deref()).await;
    }
}
