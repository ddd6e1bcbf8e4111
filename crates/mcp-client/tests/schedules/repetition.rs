//! Two runs of a seed have the same steps, also while connections are cut.

use mcp_schedule::trace;
use mcp_test::schedule::Schedule;

use crate::{ERAS, calls::calls, subscriptions::subscriptions, tasks::tasks};

const SEEDS: u64 = 8;

fn repeats(name: &str, scenario: impl AsyncFn(Schedule)) {
    for seed in 0..SEEDS {
        let (first, second) = (trace(seed, &scenario), trace(seed, &scenario));
        let at = first.iter().zip(&second).take_while(|(first, second)| first == second).count();
        let around = |steps: &[String]| steps[at.saturating_sub(8)..steps.len().min(at + 3)].to_vec();
        assert!(
            first == second,
            "{name}, seed {seed}: the step {at} differs: {:#?} and {:#?}",
            around(&first),
            around(&second)
        );
        assert!(first.iter().any(|step| step.ends_with(": cut")), "{name}, seed {seed}: no cut");
    }
}

#[test]
fn a_seed_repeats_its_calls() {
    for version in ERAS {
        repeats("calls", async |schedule: Schedule| calls(schedule, version, 2).await);
    }
}

#[test]
fn a_seed_repeats_its_subscriptions() {
    for version in ERAS {
        repeats("subscriptions", async |schedule: Schedule| subscriptions(schedule, version, 2).await);
    }
}

#[test]
fn a_seed_repeats_its_tasks() {
    for version in ERAS {
        repeats("tasks", async |schedule: Schedule| tasks(schedule, version, 2).await);
    }
}
