//! Blocking readers and writers on detached threads.
//!
//! A detached thread in a blocking call delays neither the shutdown of the runtime nor the exit of the process. A
//! blocking task of the runtime would.

use std::{
    io, mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
    thread,
};

use bytes::{Buf, Bytes};
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::mpsc,
};

/// The maximum bytes of one read.
const CHUNK: usize = 64 << 10;
/// The number of read chunks that are queued for the runtime.
const CHUNKS: usize = 2;
/// The maximum bytes that are queued for the writer thread.
const PENDING: usize = 256 << 10;

/// A reader whose source is read by a thread.
#[derive(Debug)]
pub(super) struct Reader {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    current: Bytes,
}

impl Reader {
    pub(super) fn spawn(source: impl io::Read + Send + 'static) -> io::Result<Self> {
        let (sender, chunks) = mpsc::channel(CHUNKS);
        thread::Builder::new().name("mcp-stdin".to_owned()).spawn(move || read(source, &sender))?;
        Ok(Self { chunks, current: Bytes::new() })
    }
}

impl AsyncRead for Reader {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.current.is_empty() {
            match ready!(self.chunks.poll_recv(cx)) {
                Some(chunk) => self.current = chunk?,
                None => return Poll::Ready(Ok(())),
            }
        }
        let len = self.current.len().min(buf.remaining());
        buf.put_slice(&self.current[..len]);
        self.current.advance(len);
        Poll::Ready(Ok(()))
    }
}

fn read(mut source: impl io::Read, sender: &mpsc::Sender<io::Result<Bytes>>) {
    let mut buffer = vec![0; CHUNK];
    loop {
        let chunk = match source.read(&mut buffer) {
            Ok(0) => return,
            Ok(len) => Ok(Bytes::copy_from_slice(&buffer[..len])),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let failed = chunk.is_err();
        if sender.blocking_send(chunk).is_err() || failed {
            return;
        }
    }
}

/// A writer whose sink is written by a thread. A flush waits until the operating system has accepted all bytes.
#[derive(Debug)]
pub(super) struct Writer(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Notifies the thread of queued bytes or of the end.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    pending: Vec<u8>,
    /// Whether the thread has taken bytes that are not written yet.
    writing: bool,
    closed: bool,
    fault: Option<io::ErrorKind>,
    /// The task that waits for capacity or for a flush.
    task: Option<Waker>,
}

impl Writer {
    pub(super) fn spawn(sink: impl io::Write + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        thread::Builder::new().name("mcp-stdout".to_owned()).spawn(move || theirs.write(sink))?;
        Ok(Self(shared))
    }
}

impl AsyncWrite for Writer {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.0.lock();
        state.check()?;
        let len = buf.len().min(PENDING - state.pending.len());
        if len == 0 && !buf.is_empty() {
            return state.park(cx);
        }
        state.pending.extend_from_slice(&buf[..len]);
        drop(state);
        self.0.changed.notify_one();
        Poll::Ready(Ok(len))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.lock();
        state.check()?;
        if state.writing || !state.pending.is_empty() {
            return state.park(cx);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.changed.notify_one();
    }
}

impl Shared {
    /// Runs on the thread.
    fn write(&self, mut sink: impl io::Write) {
        let mut taken = Vec::new();
        loop {
            taken.clear();
            let mut state = self.lock();
            while state.pending.is_empty() && !state.closed {
                self.changed.wait(&mut state);
            }
            if state.pending.is_empty() {
                return;
            }
            mem::swap(&mut taken, &mut state.pending);
            state.writing = true;
            let task = state.task.take();
            drop(state);
            wake(task);

            let result = sink.write_all(&taken).and_then(|()| sink.flush());
            let mut state = self.lock();
            state.writing = false;
            state.fault = result.err().map(|error| error.kind());
            let failed = state.fault.is_some();
            let task = state.task.take();
            drop(state);
            wake(task);
            if failed {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under the lock.
        self.state.lock()
    }
}

impl State {
    fn check(&self) -> io::Result<()> {
        self.fault.map_or(Ok(()), |kind| Err(kind.into()))
    }

    fn park<T>(&mut self, cx: &Context<'_>) -> Poll<T> {
        self.task = Some(cx.waker().clone());
        Poll::Pending
    }
}

fn wake(task: Option<Waker>) {
    if let Some(task) = task {
        task.wake();
    }
}
