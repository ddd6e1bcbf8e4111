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

use crate::{
    screen::{note, warn},
    spans,
    style::{self, Style},
    text::printable,
};

/// The tracing target of the stderr of servers.
const SERVER_STDERR: &str = "mcp_transport::child";

/// The tracing target of the list requests. The commands print the typed warnings of a list instead.
const LISTS: &str = "mcp_client::call::list";

/// The tracing target of the items of lists. The commands print the typed warnings instead.
const ITEMS: &str = "mcp_client::call::page";

/// The tracing target of the servers of a host. The commands print the typed errors of the servers instead.
const SERVERS: &str = "mcp_agent::registry";

/// The tracing targets of faults that a gateway does not print itself. They concern the tokens of callers, the lists of its servers, and
/// input requests that several calls can have caused.
const FAULTS_BEHIND_GATEWAY: [&str; 3] =
    ["mcp_agent::registry::tokens", "mcp_agent::registry::listing", "mcp_agent::registry::asking"];

/// The tracing target of the decisions of policies. The commands print the typed refusals instead.
const AUDIT: &str = "mcp_agent::audit";

/// The tracing target of the store of the tokens. The program itself warns once of tokens that are not sealed.
const SEALS: &str = "mcp_oauth::store::sealed";

/// The tracing target of logouts. The command prints the typed result instead.
const LOGOUT: &str = "mcp_oauth::session::logout";

/// The number of stderr lines that are kept at most.
const MAX_LINES: usize = 20;

/// The lines that a server's command writes to stderr.
static STDERR: Mutex<ServerStderr> =
    Mutex::new(ServerStderr { kept: VecDeque::new(), is_printed: false, is_always_printed: false });

struct ServerStderr {
    /// The last lines that were not printed. Newest last.
    kept: VecDeque<String>,
    /// Whether each new line is printed.
    is_printed: bool,
    is_always_printed: bool,
}

/// Installs the subscriber. With `all` it shows debug events. With `stderr` it shows every line of a server's stderr. With `serves` it
/// shows the faults of servers behind a gateway.
pub(crate) fn install(all: bool, stderr: bool, serves: bool) {
    {
        let mut state = STDERR.lock();
        (state.is_printed, state.is_always_printed) = (stderr, stderr);
    }
    let max_level = if all { LevelFilter::DEBUG } else { LevelFilter::WARN };
    let is_enabled = filter_fn(move |metadata| match metadata.target() {
        SERVER_STDERR => true,
        LISTS | ITEMS | SEALS | AUDIT | LOGOUT => all,
        target if serves && FAULTS_BEHIND_GATEWAY.contains(&target) => *metadata.level() <= max_level,
        target if target.starts_with(SERVERS) => all,
        _ => *metadata.level() <= max_level,
    });
    let layer = Notes.with_filter(is_enabled.with_max_level_hint(LevelFilter::DEBUG));
    // This program has no other subscriber.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer).with(spans::layer()));
}

/// Prints each new stderr line of the server's command. The caller has printed the earlier lines.
pub(crate) fn follow_server_stderr() {
    let mut stderr = STDERR.lock();
    stderr.kept.clear();
    stderr.is_printed = true;
}

/// Keeps the stderr lines of the server's command from now on, unless an option prints them all.
pub(crate) fn keep_server_stderr() {
    let mut stderr = STDERR.lock();
    stderr.is_printed = stderr.is_always_printed;
}

/// Returns the last stderr lines of the server's command that were not printed, and forgets them.
pub(crate) fn take_server_stderr() -> Vec<String> {
    STDERR.lock().kept.drain(..).collect()
}

/// Returns whether [`take_server_stderr`] would return a line.
pub(crate) fn has_server_stderr() -> bool {
    !STDERR.lock().kept.is_empty()
}

/// Prints a stderr line of the server's command.
pub(crate) fn note_server_stderr(line: &str) {
    note(format!("{} {}", style::err(Style::Dim, "server:"), printable(line)));
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
            let mut stderr = STDERR.lock();
            if stderr.is_printed {
                note_server_stderr(&text.message);
                return;
            }
            if stderr.kept.len() == MAX_LINES {
                stderr.kept.pop_front();
            }
            stderr.kept.push_back(text.message);
            return;
        }
        let shown = format!("{}{}", printable(&text.message), printable(&text.fields));
        if *event.metadata().level() <= Level::WARN { warn(&shown) } else { note(format!("-- {shown}")) }
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
