//! Server-sent events (HTML, §9.2), which Streamable HTTP and HTTP+SSE answer with: the encoder, and the [`Decoder`].

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use memchr::memchr2;

mod decode;

pub use self::decode::{Decoder, Received};

/// One event to be sent.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Event<'a> {
    /// The id that a client sends back as `Last-Event-ID`. Line breaks and NUL are left out.
    pub id: Option<&'a str>,
    /// The type of the event; a client reads none as `message`. Line breaks are left out.
    pub event: Option<&'a str>,
    /// The data, in UTF-8. Every line of it becomes a `data` field; `\r\n` and `\r` arrive as `\n`.
    pub data: &'a [u8],
    /// How long the client should wait before it reconnects; sent in whole milliseconds.
    pub retry: Option<Duration>,
}

impl<'a> Event<'a> {
    /// An event with this data and nothing else.
    #[must_use]
    pub fn new(data: &'a [u8]) -> Self {
        Self { data, ..Self::default() }
    }

    /// The event that opens a stream which can be resumed: an id and no data (2025-11-25, transports).
    #[must_use]
    pub fn priming(id: &'a str) -> Self {
        Self::default().with_id(id)
    }

    /// The same event, with this id.
    #[must_use]
    pub fn with_id(mut self, id: &'a str) -> Self {
        self.id = Some(id);
        self
    }

    /// The same event, of this type.
    #[must_use]
    pub fn with_event(mut self, event: &'a str) -> Self {
        self.event = Some(event);
        self
    }

    /// The same event, with this wait before a reconnection.
    #[must_use]
    pub fn with_retry(mut self, retry: Duration) -> Self {
        self.retry = Some(retry);
        self
    }

    /// The bytes of the event, up to and with the blank line that ends it.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let names = self.id.map_or(0, str::len) + self.event.map_or(0, str::len);
        let mut out = BytesMut::with_capacity(self.data.len() + names + OVERHEAD);
        if let Some(event) = self.event {
            put_field(&mut out, b"event: ", event);
        }
        if let Some(id) = self.id {
            put_field(&mut out, b"id: ", id);
        }
        if let Some(retry) = self.retry {
            put_field(&mut out, b"retry: ", &retry.as_millis().to_string());
        }
        put_lines(&mut out, b"data: ", self.data);
        out.put_u8(b'\n');
        out.freeze()
    }
}

/// A comment, which clients ignore: it keeps the connection alive. Every line of the text becomes one.
#[must_use]
pub fn comment(text: &str) -> Bytes {
    let mut out = BytesMut::with_capacity(text.len() + OVERHEAD);
    put_lines(&mut out, b": ", text.as_bytes());
    out.put_u8(b'\n');
    out.freeze()
}

/// Field names, line breaks and a number, for an event whose data is one line.
const OVERHEAD: usize = 64;

/// A field of one line, whatever the value holds.
fn put_field(out: &mut BytesMut, name: &[u8], value: &str) {
    out.put_slice(name);
    for part in value.split(['\r', '\n', '\0']) {
        out.put_slice(part.as_bytes());
    }
    out.put_u8(b'\n');
}

/// One field per line of the text, at least one.
fn put_lines(out: &mut BytesMut, name: &[u8], mut text: &[u8]) {
    while let Some(at) = memchr2(b'\r', b'\n', text) {
        out.put_slice(name);
        out.put_slice(&text[..at]);
        out.put_u8(b'\n');
        let line_break = if text[at..].starts_with(b"\r\n") { 2 } else { 1 };
        text = &text[at + line_break..];
    }
    out.put_slice(name);
    out.put_slice(text);
    out.put_u8(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(event: Event<'_>, expected: &str) {
        assert_eq!(event.encode(), expected);
    }

    #[test]
    fn fields_come_in_order_and_a_blank_line_ends_the_event() {
        let data = br#"{"jsonrpc":"2.0"}"#;
        check(Event::new(data), "data: {\"jsonrpc\":\"2.0\"}\n\n");
        check(
            Event::new(data).with_id("7").with_event("message").with_retry(Duration::from_millis(1500)),
            "event: message\nid: 7\nretry: 1500\ndata: {\"jsonrpc\":\"2.0\"}\n\n",
        );
        check(Event::priming("s1-0"), "id: s1-0\ndata: \n\n");
        check(Event::new(b""), "data: \n\n");
    }

    #[test]
    fn every_kind_of_line_break_splits_the_data() {
        check(Event::new(b"a\nb"), "data: a\ndata: b\n\n");
        check(Event::new(b"a\r\nb"), "data: a\ndata: b\n\n");
        check(Event::new(b"a\rb"), "data: a\ndata: b\n\n");
        check(Event::new(b"a\n\rb"), "data: a\ndata: \ndata: b\n\n");
        check(Event::new(b"a\n\n"), "data: a\ndata: \ndata: \n\n");
        check(Event::new(b"\r\n"), "data: \ndata: \n\n");
        check(Event::new("\u{2028} bl\u{e4}".as_bytes()), "data: \u{2028} bl\u{e4}\n\n");
    }

    #[test]
    fn names_cannot_break_out_of_their_line() {
        check(
            Event::new(b"x").with_id("1\ndata: forged\n\n\u{0}2").with_event("a\r\nid: 9"),
            "event: aid: 9\nid: 1data: forged2\ndata: x\n\n",
        );
    }

    #[test]
    fn comments_are_comments_on_every_line() {
        assert_eq!(comment("keep-alive"), ": keep-alive\n\n");
        assert_eq!(comment(""), ": \n\n");
        assert_eq!(comment("a\ndata: b\r\nc"), ": a\n: data: b\n: c\n\n");
    }
}
