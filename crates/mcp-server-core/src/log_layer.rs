//! A layer of `tracing` that sends records of the application to its clients (feature `log-layer`).

use std::{
    cell::RefCell,
    fmt,
    sync::{Arc, OnceLock, Weak},
};

use mcp_protocol::{LoggingLevel, LoggingMessageParams};
use serde_json::{Map, Value};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span::{Attributes, Id},
    subscriber::Interest,
};
use tracing_subscriber::{
    Layer,
    layer::{Context as LayerContext, Filter},
    registry::LookupSpan,
};

use crate::{Context, Server, context, data::ServerData, log_guard::LogGuard, trace};

/// The longest text in a record; more is cut off.
const TEXT: usize = 8 << 10;

/// Our own crates: what they say is about faults and about sending, and is never sent.
const OWN: [&str; 15] = [
    "mcp_agent",
    "mcp_auth",
    "mcp_cli",
    "mcp_client",
    "mcp_client_http",
    "mcp_fetch",
    "mcp_oauth",
    "mcp_protocol",
    "mcp_schema",
    "mcp_server",
    "mcp_server_core",
    "mcp_server_http",
    "mcp_store",
    "mcp_tool_format",
    "mcp_transport",
];

impl Server {
    /// A layer of `tracing` that sends records to clients, as `notifications/message` with their target as logger and
    /// their message and fields as data. Only what `records` names is sent.
    ///
    /// What is said in the span of a call goes to the client of that call, if its level lets it through, until the call is
    /// answered. Work that a handler gives to other tasks takes the span along (`.in_current_span()`). What is said outside
    /// of every call goes to all sessions, each at its own level: nothing secret and nothing personal belongs in it, or
    /// [`LogRecords::calls_only`] keeps it back.
    ///
    /// Nothing waits: what finds no room is dropped. `TRACE` is not sent.
    ///
    /// ```
    /// use mcp_server_core::{LogRecords, Server};
    /// use tracing_subscriber::layer::SubscriberExt as _;
    ///
    /// let server = Server::builder("logs", "1.0").build();
    /// let subscriber =
    ///     tracing_subscriber::registry().with(server.log_layer(LogRecords::of([env!("CARGO_CRATE_NAME")])));
    /// // tracing::subscriber::set_global_default(subscriber)
    /// # let _ = subscriber;
    /// ```
    pub fn log_layer<S>(&self, records: LogRecords) -> impl Layer<S> + fmt::Debug + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        LogLayer { server: Arc::downgrade(&self.data), calls_only: records.calls_only }.with_filter(Wanted(records))
    }
}

/// Which records are sent to clients: those whose target is one of these, or lies below one of them. What the crates of
/// this library say is never sent.
#[derive(Debug, Clone)]
#[must_use = "it says what is sent, see `Server::log_layer`"]
pub struct LogRecords {
    targets: Vec<String>,
    calls_only: bool,
}

impl LogRecords {
    /// The records of these targets, which are crates or modules unless somebody says otherwise.
    pub fn of<T: Into<String>>(targets: impl IntoIterator<Item = T>) -> Self {
        Self { targets: targets.into_iter().map(Into::into).collect(), calls_only: false }
    }

    /// Nothing that is said outside of a call.
    pub fn calls_only(mut self) -> Self {
        self.calls_only = true;
        self
    }

    fn wants(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        if metadata.is_span() {
            return target == trace::TARGET && metadata.name() == trace::NAME;
        }
        let is_below = |of: &str| target.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
        *metadata.level() <= Level::DEBUG
            && self.targets.iter().any(|chosen| is_below(chosen))
            && !OWN.iter().any(|own| is_below(own))
    }
}

/// Lets through which records are sent.
#[derive(Debug)]
struct Wanted(LogRecords);

impl<S> Filter<S> for Wanted {
    fn enabled(&self, metadata: &Metadata<'_>, _context: &LayerContext<'_, S>) -> bool {
        self.0.wants(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.0.wants(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }
}

/// What is filtered.
struct LogLayer {
    server: Weak<ServerData>,
    calls_only: bool,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LogLayer {
    fn on_new_span(&self, _attributes: &Attributes<'_>, id: &Id, context: LayerContext<'_, S>) {
        if let Some(span) = context.span(id) {
            span.extensions_mut().replace(Slot::of_opening());
        }
    }

    fn on_event(&self, event: &Event<'_>, context: LayerContext<'_, S>) {
        let Some(_guard) = LogGuard::enter() else { return };
        let Some(data) = self.server.upgrade() else { return };
        let level = level_of(*event.metadata().level());
        let mut scope = context.event_scope(event).into_iter().flatten();
        match scope.find_map(|span| span.extensions().get::<Slot>().cloned()) {
            Some(call) => {
                // A call that is answered says nothing any more, and what it says is nobody else's.
                let Some(call) = call.context().filter(|call| Arc::ptr_eq(&call.server().data, &data)) else {
                    return;
                };
                if call.logs(level) {
                    call.try_log(&record_of(level, event));
                }
            }
            None if self.calls_only => {}
            None => Server { data }.notify().log_if_wanted(level, || record_of(level, event)),
        }
    }
}

impl fmt::Debug for LogLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogLayer").field("calls_only", &self.calls_only).finish_non_exhaustive()
    }
}

thread_local! {
    /// The slot of the span that was just opened on this thread.
    static OPENED: RefCell<Option<Slot>> = const { RefCell::new(None) };
}

/// Takes the slot of the span that was just opened; there is one if a layer saw it.
pub(crate) fn opened() -> Option<Slot> {
    OPENED.take()
}

/// Where a span finds its call, once there is one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slot(Arc<OnceLock<Found>>);

struct Found(Weak<context::Inner>);

impl fmt::Debug for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Found")
    }
}

impl Slot {
    /// The slot of the span that opens on this thread: one for all layers.
    fn of_opening() -> Self {
        OPENED.with_borrow_mut(|opened| opened.get_or_insert_default().clone())
    }

    pub(crate) fn fill(&self, call: &Context) {
        let _ = self.0.set(Found(call.downgrade()));
    }

    fn context(&self) -> Option<Context> {
        self.0.get()?.0.upgrade().map(Context::found)
    }
}

fn level_of(level: Level) -> LoggingLevel {
    match level {
        Level::ERROR => LoggingLevel::Error,
        Level::WARN => LoggingLevel::Warning,
        Level::INFO => LoggingLevel::Info,
        _ => LoggingLevel::Debug,
    }
}

fn record_of(level: LoggingLevel, event: &Event<'_>) -> LoggingMessageParams {
    let mut fields = Fields(Map::new());
    event.record(&mut fields);
    let mut params = LoggingMessageParams::new(level, Value::Object(fields.0));
    params.logger = Some(event.metadata().target().to_owned());
    params
}

/// The fields of a record as JSON.
struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let mut text = Short(String::new());
        // What is cut off is meant to be.
        let _ = fmt::Write::write_str(&mut text, value);
        self.put(field, text.0);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = Short(String::new());
        let _ = fmt::Write::write_fmt(&mut text, format_args!("{value:?}"));
        self.put(field, text.0);
    }
}

/// A text that takes no more than it may, and ends whoever goes on writing.
struct Short(String);

impl fmt::Write for Short {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let room = boundary(more, TEXT - self.0.len());
        self.0.push_str(&more[..room]);
        if room < more.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

/// The largest boundary between characters that is not above a place.
fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default()
}
