//! One request to a server: its parameters, progress and metadata there, and its raw result back.

use std::{sync::Arc, time::Duration};

use mcp_client::{RawResult, Round};
use mcp_protocol::{Meta, ProgressParams};
use mcp_server_core::source::{SourceCall, SourceOutcome, SourceResult};
use memchr::memmem;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::{
    Core, Names,
    asked::{self, Responses},
    caller::Downstream,
    members::Members,
    questions::Asker,
    reach::Reached,
    uris,
};
use crate::CallError;

/// The number of progress notifications that wait for a slow client. Further ones are dropped.
const WAITING: usize = 64;

/// A request for a server.
pub(super) struct Outgoing {
    pub(super) params: Box<RawValue>,
    pub(super) responses: Option<Responses>,
    pub(super) meta: Meta,
}

impl Core {
    /// Sends a request, and returns the raw result with the URIs of the gateway.
    pub(super) async fn send(
        &self,
        call: &SourceCall,
        downstream: &Downstream,
        reached: &Reached,
        outgoing: Outgoing,
    ) -> Result<SourceOutcome, CallError> {
        let (sender, progress) = mpsc::channel(WAITING);
        let mut request = reached
            .client
            .request_raw(call.method(), &*outgoing.params)
            .raw_result()
            .answers(Arc::new(Asker { call: call.clone(), capabilities: downstream.capabilities.clone() }))
            .capabilities(downstream.capabilities.clone())
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
        if let Some(Responses { responses, state }) = outgoing.responses {
            request = request.resume(responses, state);
        }
        let (round, ()) = tokio::join!(request.into_future(), forward(call, progress));
        let failed = |error| CallError::Client { name: call.name().to_owned(), error };
        Ok(match round.map_err(failed)? {
            Round::Complete(result) => SourceOutcome::Complete(self.result(call.method(), &reached.server, result)),
            Round::InputRequired(required) => asked::outcome(&required),
        })
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
