//! Faults on stderr, for a process without a `tracing` subscriber.

use std::{
    fmt::{self, Write as _},
    io::Write as _,
    sync::{
        OnceLock,
        mpsc::{SyncSender, sync_channel},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// The most lines in one [`PERIOD`].
const LINES: u32 = 100;
/// The period of the limit of lines.
const PERIOD: Duration = Duration::from_secs(10);
/// The most bytes of the details in a line.
const DETAILS: usize = 4096;
/// How long a request waits until its line is written. A reader of stderr may be stalled.
const WRITE: Duration = Duration::from_millis(100);

/// The lines of the current period.
struct Quota {
    start: Option<Instant>,
    lines: u32,
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

static QUOTA: Mutex<Quota> = Mutex::new(Quota::new());

/// Prints a line to stderr if the process never had a `tracing` subscriber.
pub(super) fn print(event: &str, reference: Option<&str>, details: &dyn fmt::Display) {
    if tracing::dispatcher::has_been_set() {
        return;
    }
    let Some(omitted) = QUOTA.lock().take(Instant::now()) else { return };
    let mut text = String::new();
    if omitted > 0 {
        let _ = writeln!(text, "mcp-server: {omitted} lines were not printed, because there were too many");
    }
    text.push_str(&line(event, reference, details));
    write(text);
}

/// Writes a text on a thread of its own, because a stalled reader of stderr must not stop requests. While the reader is
/// stalled, texts are lost.
fn write(text: String) {
    type Job = (String, SyncSender<()>);
    static WRITER: OnceLock<SyncSender<Job>> = OnceLock::new();
    let writer = WRITER.get_or_init(|| {
        let (sender, jobs) = sync_channel::<Job>(1);
        // Without a thread the channel is closed, and the texts are lost.
        let _ = std::thread::Builder::new().name("mcp-stderr".to_owned()).spawn(move || {
            for (text, done) in jobs {
                // A process without stderr loses the text.
                let _ = std::io::stderr().lock().write_all(text.as_bytes());
                let _ = done.try_send(());
            }
        });
        sender
    });
    let (done, written) = sync_channel(1);
    if writer.try_send((text, done)).is_ok() {
        let _ = written.recv_timeout(WRITE);
    }
}

fn line(event: &str, reference: Option<&str>, details: &dyn fmt::Display) -> String {
    let reference = reference.map_or_else(String::new, |reference| format!(" (reference {reference})"));
    let mut out = Escaped { text: format!("mcp-server: {event}{reference}: "), room: DETAILS };
    if write!(out, "{details}").is_err() {
        out.text.push('…');
    }
    out.text.push('\n');
    out.text
}

/// Escapes control characters, so that a text of a client cannot forge a line or send commands to a terminal. Fails when the text
/// is too long.
struct Escaped {
    text: String,
    room: usize,
}

impl fmt::Write for Escaped {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for char in part.chars() {
            self.room = self.room.checked_sub(char.len_utf8()).ok_or(fmt::Error)?;
            // These characters of Unicode end a line, or change the direction of the text.
            let is_layout = matches!(char, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            if char.is_control() || is_layout {
                self.text.extend(char.escape_default());
            } else {
                self.text.push(char);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_escapes_control_characters_and_has_a_limit() {
        let text = line("a handler failed", Some("00c0ffee"), &"a\nb\u{1b}[2J\u{202e}c");
        assert_eq!(text, "mcp-server: a handler failed (reference 00c0ffee): a\\nb\\u{1b}[2J\\u{202e}c\n");
        let long = line("a handler failed", None, &"x".repeat(2 * DETAILS));
        assert!(long.ends_with("x…\n") && long.len() < DETAILS + 100, "{}", long.len());
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
