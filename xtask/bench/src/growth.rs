//! `bench growth`: how the cost of a server grows with its tools, sessions, streams, subscriptions, tasks, connections and payload.

mod streams;
mod tasks;

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use lexopt::{Arg, Parser, ValueExt as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    case::{Call, Revision, request},
    choices::{self, SERIES},
    cpu::{self, Paused},
    error::{Error, within},
    figure::{self, Aim, Curve, Doubt, Figure, Point, Series},
    http::{self, Connection, Lengths, Target},
    load::GRACE,
    memory::Client,
    peer::{Peer, Start},
    report::{doubts_of, is_disturbed, median},
    work::{self, Reading},
};

/// Whether the late work of a server did not end before its turn, in the series of this time.
static IS_LATE: AtomicBool = AtomicBool::new(false);
/// The connections of the echo beside tools and sessions.
const CONNECTIONS: usize = 8;
/// The largest accepted exponent of a cost of all things above 1, which is linear. It is the noise of a measurement.
const MOST_EXCESS: f64 = 0.15;
const MOST_EXPONENT: f64 = 1.0 + MOST_EXCESS;
/// The largest accepted exponent of the cost of one call beside idle things. 0 is constant.
const MOST_IDLE_EXPONENT: f64 = 0.3;
/// The series whose cost is one call beside idle things.
const IDLE: [&str; 3] = ["tools", "sessions", "tasks"];
/// The smallest accepted rate of calls at the largest size, by the rate at the smallest size.
const LEAST_RATE: f64 = 0.95;

/// The extent of a measurement.
#[derive(Debug, Clone, Copy)]
struct Extent {
    rounds: usize,
    round: Duration,
    /// The largest sizes are divided by this number.
    divisor: usize,
    core: Option<usize>,
}

impl Extent {
    /// The sizes from 1 (or `first`) to `last`, each ten times the size before.
    fn sizes(self, first: usize, last: usize) -> Vec<usize> {
        let last = (last / self.divisor).max(first);
        std::iter::successors(Some(first), |size| Some(size * 10)).take_while(|size| *size <= last).collect()
    }
}

/// Measures the series, and prints each.
pub(crate) fn run(args: &[String]) -> Result<Vec<Figure>, Error> {
    let (mut names, mut path) = (Vec::new(), None);
    let mut extent = Extent { rounds: 5, round: Duration::from_secs(1), divisor: 1, core: None };
    let mut parser = Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("quick") => {
                extent = Extent { rounds: 2, round: Duration::from_millis(200), divisor: 10, ..extent };
            }
            Arg::Long("series") => path = Some(PathBuf::from(parser.value()?)),
            Arg::Value(name) => {
                let name = name.string()?;
                choices::check(&name, "series", &SERIES).map_err(Error::new)?;
                choices::check_once(&name, "series", &names).map_err(Error::new)?;
                names.push(name);
            }
            _ => return Err(arg.unexpected().into()),
        }
    }
    cpu::raise_files();
    if let Some((server, generator)) = cpu::pair() {
        cpu::pin(generator)?;
        extent.core = Some(server);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut all, mut figures) = (Vec::new(), Vec::new());
    for name in SERIES.into_iter().filter(|name| names.is_empty() || names.iter().any(|wanted| wanted == name)) {
        eprintln!("growth: {name}");
        let start = Reading::now();
        let measured = runtime.block_on(async {
            match name {
                "tools" => tools(extent).await,
                "sessions" => sessions(extent).await,
                "streams" => streams::streams(extent).await,
                "subscriptions" => streams::subscriptions(extent).await,
                "tasks" => tasks::tasks(extent).await,
                "connections" => connections(extent).await,
                _ => payload(extent).await,
            }
        });
        let (series, measured) = measured.map_err(|error| error.when(name))?;
        print(&series);
        let is_disturbed = work::others_since(start).is_some_and(|cores| is_disturbed(&[cores]));
        let is_late = IS_LATE.swap(false, Ordering::Relaxed);
        for mut figure in measured.into_iter().chain(exponents(&series, most_exponent(name))) {
            figure.doubts.extend(doubts_of([(is_disturbed, Doubt::Disturbed), (is_late, Doubt::Late)]));
            figures.push(figure);
        }
        all.push(series);
    }
    println!();
    for figure in &figures {
        println!("{figure}");
    }
    if let Some(path) = path {
        figure::write(&path, &all)?;
    }
    Ok(figures)
}

