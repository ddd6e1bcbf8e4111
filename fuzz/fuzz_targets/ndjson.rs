//! Reads any bytes as newline-delimited messages.
//!
//! The first byte sets the limit of a line, and the second byte the size of a read. The lines are those of a simple model.

#![no_main]

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use fuzz::{block_on, fuzz_target};
use mcp_transport::{
    ndjson::{Ndjson, Options},
    recv,
};
use tokio::io::{AsyncRead, ReadBuf};

/// A reader that returns at most this many bytes at once.
struct Chunks {
    rest: Vec<u8>,
    size: usize,
}

impl AsyncRead for Chunks {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let end = self.size.min(buffer.remaining()).min(self.rest.len());
        buffer.put_slice(&self.rest.drain(..end).collect::<Vec<_>>());
        Poll::Ready(Ok(()))
    }
}

/// The lines of the input. A line over the limit is `None`.
fn model(input: &[u8], limit: usize) -> Vec<Option<Vec<u8>>> {
    let lines = input.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let lines = lines.filter(|line| line.len() > limit || !line.trim_ascii_start().is_empty());
    lines.map(|line| (line.len() <= limit).then(|| line.to_vec())).collect()
}

fuzz_target!(|data: &[u8]| {
    let [limit, size, input @ ..] = data else { return };
    let (limit, size) = (usize::from(*limit).max(1), usize::from(*size).max(1));
    let lines = block_on(async {
        let options = Options::default().max_line(limit);
        let reader = Chunks { rest: input.to_vec(), size };
        let mut transport = Ndjson::with_options(reader, tokio::io::sink(), &options);
        let mut lines = Vec::new();
        while let Some(frame) = recv(&mut transport).await {
            lines.push(frame.ok().map(|frame| frame.message.to_vec()));
        }
        drop(transport);
        // The task of the writer ends.
        tokio::task::yield_now().await;
        lines
    });
    assert_eq!(lines, model(input, limit));
});
