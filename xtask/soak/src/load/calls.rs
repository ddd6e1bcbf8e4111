//! Calls of the client library, with the checks of their answers.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use anyhow::{Error, ensure};
use check_kit::random::Random;
use mcp_client::{
    Client, ClientBuilder, Reconnect, ToolResult,
    protocol::{ElicitResult, ProtocolVersion},
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{Duration, timeout};

use super::{CLIENT_LIMITS, Soak};
use crate::tally::Check;

/// The largest number of events of one call.
const EVENTS: u64 = 20;
/// The events of a call whose future is dropped, and the pause before each one.
const DROPPED: (u32, Duration) = (1_000, Duration::from_millis(50));
/// The time of such a call. Its handler runs to its end if a cut loses the cancellation, because the session of 2025-11-25 continues.
pub(crate) const LONGEST_CALL: Duration = DROPPED.1.saturating_mul(DROPPED.0);

/// Whether the faults of the run concern the connection of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    Undisturbed,
    Disturbed,
}

/// The builder of a client of one era. It answers each question with the question.
pub(super) fn builder(version: ProtocolVersion) -> ClientBuilder {
    let [idle, total] = CLIENT_LIMITS;
    Client::builder("soak", "0")
        .versions([version])
        .idle_timeout(idle)
        .total_timeout(total)
        .connect_timeout(total)
        .ping_interval(Duration::from_secs(2))
        // With the longest wait by default, a change could arrive after the time limit.
        .reconnect(Reconnect::default().longest(Duration::from_secs(2)))
        .on_elicit(async |asked| ElicitResult::accept_json(json!({ "word": asked.message })))
}

/// A client and the expectations of its calls.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) soak: Soak,
    pub(super) client: Client,
    /// The part of the names of tools before `echo`, such as `web__`.
    pub(super) prefix: String,
    pub(super) link: Link,
}

impl Caller {
    pub(super) fn new(soak: &Soak, client: Client, link: Link) -> Self {
        Self { soak: soak.clone(), client, prefix: String::new(), link }
    }

    /// Makes random calls until the end of the run.
    pub(super) async fn run(&self, random: &mut Random, pause: (u64, u64)) {
        while !self.soak.is_over() {
            self.any(random).await;
            self.soak.pause(random, pause).await;
        }
    }

    /// Makes one random call.
    pub(super) async fn any(&self, random: &mut Random) {
        match random.below(20) {
            0..7 => self.echo(random).await,
            7..12 => self.count(random).await,
            12..15 => self.big(random).await,
            15..17 => self.ask(random).await,
            17 => self.list().await,
            _ => self.cancelled(random).await,
        }
    }

    /// Calls a tool. Returns its result, or `None` after an error.
    async fn call(&self, tool: &str, arguments: serde_json::Value) -> Option<ToolResult> {
        let call = self.client.call_tool(format!("{}{tool}", self.prefix), arguments);
        let outcome = self.soak.ends(tool, async { call.await?.ok() }).await?;
        self.accept(tool, outcome)
    }

    /// Judges an error by the state of the connection.
    fn accept<T>(&self, name: &str, outcome: Result<T, mcp_client::Error>) -> Option<T> {
        let version = self.client.version();
        match (outcome, self.link) {
            (Ok(value), Link::Undisturbed) => {
                self.soak.tally.add(Check::Undisturbed, 1);
                Some(value)
            }
            (Ok(value), Link::Disturbed) => Some(value),
            (Err(error), Link::Undisturbed) => {
                self.soak.tally.fault(Check::Undisturbed, format!("{}{name} {version}: {}", self.prefix, chain(error)));
                None
            }
            (Err(error), Link::Disturbed) => {
                self.soak.tally.failed(kind(version, &error));
                None
            }
        }
    }

    fn answer(&self, found: &str, expected: &str) {
        let same = if found == expected {
            Ok(())
        } else {
            let shown: String = found.chars().take(80).collect();
            Err(format!("{} bytes `{shown}` in place of {} bytes", found.len(), expected.len()))
        };
        self.soak.tally.judge(Check::Answers, same);
    }

    /// Calls `echo`. Returns whether it succeeded.
    pub(super) async fn echoes(&self, random: &mut Random) -> bool {
        let text = format!("text {}", random.next());
        let Some(result) = self.call("echo", json!({ "text": text })).await else { return false };
        self.answer(&result.text(), &text);
        true
    }

    async fn echo(&self, random: &mut Random) {
        self.echoes(random).await;
    }

