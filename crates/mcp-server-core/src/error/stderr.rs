//! Faults on stderr, for a process without a `tracing` subscriber.

use std::{
    collections::VecDeque,
    fmt::{self, Write as _},
    io,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use super::bounded::bounded;

/// The most lines in one [`PERIOD`].
const LINES: usize = 100;
/// The period of the limit of lines.
const PERIOD: Duration = Duration::from_secs(10);
/// The most bytes of the details in a line.
const DETAILS: usize = 4096;
/// The most bytes of the name of an item in a line.
const NAME: usize = 256;
/// How long a request waits until its line is written. A reader of stderr may be stalled.
const WRITE: Duration = Duration::from_millis(100);

/// The lines of the current period.
struct Quota {
    start: Option<Instant>,
    lines: usize,
    omitted: u64,
}

impl Quota {
    const fn new() -> Self {
        Self { start: None, lines: 0, omitted: 0 }
    }

    /// Returns the number of lines that were omitted before, or `None` if this line is above the limit.
    fn take(&mut self, now: Instant) -> Option<u64> {
        if self.start.is_none_or(|start| now.duration_since(start) >= PERIOD) {
            (self.start, self.lines) = (Some(now), 0);
        }
        if self.lines >= LINES {
            self.omitted += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.omitted))
    }
}

/// Writes lines on a thread of its own, because a stalled reader of stderr must not stop requests.
struct Printer {
    state: Mutex<State>,
    /// Notified when a line was queued or written.
    changed: Condvar,
}

struct State {
    quota: Quota,
    /// At most [`LINES`] lines.
    queue: VecDeque<String>,
    queued: u64,
    written: u64,
    /// The reader did not take a line in time, and has taken none since.
    is_stalled: bool,
}

impl Printer {
    fn start(mut output: impl io::Write + Send + 'static) -> Arc<Self> {
        let state = State { quota: Quota::new(), queue: VecDeque::new(), queued: 0, written: 0, is_stalled: false };
        let printer = Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() });
        let writing = printer.clone();
        // Without a thread the queue becomes full, and the lines are lost.
        let _ = std::thread::Builder::new().name("mcp-stderr".to_owned()).spawn(move || {
            loop {
                let text = writing.next();
                // A process without stderr loses the text.
                let _ = output.write_all(text.as_bytes());
                let mut state = writing.state.lock();
                state.written += 1;
                state.is_stalled = false;
                drop(state);
                writing.changed.notify_all();
            }
        });
        printer
    }

    /// Waits for the next text and removes it from the queue.
    fn next(&self) -> String {
        let mut state = self.state.lock();
        loop {
            if let Some(text) = state.queue.pop_front() {
                return text;
            }
            self.changed.wait(&mut state);
        }
    }

    /// Queues a line, and waits until it is written or the time is over. A stalled reader delays one line only, because the
    /// wait blocks the thread. Counts a line that is not printed.
    fn print(&self, line: &str, now: Instant, wait: Duration) {
        let mut state = self.state.lock();
        let Some(omitted) = state.quota.take(now) else { return };
        if state.queue.len() >= LINES {
            state.quota.omitted = omitted.saturating_add(1);
            return;
        }
        let mut text = String::new();
        if omitted > 0 {
            let _ = writeln!(text, "mcp-server: {omitted} lines were not printed, because there were too many");
        }
        text.push_str(line);
        state.queue.push_back(text);
        state.queued += 1;
        let number = state.queued;
        self.changed.notify_all();
        if state.is_stalled {
            return;
        }
        state.is_stalled = self.changed.wait_while_for(&mut state, |state| state.written < number, wait).timed_out();
    }

    /// Waits until all queued lines are written. Returns false if the time is over.
    fn flush(&self, wait: Duration) -> bool {
        let mut state = self.state.lock();
        !self.changed.wait_while_for(&mut state, |state| state.written < state.queued, wait).timed_out()
    }
}

/// Returns the printer of the process.
fn printer() -> &'static Printer {
    static PRINTER: OnceLock<Arc<Printer>> = OnceLock::new();
    PRINTER.get_or_init(|| Printer::start(io::stderr()))
}

/// The kind and the name of an item.
type Item<'a> = (&'a str, &'a str);

/// Prints a line to stderr if the process never had a `tracing` subscriber.
pub(super) fn print(event: &str, item: Option<Item<'_>>, reference: Option<&str>, details: &dyn fmt::Display) {
    if !tracing::dispatcher::has_been_set() {
        printer().print(&line(event, item, reference, details), Instant::now(), WRITE);
    }
}

/// Waits until the printed faults are on stderr. Returns false if the time is over.
#[must_use]
pub fn flush_faults(wait: Duration) -> bool {
    printer().flush(wait)
}