fn print(series: &Series) {
    let beside = series.beside.as_ref();
    println!("\n{:>12}  {:>14}  {:>14}", series.axis, series.unit, beside.map_or("", |curve| &curve.name));
    for (number, point) in series.points.iter().enumerate() {
        let other = beside.and_then(|curve| curve.points.get(number)).map(|point| figure::number(point.y));
        println!("{:>12}  {:>14}  {:>14}", point.x, figure::number(point.y), other.unwrap_or_default());
    }
}

/// The bound of the exponent of a series.
fn most_exponent(name: &str) -> f64 {
    if IDLE.contains(&name) { MOST_IDLE_EXPONENT } else { MOST_EXPONENT }
}

/// The figures about the steepest step of the cost.
///
/// A bare server beside ours has the steps of the load, the kernel and the caches. Its growth counts as linear then.
fn exponents(series: &Series, most: f64) -> Vec<Figure> {
    let largest = |steps: &[f64]| steps.iter().copied().reduce(f64::max).unwrap_or_default();
    let figure = |kind: &str, of: &str, steps: &[f64], aim| {
        let title = format!("{}, exponent of the cost{of}", series.title);
        Figure::new(format!("{}-{kind}", series.id), title, largest(steps), "", aim)
    };
    let ours = steps(&series.cost);
    let bare = series.beside.as_ref().map(|curve| steps(&curve.cost)).filter(|steps| !steps.is_empty());
    let Some(bare) = bare else { return vec![figure("exponent", "", &ours, Aim::AtMost(most))] };
    let more: Vec<f64> = ours.iter().zip(&bare).map(|(ours, bare)| ours - bare).collect();
    vec![
        figure("bare", " of a bare server", &bare, Aim::None),
        figure("exponent", "", &ours, Aim::None),
        figure("excess", ", largest excess of a step over that of a bare server", &more, Aim::AtMost(MOST_EXCESS)),
    ]
}

/// The exponents of the steps between two sizes: 0 is constant, 1 is linear. The first step counts only if it is the only one, because
/// costs that do not depend on the size hide its growth.
fn steps(cost: &[Point]) -> Vec<f64> {
    let steps = cost.windows(2).map(|step| (step[1].y / step[0].y).log(step[1].x / step[0].x));
    steps.skip(usize::from(cost.len() > 2)).collect()
}

/// The curve of a bare server that was measured in turns with ours.
fn beside_bare(points: Vec<Point>, cost: Vec<Point>) -> Curve {
    Curve { first: "ours".to_owned(), name: "bare".to_owned(), points, cost }
}

fn series(name: &str, title: &str, unit: &str) -> Series {
    Series {
        id: format!("growth-{name}"),
        title: title.to_owned(),
        axis: name.to_owned(),
        unit: unit.to_owned(),
        points: Vec::new(),
        cost: Vec::new(),
        beside: None,
    }
}

/// A server with raised limits. The drop of this value ends it.
struct Node {
    peer: Peer,
    address: SocketAddr,
    host: String,
}

impl Node {
    async fn start(extent: Extent, tools: usize) -> Result<Self, Error> {
        Self::serve(Start { kind: "growth-http", cpu: extent.core, tools, ..Start::default() }).await
    }

    /// A bare axum server in the place of ours.
    async fn bare(extent: Extent) -> Result<Self, Error> {
        Self::serve(Start { kind: "bare-mcp", cpu: extent.core, ..Start::default() }).await
    }

    /// A bare axum server that sends prepared events to its streams.
    async fn bare_streams(extent: Extent) -> Result<Self, Error> {
        Self::serve(Start { kind: "bare-streams", cpu: extent.core, ..Start::default() }).await
    }

    async fn serve(start: Start) -> Result<Self, Error> {
        let mut peer = Peer::start(&start)?;
        let address = peer.address().await?;
        Ok(Self { peer, address, host: address.to_string() })
    }

    async fn session(&self) -> Result<String, Error> {
        let opening = http::open_session(self.address, Revision::Session, None);
        let session = within(GRACE, "a new session", opening).await?;
        session.ok_or_else(|| Error::new("the server opened no session"))
    }

    /// The echoes in a second.
    async fn echoes(&self, session: Option<&str>, connections: usize, length: Duration) -> Result<f64, Error> {
        let revision = if session.is_some() { Revision::Session } else { Revision::Stateless };
        let target = Target { address: self.address, call: Call::Echo, revision, session, credential: None };
        let opening = async {
            let (answer, id) = target.once().await?;
            Call::Echo.verify(&answer, id)?;
            let mut open = target.connect(connections).await?;
            target.warm(&mut open).await?;
            Ok::<_, Error>((open, answer.len()))
        };
        let (open, expected) = within(GRACE, "the first echoes", opening).await?;
        let start = Instant::now();
        let driving = target.drive(open, start + length, Lengths::exactly(expected));
        let driven = within(length + GRACE, "echoes", driving).await?;
        Ok(driven.calls() as f64 / (driven.end - start).as_secs_f64())
    }

