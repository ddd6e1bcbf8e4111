//! What is printed: tables and texts for people, JSON for programs.

use std::io::{self, IsTerminal, Write};

use comfy_table::{ContentArrangement, Table, presets};
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
    pub(crate) fn table(self, head: &[&str], rows: Vec<Vec<String>>, empty: &str) -> Result<(), Failure> {
        if rows.is_empty() {
            return self.text(empty);
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(head.iter().copied());
        if self.terminal {
            table.set_content_arrangement(ContentArrangement::Dynamic);
        }
        for row in rows {
            table.add_row(row.iter().map(|cell| printable(cell)));
        }
        let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
        self.text(&lines.join("\n"))
    }
}

/// Bytes as they are, on stdout.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}

/// The text without what a terminal would act upon.
pub(crate) fn printable(text: &str) -> String {
    let reorders =
        |c: char| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let acts = |c: char| c.is_control() && !matches!(c, '\n' | '\t') || reorders(c);
    text.chars().map(|c| if acts(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// The first line of a description.
pub(crate) fn first_line(text: Option<&str>) -> String {
    text.unwrap_or_default().trim().lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_act_upon_is_not_printed() {
        assert_eq!(
            printable("a\u{1b}[2Jb\r\n\tc\u{7}\u{202e}\u{2066}"),
            "a\u{fffd}[2Jb\u{fffd}\n\tc\u{fffd}\u{fffd}\u{fffd}"
        );
        assert_eq!(first_line(Some("\n  one\ntwo")), "one");
        assert_eq!(first_line(None), "");
    }
}