    async fn big(&self, random: &mut Random) {
        let letter = char::from(b'a' + random.below(26) as u8);
        let bytes = random.between(1_000, 300_000) as usize;
        let Some(result) = self.call("big", json!({ "bytes": bytes, "letter": letter })).await else { return };
        self.answer(&result.text(), &letter.to_string().repeat(bytes));
    }

    async fn ask(&self, random: &mut Random) {
        let question = format!("question {}", random.next());
        let Some(result) = self.call("ask", json!({ "question": question })).await else { return };
        self.answer(&result.text(), &question);
    }

    async fn list(&self) {
        let listed = self.soak.ends("tools/list", async { self.client.list_tools().await }).await;
        let Some(tools) = listed.and_then(|tools| self.accept("tools/list", tools)) else { return };
        let has_echo = tools.iter().any(|tool| tool.name.ends_with("echo"));
        self.soak.tally.judge(Check::Answers, if has_echo { Ok(()) } else { Err("a list without the tool echo") });
    }

    async fn count(&self, random: &mut Random) {
        let (to, pause) = (random.between(1, EVENTS), random.between(1, 80));
        let numbers = Arc::<Mutex<Vec<f64>>>::default();
        let received = numbers.clone();
        let call = self
            .client
            .call_tool(format!("{}count", self.prefix), json!({ "to": to, "pause_ms": pause }))
            .on_progress(move |progress| received.lock().push(progress.progress));
        let Some(outcome) = self.soak.ends("count", async { call.await?.ok() }).await else { return };
        let numbers = numbers.lock().clone();
        let result = self.accept("count", outcome);
        let judged = judge(&numbers, result.is_some().then_some(to));
        let version = self.client.version();
        match judged {
            Ok(()) => self.soak.tally.add(Check::Events, numbers.len() as u64),
            Err(error) => self.soak.tally.fault(Check::Events, format!("{}count {version}: {error}", self.prefix)),
        }
        if let Some(result) = result {
            self.answer(&result.text(), &format!("counted to {to}"));
        }
    }

    /// Drops the future of a call at a random time.
    async fn cancelled(&self, random: &mut Random) {
        let (to, pause) = DROPPED;
        let arguments = json!({ "to": to, "pause_ms": pause.as_millis() as u64 });
        let call = self.client.call_tool(format!("{}count", self.prefix), arguments);
        let time = Duration::from_millis(random.between(0, 300));
        // A call that fails early is not judged.
        if timeout(time, async { call.await }).await.is_err() {
            self.soak.tally.caused.cancelled.fetch_add(1, Relaxed);
        }
    }

    /// Closes the client. The end of the close has a time limit.
    pub(super) async fn close(&self) {
        self.soak.ends("close", self.client.close()).await;
    }
}

/// Checks that the numbers are `1, 2, …` without a gap, up to `all` if the call has a result.
fn judge(numbers: &[f64], all: Option<u64>) -> Result<(), Error> {
    let expected = (1..=numbers.len() as u64).map(|number| number as f64);
    ensure!(numbers.iter().copied().eq(expected), "events are missing or repeated: {numbers:?}");
    if let Some(all) = all {
        ensure!(numbers.len() as u64 == all, "a result after {} of {all} events", numbers.len());
    }
    Ok(())
}

/// The revision and the kind of an error over a disturbed connection.
pub(super) fn kind(version: ProtocolVersion, error: &mcp_client::Error) -> String {
    let kind = match (error.http_status(), error.rpc()) {
        _ if error.is_timeout() => "timed out".to_owned(),
        _ if error.is_unreachable() => "unreachable".to_owned(),
        _ if error.is_closed() => "closed".to_owned(),
        _ if error.is_tool_error() => "tool error".to_owned(),
        (Some(status), _) => format!("status {status}"),
        (_, Some(rpc)) => format!("JSON-RPC error {}: {}", rpc.code, rpc.message),
        _ if error.is_retryable() => "the response broke off".to_owned(),
        _ => format!("another error: {error}"),
    };
    format!("{version}: {kind}")
}

/// The texts of an error and of its sources.
pub(super) fn chain(error: mcp_client::Error) -> String {
    format!("{:#}", Error::from(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_repeated_and_swapped_events_are_faults() {
        for (numbers, all, is_kept) in [
            (&[1.0, 2.0, 3.0][..], Some(3), true),
            (&[1.0, 2.0], None, true),
            (&[], None, true),
            (&[1.0, 2.0], Some(3), false),
            (&[1.0, 3.0], None, false),
            (&[1.0, 1.0], None, false),
            (&[2.0, 1.0], Some(2), false),
        ] {
            assert_eq!(judge(numbers, all).is_ok(), is_kept, "{numbers:?}");
        }
    }
}
