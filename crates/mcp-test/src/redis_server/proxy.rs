//! A TCP proxy that delays, cuts, drops and half-closes the connections through it.

use std::{collections::VecDeque, fmt, io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep_until},
};

/// The bytes of a read.
const CHUNK: usize = 64 * 1024;
/// The maximum number of reads that a delayed direction queues.
const QUEUE: usize = 4096;

/// A fault of a [`FaultyProxy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Connections work.
    None,
    /// All connections stay open, new ones too, and their bytes wait until the fault ends.
    BlackHole,
    /// New connections are closed at once. Earlier connections work.
    Refuse,
}

/// A TCP proxy before a server, with faults. Its drop closes all connections.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_test::redis_server::{Fault, FaultyProxy};
/// use tokio::{
///     io::{AsyncReadExt, AsyncWriteExt},
///     net::{TcpListener, TcpStream},
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let target = TcpListener::bind("127.0.0.1:0").await?;
/// let proxy = FaultyProxy::start(target.local_addr()?).await?;
/// proxy.delay(Duration::from_millis(5));
///
/// let mut client = TcpStream::connect(proxy.address()).await?;
/// let (mut server, _) = target.accept().await?;
/// client.write_all(b"ping").await?;
/// let mut bytes = [0; 4];
/// server.read_exact(&mut bytes).await?;
/// assert_eq!(&bytes, b"ping");
///
/// proxy.cut();
/// assert_eq!(client.read(&mut bytes).await.unwrap_or(0), 0);
/// proxy.fault(Fault::BlackHole);
/// # Ok(())
/// # }
/// ```
pub struct FaultyProxy {
    address: SocketAddr,
    settings: watch::Sender<Settings>,
    acceptor: JoinHandle<()>,
}

#[derive(Clone, Copy)]
struct Settings {
    delay: Duration,
    fault: Fault,
    /// Connections that were accepted before this generation are closed.
    cut: u64,
    /// Connections that were accepted before this generation lose the server, and keep the client.
    half_open: u64,
}

impl FaultyProxy {
    /// Starts a proxy on a free port of this machine.
    ///
    /// # Errors
    /// If the port cannot be opened.
    pub async fn start(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let settings = Settings { delay: Duration::ZERO, fault: Fault::None, cut: 0, half_open: 0 };
        let (settings, receiver) = watch::channel(settings);
        let acceptor = tokio::spawn(accept(listener, target, receiver));
        Ok(Self { address, settings, acceptor })
    }

    /// The address of the proxy.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Delays the bytes of each direction, without a limit of the rate.
    pub fn delay(&self, delay: Duration) {
        self.settings.send_modify(|settings| settings.delay = delay);
    }

    /// Starts a fault, or ends it with [`Fault::None`].
    pub fn fault(&self, fault: Fault) {
        self.settings.send_modify(|settings| settings.fault = fault);
    }

    /// Closes all connections. New connections work.
    pub fn cut(&self) {
        self.settings.send_modify(|settings| settings.cut += 1);
    }

    /// Closes all connections to the server, and keeps those of the clients open and silent, as after a crash of the
    /// machine. New connections work.
    pub fn half_open(&self) {
        self.settings.send_modify(|settings| settings.half_open += 1);
    }
}

impl Drop for FaultyProxy {
    fn drop(&mut self) {
        self.acceptor.abort();
        self.cut();
    }
}

impl fmt::Debug for FaultyProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyProxy").field("address", &self.address).finish_non_exhaustive()
    }
}

async fn accept(listener: TcpListener, target: SocketAddr, settings: watch::Receiver<Settings>) {
    while let Ok((client, _)) = listener.accept().await {
        let settings = settings.clone();
        tokio::spawn(async move {
            let Settings { fault, cut, half_open, .. } = *settings.borrow();
            if fault == Fault::Refuse {
                return;
            }
            let is_cut = settings.clone();
            tokio::select! {
                () = connection(client, target, settings, half_open) => {}
                () = until(is_cut, |now| now.cut > cut) => {}
            }
        });
    }
}

/// Moves the bytes of one connection until it ends.
async fn connection(client: TcpStream, target: SocketAddr, settings: watch::Receiver<Settings>, generation: u64) {
    let Ok(server) = TcpStream::connect(target).await else { return };
    // The delay of the proxy is the only delay.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut client_reader, mut client_writer) = client.into_split();
    {
        let (mut server_reader, mut server_writer) = server.into_split();
        tokio::select! {
            () = half(&mut client_reader, &mut server_writer, &settings) => return,
            () = half(&mut server_reader, &mut client_writer, &settings) => return,
            () = until(settings.clone(), |now| now.half_open > generation) => {}
        }
    }
    // The server is closed now. The client can send, and receives nothing.
    let mut dropped = [0; 1024];
    while client_reader.read(&mut dropped).await.is_ok_and(|len| len > 0) {}
}

/// Moves the bytes of one direction until it ends.
async fn half(reader: &mut OwnedReadHalf, writer: &mut OwnedWriteHalf, settings: &watch::Receiver<Settings>) {
    let mut queue: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
    let mut chunk = vec![0; CHUNK];
    let mut is_open = true;
    while is_open || !queue.is_empty() {
        let due = queue.front().map(|(due, _)| *due);
        tokio::select! {
            read = reader.read(&mut chunk), if is_open && queue.len() < QUEUE => match read {
                Ok(len) if len > 0 => {
                    let bytes = chunk.get(..len).unwrap_or_default().to_vec();
                    queue.push_back((Instant::now() + settings.borrow().delay, bytes));
                }
                _ => is_open = false,
            },
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                until(settings.clone(), |now| now.fault != Fault::BlackHole).await;
                let Some((_, bytes)) = queue.pop_front() else { continue };
                if writer.write_all(&bytes).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Returns when the settings satisfy a condition, or the proxy is dropped.
async fn until(mut settings: watch::Receiver<Settings>, condition: impl Fn(Settings) -> bool) {
    let _ = settings.wait_for(|now| condition(*now)).await;
}
