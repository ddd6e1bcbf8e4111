//! The standard error of the process: logged by `tracing`, and the last lines kept for the error.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, BufReader};

/// The number of lines that are kept, and the maximum bytes of each. The rest of a longer line is dropped.
const LINES: usize = 20;
const LINE: usize = 1 << 10;

/// The last lines of the standard error.
#[derive(Debug, Clone, Default)]
pub(super) struct LastLines(Arc<Mutex<VecDeque<String>>>);

impl LastLines {
    /// Returns a copy of the lines, oldest first.
    pub(super) fn lines(&self) -> Vec<String> {
        self.0.lock().iter().cloned().collect()
    }

    fn push(&self, line: String) {
        let mut lines = self.0.lock();
        if lines.len() == LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }
}

/// Reads until the end and keeps the last lines.
pub(super) async fn drain(stderr: impl AsyncRead + Unpin, program: String, last: LastLines) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    while let Ok(true) = next(&mut reader, &mut line).await {
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        if !text.is_empty() {
            tracing::debug!(target: "mcp_transport::child", program, "{text}");
            last.push(text.to_owned());
        }
        line.clear();
    }
}

/// Reads a line and keeps at most [`LINE`] bytes of it. Returns false at the end.
async fn next(reader: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> std::io::Result<bool> {
    let mut any = false;
    loop {
        let bytes = reader.fill_buf().await?;
        if bytes.is_empty() {
            return Ok(any);
        }
        any = true;
        let end = memchr::memchr(b'\n', bytes);
        let taken = end.unwrap_or(bytes.len());
        line.extend_from_slice(&bytes[..taken.min(LINE.saturating_sub(line.len()))]);
        reader.consume(end.map_or(taken, |end| end + 1));
        if end.is_some() {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn keeps_the_last_lines_and_the_start_of_long_lines() {
        let mut output: String = (0..30).map(|n| format!("line {n}\n")).collect();
        output.push_str(&"x".repeat(1 << 20));
        output.push_str("\n\r\nthe end");
        let last = LastLines::default();
        drain(output.as_bytes(), "test".to_owned(), last.clone()).await;
        let lines = last.lines();
        assert_eq!(lines.len(), LINES);
        assert_eq!(lines[0], "line 12");
        assert_eq!(lines[18].len(), LINE);
        assert_eq!(lines[19], "the end");
    }
}
