//! Results on stdout: tables and text for people, JSON for programs.

use std::io::{self, IsTerminal, Write};

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};
use serde::Serialize;

use crate::{
    failure::Failure,
    text::{line, printable},
};

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
        let mut out = io::stdout().lock();
        // A server must not move the cursor, change the window title or type for the user.
        let shown = if self.is_terminal { printable(text) } else { text.to_owned() };
        out.write_all(shown.as_bytes())?;
        if !shown.ends_with('\n') {
            out.write_all(b"\n")?;
        }
        Ok(out.flush()?)
    }

    /// Prints one JSON document: indented at a terminal, otherwise in one line.
    pub(crate) fn value(self, value: &impl Serialize) -> Result<(), Failure> {
        let text = if self.is_terminal { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
        self.text(&text.map_err(|error| Failure::local(error.to_string()))?)
    }

    /// Prints rows below a header; prints `empty` if there are no rows.
    pub(crate) fn table(self, header: &[&str], rows: &[Vec<String>], empty: &str) -> Result<(), Failure> {
        if rows.is_empty() {
            return self.text(empty);
        }
        let width = if self.is_terminal { Table::new().width() } else { None };
        self.text(&table(header, rows, width))
    }
}

/// Formats rows below a header, within a width.
///
/// A name in the first column is never broken, because users copy it. If the names fill more than half of the width, the
/// other cells follow below each name.
fn table(header: &[&str], rows: &[Vec<String>], width: Option<u16>) -> String {
    let names = rows.iter().filter_map(|row| row.first()).map(|name| name.chars().count()).max().unwrap_or_default();
    if width.is_some_and(|width| names * 2 > usize::from(width)) {
        let entry = |row: &Vec<String>| {
            let rest = row.iter().skip(1).filter(|cell| !cell.is_empty());
            let rest: String = rest.map(|cell| format!("\n    {}", line(cell))).collect();
            format!("{}{rest}", row.first().map(|name| line(name)).unwrap_or_default())
        };
        return rows.iter().map(entry).collect::<Vec<_>>().join("\n");
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.iter().copied());
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    for row in rows {
        table.add_row(row.iter().map(|cell| line(cell)));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index == 0 {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Writes bytes to stdout unchanged.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_do_not_wrap_names() {
        let rows = [["a_name_of_some_length", "and what it is for, at length"], ["b", ""]];
        let rows = rows.map(|row| row.map(ToOwned::to_owned).to_vec());
        assert_eq!(
            table(&["NAME", "WHAT"], &rows, None),
            "NAME                   WHAT\na_name_of_some_length  and what it is for, at length\nb"
        );
        assert_eq!(
            table(&["NAME", "WHAT"], &rows, Some(45)),
            "NAME                   WHAT\na_name_of_some_length  and what it is for,\n                       at length\nb"
        );
        assert_eq!(
            table(&["NAME", "WHAT"], &rows, Some(40)),
            "a_name_of_some_length\n    and what it is for, at length\nb"
        );
    }
}
