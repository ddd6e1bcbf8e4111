//! The commands that serve clients until a signal.

mod auth;
mod directory;
mod gateway;
mod listener;

use crate::{
    args::{Options, Serving},
    failure::Failure,
    signals::Signals,
};

/// The options without an effect on a gateway: its clients answer the questions of servers, and its clients set the level of log records.
const NOT_OF_GATEWAY: [&str; 6] = ["--root", "--sample-with", "--answer", "--yes", "--decline", "--log-level"];
/// The options with an effect on the server of a directory.
const OF_DIRECTORY: [&str; 1] = ["--trace"];

/// Serves until the process receives a signal, or the client of stdio closes its stream. The first signal ends the start, or begins
/// the shutdown. A second signal ends the shutdown at once.
pub(crate) async fn run(command: Serving, options: &Options) -> Result<(), Failure> {
    let signals = Signals::install();
    let second = signals.clone();
    let served = async {
        match command {
            Serving::Serve { directory, listen } => {
                check_options("serve", options, |name| OF_DIRECTORY.contains(&name))?;
                directory::serve(&directory, &listen, options, signals).await
            }
            Serving::Gateway(gateway) => {
                check_options("gateway", options, |name| !NOT_OF_GATEWAY.contains(&name))?;
                gateway::serve(&gateway, options, signals).await
            }
        }
    };
    until_second_signal(served, second).await
}

/// Runs work that shuts down after a signal. A second signal drops it.
async fn until_second_signal(
    work: impl Future<Output = Result<(), Failure>>,
    mut signals: Signals,
) -> Result<(), Failure> {
    let second = async {
        signals.next().await;
        signals.next_again().await
    };
    tokio::select! {
        done = work => done,
        code = second => Err(Failure::interrupted(code)),
    }
}

/// Rejects options without an effect.
fn check_options(command: &str, options: &Options, has_effect: impl Fn(&str) -> bool) -> Result<(), Failure> {
    match options.given().find(|name| !has_effect(name)) {
        Some(name) => Err(Failure::usage(format!("the option {name} has no effect on `mcp {command}`; remove it"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, sleep, sleep_until};

    use super::*;

    /// The time for running calls, and the time for the servers.
    const PHASE: Duration = Duration::from_secs(10);

    /// Serves until a signal, and then shuts down in two phases.
    async fn shut_down(mut signals: Signals) -> Result<(), Failure> {
        signals.next().await;
        sleep(PHASE).await;
        sleep(PHASE).await;
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_signal_ends_each_phase_of_a_shutdown() {
        // Columns: the milliseconds from the first signal to the others and to the end, and whether a signal ended the shutdown.
        for (others, end, is_interrupted) in [
            (&[][..], 20_000, false),
            // A launcher sends each signal twice.
            (&[100], 20_000, false),
            (&[1_000], 1_000, true),
            (&[100, 1_000], 1_000, true),
            (&[11_000], 11_000, true),
        ] {
            let (sender, signals) = Signals::channel();
            let served = tokio::spawn(until_second_signal(shut_down(signals.clone()), signals));
            sleep(PHASE).await;
            let began = Instant::now();
            sender.send(143).unwrap();
            for at in others {
                sleep_until(began + Duration::from_millis(*at)).await;
                sender.send(143).unwrap();
            }
            let done = served.await.unwrap();
            let outcome = (began.elapsed().as_millis(), done.is_err_and(|failure| failure.is_interrupted()));
            assert_eq!(outcome, (end, is_interrupted), "{others:?}");
        }
    }
}
