//! The body of a response for our own listener: the pieces of a message are one frame, so that one write takes them all.
//!
//! As frames of their own, the last of them would wait until a large one before it is written, and cost a write more.

use std::{
    convert::Infallible,
    io::IoSlice,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::{
    body::Body,
    flow::{Loan, OpenStream},
};

/// A body whose messages are one frame each.
#[derive(Debug)]
pub(crate) struct Gathered<G> {
    body: Body,
    /// The request is open while its answer is written.
    _open: G,
    /// Over HTTP/2: where it is noted what is on its way.
    stream: Option<Arc<OpenStream>>,
    /// All was handed over.
    is_over: bool,
}

impl<G> Gathered<G> {
    pub(crate) fn new(body: Body, open: G) -> Self {
        Self { body, _open: open, stream: None, is_over: false }
    }

    fn lend(&self, chunks: Vec<Bytes>) -> Pieces {
        let mut pieces = Pieces { chunks, loan: None };
        pieces.loan = self.stream.as_ref().map(|stream| stream.lend(pieces.remaining()));
        pieces
    }

    /// Whether the end waits for what was handed over.
    fn is_large(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.is_large())
    }
}

impl Gathered<()> {
    /// The body of an answer over HTTP/2.
    pub(crate) fn over(body: Body, stream: Arc<OpenStream>) -> Self {
        Self { body, _open: (), stream: Some(stream), is_over: false }
    }
}

impl<G: Unpin> HttpBody for Gathered<G> {
    type Data = Pieces;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Pieces>, Infallible>>> {
        if let Some(pieces) = self.body.take_pieces() {
            return Poll::Ready(Some(Ok(Frame::data(self.lend(pieces)))));
        }
        if !self.is_over {
            let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
            if frame.is_some() || !self.is_large() {
                return Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(|data| self.lend(vec![data])))));
            }
            self.is_over = true;
        }
        match &self.stream {
            Some(stream) => stream.poll_written(cx).map(|()| None),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream() && !self.is_large()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Bytes in pieces, none of them empty, last first.
#[derive(Debug)]
pub(crate) struct Pieces {
    chunks: Vec<Bytes>,
    loan: Option<Loan>,
}

impl Buf for Pieces {
    fn remaining(&self) -> usize {
        self.chunks.iter().map(Bytes::len).sum()
    }

    fn chunk(&self) -> &[u8] {
        self.chunks.last().map_or(&[], |piece| piece)
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let filled = slices.iter_mut().zip(self.chunks.iter().rev());
        filled.map(|(slice, piece)| *slice = IoSlice::new(piece)).count()
    }

    fn advance(&mut self, mut count: usize) {
        let written = count;
        while let Some(piece) = self.chunks.last_mut().filter(|_| count > 0) {
            let some = count.min(piece.len());
            piece.advance(some);
            count -= some;
            if piece.is_empty() {
                self.chunks.pop();
            }
        }
        assert!(count == 0, "advanced past the end");
        if let Some(loan) = &mut self.loan {
            loan.moved(written);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(texts: &[&'static str]) -> Pieces {
        let chunks = texts.iter().rev().map(|text| Bytes::from_static(text.as_bytes())).collect();
        Pieces { chunks, loan: None }
    }

    #[test]
    fn pieces_read_as_one_text_wherever_they_are_cut() {
        for texts in [&[][..], &["a"], &["ab", "cdef", "g"]] {
            let whole = texts.concat();
            for at in 0..=whole.len() {
                let mut left = pieces(texts);
                assert_eq!(left.remaining(), whole.len());
                left.advance(at);
                let mut slices = [IoSlice::new(&[]); 4];
                let count = left.chunks_vectored(&mut slices);
                assert_eq!(slices[..count].iter().flat_map(|slice| slice.iter()).count(), left.remaining());
                let first = slices[..count].first().map_or(&[][..], |slice| slice);
                assert_eq!(left.chunk(), first);
                assert_eq!(left.copy_to_bytes(left.remaining()), whole.as_bytes()[at..]);
            }
        }
    }

    #[test]
    fn a_message_is_one_frame() {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        for (body, expected) in [
            (Body::empty(), None),
            (Body::of(&["whole"]), Some("whole")),
            (Body::of(&["head", "body", "tail"]), Some("headbodytail")),
        ] {
            let mut body = Gathered::new(body, ());
            let length = expected.map_or(0, str::len) as u64;
            assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(length), expected.is_none()));
            let mut poll = || match Pin::new(&mut body).poll_frame(&mut cx) {
                Poll::Ready(frame) => frame.map(|frame| frame.unwrap().into_data().unwrap()),
                Poll::Pending => panic!("a message is there already"),
            };
            let data = poll().map(|mut data| data.copy_to_bytes(data.remaining()));
            assert_eq!(data.as_deref(), expected.map(str::as_bytes));
            assert!(poll().is_none());
            assert!(body.is_end_stream());
        }
    }
}
