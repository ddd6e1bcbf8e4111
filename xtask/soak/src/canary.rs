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
use mcp_client::{Client, protocol::ProtocolVersion};
use serde_json::json;
use tokio::{
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
    pub(crate) tool: String,
    pub(crate) version: ProtocolVersion,
}

/// The slowest echoes of the canary.
#[derive(Default)]
pub(crate) struct Times {
    /// In microseconds.
    slowest: AtomicU64,
    /// The largest delay of the machine during an echo, in microseconds.
    delayed: AtomicU64,
    /// The slow echoes that the delay of the machine explains.
    excused: AtomicU64,
}

impl Times {
    /// The line of the report.
    pub(crate) fn line(&self) -> String {
        let milliseconds = |value: &AtomicU64| value.load(Relaxed) as f64 / 1e3;
        format!(
            "slowest {:.0} ms; largest delay of the machine {:.0} ms, which explains {} slow echoes",
            milliseconds(&self.slowest),
            milliseconds(&self.delayed),
            self.excused.load(Relaxed),
        )
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
    for number in 0_u64.. {
        if stopped.load(Relaxed) {
            break;
        }
        let (text, start) = (number.to_string(), Instant::now());
        let call = timeout(LIMIT, client.call_tool(&target.tool, json!({ "text": text }))).await;
        let (time, delay) = (start.elapsed(), delays.since(start));
        times.slowest.fetch_max(micros(time), Relaxed);
        times.delayed.fetch_max(micros(delay), Relaxed);
        let of = format!("{} {}", target.name, target.version);
        match call {
            Err(_) => tally.fault(Check::Canary, format!("{of}: no answer within {LIMIT:?}")),
            Ok(Err(error)) => tally.fault(Check::Canary, format!("{of}: {error}")),
            Ok(Ok(result)) if result.text() != text => tally.fault(Check::Canary, format!("{of}: a foreign answer")),
            Ok(Ok(_)) if time > promised + delay => {
                tally.fault(Check::Canary, format!("{of}: {time:.0?}, while the machine was {delay:.0?} late"));
            }
            Ok(Ok(_)) => {
                if time > promised {
                    times.excused.fetch_add(1, Relaxed);
                }
                tally.add(Check::Canary, 1);
            }
        }
        sleep(INTERVAL).await;
    }
    client.close().await;
    Ok(())
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
