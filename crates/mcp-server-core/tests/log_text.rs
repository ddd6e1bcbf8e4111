//! The text of log records.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    io,
    sync::{Arc, Mutex},
};

/// A writer for a subscriber. Its clones share the text.
#[derive(Clone, Default)]
pub(crate) struct LogText(Arc<Mutex<Vec<u8>>>);

impl LogText {
    /// Returns the text so far.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for LogText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
