//! The body of a response: it marks its request as open until the answer is written.

use std::{
    io::IoSlice,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::{
    open_streams::{OpenStream, UnwrittenData},
    request_tracker::OpenRequest,
};

pin_project! {
    /// The body of the service, with the state that the connection needs until the answer is written.
    pub(super) struct ResponseBody<B> {
        #[pin]
        body: B,
        request: Request,
        // The body has returned its last frame.
        is_finished: bool,
    }
}

/// The request that an answer belongs to.
enum Request {
    Http1(#[expect(dead_code, reason = "its drop ends the request")] OpenRequest),
    Http2(Arc<OpenStream>),
}

impl<B> ResponseBody<B> {
    pub(super) fn http1(body: B, request: OpenRequest) -> Self {
        Self { body, request: Request::Http1(request), is_finished: false }
    }

    pub(super) fn http2(body: B, stream: Arc<OpenStream>) -> Self {
        Self { body, request: Request::Http2(stream), is_finished: false }
    }
}

impl Request {
    fn stream(&self) -> Option<&Arc<OpenStream>> {
        match self {
            Self::Http1(_) => None,
            Self::Http2(stream) => Some(stream),
        }
    }

    /// Whether the end of the body waits until its data is written.
    fn has_large_rest(&self) -> bool {
        self.stream().is_some_and(|stream| stream.has_large_rest())
    }

    fn track<D: Buf>(&self, data: D) -> TrackedData<D> {
        let unwritten = self.stream().map(|stream| stream.hand_over(data.remaining()));
        TrackedData { data, unwritten }
    }
}

impl<B: Body> Body for ResponseBody<B> {
    type Data = TrackedData<B::Data>;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<TrackedData<B::Data>>, B::Error>>> {
        let this = self.project();
        if !*this.is_finished {
            let frame = ready!(this.body.poll_frame(cx));
            if frame.is_some() || !this.request.has_large_rest() {
                return Poll::Ready(
                    frame.map(|frame| frame.map(|frame| frame.map_data(|data| this.request.track(data)))),
                );
            }
            *this.is_finished = true;
        }
        match this.request.stream() {
            Some(stream) => stream.poll_written(cx).map(|()| None),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream() && !self.request.has_large_rest()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Data of an answer. Over HTTP/2 it reports to its stream how much of it was written.
#[derive(Debug)]
pub(super) struct TrackedData<D> {
    data: D,
    unwritten: Option<UnwrittenData>,
}

impl<D: Buf> Buf for TrackedData<D> {
    fn remaining(&self) -> usize {
        self.data.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.data.chunk()
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.data.chunks_vectored(slices)
    }

    fn advance(&mut self, count: usize) {
        self.data.advance(count);
        if let Some(unwritten) = &mut self.unwritten {
            unwritten.written(count);
        }
    }
}
