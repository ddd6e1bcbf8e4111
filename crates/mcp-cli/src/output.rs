//! Results on stdout: tables and text for people, JSON for programs.

mod json;
mod table;

use std::io::{self, IsTerminal, Write};

use comfy_table::Table;
use serde::Serialize;
use serde_json::Value;

pub(crate) use self::table::Column;
use crate::{failure::Failure, style, text::printable};

/// The longest text that is examined for a JSON table, in bytes.
const MAX_TABLE: usize = 4 << 20;

/// The form in which results are printed to stdout.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    pub(crate) json: bool,
    is_terminal: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self { json, is_terminal: io::stdout().is_terminal() }
    }

    /// Returns an output that prints JSON if `self` does or if `json` is set.
    pub(crate) fn or_json(self, json: bool) -> Self {
        Self { json: self.json || json, ..self }
    }

    /// Prints a text, and adds a line break if the text does not end with one.
    pub(crate) fn text(self, text: &str) -> Result<(), Failure> {
        // A server must not move the cursor, change the window title or type for the user.
        if self.is_terminal { write_line(&printable(text)) } else { write_line(text) }
    }

    /// Prints a text of a result. At a terminal, a JSON text that is an array of objects becomes a table.
    pub(crate) fn content(self, text: &str) -> Result<(), Failure> {
        let table = if self.is_terminal && text.len() <= MAX_TABLE && text.trim_start().starts_with(['[', '{']) {
            serde_json::from_str(text).ok().and_then(|value: Value| table::of_objects(&value, self.width()))
        } else {
            None
        };
        table.map_or_else(|| self.text(text), |table| styled(&table))
    }

    /// Prints the data of a result: at a terminal as a table if it is an array of objects, otherwise as JSON.
    pub(crate) fn data(self, value: &Value) -> Result<(), Failure> {
        let table = if self.is_terminal { table::of_objects(value, self.width()) } else { None };
        table.map_or_else(|| self.value(value), |table| styled(&table))
    }

    /// Prints one JSON document: indented at a terminal, otherwise in one line and without colours.
    pub(crate) fn value(self, value: &impl Serialize) -> Result<(), Failure> {
        let failed = |error: serde_json::Error| Failure::local(error.to_string());
        if self.is_terminal && style::on_stdout() {
            return styled(&json::coloured(value).map_err(failed)?);
        }
        let text = if self.is_terminal { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
        self.text(&text.map_err(failed)?)
    }

    /// Prints rows below a header; prints `empty` if there are no rows.
    pub(crate) fn table(self, columns: &[Column], rows: &[Vec<String>], empty: &str) -> Result<(), Failure> {
        if rows.is_empty() {
            return self.text(empty);
        }
        styled(&table::of_rows(columns, rows, self.width()))
    }

    fn width(self) -> Option<u16> {
        if self.is_terminal { Table::new().width().filter(|width| *width > 0) } else { None }
    }
}

/// Prints a text with colours. The caller makes text of a server printable first.
pub(crate) fn styled(text: &str) -> Result<(), Failure> {
    write_line(text)
}

fn write_line(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// Writes bytes to stdout unchanged.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}
