//! The decoder of server-sent events (HTML, §9.2.6) for clients of Streamable HTTP and HTTP+SSE.

use std::{mem, str, time::Duration};

use bytes::{Buf, Bytes, BytesMut};
use memchr::{memchr, memchr2};

use crate::{TransportError, error::START};

/// A received event.
///
/// ```
/// use bytes::Bytes;
/// use mcp_transport::sse::Decoder;
///
/// let mut decoder = Decoder::new(1024);
/// decoder.feed(Bytes::from_static(b"event: endpoint\ndata: /messages\n\ndata: {}\n\n"));
/// let endpoint = decoder.next_event().unwrap()?;
/// assert_eq!((endpoint.event.as_deref(), endpoint.is_message()), (Some("endpoint"), false));
/// assert!(decoder.next_event().unwrap()?.is_message());
/// # Ok::<_, mcp_transport::TransportError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received {
    /// The type of the event. `None` means `message`.
    pub event: Option<Box<str>>,
    /// The lines of the data, joined by `\n`. The bytes may be invalid UTF-8. Empty for an event that only sets an id
    /// or a retry time.
    pub data: Bytes,
}

impl Received {
    /// Whether the type of the event is `message`, explicitly or by default.
    #[must_use]
    pub fn is_message(&self) -> bool {
        self.event.as_deref().is_none_or(|event| event == "message")
    }
}

/// Splits a stream of bytes into events. It buffers at most `limit` bytes of data per event.
///
/// ```
/// use bytes::Bytes;
/// use mcp_transport::sse::Decoder;
///
/// let mut decoder = Decoder::new(1024);
/// decoder.feed(Bytes::from_static(b"id: 7\ndata: hel"));
/// assert!(decoder.next_event().is_none());
/// decoder.feed(Bytes::from_static(b"lo\n\n"));
/// assert_eq!(decoder.next_event().unwrap()?.data, "hello");
/// assert_eq!(decoder.last_event_id(), Some("7"));
/// # Ok::<_, mcp_transport::TransportError>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    /// The input that was not processed yet.
    input: Bytes,
    /// The start of an incomplete line. Of a comment only the colon is kept.
    line: BytesMut,
    /// The line is longer than each known field, and its content was dropped.
    line_lost: bool,
    /// The last line ended with a carriage return, so a line feed would belong to the same line break.
    after_return: bool,
    is_first_line: bool,
    event: Option<Box<str>>,
    data: Data,
    /// The event is over the limit: the decoder skips it.
    is_skipped: bool,
    /// The error that the caller has not received yet.
    pending_error: Option<TransportError>,
    id: Option<Box<str>>,
    last_event_id: Option<Box<str>>,
    retry: Option<Duration>,
}

/// The data of an event: a slice of the input while it has one line.
#[derive(Debug)]
enum Data {
    None,
    Line(Bytes),
    Lines(BytesMut),
}

/// The maximum bytes of an id that is kept. The client sends it in a header.
const MAX_ID: usize = 8 * 1024;
/// The maximum bytes of an event type.
const MAX_NAME: usize = 1024;
/// More than the bytes of a field name with its colon, space and line break.
const FIELD: usize = 16;

