//! Response bodies for our listener: the pieces of a message are one frame, so that one write sends them all.
//!
//! If each piece were a frame, hyper would write a large piece before it asks for the next one, and use one more write.

use std::{
    convert::Infallible,
    io::IoSlice,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Buf, Bytes};
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::body::Body;

/// A body whose messages are one frame each.
#[derive(Debug)]
pub(crate) struct VectoredBody(pub(crate) Body);

impl HttpBody for VectoredBody {
    type Data = Pieces;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Pieces>, Infallible>>> {
        if let Some(pieces) = self.0.take_pieces() {
            return Poll::Ready(Some(Ok(Frame::data(Pieces(pieces)))));
        }
        let frame = std::task::ready!(Pin::new(&mut self.0).poll_frame(cx));
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(|data| Pieces(vec![data])))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

/// Bytes in pieces. No piece is empty. The last piece of the vector is sent first.
#[derive(Debug)]
pub(crate) struct Pieces(Vec<Bytes>);

impl Buf for Pieces {
    fn remaining(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    fn chunk(&self) -> &[u8] {
        self.0.last().map_or(&[], |piece| piece)
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let filled = slices.iter_mut().zip(self.0.iter().rev());
        filled.map(|(slice, piece)| *slice = IoSlice::new(piece)).count()
    }

    fn advance(&mut self, mut count: usize) {
        while let Some(piece) = self.0.last_mut().filter(|_| count > 0) {
            let some = count.min(piece.len());
            piece.advance(some);
            count -= some;
            if piece.is_empty() {
                self.0.pop();
            }
        }
        assert!(count == 0, "advanced past the end");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(texts: &[&'static str]) -> Pieces {
        Pieces(texts.iter().rev().map(|text| Bytes::from_static(text.as_bytes())).collect())
    }

    #[test]
    fn pieces_are_read_as_one_text_at_every_split() {
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
            let mut body = VectoredBody(body);
            let length = expected.map_or(0, str::len) as u64;
            assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(length), expected.is_none()));
            let mut poll = || match Pin::new(&mut body).poll_frame(&mut cx) {
                Poll::Ready(frame) => frame.map(|frame| frame.unwrap().into_data().unwrap()),
                Poll::Pending => panic!("the message is ready"),
            };
            let data = poll().map(|mut data| data.copy_to_bytes(data.remaining()));
            assert_eq!(data.as_deref(), expected.map(str::as_bytes));
            assert!(poll().is_none());
            assert!(body.is_end_stream());
        }
    }
}
