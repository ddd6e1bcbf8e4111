//! JSON for a terminal: indented, with colours for keys and strings.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use crate::{style::Style, text::printable};

/// Returns an indented document. Keys and strings have colours, and no character of the value controls the terminal.
pub(super) fn coloured(value: &impl Serialize) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    let formatter = Coloured { inner: PrettyFormatter::new(), is_key: false };
    value.serialize(&mut Serializer::with_formatter(&mut bytes, formatter))?;
    String::from_utf8(bytes).map_err(serde::ser::Error::custom)
}

struct Coloured {
    inner: PrettyFormatter<'static>,
    is_key: bool,
}

impl Coloured {
    fn style(&self) -> anstyle::Style {
        if self.is_key { Style::Name.ansi() } else { Style::Good.ansi() }
    }
}

impl Formatter for Coloured {
    fn begin_string<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        write!(writer, "{}\"", self.style())
    }

    fn end_string<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        write!(writer, "\"{:#}", self.style())
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        writer.write_all(printable(fragment).as_bytes())
    }

    fn write_raw_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        writer.write_all(printable(fragment).as_bytes())
    }

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.inner.begin_array(writer)
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.inner.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, is_first: bool) -> io::Result<()> {
        self.inner.begin_array_value(writer, is_first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.inner.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.inner.begin_object(writer)
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.inner.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, is_first: bool) -> io::Result<()> {
        self.is_key = true;
        self.inner.begin_object_key(writer, is_first)
    }

    fn end_object_key<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.is_key = false;
        self.inner.end_object_key(writer)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.inner.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.inner.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_and_strings_have_colours_and_control_nothing() {
        let value = json!({"a": ["x\u{202e}\u{9b}2J", 1, null], "o": {}});
        let shown = coloured(&value).unwrap();
        assert!(shown.contains("\u{1b}[1m\"a\"\u{1b}[0m: ["), "{shown:?}");
        assert!(shown.contains("\u{1b}[32m\"x\u{fffd}\u{fffd}2J\"\u{1b}[0m,"), "{shown:?}");
        let plain = anstream::adapter::strip_str(&shown).to_string();
        assert_eq!(
            plain,
            serde_json::to_string_pretty(&json!({"a": ["x\u{fffd}\u{fffd}2J", 1, null], "o": {}})).unwrap()
        );
    }
}
