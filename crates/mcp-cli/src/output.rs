//! What is printed: tables and texts for people, JSON for programs.

use std::io::{self, IsTerminal, Write};

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};
use serde::Serialize;

use crate::failure::Failure;

/// Where results go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    pub(crate) json: bool,
    terminal: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self { json, terminal: io::stdout().is_terminal() }
    }

    /// The same output, for programs if it is so here or there.
    pub(crate) fn or_json(self, json: bool) -> Self {
        Self { json: self.json || json, ..self }
    }

    /// A text and a line break, if it does not end with one.
    pub(crate) fn text(self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        // A server must not move the cursor, retitle the window or answer for the user.
        let shown = if self.terminal { printable(text) } else { text.to_owned() };
        out.write_all(shown.as_bytes())?;
        if !shown.ends_with('\n') {
            out.write_all(b"\n")?;
        }
        Ok(out.flush()?)
    }

    /// One JSON document: over several lines for people who look, in one line for programs.
    pub(crate) fn value(self, value: &impl Serialize) -> Result<(), Failure> {
        let text = if self.terminal { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
        self.text(&text.map_err(|error| Failure::other(error.to_string()))?)
    }

    /// Rows below a head; `empty` where there are none.
    pub(crate) fn table(self, head: &[&str], rows: &[Vec<String>], empty: &str) -> Result<(), Failure> {
        if rows.is_empty() {
            return self.text(empty);
        }
        let width = if self.terminal { Table::new().width() } else { None };
        self.text(&table(head, rows, width))
    }
}

/// Rows below a head, within a width. Names are never broken, so that they can be copied: where they leave no room, what
/// else there is stands below them.
fn table(head: &[&str], rows: &[Vec<String>], width: Option<u16>) -> String {
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
    table.load_style(presets::NOTHING).set_header(head.iter().copied());
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

/// Bytes as they are, on stdout.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}

/// The text without what a terminal would act upon. Line breaks and tabs stay.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if acts(c) && !matches!(c, '\n' | '\t') { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// The same, for what stands in one line: a break is shown, and makes none.
pub(crate) fn line(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' | '\u{2028}' | '\u{2029}' => '\u{23ce}',
        '\t' => ' ',
        c if acts(c) => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    text.replace("\r\n", "\n").chars().map(shown).collect()
}

/// Whether a terminal would act upon it, or show what follows in another order.
fn acts(c: char) -> bool {
    let reorders = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || reorders
}

/// A description as one line: its line breaks are spaces.
pub(crate) fn one_line(text: Option<&str>) -> String {
    text.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The first line of a description.
pub(crate) fn first_line(text: Option<&str>) -> String {
    text.unwrap_or_default().trim().lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_never_broken() {
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

    #[test]
    fn what_a_terminal_would_act_upon_is_not_printed() {
        assert_eq!(
            printable("a\u{1b}[2Jb\r\n\tc\u{7}\u{202e}\u{2066}"),
            "a\u{fffd}[2Jb\u{fffd}\n\tc\u{fffd}\u{fffd}\u{fffd}"
        );
        assert_eq!(line("a\r\nb\nc\td\u{1b}[2J\u{2028}\u{202e}"), "a\u{23ce}b\u{23ce}c d\u{fffd}[2J\u{23ce}\u{fffd}");
        assert_eq!(first_line(Some("\n  one\ntwo")), "one");
        assert_eq!(first_line(None), "");
    }
}
