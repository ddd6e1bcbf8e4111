//! What the library has to tell: its warnings, and with `--trace` what it notices besides.

use std::fmt::{self, Write};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
};
use tracing_subscriber::{Layer, layer::Context, layer::SubscriberExt};

use crate::{output::printable, screen::note};

/// What the commands of servers write to their stderr.
const STDERR: &str = "mcp_transport::child";

/// Shows it from now on.
pub(crate) fn show(traces: bool) {
    let most = if traces { LevelFilter::DEBUG } else { LevelFilter::WARN };
    // There is no other subscriber in this program.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Notes.with_filter(most)));
}

struct Notes;

impl<S: Subscriber> Layer<S> for Notes {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let target = event.metadata().target();
        if !target.starts_with("mcp_") {
            return;
        }
        let mut text = Text::default();
        event.record(&mut text);
        let is_warning = *event.metadata().level() <= Level::WARN;
        let start = match (target, is_warning) {
            (STDERR, _) => "server:",
            (_, true) => "mcp: warning:",
            (_, false) => "--",
        };
        let fields = if target == STDERR { "" } else { &text.fields };
        note(format!("{start} {}{}", printable(&text.message), printable(fields)));
    }
}

#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Nothing is lost where a text cannot be extended: it always can.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            "error" | "fault" => write!(self.fields, ": {value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}
