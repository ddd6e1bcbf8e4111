//! Server-sent events (HTML, §9.2) for Streamable HTTP and HTTP+SSE: the encoder, and the [`Decoder`].

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use memchr::memchr2;

mod decode;

pub use self::decode::{Decoder, Received};

/// An event to send.
///
/// ```
/// use mcp_transport::sse::Event;
///
/// let event = Event::new(br#"{"jsonrpc":"2.0"}"#).with_id("7").with_event("message");
/// assert_eq!(&event.encode()[..], b"event: message\nid: 7\ndata: {\"jsonrpc\":\"2.0\"}\n\n");
/// ```
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Event<'a> {
    /// The id that a client sends back as `Last-Event-ID`. Line breaks and NUL are removed.
    pub id: Option<&'a str>,
    /// The type of the event. A client reads an absent type as `message`. Line breaks are removed.
    pub event: Option<&'a str>,
    /// The data, in UTF-8. Each line becomes a `data` field. The client reads `\r\n` and `\r` as `\n`.
    pub data: &'a [u8],
    /// The time after which the client should reconnect, sent in whole milliseconds.
    pub retry: Option<Duration>,
}

impl<'a> Event<'a> {
    /// Returns an event with this data and no other fields.
    #[must_use]
    pub fn new(data: &'a [u8]) -> Self {
        Self { data, ..Self::default() }
    }

    /// Returns the first event of a resumable stream: an id without data (2025-11-25, transports).
    ///
    /// ```
    /// let event = mcp_transport::sse::Event::priming("stream-1/0");
    /// assert_eq!(&event.encode()[..], b"id: stream-1/0\ndata: \n\n");
    /// ```
    #[must_use]
    pub fn priming(id: &'a str) -> Self {
        Self::default().with_id(id)
    }

    /// Sets the id.
    #[must_use]
    pub fn with_id(mut self, id: &'a str) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets the type.
    #[must_use]
    pub fn with_event(mut self, event: &'a str) -> Self {
        self.event = Some(event);
        self
    }

    /// Sets the time after which the client should reconnect.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let event = mcp_transport::sse::Event::new(b"").with_retry(Duration::from_secs(3));
    /// assert_eq!(&event.encode()[..], b"retry: 3000\ndata: \n\n");
    /// ```
    #[must_use]
    pub fn with_retry(mut self, retry: Duration) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Returns the bytes of the event, with the blank line at its end.
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

/// Returns a comment, which keeps the connection alive and which clients ignore. Each line of the text becomes a
/// comment line.
///
/// ```
/// assert_eq!(&mcp_transport::sse::comment("ping")[..], b": ping\n\n");
/// ```
#[must_use]
pub fn comment(text: &str) -> Bytes {
    let mut out = BytesMut::with_capacity(text.len() + OVERHEAD);
    put_lines(&mut out, b": ", text.as_bytes());
    out.put_u8(b'\n');
    out.freeze()
}

/// The bytes of field names, line breaks and a number, for an event with one line of data.
const OVERHEAD: usize = 64;

/// Appends a field on one line. Line breaks of the value are removed.
fn put_field(out: &mut BytesMut, name: &[u8], value: &str) {
    out.put_slice(name);
    for part in value.split(['\r', '\n', '\0']) {
        out.put_slice(part.as_bytes());
    }
    out.put_u8(b'\n');
}

/// Appends one field per line of the text, at least one.
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
    fn fields_are_in_order_and_a_blank_line_ends_the_event() {
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
    fn line_breaks_in_names_do_not_add_lines() {
        check(
            Event::new(b"x").with_id("1\ndata: forged\n\n\u{0}2").with_event("a\r\nid: 9"),
            "event: aid: 9\nid: 1data: forged2\ndata: x\n\n",
        );
    }

    #[test]
    fn every_line_of_a_comment_is_a_comment() {
        assert_eq!(comment("keep-alive"), ": keep-alive\n\n");
        assert_eq!(comment(""), ": \n\n");
        assert_eq!(comment("a\ndata: b\r\nc"), ": a\n: data: b\n: c\n\n");
    }
}
