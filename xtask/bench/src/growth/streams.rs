//! The delivery of one notification to more and more open streams: GET streams of sessions, and `subscriptions/listen` streams.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Instant,
};

use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    sync::Notify,
    task::JoinSet,
    time::timeout,
};

use super::{Extent, Grown, Node, series};
use crate::{
    case::{Revision, request},
    error::Error,
    figure::{Aim, Figure, Point},
    http::Connection,
    load::GRACE,
    memory::Client,
    report::median,
    server::STATE,
};

/// The bytes that a stream buffers.
const BUFFER: usize = 1024;
/// The longest accepted time until all streams have a notification.
const MOST_SECONDS: f64 = 2.0;

/// The deliveries of a notification to all streams.
#[derive(Debug, Default)]
struct Deliveries {
    /// The number of deliveries that have begun.
    begun: AtomicU64,
    /// The streams that have the current delivery.
    arrived: AtomicUsize,
    changed: Notify,
}

impl Deliveries {
    fn begin(&self) {
        self.arrived.store(0, Ordering::Relaxed);
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a notification of a stream that had `received` deliveries.
    ///
    /// # Errors
    /// If the stream has the current delivery already, or lacks an earlier one.
    fn arrive(&self, received: &mut u64) -> Result<(), Error> {
        *received += 1;
        let begun = self.begun.load(Ordering::Relaxed);
        if *received != begun {
            return Err(Error::new(format!("a stream has {received} notifications of {begun} deliveries")));
        }
        self.arrived.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_one();
        Ok(())
    }
}

/// The streams that wait for a notification.
struct Streams {
    tasks: JoinSet<Error>,
    deliveries: Arc<Deliveries>,
    count: usize,
    /// A part of the notification.
    wanted: &'static str,
}

impl Streams {
    fn new(wanted: &'static str) -> Self {
        Self { tasks: JoinSet::new(), deliveries: Arc::default(), count: 0, wanted }
    }

    /// Opens one more stream, and waits for its first event.
    async fn open(&mut self, node: &Node, opening: &[u8]) -> Result<(), Error> {
        let mut stream = TcpStream::connect(node.address).await?;
        stream.set_nodelay(true)?;
        stream.write_all(opening).await?;
        let mut reader = BufReader::with_capacity(BUFFER, stream);
        let mut line = Vec::new();
        while !line.starts_with(b"data:") {
            next(&mut reader, &mut line).await?;
            if line.starts_with(b"HTTP/1.1") && !line.starts_with(b"HTTP/1.1 200") {
                return Err(Error::new(String::from_utf8_lossy(&line).trim().to_owned()));
            }
        }
        let (deliveries, wanted) = (Arc::clone(&self.deliveries), self.wanted.as_bytes());
        let received = deliveries.begun.load(Ordering::Relaxed);
        self.tasks.spawn(async move {
            let error = receive(reader, wanted, received, &deliveries).await;
            deliveries.changed.notify_one();
            error
        });
        self.count += 1;
        Ok(())
    }

    /// Causes a notification, and returns the seconds until it has arrived on all streams.
    async fn deliver(&mut self, connection: &mut Connection, cause: &[u8]) -> Result<f64, Error> {
        self.deliveries.begin();
        let start = Instant::now();
        let answer = connection.call(cause, true).await?;
        if !answer.body.windows(6).any(|window| window == b"\"done\"") {
            return Err(Error::new(String::from_utf8_lossy(&answer.body)));
        }
        while self.deliveries.arrived.load(Ordering::Relaxed) < self.count {
            self.check()?;
            self.deliveries.changed.notified().await;
        }
        let time = start.elapsed().as_secs_f64();
        self.check()?;
        Ok(time)
    }

