//! Random schedules: a scenario runs once for each seed, with another order of its futures and messages.
//!
//! [`explore`] runs a scenario in a runtime with one thread and a paused clock. The scenario passes its futures to
//! [`Schedule::run_all`], which polls them in a random order. It connects its client through [`Schedule::connector`], which
//! delays messages and cuts connections. All choices come from the seed.
//!
//! Tasks that the code under test spawns run in the order in which they are woken. The pauses of the futures and of the
//! transport change this order. A seed repeats its run exactly, also with cut connections. The crates of this workspace make no choice
//! by the order of a `HashMap`, by the clock of the system or by an unbiased `select!`. The code of a scenario must not either.
//!
//! | variable | meaning |
//! |---|---|
//! | `MCP_SCHEDULE_SEEDS` | the number of seeds, in place of the number in the test: at least 1 |
//! | `MCP_SCHEDULE_SEED` | the only seed, to repeat a failure |
//!
//! ```
//! use mcp_schedule::{Schedule, explore};
//! use tokio::sync::mpsc;
//!
//! explore(8, async |schedule: Schedule| {
//!     let (sender, mut receiver) = mpsc::channel(1);
//!     let senders = (0..3).map(|number| {
//!         let (schedule, sender) = (schedule.clone(), sender.clone());
//!         async move {
//!             schedule.pause().await;
//!             sender.send(number).await.unwrap();
//!         }
//!     });
//!     let received = async move {
//!         let mut all = vec![receiver.recv().await, receiver.recv().await, receiver.recv().await];
//!         all.sort();
//!         assert_eq!(all, [Some(0), Some(1), Some(2)]);
//!     };
//!     let futures = senders.map(|sender| Box::pin(sender) as _).chain([Box::pin(received) as _]);
//!     schedule.run_all(futures).await;
//! });
//! ```

mod connection;
mod futures;
#[cfg(feature = "models")]
#[doc(hidden)]
pub mod model;
mod store;

