//! The trace that a message belongs to, as W3C writes it: `traceparent`, `tracestate`, `baggage` of its metadata.

use super::{Meta, is_valid_baggage, is_valid_traceparent, is_valid_tracestate, keys};

/// The parts of a trace parent that this version of the format has; a later version may have more behind them.
const PARENT: usize = 55;
/// The maximum bytes of baggage, which W3C Baggage §3.3.2 requires to propagate. Longer baggage is dropped.
const BAGGAGE: usize = 8192;

/// The position of a message in a distributed trace, with its baggage (2026-07-28 basic, §_meta).
///
/// Malformed values are ignored. A malformed trace parent starts a new trace and also drops the trace state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    parent: Option<Box<str>>,
    state: Option<Box<str>>,
    baggage: Option<Box<str>>,
}

impl TraceContext {
    /// Returns a context with a trace parent; `None` when it is not well-formed. One of a later version is read as
    /// far as this version knows it.
    #[must_use]
    pub fn new(traceparent: &str) -> Option<Self> {
        let mut parent = is_valid_traceparent(traceparent).then(|| traceparent.to_owned())?;
        if !parent.starts_with("00") {
            parent.truncate(PARENT);
            parent.replace_range(..2, "00");
        }
        Some(Self { parent: Some(parent.into()), state: None, baggage: None })
    }

    /// Sets the trace state. A malformed value is ignored.
    #[must_use]
    pub fn with_tracestate(mut self, text: &str) -> Self {
        self.state = (self.parent.is_some() && is_valid_tracestate(text)).then(|| text.into());
        self
    }

    /// Sets the baggage. A malformed value, or one over 8 KiB, is ignored.
    #[must_use]
    pub fn with_baggage(mut self, text: &str) -> Self {
        self.baggage = (text.len() <= BAGGAGE && is_valid_baggage(text)).then(|| text.into());
        self
    }

    /// Reads the trace context from the metadata of a message; `None` when it has no well-formed value.
    #[must_use]
    pub fn from_meta(meta: &Meta) -> Option<Self> {
        let parent = meta.traceparent().and_then(Self::new);
        let mut context = parent.unwrap_or(Self { parent: None, state: None, baggage: None });
        if let Some(state) = meta.tracestate() {
            context = context.with_tracestate(state);
        }
        if let Some(baggage) = meta.baggage() {
            context = context.with_baggage(baggage);
        }
        (context.parent.is_some() || context.baggage.is_some()).then_some(context)
    }

    /// Writes the trace context into the metadata of a message and replaces existing values.
    pub fn write_to(&self, meta: &mut Meta) {
        for (key, value) in
            [(keys::TRACEPARENT, &self.parent), (keys::TRACESTATE, &self.state), (keys::BAGGAGE, &self.baggage)]
        {
            match value {
                Some(text) => meta.insert(key.to_owned(), (**text).into()),
                None => meta.remove(key),
            };
        }
    }

    /// Returns the `traceparent`.
    #[must_use]
    pub fn traceparent(&self) -> Option<&str> {
        self.parent.as_deref()
    }

    /// Returns the `tracestate`.
    #[must_use]
    pub fn tracestate(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// Returns the `baggage`.
    #[must_use]
    pub fn baggage(&self) -> Option<&str> {
        self.baggage.as_deref()
    }

    /// Returns the id of the trace: 32 hexadecimal digits.
    #[must_use]
    pub fn trace_id(&self) -> Option<&str> {
        self.parent.as_deref()?.split('-').nth(1)
    }

    /// Returns the id of the span that the message was sent in: 16 hexadecimal digits.
    #[must_use]
    pub fn parent_id(&self) -> Option<&str> {
        self.parent.as_deref()?.split('-').nth(2)
    }

    /// Whether the sender records the trace.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        let flags = self.parent.as_deref().and_then(|parent| parent.split('-').nth(3));
        flags.and_then(|flags| u8::from_str_radix(flags, 16).ok()).is_some_and(|flags| flags & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn meta(value: Value) -> Meta {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn only_well_formed_trace_values_are_read_and_written() {
        let later = PARENT.replace("00-0a", "01-0a") + "-more";
        let long = format!("a={}", "x".repeat(8192));
        for (written, expected) in [
            (json!({ "traceparent": PARENT, "tracestate": "a=1", "baggage": "b=2" }), None),
            (json!({ "traceparent": PARENT, "tracestate": "A" }), Some(json!({ "traceparent": PARENT }))),
            (json!({ "traceparent": later }), Some(json!({ "traceparent": PARENT }))),
            (json!({ "traceparent": "x", "tracestate": "a=1", "baggage": "b=2" }), Some(json!({ "baggage": "b=2" }))),
            (json!({ "traceparent": PARENT, "baggage": long }), Some(json!({ "traceparent": PARENT }))),
            (json!({ "baggage": "b=2;p" }), None),
            (json!({ "traceparent": 7, "tracestate": "a=1" }), Some(json!({}))),
            (json!({}), None),
        ] {
            let expected = meta(expected.unwrap_or_else(|| written.clone()));
            let context = TraceContext::from_meta(&meta(written));
            assert_eq!(context.is_none(), expected.is_empty(), "{expected:?}");
            let mut written = Meta::new();
            if let Some(context) = context {
                context.write_to(&mut written);
            }
            assert_eq!(written, expected);
        }
    }

    #[test]
    fn a_trace_context_replaces_another() {
        let context = TraceContext::new(PARENT).unwrap();
        assert_eq!(context.trace_id(), Some("0af7651916cd43dd8448eb211c80319c"));
        assert_eq!(context.parent_id(), Some("b7ad6b7169203331"));
        assert_eq!((context.traceparent(), context.tracestate(), context.baggage()), (Some(PARENT), None, None));
        assert!(context.is_sampled() && !TraceContext::new(&PARENT.replace("-01", "-02")).unwrap().is_sampled());
        assert_eq!(TraceContext::new("00-0-0-0"), None);
        let mut other = meta(json!({ "traceparent": "x", "tracestate": "a=1", "baggage": "b=2", "kept": 1 }));
        context.write_to(&mut other);
        assert_eq!(other, meta(json!({ "traceparent": PARENT, "kept": 1 })));
    }
}