    /// Stops the process of the server until the drop of the returned value.
    fn pause(&self) -> Result<Paused, Error> {
        Paused::new(self.peer.pid())
    }

    /// The requests in a second: the same request again and again on each connection. The content of the first response must
    /// be right, and each further response must have its length.
    async fn requests(
        &self,
        request: &[u8],
        connections: usize,
        length: Duration,
        is_right: impl Fn(&Value) -> bool,
    ) -> Result<f64, Error> {
        let opening = async {
            let mut open = vec![Connection::open(self.address).await?];
            let (message, expected) = checked(&mut open[0], request).await?;
            if !is_right(&message) {
                return Err(Error::new(format!("a wrong response: {:.300}", message.to_string())));
            }
            while open.len() < connections {
                open.push(Connection::open(self.address).await?);
            }
            Ok((open, expected))
        };
        let (open, expected) = within(GRACE, "the first response", opening).await?;
        let start = Instant::now();
        let mut workers = JoinSet::new();
        for mut connection in open {
            let request = request.to_vec();
            workers.spawn(async move {
                let mut calls = 0;
                while start.elapsed() < length {
                    let answer = connection.call(&request, false).await?;
                    if answer.status() != 200 || answer.length != expected {
                        let text = format!("status {} with {} bytes", answer.status(), answer.length);
                        return Err(Error::new(format!("{text}, not 200 with {expected}")));
                    }
                    calls += 1;
                }
                Ok::<u64, Error>(calls)
            });
        }
        let mut calls = 0;
        let ending = async {
            while let Some(outcome) = workers.join_next().await {
                calls += outcome??;
            }
            Ok::<(), Error>(())
        };
        within(length + GRACE, "responses", ending).await?;
        Ok(calls as f64 / start.elapsed().as_secs_f64())
    }
}

/// Sends a request. Returns the message of the response, and the length of its body.
async fn checked(connection: &mut Connection, request: &[u8]) -> Result<(Value, usize), Error> {
    let answer = connection.call(request, true).await?;
    let message = http::message(&answer.body);
    if answer.status() != 200 {
        return Err(Error::new(format!("status {}: {}", answer.status(), String::from_utf8_lossy(message))));
    }
    Ok((serde_json::from_slice(message)?, answer.length))
}

/// The rates of servers in one round. While a server is measured, the other processes are stopped, since they share its core,
/// and its own late work has ended. Each server has two turns in opposite orders, so that its place in the order has no effect.
async fn alternate(nodes: &[&Node], rate: impl AsyncFn(usize) -> Result<f64, Error>) -> Result<Vec<f64>, Error> {
    let mut rates = vec![0.0; nodes.len()];
    for turn in (0..nodes.len()).chain((0..nodes.len()).rev()) {
        let others = nodes.iter().enumerate().filter(|(number, _)| *number != turn);
        let _paused = others.map(|(_, node)| node.pause()).collect::<Result<Vec<_>, _>>()?;
        settle().await;
        rates[turn] += rate(turn).await? / 2.0;
    }
    Ok(rates)
}

/// Waits until the processes have finished their late work, and notes if it does not end.
async fn settle() {
    if !work::settle().await {
        IS_LATE.store(true, Ordering::Relaxed);
    }
}

/// The rates of echoes of servers in one round. Each server has a session, or none.
async fn alternate_echoes(
    servers: &[(&Node, Option<&str>)],
    connections: usize,
    length: Duration,
) -> Result<Vec<f64>, Error> {
    let nodes: Vec<&Node> = servers.iter().map(|(node, _)| *node).collect();
    let rate = async |turn: usize| nodes[turn].echoes(servers[turn].1, connections, length / 2).await;
    alternate(&nodes, rate).await
}

/// A series, and its figures besides the exponent.
type Grown = (Series, Vec<Figure>);

/// Adds a point of calls in a second, whose cost is the time of a call.
fn add_rate(series: &mut Series, size: usize, rate: f64) {
    series.points.push(Point { x: size as f64, y: rate });
    series.cost.push(Point { x: size as f64, y: 1.0 / rate });
}

