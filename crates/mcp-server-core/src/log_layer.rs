//! A `tracing` layer that sends log records of the application to its clients (feature `log-layer`).

use std::{
    cell::RefCell,
    fmt,
    sync::{Arc, OnceLock, Weak},
};

use mcp_protocol::{LoggingLevel, LoggingMessageParams, start_of};
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

/// The longest text in a record, in bytes. Longer texts are truncated.
const TEXT: usize = 8 << 10;

/// The crates of this library. Their records describe faults and the transport, and are never sent to clients.
const OWN: [&str; 13] = [
    "mcp_cli",
    "mcp_client",
    "mcp_client_http",
    "mcp_http_listener",
    "mcp_protocol",
    "mcp_schema",
    "mcp_server",
    "mcp_server_content",
    "mcp_server_core",
    "mcp_server_http",
    "mcp_store",
    "mcp_transport",
    "mcp_uri_template",
];

impl Server {
    /// Returns a `tracing` layer that sends log records to clients.
    ///
    /// A record becomes a `notifications/message`: its target is the logger, and its message and fields are the data. The layer
    /// sends the records that `records` selects.
    ///
    /// A record in the span of a call goes to the client of that call, until the server answers the call. The log level of the
    /// client filters it. Work that a handler gives to other tasks keeps the span with `.in_current_span()`. A record outside of
    /// every call goes to all sessions, filtered by the log level of each session. It must not contain secrets or personal data.
    /// [`LogRecords::calls_only`] suppresses such records.
    ///
    /// The layer never waits: it drops a record when a queue is full. It does not send records of the level `TRACE`.
    ///
    /// ```
    /// use mcp_server_core::{LogRecords, Server};
    /// use tracing_subscriber::layer::SubscriberExt as _;
    ///
    /// let server = Server::builder("logs", "1.0").build();
    /// let records = LogRecords::from_targets([env!("CARGO_CRATE_NAME")]);
    /// let subscriber = tracing_subscriber::registry().with(server.log_layer(records));
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

/// The log records that a server sends to clients, selected by their targets.
///
/// A record is selected if its target is one of these targets, or a module below one of them. The records of this library
/// are never sent.
///
/// # Example
/// ```
/// use mcp_server_core::LogRecords;
///
/// let records = LogRecords::from_targets(["my_server"]).calls_only();
/// # let _ = records;
/// ```
#[derive(Debug, Clone)]
#[must_use = "the selection does nothing without `Server::log_layer`"]
pub struct LogRecords {
    targets: Vec<String>,
    calls_only: bool,
}

impl LogRecords {
    /// Selects the records of these targets. By default, the target of a record is the module that wrote it.
    ///
    /// See the [example](Self#example).
    pub fn from_targets<T: Into<String>>(targets: impl IntoIterator<Item = T>) -> Self {
        Self { targets: targets.into_iter().map(Into::into).collect(), calls_only: false }
    }

    /// Suppresses the records outside of calls.
    ///
    /// See the [example](Self#example).
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

/// The filter for the selected records.
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

/// The layer behind the filter.
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
                // The records of an answered call go to no client.
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

/// Removes the slot of the span that was just opened on this thread. A slot exists if a layer saw the span.
pub(crate) fn opened() -> Option<Slot> {
    OPENED.take()
}

/// The link from a span to its call, which is set when the call exists.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slot(Arc<OnceLock<Found>>);

struct Found(Weak<context::Inner>);

impl fmt::Debug for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Found")
    }
}

impl Slot {
    /// Returns the slot of the span that opens on this thread. All layers share it.
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
        // The error only reports the truncation.
        let _ = fmt::Write::write_str(&mut text, value);
        self.put(field, text.0);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = Short(String::new());
        let _ = fmt::Write::write_fmt(&mut text, format_args!("{value:?}"));
        self.put(field, text.0);
    }
}

/// A text with a maximal length. Writing more is an error.
struct Short(String);

impl fmt::Write for Short {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let start = start_of(more, TEXT - self.0.len());
        self.0.push_str(start);
        if start.len() < more.len() { Err(fmt::Error) } else { Ok(()) }
    }
}
