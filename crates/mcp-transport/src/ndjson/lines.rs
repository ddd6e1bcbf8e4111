//! Splits bytes into lines within a limit. Each byte is scanned once.

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr;

use crate::TransportError;

/// The bytes of one read.
const CHUNK: usize = 64 << 10;
/// The minimum free capacity for a read.
const MIN_ROOM: usize = 16 << 10;
/// The maximum length of a line that is copied. For short lines a copy is cheaper than sharing the buffer, and it
/// does not keep the buffer alive.
const COPY: usize = 4 << 10;

/// The lines of a byte stream that is read in pieces.
#[derive(Debug)]
pub(super) struct Lines {
    buffer: BytesMut,
    /// The buffer has no line break before this position.
    scanned: usize,
    /// The first line is too long and is skipped up to its end.
    skipping: bool,
    /// The buffer has grown beyond one chunk.
    grown: bool,
    limit: usize,
}

impl Lines {
    pub(super) fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), scanned: 0, skipping: false, grown: false, limit }
    }

    /// Returns the next complete line that is not blank, or the error for a line over the limit.
    pub(super) fn next(&mut self) -> Option<Result<Bytes, TransportError>> {
        loop {
            let Some(at) = memchr(b'\n', &self.buffer[self.scanned..]) else {
                return self.check_partial();
            };
            let end = self.scanned + at;
            self.scanned = 0;
            let line = without_cr(&self.buffer[..end]);
            let len = line.len();
            if self.skipping {
                self.skipping = false;
            } else if len > self.limit {
                let error = TransportError::too_large(self.limit).with_start(line);
                self.buffer.advance(end + 1);
                return Some(Err(error));
            } else if !is_blank(line) {
                return Some(Ok(self.take(len, end + 1)));
            }
            self.buffer.advance(end + 1);
        }
    }

    /// Returns the last line, which has no line break.
    pub(super) fn last(&mut self) -> Option<Bytes> {
        let line = without_cr(&self.buffer);
        let len = line.len();
        let last = (!self.skipping && !is_blank(line)).then(|| self.take(len, self.buffer.len()));
        self.clear();
        last
    }

    /// Returns the buffer with capacity for a read.
    pub(super) fn room(&mut self) -> &mut BytesMut {
        let len = self.buffer.len();
        if len == 0 && self.grown {
            self.clear();
        }
        if self.buffer.capacity() - len < MIN_ROOM {
            self.grown |= len + MIN_ROOM > CHUNK;
            self.buffer.reserve(MIN_ROOM.max(CHUNK.saturating_sub(len)));
        }
        &mut self.buffer
    }

    /// Drops the buffered bytes and frees the memory.
    pub(super) fn clear(&mut self) {
        self.buffer = BytesMut::new();
        self.scanned = 0;
        self.grown = false;
    }

    /// Takes `len` bytes from the front and drops the rest of the `whole` line.
    fn take(&mut self, len: usize, whole: usize) -> Bytes {
        if len <= COPY {
            let line = Bytes::copy_from_slice(&self.buffer[..len]);
            self.buffer.advance(whole);
            return line;
        }
        let mut line = self.buffer.split_to(whole);
        line.truncate(len);
        if self.grown {
            // The following bytes must not stay in a buffer of the size that this line needed.
            self.buffer = BytesMut::from(&self.buffer[..]);
            self.grown = self.buffer.len() > CHUNK;
        }
        line.freeze()
    }

    /// Reports a line over the limit once, before its end was read.
    fn check_partial(&mut self) -> Option<Result<Bytes, TransportError>> {
        self.scanned = self.buffer.len();
        // One byte over the limit may be the `\r` of the line break.
        let over =
            self.scanned > self.limit + 1 || (self.scanned == self.limit + 1 && self.buffer[self.limit] != b'\r');
        if self.skipping {
            self.buffer.clear();
            self.scanned = 0;
        } else if over {
            let error = TransportError::too_large(self.limit).with_start(&self.buffer);
            self.clear();
            self.skipping = true;
            return Some(Err(error));
        }
        None
    }
}

fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn is_blank(line: &[u8]) -> bool {
    line.trim_ascii_start().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds pieces and collects lines. An error becomes `!`.
    fn cut(limit: usize, pieces: &[&[u8]]) -> Vec<String> {
        let mut lines = Lines::new(limit);
        let mut out = Vec::new();
        let mut drain = |lines: &mut Lines| {
            while let Some(line) = lines.next() {
                out.push(line.map_or_else(|_| "!".to_owned(), |l| String::from_utf8_lossy(&l).into_owned()));
            }
        };
        for piece in pieces {
            lines.room().extend_from_slice(piece);
            drain(&mut lines);
        }
        out.extend(lines.last().map(|l| String::from_utf8_lossy(&l).into_owned()));
        assert!(lines.last().is_none(), "the last line is returned once");
        out
    }

    #[track_caller]
    fn check(limit: usize, input: &str, expected: &[&str]) {
        assert_eq!(cut(limit, &[input.as_bytes()]), expected, "whole: {input:?}");
        let bytes: Vec<&[u8]> = input.as_bytes().chunks(1).collect();
        assert_eq!(cut(limit, &bytes), expected, "byte by byte: {input:?}");
        for at in 0..input.len() {
            let (front, back) = input.as_bytes().split_at(at);
            assert_eq!(cut(limit, &[front, back]), expected, "split at {at}: {input:?}");
        }
    }

    #[test]
    fn lines_are_split_independently_of_the_chunks() {
        check(8, "", &[]);
        check(8, "{}\n", &["{}"]);
        check(8, "{}\n[]\n1\n", &["{}", "[]", "1"]);
        check(8, "{}\r\n[]\r\n", &["{}", "[]"]);
        check(8, "\n\r\n  \n\t \r\n{}\n\n", &["{}"]);
        check(8, "{}\n[]", &["{}", "[]"]);
        check(8, "{}\n[]\r", &["{}", "[]"]);
        check(8, "{}\n \r", &["{}"]);
        check(8, " {}\t\n", &[" {}\t"]);
    }

    #[test]
    fn the_limit_counts_the_line_without_its_break() {
        check(4, "123\n1\n", &["123", "1"]);
        check(4, "1234\n1\n", &["1234", "1"]);
        check(4, "1234\r\n1\n", &["1234", "1"]);
        check(4, "1234\r", &["1234"]);
        check(4, "12345\n1\n", &["!", "1"]);
        check(4, "12345\r\n1\n", &["!", "1"]);
        check(4, "1234\r5\n1\n", &["!", "1"]);
        check(4, "123456789\n\n1234567\n1", &["!", "!", "1"]);
        check(4, "12345", &["!"]);
        check(1, "1\n22\n3\n", &["1", "!", "3"]);
    }

    #[test]
    fn the_start_of_a_long_line_is_kept() {
        for (pieces, kept) in [(&["123456\n"][..], "123456"), (&["12345", "6\n"], "12345")] {
            let mut lines = Lines::new(4);
            lines.room().extend_from_slice(pieces[0].as_bytes());
            assert_eq!(lines.next().map(|line| line.unwrap_err().start().to_owned()), Some(kept.into()));
        }
        let mut lines = Lines::new(1 << 10);
        lines.room().extend_from_slice(&[b'x'; 2 << 10]);
        assert_eq!(lines.next().map(|line| line.unwrap_err().start().len()), Some(512));
    }

    #[test]
    fn invalid_utf8_passes_through() {
        let mut lines = Lines::new(8);
        lines.room().extend_from_slice(b"\xff\xfe\n");
        assert_eq!(lines.next().map(|l| l.expect("a line")), Some(Bytes::from_static(b"\xff\xfe")));
    }

    #[test]
    fn a_truncated_long_line_releases_its_buffer() {
        let long = "x".repeat(1 << 20);
        let mut lines = Lines::new(1 << 20);
        lines.room().extend_from_slice(format!("{long}\n{{}}\n").as_bytes());
        lines.grown = true;
        assert_eq!(lines.next().map(|l| l.expect("a line").len()), Some(1 << 20));
        assert!(lines.buffer.capacity() < 1 << 10, "the rest has moved: {}", lines.buffer.capacity());
        assert_eq!(lines.next().map(|l| l.expect("a line").len()), Some(2));
        assert!(lines.room().capacity() <= CHUNK);
    }

    #[test]
    fn short_lines_reuse_one_buffer() {
        let mut lines = Lines::new(1 << 20);
        let mut kept = Vec::new();
        let start = lines.room().as_ptr().addr();
        for _ in 0..10_000 {
            lines.room().extend_from_slice(b"{\"jsonrpc\":\"2.0\"}\n");
            kept.extend(lines.next());
            assert!((start..start + CHUNK).contains(&lines.room().as_ptr().addr()), "the buffer has moved");
        }
        assert_eq!(kept.len(), 10_000);
    }
}