use std::{
    any::Any,
    env,
    ops::RangeInclusive,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use mcp_store::Store;
use mcp_transport::{BoxFuture, Connect, random};
use parking_lot::Mutex;
use tokio::{
    runtime::Builder,
    task::yield_now,
    time::{Instant, sleep, timeout},
};

use self::futures::RunAll;

pub use self::connection::Connections;

/// The variable with the number of seeds.
const SEEDS: &str = "MCP_SCHEDULE_SEEDS";
/// The variable with the only seed.
const SEED: &str = "MCP_SCHEDULE_SEED";

/// The greatest time of a scenario on its clock.
const TIME: Duration = Duration::from_secs(24 * 3600);
/// The greatest number of choices of a scenario. A scenario with more of them repeats itself without end.
const CHOICES: u64 = 5_000_000;

/// Runs a scenario once for each of these seeds, from 0.
///
/// # Panics
/// If a run of the scenario panics, or does not end within a day of its clock. The message has the seed. Also if there is no seed, or
/// if a variable is not a whole number.
pub fn explore(seeds: u64, scenario: impl AsyncFn(Schedule)) {
    let variable = |name| env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    for seed in selected(seeds, variable) {
        let run = catch_unwind(AssertUnwindSafe(|| run(&Schedule::new(seed), &scenario)));
        let problem = match run {
            Ok(Ok(())) => continue,
            Ok(Err(problem)) => problem,
            Err(panic) => text(&*panic).to_owned(),
        };
        panic!("{problem}\nthe schedule has the seed {seed}; {SEED}={seed} repeats it");
    }
}

/// Returns the seeds that the variables select.
fn selected(seeds: u64, variable: impl Fn(&'static str) -> Option<String>) -> RangeInclusive<u64> {
    let number = |name| {
        let value = variable(name)?;
        let number = value.parse::<u64>();
        Some(number.unwrap_or_else(|_| panic!("{name} has the value {value:?}, which is not a whole number")))
    };
    let (only, count) = (number(SEED), number(SEEDS));
    if let Some(seed) = only {
        return seed..=seed;
    }
    let last = count.unwrap_or(seeds).checked_sub(1);
    0..=last.unwrap_or_else(|| panic!("a test needs at least one seed, and {SEEDS} or the test has the number 0"))
}

/// Runs a scenario with one seed, and returns the steps of the run: its choices, and the messages and cuts of its connections.
///
/// # Panics
/// If the scenario panics, or does not end within a day of its clock.
#[doc(hidden)]
pub fn trace(seed: u64, scenario: impl AsyncFn(Schedule)) -> Vec<String> {
    let schedule = Schedule::with_trace(seed, Some(Mutex::default()));
    if let Err(problem) = run(&schedule, &scenario) {
        panic!("{problem}");
    }
    schedule.shared.trace.as_ref().map(|trace| std::mem::take(&mut *trace.lock())).unwrap_or_default()
}

/// Runs a scenario once.
fn run(schedule: &Schedule, scenario: &impl AsyncFn(Schedule)) -> Result<(), String> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let _seeded = random::seed(schedule.seed());
    let ended = runtime.block_on(async {
        *schedule.shared.start.lock() = Some(Instant::now());
        timeout(TIME, scenario(schedule.clone())).await
    });
    ended.map_err(|_| format!("the scenario has not ended after {} hours of its clock", TIME.as_secs() / 3600))
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("the scenario has panicked")
}

/// The choices of one run. Clones share them.
///
/// ```
/// use mcp_schedule::Schedule;
///
/// let (schedule, same) = (Schedule::new(7), Schedule::new(7));
/// let choices: Vec<usize> = (0..4).map(|_| schedule.below(10)).collect();
/// assert!(choices.iter().all(|choice| *choice < 10));
/// assert_eq!(choices, (0..4).map(|_| same.below(10)).collect::<Vec<_>>());
/// assert_eq!(schedule.seed(), 7);
/// ```
#[derive(Debug, Clone)]
pub struct Schedule {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    seed: u64,
    random: Mutex<Random>,
    start: Mutex<Option<Instant>>,
    /// The steps of the run, if it records them.
    trace: Option<Mutex<Vec<String>>>,
}

#[derive(Debug)]
struct Random {
    state: u64,
    choices: u64,
}

impl Schedule {
    /// Returns the choices of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::with_trace(seed, None)
    }

    fn with_trace(seed: u64, trace: Option<Mutex<Vec<String>>>) -> Self {
        let random = Mutex::new(Random { state: seed, choices: 0 });
        Self { shared: Arc::new(Shared { seed, random, start: Mutex::default(), trace }) }
    }

    /// Adds a step to the trace, if the run records its steps.
    fn record(&self, step: impl FnOnce() -> String) {
        if let Some(trace) = &self.shared.trace {
            let elapsed = self.shared.start.lock().map(|start| start.elapsed()).unwrap_or_default();
            trace.lock().push(format!("{} ms: {}", elapsed.as_millis(), step()));
        }
    }

    /// Returns the seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.shared.seed
    }

    /// Returns a random number below the bound; 0 if the bound is 0.
    ///
    /// # Panics
    /// After five million choices, because the scenario has no end then.
    #[must_use]
    pub fn below(&self, bound: usize) -> usize {
        let mut random = self.shared.random.lock();
        random.choices += 1;
        assert!(random.choices <= CHOICES, "the scenario has not ended after {CHOICES} choices");
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        let choice = usize::try_from(random::step(&mut random.state) % bound).unwrap_or_default();
        drop(random);
        self.record(|| format!("choice {choice} of {bound}"));
        choice
    }

    /// Returns true in this percentage of the calls.
    #[must_use]
    pub fn chance(&self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Waits for a random number of turns of other tasks, or for up to three milliseconds of the clock. Many pauses are empty.
    pub async fn pause(&self) {
        match self.below(8) {
            0..3 => {}
            3..7 => {
                for _ in 0..=self.below(6) {
                    yield_now().await;
                }
            }
            _ => sleep(Duration::from_millis(self.below(4) as u64)).await,
        }
    }

    /// Runs a future, and drops it after a random number of pauses. Returns its output, if it has ended before.
    ///
    /// ```
    /// # mcp_schedule::explore(4, async |schedule| {
    /// assert_eq!(schedule.run_or_drop(std::future::ready(7)).await, Some(7));
    /// assert_eq!(schedule.run_or_drop(std::future::pending::<()>()).await, None);
    /// # });
    /// ```
    pub async fn run_or_drop<F: Future>(&self, future: F) -> Option<F::Output> {
        let pauses = async {
            for _ in 0..self.below(12) {
                self.pause().await;
            }
        };
        tokio::select! {
            biased;
            output = future => Some(output),
            () = pauses => None,
        }
    }

    /// Runs futures until all of them have ended. It polls those that are ready in a random order, and returns their outputs in the
    /// order of the futures.
    pub async fn run_all<'f, T>(&self, futures: impl IntoIterator<Item = BoxFuture<'f, T>>) -> Vec<T> {
        RunAll::new(self.clone(), futures).await
    }

    /// Returns a store in memory. Its operations pause, and fail as unavailable in this percentage of the calls. Half of the failed
    /// operations have their effect.
    ///
    /// ```
    /// # use mcp_store::KeyValue;
    /// # mcp_schedule::explore(4, async |schedule| {
    /// let store = schedule.store(50);
    /// while store.put("a", b"1".as_slice().into(), None).await.is_err() {}
    /// # });
    /// ```
    pub fn store(&self, failures: usize) -> impl Store + 'static {
        store::store(self.clone(), failures)
    }

    /// Returns a connector with random delays of all messages, and the handle that cuts its connections.
    pub fn connector<C: Connect>(&self, connector: C) -> (impl Connect, Connections) {
        connection::connector(self.clone(), connector)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// The order in which three futures pass their pauses.
    async fn order(schedule: Schedule) -> Vec<usize> {
        let passed = Mutex::new(Vec::new());
        let futures = (0..3).map(|number| {
            let (schedule, passed) = (&schedule, &passed);
            Box::pin(async move {
                for _ in 0..4 {
                    schedule.pause().await;
                    passed.lock().push(number);
                }
            }) as BoxFuture<'_, ()>
        });
        schedule.run_all(futures).await;
        passed.into_inner()
    }

    #[test]
    fn a_seed_repeats_its_order_and_seeds_differ() {
        let orders = RefCell::new(Vec::new());
        for _ in 0..2 {
            for seed in 0..16 {
                run(&Schedule::new(seed), &async |schedule: Schedule| {
                    let found = order(schedule).await;
                    orders.borrow_mut().push(found);
                })
                .unwrap();
            }
        }
        let orders = orders.into_inner();
        assert_eq!(orders[..16], orders[16..]);
        let different: std::collections::BTreeSet<_> = orders[..16].iter().collect();
        assert!(different.len() > 12, "{different:?}");
    }

    #[test]
    fn a_trace_has_the_choices_with_their_times() {
        let of_seed = |seed| {
            trace(seed, async |schedule: Schedule| {
                let _ = (schedule.below(1), schedule.pause().await);
                sleep(Duration::from_millis(5)).await;
                let _ = schedule.below(1);
            })
        };
        let steps = of_seed(3);
        assert_eq!(steps, of_seed(3));
        assert_eq!(steps[0], "0 ms: choice 0 of 1");
        assert!(steps.len() > 2 && steps[steps.len() - 1] != steps[0], "{steps:?}");
    }

    #[test]
    fn the_variables_select_the_seeds() {
        let last = u64::MAX.to_string();
        for (variables, expected) in [
            (&[][..], 0..=1),
            (&[(SEED, "7")], 7..=7),
            (&[(SEEDS, "3")], 0..=2),
            (&[(SEED, "7"), (SEEDS, "3")], 7..=7),
            (&[(SEED, last.as_str())], u64::MAX..=u64::MAX),
        ] {
            let variable = |asked: &str| {
                let found = variables.iter().find(|(name, _)| *name == asked);
                found.map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(selected(2, variable), expected, "{variables:?}");
        }
    }

    #[test]
    fn an_invalid_variable_or_the_number_zero_panics() {
        for (seeds, name, value, expected) in [
            (2, SEED, "x", "MCP_SCHEDULE_SEED has the value \"x\", which is not a whole number"),
            (2, SEED, "", "MCP_SCHEDULE_SEED has the value \"\""),
            (2, SEEDS, "-1", "MCP_SCHEDULE_SEEDS has the value \"-1\""),
            (2, SEEDS, "0", "at least one seed"),
            (0, "", "", "at least one seed"),
        ] {
            let variable = |asked: &str| (asked == name).then(|| value.to_owned());
            let panic = catch_unwind(AssertUnwindSafe(|| selected(seeds, variable))).unwrap_err();
            assert!(text(&*panic).contains(expected), "{name}={value}: {}", text(&*panic));
        }
    }

    #[test]
    fn a_failure_names_its_seed() {
        let panics: fn(u64) = |seed| assert!(seed != 3, "the number is {seed}");
        for (problem, fails) in [("the number is 3", panics), ("not ended", |_| ())] {
            let seeds = Cell::new(0);
            let scenario = async |schedule: Schedule| {
                seeds.set(seeds.get() + 1);
                fails(schedule.seed());
                if schedule.seed() == 3 {
                    std::future::pending::<()>().await;
                }
            };
            let panic = catch_unwind(AssertUnwindSafe(|| explore(8, scenario))).unwrap_err();
            let text = text(&*panic);
            assert!(text.contains(problem) && text.contains("MCP_SCHEDULE_SEED=3 repeats it"), "{text}");
            assert_eq!(seeds.get(), 4);
        }
    }
}
