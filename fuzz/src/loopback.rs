//! A server on the loopback interface that answers requests with any bytes.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc::UnboundedReceiver,
};

/// The largest request.
const LARGEST: usize = 1 << 20;

/// A received request.
#[derive(Debug)]
pub struct Asked {
    pub method: String,
    pub target: String,
    /// The headers with lower-case names.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Asked {
    /// Returns the first header of a name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The bytes of an answer, and the state of the connection after them.
#[derive(Debug)]
pub struct Reply {
    pub bytes: Vec<u8>,
    pub then: Then,
}

#[derive(Debug)]
pub enum Then {
    /// The server reads the next request.
    Keep,
    /// The server closes the connection.
    Close,
    /// The server sends the bytes of the channel.
    Stream(UnboundedReceiver<Vec<u8>>),
}

impl Reply {
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), then: Then::Keep }
    }

    /// Returns a complete response. The headers are lines.
    pub fn response(status: u16, headers: &str, body: &str) -> Self {
        Self::new(format!("HTTP/1.1 {status} Status\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len()))
    }

    /// Returns a complete response in JSON.
    pub fn json(body: &str) -> Self {
        Self::response(200, "Content-Type: application/json\r\n", body)
    }
}

type Answer = Arc<Mutex<dyn FnMut(Asked) -> Reply + Send>>;

/// Answers requests on a free port.
pub async fn serve(answer: impl FnMut(Asked) -> Reply + Send + 'static) -> SocketAddr {
    let answer: Answer = Arc::new(Mutex::new(answer));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(connection(stream, Arc::clone(&answer)));
        }
    });
    address
}

/// Counts the connections to a free port, and closes them.
pub async fn count() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, count) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    (address, count)
}

async fn connection(mut stream: TcpStream, answer: Answer) {
    let mut received = Vec::new();
    while let Some(asked) = request(&mut stream, &mut received).await {
        let Reply { bytes, then } = (answer.lock().unwrap())(asked);
        if stream.write_all(&bytes).await.is_err() {
            return;
        }
        match then {
            Then::Keep => {}
            Then::Close => break,
            Then::Stream(mut channel) => {
                while let Some(bytes) = channel.recv().await {
                    if stream.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
                break;
            }
        }
    }
    // The client closes first, so that its bytes do not reset the connection.
    let _ = stream.shutdown().await;
    while stream.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {}
}

/// Reads the next request. `received` has the bytes behind the last one.
async fn request(stream: &mut TcpStream, received: &mut Vec<u8>) -> Option<Asked> {
    loop {
        if let Some((asked, length)) = parse(received) {
            received.drain(..length);
            return Some(asked);
        }
        if received.len() > LARGEST || stream.read_buf(received).await.ok()? == 0 {
            return None;
        }
    }
}

/// Returns the first request and its length, if the request is complete.
fn parse(bytes: &[u8]) -> Option<(Asked, usize)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..end]);
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ').map(str::to_owned);
    let (method, target) = (first.next()?, first.next()?);
    let pairs = lines.filter_map(|line| line.split_once(':'));
    let headers: Vec<_> = pairs.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
    let mut asked = Asked { method, target, headers, body: Vec::new() };
    let length: usize = asked.header("content-length").and_then(|length| length.parse().ok()).unwrap_or_default();
    asked.body = bytes[end..].get(..length)?.to_vec();
    Some((asked, end + length))
}
