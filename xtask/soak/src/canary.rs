//! The canary: undisturbed echoes in a thread of its own, each with a time limit.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Error, anyhow};
use check_kit::usage::{longest_wait, own_wait, processor_waits};
use mcp_client::{Client, protocol::ProtocolVersion};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    machine::Delays,
    tally::{Check, Tally},
};

/// The time in which an echo returns. A run that is shorter than [`SHORT`] allows more time, because it runs beside other work.
const PROMISED: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];
const SHORT: Duration = Duration::from_secs(120);
const LIMIT: Duration = Duration::from_secs(10);
const INTERVAL: Duration = Duration::from_millis(100);

/// A server that the canary calls.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) url: String,
    /// The process of the server.
    pub(crate) pid: u32,
    /// The part of the names of tools before `echo`.
    pub(crate) prefix: String,
    pub(crate) version: ProtocolVersion,
}

/// The slowest echoes of the canary, and the delays that other work of the machine causes. All times are in microseconds.
#[derive(Default)]
pub(crate) struct Times {
    slowest: AtomicU64,
    /// The slowest echo of bytes in the runtime of a server.
    control: AtomicU64,
    /// The largest delay of a sleeping thread during an echo.
    delayed: AtomicU64,
    /// The longest wait of the threads of one echo for a processor.
    waited: AtomicU64,
    /// The slow echoes.
    slow: AtomicU64,
    /// The slow echoes that one of the two delays explains, and those that the sleeping thread alone explains.
    excused: [AtomicU64; 2],
    /// The slow echoes that took too long also in comparison to an echo of bytes.
    slower: AtomicU64,
}

impl Times {
    /// The lines of the report.
    pub(crate) fn lines(&self) -> [String; 2] {
        let milliseconds = |value: &AtomicU64| value.load(Relaxed) as f64 / 1e3;
        let [slowest, control] = [&self.slowest, &self.control].map(milliseconds);
        let [delayed, waited] = [&self.delayed, &self.waited].map(milliseconds);
        let [excused, by_sleep] = &self.excused;
        let [slow, excused, by_sleep, slower] =
            [&self.slow, excused, by_sleep, &self.slower].map(|value| value.load(Relaxed));
        [
            format!(
                "slowest {slowest:.0} ms; slowest echo of bytes in the same runtimes {control:.0} ms; {slow} slow echoes, {slower} \
                 also in comparison to an echo of bytes"
            ),
            format!(
                "other work of the machine explains {excused} of them (a sleeping thread was up to {delayed:.0} ms late: {by_sleep}; \
                 the threads of an echo waited up to {waited:.0} ms for a processor)"
            ),
        ]
    }

    /// The time of the slowest echo, in milliseconds.
    pub(crate) fn slowest(&self) -> f64 {
        self.slowest.load(Relaxed) as f64 / 1e3
    }
}

/// A running canary.
pub(crate) struct Canary {
    pub(crate) times: Arc<Times>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), Error>>,
}

impl Canary {
    /// Starts the thread in a run of this time.
    pub(crate) fn start(tally: Arc<Tally>, targets: Vec<Target>, time: Duration) -> Self {
        let [long, short] = PROMISED;
        let promised = if time < SHORT { short } else { long };
        let (times, stop) = (Arc::<Times>::default(), Arc::<AtomicBool>::default());
        let (shared, stopped) = (times.clone(), stop.clone());
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let delays = Delays::measure();
            runtime.block_on(async {
                let mut tasks = JoinSet::new();
                for target in targets {
                    let shared = (tally.clone(), shared.clone(), delays.clone(), stopped.clone());
                    tasks.spawn(sing(target, promised, shared));
                }
                while let Some(ended) = tasks.join_next().await {
                    ended??;
                }
                Ok(())
            })
        });
        Self { times, stop, thread }
    }

    /// Ends the echoes.
    pub(crate) fn end(self) -> Result<(), Error> {
        self.stop.store(true, Relaxed);
        self.thread.join().map_err(|_| anyhow!("the thread of the canary has panicked"))?
    }
}

/// Calls one target in each interval.
async fn sing(
    target: Target,
    promised: Duration,
    (tally, times, delays, stopped): (Arc<Tally>, Arc<Times>, Delays, Arc<AtomicBool>),
) -> Result<(), Error> {
    let client = Client::builder("soak-canary", "0").versions([target.version]).connect(target.url.as_str()).await?;
    let port: u16 = client.call_tool(format!("{}control", target.prefix), ()).await?.text().parse()?;
    let mut control = TcpStream::connect(("127.0.0.1", port)).await?;
    control.set_nodelay(true)?;
    let (tool, of) = (format!("{}echo", target.prefix), format!("{} {}", target.name, target.version));
    for number in 0_u64.. {
        if stopped.load(Relaxed) {
            break;
        }
        let before = (processor_waits(target.pid), own_wait());
        let (text, start) = (number.to_string(), Instant::now());
        let call = async {
            let call = timeout(LIMIT, client.call_tool(&tool, json!({ "text": text }))).await;
            (call, start.elapsed())
        };
        let ((call, time), control) = tokio::join!(call, timeout(LIMIT, echo_bytes(&mut control, number)));
        let control = control.map_err(|_| anyhow!("{of}: no echo of bytes within {LIMIT:?}"))??;
        let delay = delays.since(start);
        let wait = longest_wait(&before.0, &processor_waits(target.pid)) + own_wait().saturating_sub(before.1);
        for (largest, value) in
            [(&times.slowest, time), (&times.control, control), (&times.delayed, delay), (&times.waited, wait)]
        {
            largest.fetch_max(micros(value), Relaxed);
        }
        let is_slow = time > promised;
        times.slow.fetch_add(u64::from(is_slow), Relaxed);
        times.slower.fetch_add(u64::from(time > promised + control), Relaxed);
        match call {
            Err(_) => tally.fault(Check::Canary, format!("{of}: no answer within {LIMIT:?}")),
            Ok(Err(error)) => tally.fault(Check::Canary, format!("{of}: {error}")),
            Ok(Ok(result)) if result.text() != text => tally.fault(Check::Canary, format!("{of}: a foreign answer")),
            Ok(Ok(_)) if time > promised + delay.max(wait) => {
                let machine = format!("a sleeping thread was {delay:.0?} late, and the threads waited {wait:.0?}");
                let control = format!("an echo of bytes in the same runtime took {control:.0?}");
                tally.fault(Check::Canary, format!("{of}: {time:.0?}, while {machine}; {control}"));
            }
            Ok(Ok(_)) => {
                let [excused, by_sleep] = &times.excused;
                excused.fetch_add(u64::from(is_slow), Relaxed);
                by_sleep.fetch_add(u64::from(is_slow && time <= promised + delay), Relaxed);
                tally.add(Check::Canary, 1);
            }
        }
        sleep(INTERVAL).await;
    }
    client.close().await;
    Ok(())
}

/// Sends bytes to the control, and waits for their echo. Returns the time.
async fn echo_bytes(control: &mut TcpStream, number: u64) -> Result<Duration, Error> {
    let (start, mut echo) = (Instant::now(), [0; 8]);
    control.write_all(&number.to_be_bytes()).await?;
    control.read_exact(&mut echo).await?;
    Ok(start.elapsed())
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
