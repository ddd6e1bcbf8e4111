//! The body of a response: empty, a message, or a stream of events.

use std::{
    mem,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use mcp_server_core::engine::Payload;
use mcp_transport::sse;

/// The body of a response of the endpoint: empty, a message, or a stream of events.
///
/// ```
/// use http::{Request, Response, StatusCode};
/// use http_body_util::Empty;
/// use mcp_server_core::Server;
/// use mcp_server_http::{Body, HttpConfig, HttpServer, McpService};
///
/// /// Answers a request, and logs a rejection.
/// async fn logged(service: &McpService, request: Request<Empty<&[u8]>>) -> Response<Body> {
///     let response = service.handle(request).await;
///     if response.status().is_client_error() {
///         println!("rejected: {}", response.status());
///     }
///     response
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let service = Server::builder("example", "1.0.0").build().into_service(HttpConfig::new());
/// let request = Request::put("/mcp").header("host", "127.0.0.1:8080").body(Empty::new())?;
/// assert_eq!(logged(&service, request).await.status(), StatusCode::METHOD_NOT_ALLOWED);
/// # Ok(())
/// # }
/// ```
pub struct Body(Kind);

enum Kind {
    /// A message in one piece. Empty after it is sent.
    Whole(Bytes),
    /// The unsent pieces of a message in reverse order.
    Pieces(Vec<Bytes>),
    Stream(Pin<Box<dyn EventStream>>),
}

/// The encoded events of a stream.
pub(crate) trait EventStream: Send {
    /// Returns the next bytes. `None` at the end of the stream.
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>>;
}

impl Body {
    pub(crate) fn empty() -> Self {
        Self(Kind::Whole(Bytes::new()))
    }

    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self(Kind::Whole(bytes))
    }

    pub(crate) fn payload(payload: Payload) -> Self {
        let [head, body, tail] = payload.into_pieces();
        if body.is_empty() && tail.is_empty() {
            return Self(Kind::Whole(head));
        }
        Self(Kind::Pieces([tail, body, head].into_iter().filter(|piece| !piece.is_empty()).collect()))
    }

    /// Turns a message into a stream with one event. Returns a stream unchanged.
    pub(crate) fn into_event(self) -> Self {
        let message = match self.0 {
            Kind::Whole(message) => message,
            Kind::Pieces(mut pieces) => {
                pieces.reverse();
                pieces.concat().into()
            }
            stream @ Kind::Stream(_) => return Self(stream),
        };
        Self(Kind::Whole(sse::Event::new(&message).with_event("message").encode()))
    }

    /// Takes the unsent pieces of a message with several pieces, in reverse order.
    pub(crate) fn take_pieces(&mut self) -> Option<Vec<Bytes>> {
        match &mut self.0 {
            Kind::Pieces(pieces) if !pieces.is_empty() => Some(mem::take(pieces)),
            _ => None,
        }
    }

    #[cfg(test)]
    pub(crate) fn of(pieces: &[&'static str]) -> Self {
        let pieces: Vec<Bytes> = pieces.iter().rev().map(|text| Bytes::from_static(text.as_bytes())).collect();
        Self(match <[Bytes; 1]>::try_from(pieces) {
            Ok([whole]) => Kind::Whole(whole),
            Err(pieces) => Kind::Pieces(pieces),
        })
    }

    pub(crate) fn stream(events: impl EventStream + 'static) -> Self {
        Self(Kind::Stream(Box::pin(events)))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let data = match &mut self.0 {
            Kind::Whole(message) => Some(mem::take(message)).filter(|message| !message.is_empty()),
            Kind::Pieces(pieces) => pieces.pop(),
            Kind::Stream(stream) => std::task::ready!(stream.as_mut().poll_next(cx)),
        };
        Poll::Ready(data.map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Whole(message) => message.is_empty(),
            Kind::Pieces(pieces) => pieces.is_empty(),
            Kind::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(message) => SizeHint::with_exact(message.len() as u64),
            Kind::Pieces(pieces) => SizeHint::with_exact(pieces.iter().map(|piece| piece.len() as u64).sum()),
            Kind::Stream(_) => SizeHint::default(),
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match &self.0 {
            Kind::Whole(_) | Kind::Pieces(_) => "Body(message)",
            Kind::Stream(_) => "Body(stream)",
        })
    }
}