/// Stateless echoes of servers with more and more tools, in turns.
async fn tools(extent: Extent) -> Result<Grown, Error> {
    let sizes = extent.sizes(10, 10_000);
    let mut nodes = Vec::new();
    for size in &sizes {
        nodes.push(Node::start(extent, *size).await?);
    }
    let nodes: Vec<(&Node, Option<&str>)> = nodes.iter().map(|node| (node, None)).collect();
    let (mut rates, mut ratios) = (vec![Vec::new(); nodes.len()], Vec::new());
    for number in 0..=extent.rounds {
        let round = alternate_echoes(&nodes, CONNECTIONS, extent.round).await?;
        // The first round warms the servers up.
        if number > 0 {
            ratios.extend(round.last().zip(round.first()).map(|(last, first)| last / first));
            rates.iter_mut().zip(round).for_each(|(rates, rate)| rates.push(rate));
        }
    }
    let mut series = series("tools", "echoes of a server with many tools", "calls/s");
    for (size, rates) in sizes.iter().zip(&rates) {
        add_rate(&mut series, *size, median(rates));
    }
    Ok((series, vec![kept("tools", "echoes with all tools, by those with 10", &ratios)]))
}

fn kept(name: &str, title: &str, ratios: &[f64]) -> Figure {
    Figure::new(format!("growth-{name}"), title, median(ratios), "", Aim::AtLeast(LEAST_RATE))
}

/// Echoes of one session of a server with more and more idle sessions, in turns with a server of one session.
async fn sessions(extent: Extent) -> Result<Grown, Error> {
    let (base, node) = (Node::start(extent, 0).await?, Node::start(extent, 0).await?);
    let (alone, crowded) = (base.session().await?, node.session().await?);
    let pair = [(&base, Some(&*alone)), (&node, Some(&*crowded))];
    let mut client = Client::open(node.address)?;
    let mut series = series("sessions", "echoes beside idle sessions", "calls/s");
    let (mut open, mut ratios, mut beside) = (1, Vec::new(), Vec::new());
    let mut ends: Option<(String, String)> = None;
    for size in extent.sizes(1, 100_000) {
        let opened = client.sessions(&node.host, size - open)?;
        open = size;
        if let (Some(first), Some(last)) = (opened.first(), opened.last()) {
            ends = Some((ends.map_or_else(|| first.clone(), |(first, _)| first), last.clone()));
        }
        let (mut rates, mut base_rates) = (Vec::new(), Vec::new());
        ratios.clear();
        for number in 0..=extent.rounds {
            let round = alternate_echoes(&pair, CONNECTIONS, extent.round).await?;
            if number > 0 {
                base_rates.push(round[0]);
                rates.push(round[1]);
                ratios.push(round[1] / round[0]);
            }
        }
        // A session that the server has lost costs nothing.
        client.check(&node.host, ends.iter().flat_map(|(first, last)| [first, last]))?;
        add_rate(&mut series, size, median(&rates));
        beside.push(Point { x: size as f64, y: median(&base_rates) });
    }
    series.beside = Some(Curve {
        first: "idle sessions".to_owned(),
        name: "one session".to_owned(),
        points: beside,
        cost: Vec::new(),
    });
    Ok((series, vec![kept("sessions", "echoes beside all idle sessions, by those of one session", &ratios)]))
}

/// Stateless echoes over more and more connections at once, in turns with a bare server.
async fn connections(extent: Extent) -> Result<Grown, Error> {
    let (node, bare) = (Node::start(extent, 0).await?, Node::bare(extent).await?);
    let pair = [(&node, None), (&bare, None)];
    let mut series = series("connections", "echoes over many connections", "calls/s");
    let (mut bare_points, mut bare_cost) = (Vec::new(), Vec::new());
    for size in extent.sizes(1, 1_000) {
        let (mut rates, mut bare_rates) = (Vec::new(), Vec::new());
        for number in 0..=extent.rounds {
            let round = alternate_echoes(&pair, size, extent.round).await?;
            if number > 0 {
                rates.push(round[0]);
                bare_rates.push(round[1]);
            }
        }
        let (x, rate, bare_rate) = (size as f64, median(&rates), median(&bare_rates));
        series.points.push(Point { x, y: rate });
        bare_points.push(Point { x, y: bare_rate });
        // The cost of one call of each connection.
        series.cost.push(Point { x, y: x / rate });
        bare_cost.push(Point { x, y: x / bare_rate });
    }
    series.beside = Some(beside_bare(bare_points, bare_cost));
    Ok((series, Vec::new()))
}