    /// Returns the error of a stream that has ended.
    fn check(&mut self) -> Result<(), Error> {
        self.tasks.try_join_next().map_or(Ok(()), |ended| Err(ended?))
    }
}

/// Counts the notifications of a stream after the `received` earlier deliveries, and returns the error that ends it.
async fn receive(mut reader: BufReader<TcpStream>, wanted: &[u8], mut received: u64, deliveries: &Deliveries) -> Error {
    let mut line = Vec::new();
    loop {
        let outcome = match next(&mut reader, &mut line).await {
            Ok(()) if line.windows(wanted.len()).any(|window| window == wanted) => deliveries.arrive(&mut received),
            outcome => outcome,
        };
        if let Err(error) = outcome {
            return error;
        }
    }
}

async fn next(reader: &mut BufReader<TcpStream>, line: &mut Vec<u8>) -> Result<(), Error> {
    line.clear();
    match reader.read_until(b'\n', line).await? {
        0 => Err(Error::new("a stream ended")),
        _ => Ok(()),
    }
}

/// GET streams of sessions, and a change of the list of tools.
pub(super) async fn streams(extent: Extent) -> Result<Grown, Error> {
    let node = Node::start(extent, 0).await?;
    let mut client = Client::open(node.address)?;
    let opening = |node: &Node| {
        let session = client.sessions(&node.host, 1)?.pop().unwrap_or_default();
        let host = &node.host;
        let head =
            format!("GET /mcp HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\nMcp-Session-Id: {session}\r\n");
        Ok((head + "\r\n").into_bytes())
    };
    delivered(extent, node, "streams", "notification of all GET streams", "tools/list_changed", opening).await
}

/// `subscriptions/listen` streams, and a change of one resource.
pub(super) async fn subscriptions(extent: Extent) -> Result<Grown, Error> {
    let node = Node::start(extent, 0).await?;
    let opening = |node: &Node| {
        let params = json!({ "notifications": { "resourceSubscriptions": [STATE] } });
        Ok(request(Revision::Stateless, &node.host, None, "subscriptions/listen", None, params))
    };
    delivered(extent, node, "subscriptions", "notification of all subscriptions", "resources/updated", opening).await
}

/// Measures the delivery to more and more streams.
async fn delivered(
    extent: Extent,
    node: Node,
    name: &str,
    title: &str,
    wanted: &'static str,
    mut opening: impl FnMut(&Node) -> Result<Vec<u8>, Error>,
) -> Result<Grown, Error> {
    let mut series = series(name, title, "ms");
    let mut streams = Streams::new(wanted);
    let mut connection = timeout(GRACE, Connection::open(node.address)).await??;
    let params = json!({ "name": "notify", "arguments": {} });
    let cause = request(Revision::Stateless, &node.host, None, "tools/call", Some("notify"), params);
    let mut last = f64::NAN;
    for size in extent.sizes(1, 10_000) {
        while streams.count < size {
            timeout(GRACE, streams.open(&node, &opening(&node)?)).await??;
        }
        let mut times = Vec::new();
        for number in 0..=extent.rounds {
            let time = timeout(GRACE, streams.deliver(&mut connection, &cause)).await??;
            if number > 0 {
                times.push(time);
            }
        }
        last = median(&times);
        series.points.push(Point { x: size as f64, y: last * 1e3 });
        series.cost.push(Point { x: size as f64, y: last });
    }
    let title = format!("{title}, all streams");
    Ok((series, Some(Figure::new(format!("growth-{name}"), title, last, "s", Aim::AtMost(MOST_SECONDS)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duplicate_does_not_replace_a_missing_notification() {
        let deliveries = Deliveries::default();
        let (mut first, mut second) = (0, 0);
        deliveries.begin();
        assert!(deliveries.arrive(&mut first).is_ok() && deliveries.arrive(&mut second).is_ok());
        assert_eq!(deliveries.arrived.load(Ordering::Relaxed), 2);
        deliveries.begin();
        assert!(deliveries.arrive(&mut first).is_ok());
        assert!(deliveries.arrive(&mut first).is_err(), "a duplicate");
        assert_eq!(deliveries.arrived.load(Ordering::Relaxed), 1, "the second stream lacks the notification");
        deliveries.begin();
        assert!(deliveries.arrive(&mut second).is_err(), "a notification is missing");
    }
}
