//! The body of a response: nothing, a message, or a stream of events.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use mcp_server_core::engine::Payload;
use mcp_transport::sse;

use crate::{listen::Listening, stream::Answering};

/// The body of a response.
pub struct Body(Kind);

enum Kind {
    /// The pieces that are still to be sent, last first.
    Pieces(Vec<Bytes>),
    /// The stream of one request.
    Answer(Pin<Box<Answering>>),
    /// The stream of a session.
    Listen(Pin<Box<Listening>>),
}

impl Body {
    pub(crate) fn empty() -> Self {
        Self(Kind::Pieces(Vec::new()))
    }

    pub(crate) fn payload(payload: Payload) -> Self {
        let pieces = payload.into_pieces().into_iter().rev().filter(|piece| !piece.is_empty());
        Self(Kind::Pieces(pieces.collect()))
    }

    /// A message as the only event of a stream; a stream stays what it is.
    pub(crate) fn into_event(self) -> Self {
        match self.0 {
            Kind::Pieces(pieces) => {
                let message: Vec<u8> = pieces.iter().rev().flat_map(|piece| piece.iter().copied()).collect();
                Self(Kind::Pieces(vec![sse::Event::new(&message).with_event("message").encode()]))
            }
            stream => Self(stream),
        }
    }

    pub(crate) fn answer(stream: Answering) -> Self {
        Self(Kind::Answer(Box::pin(stream)))
    }

    pub(crate) fn listen(stream: Listening) -> Self {
        Self(Kind::Listen(Box::pin(stream)))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let data = match &mut self.0 {
            Kind::Pieces(pieces) => pieces.pop(),
            Kind::Answer(stream) => std::task::ready!(stream.as_mut().poll_next(cx)),
            Kind::Listen(stream) => std::task::ready!(stream.as_mut().poll_next(cx)),
        };
        Poll::Ready(data.map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Kind::Pieces(pieces) if pieces.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Pieces(pieces) => SizeHint::with_exact(pieces.iter().map(|piece| piece.len() as u64).sum()),
            Kind::Answer(_) | Kind::Listen(_) => SizeHint::default(),
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match &self.0 {
            Kind::Pieces(_) => "Body(message)",
            Kind::Answer(_) | Kind::Listen(_) => "Body(stream)",
        })
    }
}