impl Decoder {
    /// Returns a decoder for a new stream. An event has at most `limit` bytes of data.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            input: Bytes::new(),
            line: BytesMut::new(),
            line_lost: false,
            after_return: false,
            is_first_line: true,
            event: None,
            data: Data::None,
            is_skipped: false,
            pending_error: None,
            id: None,
            last_event_id: None,
            retry: None,
        }
    }

    /// Sets the id of the event after which the stream continues.
    ///
    /// ```
    /// let decoder = mcp_transport::sse::Decoder::new(1024).with_last_event_id("stream-1/7");
    /// assert_eq!(decoder.last_event_id(), Some("stream-1/7"));
    /// ```
    #[must_use]
    pub fn with_last_event_id(mut self, id: impl Into<Box<str>>) -> Self {
        self.last_event_id = Some(id.into());
        self
    }

    /// Adds the next bytes of the stream. The caller must first read all earlier events with [`Decoder::next_event`].
    pub fn feed(&mut self, chunk: Bytes) {
        if self.input.is_empty() {
            self.input = chunk;
        } else {
            let mut joined = BytesMut::from(mem::take(&mut self.input));
            joined.extend_from_slice(&chunk);
            self.input = joined.freeze();
        }
    }

    /// Returns the next event; `None` when more bytes are needed. An incomplete event at the end of the stream is
    /// discarded.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use mcp_transport::sse::Decoder;
    ///
    /// let mut decoder = Decoder::new(4);
    /// decoder.feed(Bytes::from_static(b"data: too long\n\ndata: {}\n\n"));
    /// assert!(decoder.next_event().unwrap().unwrap_err().is_too_large());
    /// assert_eq!(decoder.next_event().unwrap()?.data, "{}");
    /// assert!(decoder.next_event().is_none());
    /// # Ok::<_, mcp_transport::TransportError>(())
    /// ```
    ///
    /// # Errors
    /// [`TransportError::is_too_large`] in place of an event over the limit, as soon as the limit is passed. The
    /// decoder continues after that event.
    pub fn next_event(&mut self) -> Option<Result<Received, TransportError>> {
        loop {
            if self.after_return && !self.input.is_empty() {
                self.after_return = false;
                if self.input[0] == b'\n' {
                    self.input.advance(1);
                }
            }
            let Some(end) = memchr2(b'\r', b'\n', &self.input) else {
                self.hold();
                return self.too_large();
            };
            let mut line = self.input.split_to(end);
            self.after_return = self.input.get_u8() == b'\r';
            if mem::take(&mut self.line_lost) {
                self.line.clear();
                self.is_first_line = false;
                continue;
            }
            if !self.line.is_empty() {
                self.line.extend_from_slice(&line);
                line = self.line.split().freeze();
            }
            if mem::take(&mut self.is_first_line) && line.starts_with(BOM) {
                line.advance(BOM.len());
            }
            if line.is_empty() {
                if let Some(event) = self.dispatch() {
                    return Some(event);
                }
            } else {
                self.field(&line);
                if let Some(error) = self.too_large() {
                    return Some(error);
                }
            }
        }
    }

    /// Returns the id of the last complete event with an id; `None` also when the server has reset it with an empty
    /// id.
    #[must_use]
    pub fn last_event_id(&self) -> Option<&str> {
        self.last_event_id.as_deref()
    }

    /// Returns the time after which the server asked the client to reconnect.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use bytes::Bytes;
    /// use mcp_transport::sse::Decoder;
    ///
    /// let mut decoder = Decoder::new(1024);
    /// decoder.feed(Bytes::from_static(b"retry: 3000\n\n"));
    /// decoder.next_event();
    /// assert_eq!(decoder.retry(), Some(Duration::from_secs(3)));
    /// ```
    #[must_use]
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Stores the start of a line.
    fn hold(&mut self) {
        let part = mem::take(&mut self.input);
        if self.line_lost || self.line.first() == Some(&b':') || part.is_empty() {
            return;
        }
        if self.line.is_empty() && part[0] == b':' {
            self.line.extend_from_slice(b":");
            return;
        }
        let room = if self.is_skipped { MAX_ID } else { self.limit.saturating_sub(self.data.len()) };
        if self.line.len() + part.len() > room.max(MAX_ID) + FIELD {
            self.line_lost = true;
            let mut line = mem::take(&mut self.line);
            line.extend_from_slice(&part[..part.len().min(START)]);
            let value = line.strip_prefix(b"data:").unwrap_or_default();
            self.skip(value.strip_prefix(b" ").unwrap_or(value));
        } else {
            self.line.extend_from_slice(&part);
        }
    }

    fn field(&mut self, line: &Bytes) {
        let (name, value) = match memchr(b':', line) {
            Some(0) => return,
            Some(colon) => {
                let value = line.slice(colon + 1..);
                let indent = usize::from(value.starts_with(b" "));
                (&line[..colon], value.slice(indent..))
            }
            None => (&line[..], Bytes::new()),
        };
        match name {
            b"data" => self.add(value),
            b"event" if value.len() <= MAX_NAME => {
                self.event = (!value.is_empty()).then(|| String::from_utf8_lossy(&value).into());
            }
            b"event" => self.skip(b""),
            b"id" if value.len() <= MAX_ID && memchr(0, &value).is_none() => {
                self.id = Some(String::from_utf8_lossy(&value).into());
            }
            b"retry" => self.retry = milliseconds(&value).or(self.retry),
            _ => {}
        }
    }

    fn add(&mut self, value: Bytes) {
        if self.is_skipped {
            return;
        }
        let separator = usize::from(!matches!(self.data, Data::None));
        if self.data.len() + separator + value.len() > self.limit {
            self.skip(&value);
            return;
        }
        self.data = match mem::replace(&mut self.data, Data::None) {
            Data::None => Data::Line(value),
            Data::Line(first) => Data::Lines(BytesMut::from(first)).with_line(&value),
            lines @ Data::Lines(_) => lines.with_line(&value),
        };
    }

    /// Skips the rest of an event that is over the limit, from these bytes of its data on.
    fn skip(&mut self, next: &[u8]) {
        let data = mem::replace(&mut self.data, Data::None);
        if mem::replace(&mut self.is_skipped, true) {
            return;
        }
        let mut start = data.start().to_vec();
        start.extend_from_slice(&next[..next.len().min(START)]);
        self.pending_error = Some(TransportError::too_large(self.limit).with_start(&start));
    }

    fn too_large(&mut self) -> Option<Result<Received, TransportError>> {
        self.pending_error.take().map(Err)
    }

    /// Completes the event. An event without data and type is dropped.
    fn dispatch(&mut self) -> Option<Result<Received, TransportError>> {
        if let Some(id) = self.id.take() {
            self.last_event_id = (!id.is_empty()).then_some(id);
        }
        let event = self.event.take();
        let data = match mem::replace(&mut self.data, Data::None) {
            Data::None => None,
            Data::Line(line) => Some(line),
            Data::Lines(lines) => Some(lines.freeze()),
        };
        self.is_skipped = false;
        data.map(|data| Ok(Received { event, data }))
    }
}

