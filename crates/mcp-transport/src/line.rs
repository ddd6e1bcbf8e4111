//! Bytes of a message without a line break.

use std::{fmt, ops::Deref};

use bytes::{Bytes, BytesMut};
use memchr::memchr2;

/// A part of a JSON message without a line break.
///
/// The constructor scans the bytes. A clone needs no further scan, so several messages can share one prepared line
/// ([`FrameSender::send_in_pieces`](crate::FrameSender::send_in_pieces)).
///
/// ```
/// use mcp_transport::Line;
///
/// let line = Line::new("[1,\r\n2]");
/// assert_eq!(&line[..], b"[1,  2]");
/// // The debug text has no content of the message.
/// assert_eq!(format!("{line:?}"), "Line { len: 7 }");
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Line(Bytes);

impl Line {
    /// Replaces line breaks by spaces. In JSON they are white space outside of strings and escaped inside of strings.
    ///
    /// See the [example](Self).
    pub fn new(json: impl Into<Bytes>) -> Self {
        let json = json.into();
        // Some readers treat `\r` alone as a line break.
        if memchr2(b'\n', b'\r', &json).is_none() {
            return Self(json);
        }
        let mut line = BytesMut::from(json);
        for byte in line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')) {
            *byte = b' ';
        }
        Self(line.freeze())
    }

    /// Returns the bytes.
    ///
    /// ```
    /// assert_eq!(mcp_transport::Line::new("{\n}").into_bytes(), "{ }");
    /// ```
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.0
    }
}

impl Deref for Line {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Line {
    /// Shows the length, because the content may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("len", &self.0.len()).finish()
    }
}
