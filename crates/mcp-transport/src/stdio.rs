//! The stdio of a server process: a channel that no other code in the process can use, and that does not delay its
//! exit.

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

/// The standard input and output of the process, reserved for the transport.
///
/// On Unix both are moved to descriptors that child processes do not inherit. Standard input is replaced by
/// `/dev/null`, and standard output by standard error, so that neither `println!` nor a child process corrupts the
/// channel. On other systems the standard handles stay in place, and handlers must not print.
///
/// A server that answers each message with an empty result:
///
/// ```no_run
/// use mcp_transport::{Frame, Transport, recv, stdio::Stdio};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut transport = Stdio::take()?.into_transport()?;
/// let sender = transport.sender();
/// while let Some(message) = recv(&mut transport).await {
///     println!("{:?}", message?); // written to standard error
///     sender.send(Frame::new(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)).await?;
/// }
/// sender.shutdown().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Stdio {
    #[cfg(unix)]
    input: std::os::fd::OwnedFd,
    #[cfg(unix)]
    output: std::os::fd::OwnedFd,
}

static TAKEN: AtomicBool = AtomicBool::new(false);

impl Stdio {
    /// Takes the standard input and output. Bytes that `std::io` has already buffered are not affected.
    ///
    /// ```
    /// use std::io::ErrorKind;
    ///
    /// use mcp_transport::stdio::Stdio;
    ///
    /// let stdio = Stdio::take()?;
    /// assert_eq!(Stdio::take().unwrap_err().kind(), ErrorKind::AlreadyExists);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`AlreadyExists`](io::ErrorKind::AlreadyExists) on the second call, or the error of the operating system.
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

    /// Returns a transport of newline-delimited JSON with the default limits.
    ///
    /// The transport ends at the end of the input. On Unix it also ends when the client has closed its end of the
    /// output, unless the output is a file.
    ///
    /// # Errors
    /// The error of the operating system.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time.
    pub fn into_transport(self) -> io::Result<Ndjson<StdioReader>> {
        self.into_transport_with(&Options::default())
    }

    /// Returns a transport of newline-delimited JSON with these limits. See [`Stdio::into_transport`].
    ///
    /// ```
    /// use mcp_transport::{Transport, ndjson::Options, stdio::Stdio};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), std::io::Error> {
    /// let transport = Stdio::take()?.into_transport_with(&Options::default().max_line(1 << 20))?;
    /// assert!(!transport.sender().has_request_streams());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The error of the operating system.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time.
    pub fn into_transport_with(self, options: &Options) -> io::Result<Ndjson<StdioReader>> {
        #[cfg(unix)]
        let output_closed = fd::closed(&self.output);
        #[cfg(not(unix))]
        let output_closed = Box::pin(std::future::pending());
        let (reader, writer) = self.into_io()?;
        Ok(Ndjson::until_output_closed(reader, writer, output_closed, options))
    }

    /// Returns the reader and the writer. Neither blocks a thread of the runtime. A pending read does not delay the
    /// shutdown of the runtime or the exit of the process.
    ///
    /// ```no_run
    /// use mcp_transport::stdio::Stdio;
    /// use tokio::io::{AsyncReadExt, AsyncWriteExt};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), std::io::Error> {
    /// let (mut reader, mut writer) = Stdio::take()?.into_io()?;
    /// let first = reader.read_u8().await?;
    /// writer.write_u8(first).await?;
    /// writer.flush().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The error of the operating system.
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

/// The standard input of [`Stdio`].
///
/// ```no_run
/// use mcp_transport::stdio::{Stdio, StdioReader};
/// use tokio::io::{AsyncBufReadExt, BufReader};
///
/// /// Returns the first line of the input.
/// async fn first_line(input: StdioReader) -> std::io::Result<String> {
///     let mut line = String::new();
///     BufReader::new(input).read_line(&mut line).await?;
///     Ok(line)
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), std::io::Error> {
/// let (reader, _writer) = Stdio::take()?.into_io()?;
/// let line = first_line(reader).await?;
/// # Ok(())
/// # }
/// ```
pub struct StdioReader(Box<dyn Read>);

/// The standard output of [`Stdio`].
///
/// ```no_run
/// use mcp_transport::stdio::{Stdio, StdioWriter};
/// use tokio::io::AsyncWriteExt;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), std::io::Error> {
/// let (_reader, mut writer): (_, StdioWriter) = Stdio::take()?.into_io()?;
/// writer.write_all(b"{}\n").await?;
/// writer.flush().await?;
/// # Ok(())
/// # }
/// ```
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