/// Results of more and more bytes.
async fn payload(extent: Extent) -> Result<Grown, Error> {
    let node = Node::start(extent, 0).await?;
    let mut series = series("payload", "throughput of large results", "MiB/s");
    series.axis = "bytes".to_owned();
    for power in (10..=22).step_by(2) {
        let size: usize = 1 << power;
        let params = json!({ "name": "big", "arguments": { "n": size } });
        let call = request(Revision::Stateless, &node.host, None, "tools/call", Some("big"), params);
        let is_right =
            |message: &Value| message["result"]["content"][0]["text"].as_str().is_some_and(|text| text.len() == size);
        let mut rates = Vec::new();
        for _ in 0..extent.rounds {
            rates.push(node.requests(&call, 4, extent.round, is_right).await?);
        }
        let rate = median(&rates);
        series.points.push(Point { x: size as f64, y: rate * size as f64 / f64::from(1 << 20) });
        series.cost.push(Point { x: size as f64, y: 1.0 / rate });
    }
    Ok((series, Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_grow_by_ten() {
        let extent = |divisor| Extent { rounds: 1, round: Duration::ZERO, divisor, core: None };
        assert_eq!(extent(1).sizes(10, 10_000), [10, 100, 1_000, 10_000]);
        assert_eq!(extent(10).sizes(1, 1_000), [1, 10, 100]);
        assert_eq!(extent(1_000).sizes(1, 10), [1]);
    }

    #[test]
    fn a_linear_cost_of_a_call_beside_idle_things_misses_its_aim() {
        let sizes = [1.0_f64, 10.0, 100.0, 1_000.0];
        for name in SERIES {
            for (cost, is_met) in [
                (sizes.map(|_| 2e-5), true),
                (sizes.map(|size| size.mul_add(1e-7, 2e-5)), !IDLE.contains(&name)),
                (sizes.map(|size| size * 1e-7), !IDLE.contains(&name)),
                (sizes.map(|size| size * size * 1e-7), false),
            ] {
                let mut series = series(name, "a cost", "calls/s");
                series.cost = sizes.iter().zip(cost).map(|(x, y)| Point { x: *x, y }).collect();
                let figures = exponents(&series, most_exponent(name));
                assert!(matches!(&figures[..], [figure] if figure.is_met() == is_met), "{name} {cost:?}");
            }
        }
    }

    #[test]
    fn a_step_of_a_bare_server_is_not_a_step_of_ours() {
        let cost = |values: [f64; 4]| [1.0, 10.0, 100.0, 1_000.0].into_iter().zip(values);
        let points = |values| cost(values).map(|(x, y)| Point { x, y }).collect::<Vec<_>>();
        let linear = [1.0, 10.0, 100.0, 1_000.0];
        for (ours, bare, is_met) in [
            (linear, linear, true),
            // Both have a step of 1.2, and then one of 0.8.
            ([1.0, 10.0, 158.5, 1_000.0], [1.0, 10.0, 158.5, 1_000.0], true),
            ([1.0, 10.0, 158.5, 1_000.0], linear, false),
            // The step of the bare server is another one.
            ([1.0, 10.0, 100.0, 1_585.0], [1.0, 10.0, 158.5, 1_585.0], false),
            ([1.0, 10.0, 120.0, 1_300.0], linear, true),
        ] {
            let mut series = series("subscriptions", "a cost", "ms");
            series.cost = points(ours);
            series.beside = Some(beside_bare(Vec::new(), points(bare)));
            let figures = exponents(&series, most_exponent("subscriptions"));
            assert_eq!(figures.iter().all(Figure::is_met), is_met, "{ours:?} {bare:?}");
            let aims: Vec<_> = figures.iter().map(|figure| figure.aim == Aim::None).collect();
            assert_eq!(aims, [true, true, false]);
        }
    }

    #[test]
    fn the_steepest_step_has_the_exponent() {
        let points =
            |values: &[(f64, f64)]| -> Vec<Point> { values.iter().map(|(x, y)| Point { x: *x, y: *y }).collect() };
        for (cost, exponent) in [
            (points(&[(1.0, 5.0), (10.0, 50.0)]), 1.0),
            (points(&[(1.0, 1.0), (10.0, 1.0), (100.0, 100.0)]), 2.0),
            (points(&[(1.0, 1.0), (10.0, 100.0), (100.0, 1_000.0)]), 1.0),
            (points(&[(1.0, 1.0), (10.0, 1.0), (100.0, 100.0), (1_000.0, 100.0)]), 2.0),
            (points(&[(1.0, 3.0), (10.0, 3.0)]), 0.0),
            (points(&[(1.0, 3.0)]), 0.0),
        ] {
            let largest = steps(&cost).into_iter().reduce(f64::max).unwrap_or_default();
            assert!((largest - exponent).abs() < 1e-9, "{cost:?}");
        }
    }
}
