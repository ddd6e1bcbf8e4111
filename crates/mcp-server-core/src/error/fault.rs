//! Faults: errors whose details are for the operator. The client receives a reference number.

use std::{
    fmt,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use super::{bounded::bounded, stderr, subject};
use crate::random;

/// The most characters of the details that a client receives.
const SHOWN: usize = 4096;
/// The most bytes of the details in an event.
const LOGGED: usize = 64 << 10;

/// A reported fault.
#[derive(Clone)]
pub(crate) struct Fault {
    /// The text for the client, without the reference number.
    text: &'static str,
    reference: String,
    /// For a server that shows faults.
    details: String,
}

impl Fault {
    /// Reports a fault under a new reference number: to `tracing`, or to stderr in a process without a subscriber. `text`
    /// is for the client. The event names the item whose function runs.
    pub(crate) fn report(event: &str, text: &'static str, details: &dyn fmt::Display) -> Self {
        let reference = next_reference();
        let details = bounded(details, LOGGED);
        // A string, because subscribers escape the line breaks of strings only.
        let subject = subject::current();
        let item = subject.as_ref().map(|subject| (subject.kind(), subject.name()));
        tracing::error!(
            { reference, error = &*details, item.kind = item.map(|item| item.0), item.name = item.map(|item| item.1) },
            "{event}"
        );
        stderr::print(event, item, Some(&reference), &details);
        Self { text, reference, details: details.chars().take(SHOWN).collect() }
    }

    /// Returns the text for the client. It contains the details if the server shows faults.
    pub(crate) fn text(&self, shows_faults: bool) -> String {
        if shows_faults { format!("{self}: {}", self.details) } else { self.to_string() }
    }
}

impl fmt::Display for Fault {
    /// Writes the text for the client without the details.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (reference {})", self.text, self.reference)
    }
}

impl fmt::Debug for Fault {
    /// Omits the details, because an application may send this text to a client.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fault").field("reference", &self.reference).finish_non_exhaustive()
    }
}

/// Reports a fault outside of requests: to `tracing`, or to stderr in a process without a subscriber.
pub(crate) fn report_background(event: &str, details: &dyn fmt::Display) {
    let details = bounded(details, LOGGED);
    tracing::error!(error = &*details, "{event}");
    stderr::print(event, None, None, &details);
}

/// Warns the operator: by `tracing`, or on stderr in a process without a subscriber.
pub(crate) fn warn(text: &str) {
    tracing::warn!("{text}");
    stderr::print("warning", None, None, &text);
}

/// Returns a reference number that is unlikely to repeat across restarts, so that a log search finds one event.
fn next_reference() -> String {
    static NEXT: OnceLock<AtomicU32> = OnceLock::new();
    let next = NEXT.get_or_init(|| {
        // Without random numbers the count starts at zero, because the number is not a secret.
        AtomicU32::new(u32::from_le_bytes(random::bytes().unwrap_or_default()))
    });
    format!("{:08x}", next.fetch_add(1, Ordering::Relaxed))
}
