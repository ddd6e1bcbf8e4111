//! A stream socket as stdio, which Node.js gives to its child processes. It works without `O_NONBLOCK` on the open
//! file.

use std::{
    io::{self, IoSlice},
    os::fd::OwnedFd,
    pin::Pin,
    task::{Context, Poll, ready},
};

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, unix::AsyncFd};

/// The maximum bytes of one receive call.
const CHUNK: usize = 64 << 10;

/// One direction of a socket.
#[derive(Debug)]
pub(super) struct Socket {
    fd: AsyncFd<OwnedFd>,
    /// The receive buffer, because the caller's buffer is not initialized. Empty for a writer.
    chunk: Box<[u8]>,
}

impl Socket {
    pub(super) fn reader(fd: OwnedFd) -> io::Result<Self> {
        Ok(Self { fd: register(fd, Interest::READABLE)?, chunk: vec![0; CHUNK].into_boxed_slice() })
    }

    pub(super) fn writer(fd: OwnedFd) -> io::Result<Self> {
        Ok(Self { fd: register(fd, Interest::WRITABLE)?, chunk: Box::default() })
    }

    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        mut send: impl FnMut(&OwnedFd) -> rustix::io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.fd.poll_write_ready(cx))?;
            if let Ok(result) = ready.try_io(|fd| Ok(send(fd.get_ref())?)) {
                return Poll::Ready(result);
            }
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let wanted = buf.remaining().min(CHUNK);
        loop {
            let mut ready = ready!(this.fd.poll_read_ready(cx))?;
            let chunk = &mut this.chunk[..wanted];
            let Ok(result) = ready.try_io(|fd| Ok(recv(fd.get_ref(), chunk, RecvFlags::DONTWAIT)?.1)) else {
                continue;
            };
            let received = result?;
            if 0 < received && received < wanted {
                // The socket is drained, so another receive call would block.
                ready.clear_ready();
            }
            buf.put_slice(&this.chunk[..received]);
            return Poll::Ready(Ok(()));
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_send(cx, |fd| send(fd, buf, SendFlags::DONTWAIT))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(cx, |fd| sendmsg(fd, bufs, &mut SendAncillaryBuffer::default(), SendFlags::DONTWAIT))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

// Not `expect`: tokio has deprecated it since 1.54 only.
#[allow(deprecated, reason = "its unsafe replacement requires the guarantee of `OwnedFd`")]
pub(super) fn register(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, interest)
}
