//! The least that a server does for many open streams: it sends one prepared event to each of them.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing,
};
use futures_core::Stream;
use serde_json::Value;
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::serve;
use crate::error::Error;

/// The events that a stream can have before it sends them.
const CAPACITY: usize = 4;
const FIRST: &[u8] = b"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\"}\n\n";
/// As long as the event of our server.
const EVENT: &[u8] =
    b"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":{\"uri\":\"mem://state\",\
\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":1}}}\n\n";

type Open = Arc<Mutex<Vec<Sender<Bytes>>>>;

/// The events of a stream.
struct Events(Receiver<Bytes>);

impl Stream for Events {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|event| event.map(Ok))
    }
}

/// A call sends the event to all streams. Each other request opens a stream.
pub(crate) fn streams() -> Result<(), Error> {
    serve(Router::new().route("/mcp", routing::post(respond)).with_state(Open::default()))
}

async fn respond(State(open): State<Open>, body: Bytes) -> Response {
    let message: Value = match serde_json::from_slice(&body) {
        Ok(message) => message,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
    if message["method"] == "tools/call" {
        open.retain(|stream| stream.try_send(Bytes::from_static(EVENT)).is_ok());
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":"done"}}"#, message["id"]);
        return ([(header::CONTENT_TYPE, "application/json")], answer).into_response();
    }
    let (sender, events) = mpsc::channel(CAPACITY);
    if sender.try_send(Bytes::from_static(FIRST)).is_ok() {
        open.push(sender);
    }
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(Events(events))).into_response()
}
