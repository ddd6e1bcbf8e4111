//! The stdio of a server process: a channel to the client that nothing else in the process can touch, and that never
//! keeps the process from exiting.

#[cfg(unix)]
mod fd;
#[cfg(unix)]
mod socket;
mod thread;

use std::{
    fmt, io,
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::ndjson::{Ndjson, Options};

/// The standard input and output of the process, taken away from everybody else in it.
///
/// On Unix the two are moved to descriptors that children do not inherit. In their place the process reads `/dev/null`
/// and prints to its standard error, so that neither a `println!` nor a child corrupts the channel. Elsewhere the
/// standard handles stay where they are, and handlers must not print.
#[derive(Debug)]
pub struct Stdio {
    #[cfg(unix)]
    input: std::os::fd::OwnedFd,
    #[cfg(unix)]
    output: std::os::fd::OwnedFd,
}

static TAKEN: AtomicBool = AtomicBool::new(false);

impl Stdio {
    /// Takes the standard input and output. What was read or printed through `std::io` before stays where it went.
    ///
    /// # Errors
    /// [`AlreadyExists`](io::ErrorKind::AlreadyExists) when they are taken already, or what the system says.
    pub fn take() -> io::Result<Self> {
        if TAKEN.swap(true, Ordering::AcqRel) {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "the standard input and output are taken already",
            ));
        }
        #[cfg(unix)]
        let taken = fd::take().map(|(input, output)| Self { input, output });
        #[cfg(not(unix))]
        let taken = Ok(Self {});
        if taken.is_err() {
            TAKEN.store(false, Ordering::Release);
        }
        taken
    }

    /// A transport of newline-delimited JSON, with the default limits.
    ///
    /// # Errors
    /// What the system says.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time.
    pub fn into_transport(self) -> io::Result<Ndjson<StdioReader>> {
        self.into_transport_with(&Options::default())
    }

    /// A transport of newline-delimited JSON, with these limits.
    ///
    /// # Errors
    /// What the system says.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time.
    pub fn into_transport_with(self, options: &Options) -> io::Result<Ndjson<StdioReader>> {
        let (reader, writer) = self.into_io()?;
        Ok(Ndjson::with_options(reader, writer, options))
    }

    /// The bytes themselves. Reading and writing never block a thread of the runtime, and a read that waits does not
    /// keep the runtime or the process from ending.
    ///
    /// # Errors
    /// What the system says.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O.
    pub fn into_io(self) -> io::Result<(StdioReader, StdioWriter)> {
        #[cfg(unix)]
        let (reader, writer) = (fd::reader(self.input)?, fd::writer(self.output)?);
        #[cfg(not(unix))]
        let (reader, writer): (Box<dyn Read>, Box<dyn Write>) =
            (Box::new(thread::Reader::spawn(io::stdin())?), Box::new(thread::Writer::spawn(io::stdout())?));
        Ok((StdioReader(reader), StdioWriter(writer)))
    }
}

/// Resolves when the process is asked to end: SIGTERM or SIGINT, elsewhere Ctrl-C. It listens from the call on, not
/// only from the first poll; from then on these signals do not end the process by themselves.
///
/// # Panics
/// Outside of a tokio runtime with I/O.
pub fn terminated() -> impl Future<Output = ()> + Send + 'static {
    let signals = Signals::listen();
    async move {
        match signals {
            Ok(mut signals) => signals.next().await,
            Err(error) => {
                tracing::warn!(%error, "cannot listen for signals");
                std::future::pending().await
            }
        }
    }
}

/// The standard input of [`Stdio`].
pub struct StdioReader(Box<dyn Read>);

/// The standard output of [`Stdio`].
pub struct StdioWriter(Box<dyn Write>);

trait Read: AsyncRead + Send + Unpin {}
impl<T: AsyncRead + Send + Unpin> Read for T {}

trait Write: AsyncWrite + Send + Unpin {}
impl<T: AsyncWrite + Send + Unpin> Write for T {}

impl AsyncRead for StdioReader {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for StdioWriter {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }
}

impl fmt::Debug for StdioReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioReader").finish_non_exhaustive()
    }
}

impl fmt::Debug for StdioWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioWriter").finish_non_exhaustive()
    }
}

#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        std::future::poll_fn(|cx| {
            if self.terminate.poll_recv(cx).is_ready() || self.interrupt.poll_recv(cx).is_ready() {
                return Poll::Ready(());
            }
            Poll::Pending
        })
        .await;
    }
}

#[cfg(windows)]
struct Signals(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl Signals {
    fn listen() -> io::Result<Self> {
        tokio::signal::windows::ctrl_c().map(Self)
    }

    async fn next(&mut self) {
        self.0.recv().await;
    }
}

#[cfg(not(any(unix, windows)))]
struct Signals;

#[cfg(not(any(unix, windows)))]
impl Signals {
    fn listen() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    async fn next(&mut self) {}
}
