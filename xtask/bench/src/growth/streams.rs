//! The delivery of one notification to more and more open streams: GET streams of sessions, and `subscriptions/listen` streams.

use std::{
    cell::RefCell,
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
};

use super::{Extent, Grown, Node, beside_bare, series, settle};
use crate::{
    case::{Revision, request},
    error::{Error, within},
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
/// A part of the notification of a resource.
const UPDATED: &str = "resources/updated";

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

/// Makes the request that opens a stream of a server.
type Opening = Box<dyn Fn(&Node) -> Result<Vec<u8>, Error>>;

/// A server with its streams, and the call that causes a notification.
struct Side {
    node: Node,
    streams: Streams,
    connection: Connection,
    cause: Vec<u8>,
    opening: Opening,
}

impl Side {
    async fn new(
        node: Node,
        wanted: &'static str,
        opening: impl Fn(&Node) -> Result<Vec<u8>, Error> + 'static,
    ) -> Result<Self, Error> {
        let connection = within(GRACE, "a connection", Connection::open(node.address)).await?;
        let params = json!({ "name": "notify", "arguments": {} });
        let cause = request(Revision::Stateless, &node.host, None, "tools/call", Some("notify"), params);
        Ok(Self { node, streams: Streams::new(wanted), connection, cause, opening: Box::new(opening) })
    }

    /// Opens streams until the server has `size` of them.
    async fn grow(&mut self, size: usize) -> Result<(), Error> {
        while self.streams.count < size {
            let opening = (self.opening)(&self.node)?;
            within(GRACE, "a new stream", self.streams.open(&self.node, &opening)).await?;
        }
        Ok(())
    }

    /// Delivers a notification to `size` streams several times. Returns the seconds of each. The first delivery does not count.
    async fn measure(&mut self, size: usize, rounds: usize) -> Result<Vec<f64>, Error> {
        self.grow(size).await?;
        settle().await;
        let mut times = Vec::new();
        for number in 0..=rounds {
            let delivering = self.streams.deliver(&mut self.connection, &self.cause);
            let time = within(GRACE, "the notifications", delivering).await?;
            times.extend((number > 0).then_some(time));
        }
        Ok(times)
    }

    /// Measures this server while the process of another one is stopped. Then it closes its streams, because a process can have fewer
    /// open files than both servers have streams.
    async fn measure_beside(&mut self, other: &Self, size: usize, rounds: usize) -> Result<Vec<f64>, Error> {
        let times = {
            let _paused = other.node.pause()?;
            self.measure(size, rounds).await?
        };
        self.streams = Streams::new(self.streams.wanted);
        settle().await;
        Ok(times)
    }
}

/// The blocks of rounds of two servers at the size of a number: the server, and its rounds.
///
/// One server has the outer blocks, and the other one has the inner blocks. Each second size exchanges both. All blocks have the same
/// number of rounds, so the median of both servers is that of the same moment if the machine becomes slower or faster.
fn blocks(number: usize, rounds: usize) -> [(usize, usize); 4] {
    let (outer, inner) = (number % 2, (number + 1) % 2);
    [outer, inner, inner, outer].map(|server| (server, rounds.div_ceil(2)))
}

/// Measures two servers in [`blocks`]. Returns the median of the seconds of each.
async fn in_blocks(sides: [&mut Side; 2], number: usize, size: usize, rounds: usize) -> Result<[f64; 2], Error> {
    let mut times = [Vec::new(), Vec::new()];
    let [ours, bare] = sides;
    for (server, rounds) in blocks(number, rounds) {
        let (side, other) = if server == 0 { (&mut *ours, &*bare) } else { (&mut *bare, &*ours) };
        times[server].extend(side.measure_beside(other, size, rounds).await?);
    }
    Ok(times.map(|times| median(&times)))
}

/// GET streams of sessions, and a change of the list of tools.
pub(super) async fn streams(extent: Extent) -> Result<Grown, Error> {
    let node = Node::start(extent, 0).await?;
    let client = RefCell::new(Client::open(node.address)?);
    let opening = move |node: &Node| {
        let session = client.borrow_mut().sessions(&node.host, 1)?.pop().unwrap_or_default();
        let host = &node.host;
        let head =
            format!("GET /mcp HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\nMcp-Session-Id: {session}\r\n");
        Ok((head + "\r\n").into_bytes())
    };
    let ours = Side::new(node, "tools/list_changed", opening).await?;
    delivered(extent, "streams", "notification of all GET streams", ours, None).await
}

/// `subscriptions/listen` streams, and a change of one resource, in turns with a bare server. The cost of both grows if their
/// streams exceed the caches of the processor.
pub(super) async fn subscriptions(extent: Extent) -> Result<Grown, Error> {
    let opening = |node: &Node| {
        let params = json!({ "notifications": { "resourceSubscriptions": [STATE] } });
        Ok(request(Revision::Stateless, &node.host, None, "subscriptions/listen", None, params))
    };
    let ours = Side::new(Node::start(extent, 0).await?, UPDATED, opening).await?;
    let bare = Side::new(Node::bare_streams(extent).await?, UPDATED, opening).await?;
    delivered(extent, "subscriptions", "notification of all subscriptions", ours, Some(bare)).await
}

/// Measures the delivery to more and more streams.
async fn delivered(
    extent: Extent,
    name: &str,
    title: &str,
    mut ours: Side,
    mut bare: Option<Side>,
) -> Result<Grown, Error> {
    let (mut series, rounds) = (series(name, title, "ms"), extent.rounds);
    let mut bare_cost = Vec::new();
    let mut last = f64::NAN;
    for (number, size) in extent.sizes(1, 10_000).into_iter().enumerate() {
        let point = |y| Point { x: size as f64, y };
        last = match &mut bare {
            None => median(&ours.measure(size, rounds).await?),
            Some(bare) => {
                let [time, bare_time] = in_blocks([&mut ours, bare], number, size, rounds).await?;
                bare_cost.push(point(bare_time));
                time
            }
        };
        series.points.push(point(last * 1e3));
        series.cost.push(point(last));
    }
    if bare.is_some() {
        let points = bare_cost.iter().map(|point| Point { x: point.x, y: point.y * 1e3 }).collect();
        series.beside = Some(beside_bare(points, bare_cost));
    }
    let title = format!("{title}, all streams");
    let figure = Figure::new(format!("growth-{name}"), title, last, "s", Aim::AtMost(MOST_SECONDS));
    Ok((series, vec![figure]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_servers_have_the_same_rounds_around_the_middle_of_a_size() {
        for number in 0..3 {
            for rounds in [2, 5, 6] {
                let blocks = blocks(number, rounds);
                let order = blocks.map(|(server, _)| server);
                assert_eq!(order, if number % 2 == 0 { [0, 1, 1, 0] } else { [1, 0, 0, 1] });
                // A machine that becomes slower with each round.
                let times = blocks.iter().flat_map(|(server, rounds)| std::iter::repeat_n(*server, *rounds));
                let mut of_servers = [Vec::new(), Vec::new()];
                times.enumerate().for_each(|(time, server)| of_servers[server].push(time as f64));
                assert!(of_servers[0].len() >= rounds, "{number} {rounds}");
                assert_eq!(median(&of_servers[0]), median(&of_servers[1]), "{number} {rounds}");
            }
        }
    }

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
