//! Decodes any bytes as server-sent events.
//!
//! The first byte sets the limit of the data of an event. The events do not depend on the chunks of the stream, no event is over the
//! limit, and an encoded event has the same parts after its decoding.

#![no_main]

use bytes::Bytes;
use fuzz::fuzz_target;
use mcp_transport::sse::{Decoder, Event};

/// The events of a stream, and its state at the end. An error has no event.
#[derive(Debug, PartialEq)]
struct Read {
    events: Vec<Option<(Option<String>, Vec<u8>)>>,
    last_id: Option<String>,
    retry: Option<std::time::Duration>,
}

fn read<'c>(limit: usize, chunks: impl Iterator<Item = &'c [u8]>) -> Read {
    let mut decoder = Decoder::new(limit);
    let mut events = Vec::new();
    for chunk in chunks {
        decoder.feed(Bytes::copy_from_slice(chunk));
        while let Some(event) = decoder.next_event() {
            events.push(event.ok().map(|event| {
                assert!(event.data.len() <= limit);
                (event.event.map(String::from), event.data.to_vec())
            }));
        }
    }
    Read { events, last_id: decoder.last_event_id().map(str::to_owned), retry: decoder.retry() }
}

fuzz_target!(|data: &[u8]| {
    let Some((&limit, stream)) = data.split_first() else { return };
    // A longer line of an unknown field depends on the chunks: the decoder drops it only if it is incomplete.
    let stream = &stream[..stream.len().min(8 << 10)];
    let whole = read(limit.into(), std::iter::once(stream));
    assert_eq!(read(limit.into(), stream.chunks(1)), whole);
    assert_eq!(read(limit.into(), stream.chunks(7)), whole);

    let Ok(text) = std::str::from_utf8(stream) else { return };
    let (name, text) = text.split_at(text.floor_char_boundary(text.len() / 4));
    let encoded = Event::new(text.as_bytes()).with_id(name).with_event(name).encode();
    let Read { events, last_id, .. } = read(8 << 10, std::iter::once(&*encoded));
    let clean = name.replace(['\r', '\n', '\0'], "");
    let lines = text.replace("\r\n", "\n").replace('\r', "\n");
    if clean.len() > 1024 {
        return;
    }
    let named = Some(clean).filter(|name| !name.is_empty());
    assert_eq!(last_id, named);
    // An event without data and type is dropped.
    if let [Some((event, data))] = &events[..] {
        assert_eq!((event, data), (&named, &lines.into_bytes()));
    } else {
        assert!(events.is_empty() && named.is_none() && lines.is_empty(), "{events:?}");
    }
});
