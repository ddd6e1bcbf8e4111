//! Properties of the framing: events and lines do not depend on the chunks of the stream, and follow simple models.

use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use mcp_transport::{
    ndjson::{Ndjson, Options},
    recv,
    sse::{Decoder, Event},
};
use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
    test_runner::{Config, RngAlgorithm, TestCaseResult, TestRng, TestRunner},
};
use tokio::io::{AsyncRead, ReadBuf};

/// Checks a property of random values. Each run has the same values, and `PROPTEST_CASES` sets their number.
fn check<S: Strategy>(values: &S, property: impl Fn(S::Value) -> TestCaseResult) {
    let config = Config { failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    TestRunner::new_with_rng(config, rng).run(values, property).unwrap_or_else(|error| panic!("{error}"));
}

/// Splits bytes at random positions. Some chunks are empty.
fn split(bytes: &[u8], cuts: &[Index]) -> VecDeque<Bytes> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    ends.push(bytes.len());
    ends.sort_unstable();
    let mut start = 0;
    ends.into_iter().map(|end| Bytes::copy_from_slice(&bytes[std::mem::replace(&mut start, end)..end])).collect()
}

/// The type and the data of an event. `None` is an event over the limit.
type Events = Vec<Option<(Option<String>, Vec<u8>)>>;

/// The events of a stream, its last id, and its time to reconnect in milliseconds.
type Stream = (Events, Option<String>, Option<u64>);

fn decode(limit: usize, chunks: impl IntoIterator<Item = Bytes>) -> Stream {
    let mut decoder = Decoder::new(limit);
    let mut events = Vec::new();
    for chunk in chunks {
        decoder.feed(chunk);
        while let Some(event) = decoder.next_event() {
            events.push(event.ok().map(|event| (event.event.map(String::from), event.data.to_vec())));
        }
    }
    let retry = decoder.retry().and_then(|retry| u64::try_from(retry.as_millis()).ok());
    (events, decoder.last_event_id().map(str::to_owned), retry)
}

/// Decodes a whole stream by the rules of HTML §9.2.6.
fn model(limit: usize, stream: &[u8]) -> Stream {
    let stream = stream.strip_prefix("\u{feff}".as_bytes()).unwrap_or(stream);
    let mut lines = Vec::new();
    let mut rest = stream;
    // The last line has no break, so it is not complete.
    while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
        lines.push(&rest[..end]);
        rest = rest[end..].strip_prefix(b"\r\n").unwrap_or(&rest[end + 1..]);
    }
    let (mut events, mut last_id, mut retry): Stream = Default::default();
    let (mut event, mut data, mut id, mut is_over) = (None, None::<Vec<u8>>, None, false);
    for line in lines {
        if line.is_empty() {
            if let Some(id) = id.take() {
                last_id = Some(id).filter(|id: &String| !id.is_empty());
            }
            if let Some(data) = data.take().filter(|_| !is_over) {
                events.push(Some((event.take(), data)));
            }
            (event, is_over) = (None, false);
            continue;
        }
        let (name, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let text = || String::from_utf8_lossy(value).into_owned();
        match name {
            b"data" if !is_over => {
                let data = match &mut data {
                    Some(data) => {
                        data.push(b'\n');
                        data
                    }
                    None => data.insert(Vec::new()),
                };
                data.extend_from_slice(value);
                if data.len() > limit {
                    is_over = true;
                    // The error comes in place of the event.
                    events.push(None);
                }
            }
            b"event" => event = Some(text()).filter(|text| !text.is_empty()),
            b"id" if !value.contains(&0) => id = Some(text()),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                retry = text().parse().ok().or(retry);
            }
            _ => {}
        }
    }
    (events, last_id, retry)
}

/// A stream of server-sent events. Some bytes are not UTF-8.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = select(vec![
        &b"data: "[..],
        b"data:",
        b"data",
        b"event: ",
        b"event:message",
        b"id: ",
        b"id:7",
        b"id",
        b"retry: ",
        b"retry:30",
        b":",
        b": comment",
        b"\n",
        b"\n",
        b"\n\n",
        b"\r\n",
        b"\r",
        b"\r\r\n",
        b" ",
        b"x",
        b"{\"jsonrpc\":\"2.0\"}",
        b"12",
        b"\xef\xbb\xbf",
        b"\xc3",
        b"\xa9",
        b"\0",
    ]);
    vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn cuts() -> impl Strategy<Value = Vec<Index>> {
    vec(any::<Index>(), 0..12)
}

#[test]
fn events_do_not_depend_on_the_chunks_of_the_stream() {
    check(&(0..24_usize, stream(), cuts()), |(limit, bytes, cuts)| {
        let expected = model(limit, &bytes);
        prop_assert_eq!(&decode(limit, [Bytes::copy_from_slice(&bytes)]), &expected, "whole");
        prop_assert_eq!(decode(limit, split(&bytes, &cuts)), expected, "in chunks");
        Ok(())
    });
}

#[test]
fn an_encoded_event_has_the_same_parts_in_each_split() {
    let text = || "[a é{\"\\\\:]{0,8}";
    let data = "[a é{\"\\\\:\n]{0,16}";
    check(&(text(), text(), data, 0..100_000_u64, cuts()), |(id, name, data, retry, cuts)| {
        let event = Event::new(data.as_bytes()).with_id(&id).with_event(&name);
        let bytes = event.with_retry(std::time::Duration::from_millis(retry)).encode();
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        let expected = (vec![Some((some(name), data.into_bytes()))], some(id), Some(retry));
        prop_assert_eq!(decode(1024, split(&bytes, &cuts)), expected);
        Ok(())
    });
}

/// A reader that returns one chunk at once, and is not ready before each chunk.
struct Chunks {
    rest: VecDeque<Bytes>,
    is_ready: bool,
}

impl AsyncRead for Chunks {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        self.is_ready = !self.is_ready;
        if !self.is_ready {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        // An empty chunk would be the end of the stream.
        while let Some(mut chunk) = self.rest.pop_front() {
            if !chunk.is_empty() {
                let now = chunk.split_to(chunk.len().min(buffer.remaining()));
                buffer.put_slice(&now);
                self.rest.push_front(chunk);
                break;
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// The lines of a stream. A line over the limit is `None`.
fn lines(limit: usize, stream: &[u8]) -> Vec<Option<Vec<u8>>> {
    let lines = stream.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let lines = lines.filter(|line| line.len() > limit || !line.trim_ascii_start().is_empty());
    lines.map(|line| (line.len() <= limit).then(|| line.to_vec())).collect()
}

#[test]
fn lines_do_not_depend_on_the_chunks_of_the_stream() {
    let piece = select(vec![
        &b"\n"[..],
        b"\n",
        b"\r\n",
        b"\r",
        b" ",
        b"\t",
        b"{}",
        b"{\"a\":\"\\n\"}",
        b"\xff",
        b"\xc3\xa9",
        b"0123456789",
    ]);
    let stream = vec(piece, 0..16).prop_map(|pieces| pieces.concat());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    check(&(1..24_usize, stream, cuts()), |(limit, bytes, cuts)| {
        let found = runtime.block_on(async {
            let reader = Chunks { rest: split(&bytes, &cuts), is_ready: true };
            let mut transport = Ndjson::with_options(reader, tokio::io::sink(), &Options::default().max_line(limit));
            let mut found = Vec::new();
            while let Some(frame) = recv(&mut transport).await {
                found.push(frame.ok().map(|frame| frame.message.to_vec()));
            }
            found
        });
        prop_assert_eq!(found, lines(limit, &bytes));
        Ok(())
    });
}
