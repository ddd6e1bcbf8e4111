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

/// Runs a request and answers it. `queue` is the sink of the request, if it has one. `respond` makes the response of a request
/// that sent no notification.
pub(crate) async fn run(
    endpoint: &Endpoint,
    prepared: Box<Prepared>,
    queue: Option<Arc<Queue>>,
    respond: impl FnOnce(Reply) -> Response<Body>,
) -> Response<Body> {
    let version = prepared.version();
    let keep_alive = endpoint.config.keep_alive;
    let response = match prepared.into_reply() {
        Ok(reply) => respond(reply),
        // The work belongs to this future, and later to the body. Dropping either cancels the work.
        Err(prepared) => match stream::answer(prepared.run(), queue.unwrap_or_default(), keep_alive).await {
            Answer::Quiet(Some(reply)) => respond(reply),
            Answer::Quiet(None) => respond::stream(Answering::ended(keep_alive)),
            Answer::Streaming(answering) => respond::stream(answering),
        },
    };
    respond::with_version(response, version)
}
