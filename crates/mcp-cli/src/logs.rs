//! Diagnostics on stderr: warnings of the library, its debug events with `--trace`, and the stderr of a server's command.

use std::{
    collections::VecDeque,
    fmt::{self, Write},
};

use parking_lot::Mutex;
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
};
use tracing_subscriber::{Layer, filter::filter_fn, layer::Context, layer::SubscriberExt};

use crate::{screen::note, text::printable};

/// The tracing target of the stderr of servers.
const SERVER_STDERR: &str = "mcp_transport::child";

/// The number of stderr lines that [`show_server_stderr`] prints at most.
const MAX_LINES: usize = 20;

/// The lines that a server's command has written to stderr while the connection opens.
static STDERR: Mutex<ServerStderr> = Mutex::new(ServerStderr::Discarded);

enum ServerStderr {
    /// Newest last.
    Kept(VecDeque<String>),
    Shown,
    Discarded,
}

/// Installs the subscriber. With `all` it shows debug events and every line of a server's stderr.
pub(crate) fn install(all: bool) {
    *STDERR.lock() = if all { ServerStderr::Shown } else { ServerStderr::Kept(VecDeque::new()) };
    let max_level = if all { LevelFilter::DEBUG } else { LevelFilter::WARN };
    let is_enabled = filter_fn(move |metadata| *metadata.level() <= max_level || metadata.target() == SERVER_STDERR);
    let layer = Notes.with_filter(is_enabled.with_max_level_hint(LevelFilter::DEBUG));
    // This program has no other subscriber.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer));
}

/// Prints the last stderr lines of the server's command, and from then on every new line.
///
/// Returns whether there was a line to print, or lines are shown already.
pub(crate) fn show_server_stderr() -> bool {
    let mut stderr = STDERR.lock();
    let ServerStderr::Kept(lines) = &mut *stderr else { return true };
    let is_any = !lines.is_empty();
    lines.drain(..).for_each(|line| note_server_stderr(&line));
    *stderr = ServerStderr::Shown;
    is_any
}

/// Discards the stderr of the server's command, except with `--trace`.
pub(crate) fn discard_server_stderr(all: bool) {
    if !all {
        *STDERR.lock() = ServerStderr::Discarded;
    }
}

fn note_server_stderr(line: &str) {
    note(format!("server: {}", printable(line)));
}

struct Notes;

impl<S: Subscriber> Layer<S> for Notes {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let target = event.metadata().target();
        if !target.starts_with("mcp_") {
            return;
        }
        let mut text = EventText::default();
        event.record(&mut text);
        if target == SERVER_STDERR {
            match &mut *STDERR.lock() {
                ServerStderr::Kept(lines) => {
                    if lines.len() == MAX_LINES {
                        lines.pop_front();
                    }
                    lines.push_back(text.message);
                }
                ServerStderr::Shown => note_server_stderr(&text.message),
                ServerStderr::Discarded => {}
            }
            return;
        }
        let prefix = if *event.metadata().level() <= Level::WARN { "mcp: warning:" } else { "--" };
        note(format!("{prefix} {}{}", printable(&text.message), printable(&text.fields)));
    }
}

#[derive(Default)]
struct EventText {
    message: String,
    fields: String,
}

impl Visit for EventText {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a `String` always succeeds.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            "error" | "fault" => write!(self.fields, ": {value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}
