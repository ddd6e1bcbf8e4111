//! The form of events in the shared store. A record of the store is a batch of events of one session.

use mcp_store::limits::MAX_NUMBER;

/// The number of the batch that excludes a writer, because its node has stopped. No batch of the writer follows it.
pub(crate) const EXCLUDED: u64 = MAX_NUMBER;
/// The version of the form.
const VERSION: u8 = 1;
/// The index of the last event of a batch. A reader behind it needs the batch no more.
const LAST: u64 = 0xfff;
/// The bits of an index.
const INDEX_BITS: u32 = 12;

/// The kind of an event in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A stream begins. Its message is the id of the request, as JSON.
    Opened,
    /// A notification, or a request to the client.
    Message,
    /// The response, which ends the stream.
    Answer,
    /// The stream ends without a response.
    End,
    /// Events of the stream before this position are lost.
    Gap,
}

impl Kind {
    fn code(self) -> u8 {
        match self {
            Self::Opened => 0,
            Self::Message => 1,
            Self::Answer => 2,
            Self::End => 3,
            Self::Gap => 4,
        }
    }

    fn of(code: u8) -> Option<Self> {
        let all = [Self::Opened, Self::Message, Self::Answer, Self::End, Self::Gap];
        all.into_iter().find(|kind| kind.code() == code)
    }

    /// Whether the event ends its stream.
    pub(crate) fn is_end(self) -> bool {
        matches!(self, Self::Answer | Self::End)
    }
}

/// The identity of a batch. The store appends a batch once, so that a writer repeats an append that may have failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchId {
    /// The random number of the log that wrote the batch, while its node has one lease.
    pub(crate) writer: u32,
    pub(crate) number: u64,
}

/// Returns the number of the stream before the first stream of a writer. The streams of two writers have different numbers.
pub(crate) fn first_stream(writer: u32) -> u64 {
    u64::from(writer) << 32
}

/// Returns the writer of a stream.
pub(crate) fn writer_of(stream: u64) -> u32 {
    u32::try_from(stream >> 32).unwrap_or_default()
}

/// A batch that is being written.
#[derive(Debug)]
pub(crate) struct BatchWriter(Vec<u8>);

impl BatchWriter {
    pub(crate) fn new(id: BatchId) -> Self {
        let mut bytes = vec![VERSION];
        bytes.extend(id.writer.to_be_bytes());
        bytes.extend(id.number.to_be_bytes());
        Self(bytes)
    }

    pub(crate) fn push(&mut self, kind: Kind, stream: u64, message: &[u8]) {
        self.0.push(kind.code());
        self.0.extend(stream.to_be_bytes());
        self.0.extend((message.len() as u64).to_be_bytes());
        self.0.extend(message);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// A batch that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Batch<'a> {
    pub(crate) id: BatchId,
    pub(crate) events: Vec<StoredEvent<'a>>,
}

/// An event of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StoredEvent<'a> {
    pub(crate) kind: Kind,
    pub(crate) stream: u64,
    pub(crate) message: &'a [u8],
}

impl<'a> Batch<'a> {
    /// Reads a batch. `None` if another version of the library wrote it.
    pub(crate) fn read(mut bytes: &'a [u8]) -> Option<Self> {
        let bytes = &mut bytes;
        if number::<1>(bytes)? != [VERSION] {
            return None;
        }
        let id = BatchId { writer: u32::from_be_bytes(number(bytes)?), number: u64::from_be_bytes(number(bytes)?) };
        let mut events = Vec::new();
        while !bytes.is_empty() {
            let [code] = number(bytes)?;
            let (kind, stream) = (Kind::of(code)?, u64::from_be_bytes(number(bytes)?));
            let len = usize::try_from(u64::from_be_bytes(number(bytes)?)).ok()?;
            events.push(StoredEvent { kind, stream, message: take(bytes, len)? });
        }
        Some(Self { id, events })
    }
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken)
}

fn number<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    take(bytes, N)?.try_into().ok()
}

/// Returns the sequence number in the id of an event: the sequence of its batch, and its index.
pub(crate) fn seq(batch: u64, index: usize, count: usize) -> u64 {
    let index = if index + 1 == count { LAST } else { index as u64 };
    (batch << INDEX_BITS) | index
}

/// Returns the sequence of the last batch that a reader behind an event does not need.
pub(crate) fn batch_before(seq: u64) -> u64 {
    let batch = seq >> INDEX_BITS;
    if seq & LAST == LAST { batch } else { batch.saturating_sub(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_read_as_it_was_written_and_cut_batches_are_rejected() {
        let id = BatchId { writer: 7, number: 9 };
        let mut writer = BatchWriter::new(id);
        writer.push(Kind::Opened, 5, b"1");
        writer.push(Kind::Message, 5, b"{}");
        writer.push(Kind::End, u64::MAX, b"");
        writer.push(Kind::Gap, 5, b"");
        let head = BatchWriter::new(id).len();
        let bytes = writer.into_bytes();
        let batch = Batch::read(&bytes).unwrap();
        assert_eq!(batch.id, id);
        let kinds: Vec<_> = batch.events.iter().map(|event| (event.kind, event.stream, event.message)).collect();
        let expected: [(Kind, u64, &[u8]); 4] =
            [(Kind::Opened, 5, b"1"), (Kind::Message, 5, b"{}"), (Kind::End, u64::MAX, b""), (Kind::Gap, 5, b"")];
        assert_eq!(kinds, expected);
        // A cut between two events leaves a shorter batch.
        let whole = [head, head + 18, head + 37, head + 54];
        for len in (0..bytes.len()).filter(|len| !whole.contains(len)) {
            assert_eq!(Batch::read(&bytes[..len]), None, "{len}");
        }
        assert_eq!(Batch::read(&[2, 0]), None);
    }

    #[test]
    fn a_reader_behind_the_last_event_of_a_batch_does_not_read_it_again() {
        let all: Vec<u64> = (0..3).map(|index| seq(8, index, 3)).collect();
        assert!(all.is_sorted() && all[2] < seq(9, 0, 2));
        assert_eq!(all.iter().map(|seq| batch_before(*seq)).collect::<Vec<_>>(), [7, 7, 8]);
        assert_eq!((batch_before(seq(8, 0, 1)), batch_before(0)), (8, 0));
    }
}