fn line(event: &str, item: Option<Item<'_>>, reference: Option<&str>, details: &dyn fmt::Display) -> String {
    let mut text = format!("mcp-server: {event}");
    if let Some((kind, name)) = item {
        let _ = write!(text, " in the {kind} `");
        push_escaped(&mut text, &bounded(&name, NAME));
        text.push('`');
    }
    if let Some(reference) = reference {
        let _ = write!(text, " (reference {reference})");
    }
    text.push_str(": ");
    push_escaped(&mut text, &bounded(details, DETAILS));
    text.push('\n');
    text
}

fn push_escaped(text: &mut String, part: &str) {
    for char in part.chars() {
        // These characters of Unicode end a line, or change the direction of the text.
        let is_layout = matches!(char, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        // A text of a client must not forge a line or send commands to a terminal.
        if char.is_control() || is_layout {
            text.extend(char.escape_default());
        } else {
            text.push(char);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_escapes_control_characters_and_has_a_limit() {
        let text = line("a handler failed", None, Some("00c0ffee"), &"a\nb\u{1b}[2J\u{202e}c");
        assert_eq!(text, "mcp-server: a handler failed (reference 00c0ffee): a\\nb\\u{1b}[2J\\u{202e}c\n");
        let item = Some(("resource", "a://\n\u{202e}"));
        let named = line("a handler failed", item, Some("00c0ffee"), &"x");
        assert_eq!(named, "mcp-server: a handler failed in the resource `a://\\n\\u{202e}` (reference 00c0ffee): x\n");
        let long = line("a handler failed", None, None, &"x".repeat(2 * DETAILS));
        assert!(long.ends_with("x…\n") && long.len() < DETAILS + 100, "{}", long.len());
    }

    /// An output that waits until the test releases it.
    struct Stalled {
        released: Arc<(Mutex<bool>, Condvar)>,
        written: Arc<Mutex<String>>,
    }

    impl io::Write for Stalled {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let (released, changed) = &*self.released;
            changed.wait_while(&mut released.lock(), |released| !*released);
            self.written.lock().push_str(std::str::from_utf8(bytes).unwrap_or_default());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_stalled_reader_delays_one_line() {
        let released = Arc::<(Mutex<bool>, Condvar)>::default();
        let printer = Printer::start(Stalled { released: released.clone(), written: Arc::default() });
        let start = Instant::now();
        printer.print("line\n", start, Duration::from_millis(1));
        let long = Duration::from_secs(60);
        (0..20).for_each(|_| printer.print("line\n", start, long));
        assert!(start.elapsed() < long);
        *released.0.lock() = true;
        released.1.notify_all();
        assert!(printer.flush(long));
        assert!(!printer.state.lock().is_stalled);
    }

    #[test]
    fn lines_of_a_stalled_reader_are_queued_or_counted() {
        let released = Arc::<(Mutex<bool>, Condvar)>::default();
        let written = Arc::<Mutex<String>>::default();
        let printer = Printer::start(Stalled { released: released.clone(), written: written.clone() });
        let start = Instant::now();
        let printed = |number: usize, period: u32| {
            printer.print(&format!("line {number}\n"), start + PERIOD * period, Duration::ZERO);
        };
        (0..LINES).for_each(|number| printed(number, 0));
        assert!(!printer.flush(Duration::ZERO));
        // The queue is full, except for the line that is being written.
        (LINES..LINES + 20).for_each(|number| printed(number, 1));
        *released.0.lock() = true;
        released.1.notify_all();
        assert!(printer.flush(Duration::from_secs(60)));
        printed(LINES + 20, 2);
        assert!(printer.flush(Duration::from_secs(60)));
        let written = written.lock().clone();
        let lines: Vec<_> = written.lines().filter_map(|line| line.strip_prefix("line ")).collect();
        let start: Vec<_> = (0..LINES).map(|number| number.to_string()).collect();
        assert_eq!(lines[..LINES], start);
        let omitted = LINES + 21 - lines.len();
        assert!((19..=20).contains(&omitted), "{written}");
        assert!(written.contains(&format!("mcp-server: {omitted} lines were not printed")), "{written}");
    }

    #[test]
    fn the_number_of_lines_is_limited_in_each_period() {
        let (mut quota, start) = (Quota::new(), Instant::now());
        for _ in 0..LINES {
            assert_eq!(quota.take(start), Some(0));
        }
        assert_eq!([quota.take(start), quota.take(start)], [None, None]);
        assert_eq!([quota.take(start + PERIOD), quota.take(start + PERIOD)], [Some(2), Some(0)]);
    }
}