impl Data {
    fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Line(line) => line.len(),
            Self::Lines(lines) => lines.len(),
        }
    }

    /// Returns the first bytes of the data.
    fn start(&self) -> &[u8] {
        let data: &[u8] = match self {
            Self::None => &[],
            Self::Line(line) => line,
            Self::Lines(lines) => lines,
        };
        &data[..data.len().min(START)]
    }

    fn with_line(mut self, line: &[u8]) -> Self {
        if let Self::Lines(lines) = &mut self {
            lines.extend_from_slice(b"\n");
            lines.extend_from_slice(line);
        }
        self
    }
}

const BOM: &[u8] = "\u{feff}".as_bytes();

/// Whether the text consists of digits only.
fn milliseconds(value: &[u8]) -> Option<Duration> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let millis = is_number.then(|| str::from_utf8(value).ok()?.parse().ok())?;
    millis.map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sse::{Event, comment};

    /// Returns events as text: `type|data`, and `too large` for those over the limit.
    fn decode(decoder: &mut Decoder, chunks: impl IntoIterator<Item = Bytes>) -> Vec<String> {
        let mut events = Vec::new();
        for chunk in chunks {
            decoder.feed(chunk);
            while let Some(event) = decoder.next_event() {
                events.push(match event {
                    Ok(event) => format!("{}|{}", event.event.as_deref().unwrap_or(""), event.data.escape_ascii()),
                    Err(error) => {
                        assert!(error.is_too_large());
                        "too large".to_owned()
                    }
                });
            }
        }
        events
    }

    /// Decodes the input whole, byte by byte, and cut in two at each position.
    #[track_caller]
    fn check(limit: usize, stream: &[u8], events: &[&str], id: Option<&str>, retry: Option<u64>) {
        let halves = (0..=stream.len()).map(|at| vec![stream[..at].to_vec(), stream[at..].to_vec()]);
        let bytes = stream.iter().map(|byte| vec![*byte]).collect();
        for chunks in halves.chain([bytes]) {
            let mut decoder = Decoder::new(limit);
            let got = decode(&mut decoder, chunks.iter().cloned().map(Bytes::from));
            assert_eq!(got, events, "{chunks:?}");
            assert_eq!(decoder.last_event_id(), id, "{chunks:?}");
            assert_eq!(decoder.retry().map(|wait| wait.as_millis()), retry.map(u128::from), "{chunks:?}");
        }
    }

    /// Returns numbers below a bound, the same in each run.
    fn random(mut state: u64) -> impl FnMut(usize) -> usize {
        move |below| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % below as u64).unwrap()
        }
    }

    #[test]
    fn lines_end_in_three_ways() {
        check(99, b"data: a\n\ndata: b\r\n\r\ndata: c\r\rdata: d\n\r\n", &["|a", "|b", "|c", "|d"], None, None);
        check(99, b"\n\n\r\n\rdata\n\n", &["|"], None, None);
    }

    #[test]
    fn data_lines_are_joined_without_the_leading_space() {
        check(99, b"data: a\ndata:b\ndata:  c\ndata\n\n", &["|a\\nb\\n c\\n"], None, None);
        check(99, b"data:{a:1}\nevent: x\nfoo: bar\n data: y\ndatas: z\n\n", &["x|{a:1}"], None, None);
        check(99, b"event: message\ndata: a\n\nevent:\ndata: b\n\n", &["message|a", "|b"], None, None);
    }

    #[test]
    fn an_incomplete_event_is_discarded() {
        check(99, b"id: 1\ndata: a\n\nid: 2\ndata: b\n", &["|a"], Some("1"), None);
        check(99, b"event: x\nid: 3\n\n", &[], Some("3"), None);
        check(99, b"event: x\n\ndata: a\n\n", &["|a"], None, None);
    }

    #[test]
    fn byte_order_marks_and_comments_are_ignored() {
        check(99, b"\xef\xbb\xbfdata: a\n\n:\n: data: b\n\n\xef\xbb\xbfdata: c\n\n", &["|a"], None, None);
        check(99, b"\xef\xbb\xbf: hi\n\xef\xbb\xbf\n\n", &[], None, None);
        check(4, &[b":".as_slice(), &[b'x'; 20_000], b"\ndata: a\n\n"].concat()[..], &["|a"], None, None);
    }

    #[test]
    fn ids_are_kept_until_an_empty_id() {
        check(99, b"id: 1\n\ndata: a\n\n", &["|a"], Some("1"), None);
        check(99, b"id: 1\n\nid\n\n", &[], None, None);
        check(99, b"id: 1\n\nid: 2\x003\n\n", &[], Some("1"), None);
        check(99, b"id: 1\nid: 2\n\n", &[], Some("2"), None);
    }

    #[test]
    fn a_retry_time_consists_of_digits() {
        check(99, b"retry: 1500\n\n", &[], None, Some(1500));
        check(99, b"retry: 15\nretry: +1\nretry: 1s\nretry:\nretry: 99999999999999999999999\n", &[], None, Some(15));
    }

    #[test]
    fn an_event_over_the_limit_loses_only_itself() {
        check(4, b"data: 1234\n\ndata: 12345\n\ndata: a\n\n", &["|1234", "too large", "|a"], None, None);
        check(4, b"data: 12\ndata: 3\n\ndata: 12\ndata: 34\n\n", &["|12\\n3", "too large"], None, None);
        check(4, b"id: 1\ndata: 12345\ndata: x\nid: 2\n\n", &["too large"], Some("2"), None);
    }

    #[test]
    fn the_start_of_an_oversized_event_is_kept() {
        for stream in [&b"data: 12345678\n\n"[..], b"data:12\ndata: 345678\n\n", b"data: 1234567890"] {
            let mut decoder = Decoder::new(4);
            decoder.feed([stream, &[b'9'; 20_000]].concat().into());
            let error = decoder.next_event().unwrap().unwrap_err();
            assert!(error.start().starts_with(b"12345678"), "{}", error.start().escape_ascii());
            assert!(error.start().len() <= START);
        }
    }

    #[test]
    fn an_endless_line_is_not_buffered() {
        let mut decoder = Decoder::new(64);
        let mut errors = 0;
        for _ in 0..1000 {
            errors += decode(&mut decoder, [Bytes::from_static(&[b'x'; 1000])]).len();
            assert!(decoder.line.len() <= MAX_ID + FIELD);
        }
        // The error comes once, and long before the end of the event.
        assert_eq!(errors, 1);
        assert_eq!(decode(&mut decoder, [Bytes::from_static(b"\ndata: b\n\ndata: c\n\n")]), ["|c"]);
    }

    #[test]
    fn a_resumed_stream_keeps_its_last_id() {
        let mut decoder = Decoder::new(64).with_last_event_id("7");
        assert_eq!(decode(&mut decoder, [Bytes::from_static(b"data: a\n\n")]), ["|a"]);
        assert_eq!(decoder.last_event_id(), Some("7"));
        assert!(decode(&mut decoder, [Bytes::from_static(b"id\n\n")]).is_empty());
        assert_eq!(decoder.last_event_id(), None);
    }

    #[test]
    fn encoded_events_are_decoded_independently_of_the_chunks() {
        let mut next = random(0x2545_f491_4f6c_dd1d);
        for _ in 0..500 {
            let (mut stream, mut expected) = (Vec::new(), Vec::new());
            for number in 0..next(6) {
                let alphabet = ["a", ":", " ", "\n", "\r", "é", "data: x"];
                let data: String = (0..next(12)).map(|_| alphabet[next(alphabet.len())]).collect();
                let id = number.to_string();
                stream.extend_from_slice(&Event::new(data.as_bytes()).with_id(&id).with_event("e").encode());
                if next(2) == 0 {
                    stream.extend_from_slice(&comment(&data));
                }
                let data = data.replace("\r\n", "\n").replace('\r', "\n");
                expected.push(format!("e|{}", data.as_bytes().escape_ascii()));
            }
            let mut chunks = Vec::new();
            while !stream.is_empty() {
                let rest = stream.split_off(1 + next(stream.len()));
                chunks.push(Bytes::from(mem::replace(&mut stream, rest)));
            }
            assert_eq!(decode(&mut Decoder::new(1024), chunks.clone()), expected, "{chunks:?}");
        }
    }

    #[test]
    fn random_bytes_are_decoded_independently_of_the_chunks() {
        let mut next = random(0x9e37_79b9_7f4a_7c15);
        let pieces: [&[u8]; 12] = [
            b"data",
            b":",
            b" ",
            b"\n",
            b"\r",
            b"\n\n",
            b"id: 1",
            b"retry: 7",
            b"event: e",
            b"\0",
            b"\xff",
            b"\xef\xbb\xbf",
        ];
        for _ in 0..2000 {
            let stream: Vec<u8> = (0..next(24)).flat_map(|_| pieces[next(pieces.len())]).copied().collect();
            let mut whole = Decoder::new(8);
            let expected = decode(&mut whole, [Bytes::from(stream.clone())]);
            let mut rest = stream.as_slice();
            let mut cut = Decoder::new(8);
            let mut got = Vec::new();
            while !rest.is_empty() {
                let (chunk, behind) = rest.split_at(1 + next(rest.len()));
                got.extend(decode(&mut cut, [Bytes::copy_from_slice(chunk)]));
                rest = behind;
            }
            assert_eq!(got, expected, "{stream:?}");
            assert_eq!((cut.last_event_id(), cut.retry()), (whole.last_event_id(), whole.retry()), "{stream:?}");
        }
    }
}
