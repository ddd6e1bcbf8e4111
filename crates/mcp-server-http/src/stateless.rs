//! Runs a request that lives as long as its connection: the client cancels it by closing the connection.

use std::sync::Arc;

use http::Response;
use mcp_server_core::engine::{Prepared, Reply};

use crate::{
    answer::{
        body::Body,
        respond,
        stream::{self, Answer, Answering, Queue},
    },
    endpoint::Endpoint,
};

/// Runs a request and answers it. `respond` makes the response of a request that sent no notification.
pub(crate) async fn run(
    endpoint: &Endpoint,
    prepared: Prepared,
    queue: Arc<Queue>,
    respond: impl FnOnce(Reply) -> Response<Body>,
) -> Response<Body> {
    let version = prepared.version();
    let keep_alive = endpoint.config.keep_alive;
    // The work belongs to this future, and later to the body. Dropping either cancels the work.
    let response = match stream::answer(Box::pin(prepared.run()), queue, keep_alive).await {
        Answer::Quiet(Some(reply)) => respond(reply),
        Answer::Quiet(None) => respond::stream(Answering::ended(keep_alive)),
        Answer::Streaming(answering) => respond::stream(answering),
    };
    respond::with_version(response, version)
}
