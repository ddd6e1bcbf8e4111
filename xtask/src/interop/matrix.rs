//! The table that is printed in the end, and the reasons below it.

use std::collections::{BTreeMap, BTreeSet};

use super::peers::Era;
use anyhow::Error;

/// The names of checks.
pub(super) type Columns = &'static [&'static str];

/// The checks of foreign clients. The scripts in `xtask/interop` use the same names.
pub(super) const COLUMNS: Columns = &[
    "connect",
    "tools",
    "call",
    "big",
    "content",
    "error",
    "resources",
    "read",
    "templates",
    "prompts",
    "prompt",
    "complete",
    "progress",
    "logging",
    "sampling",
    "elicitation",
    "roots",
    "subscriptions",
    "tasks",
    "cancellation",
    "resumption",
];

/// The checks of our client at foreign servers. `xtask/interop-client` uses the same names.
pub(super) const CLIENT_COLUMNS: Columns = &[
    "connect",
    "tools",
    "call",
    "error",
    "resources",
    "prompts",
    "complete",
    "sampling",
    "elicitation",
    "roots",
    "subscription",
    "progress",
    "cancellation",
    "ping",
];

/// The checks of foreign clients that log in. The scripts in `xtask/interop` use the same names.
pub(super) const LOGIN_COLUMNS: Columns = &["discovery", "registration", "login", "whoami"];

/// The checks of our client that logs in to foreign servers. `xtask/interop-client` uses the same names.
pub(super) const PROTECTED_COLUMNS: Columns = &["challenge", "login", "call", "refresh", "revoked", "step-up"];

/// How one check ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Ok,
    Failed(String),
    /// The client, the transport or the revision does not offer it, for this reason.
    NotOffered(String),
    /// An earlier failure ended the client.
    NotReached,
}

impl Cell {
    fn word(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed(_) => "FAIL",
            Self::NotOffered(_) => "n/a",
            Self::NotReached => "-",
        }
    }
}

/// Rows and reasons in order of arrival.
#[derive(Debug)]
pub(super) struct Matrix {
    /// The tested side: `client`, `login` of a client, `server`, or `protected server`.
    peers: &'static str,
    columns: Columns,
    rows: Vec<Vec<String>>,
    reasons: Vec<String>,
    /// The features that are not offered, each with its peers.
    not_offered: BTreeMap<String, BTreeSet<String>>,
    ok: usize,
    failed: usize,
    not_run: usize,
}

impl Matrix {
    /// An empty table of clients or servers.
    pub(super) fn new(peers: &'static str, columns: Columns) -> Self {
        let (rows, reasons, not_offered) = (Vec::new(), Vec::new(), BTreeMap::new());
        Self { peers, columns, rows, reasons, not_offered, ok: 0, failed: 0, not_run: 0 }
    }

    /// A peer over one transport in one era.
    pub(super) fn row(&mut self, title: &str, transport: &str, era: Era, cells: Vec<Cell>) {
        let mut row = vec![title.to_owned(), transport.to_owned(), era.to_string()];
        row.extend(cells.iter().map(|cell| cell.word().to_owned()));
        self.rows.push(row);
        for (column, cell) in self.columns.iter().zip(cells) {
            match cell {
                Cell::Ok => self.ok += 1,
                Cell::Failed(reason) => {
                    self.failed += 1;
                    self.reasons.push(format!("{title}, {transport}, {era}, {column}: {reason}"));
                }
                Cell::NotOffered(reason) => {
                    self.not_offered.entry(format!("{column}: {reason}")).or_default().insert(title.to_owned());
                }
                Cell::NotReached => self.failed += 1,
            }
        }
    }

    /// A peer that could not be run.
    pub(super) fn not_run(&mut self, title: &str, reason: &str) {
        self.not_run += 1;
        self.reasons.push(format!("{title} was not run: {reason}"));
    }

    /// Prints the matrix. Fails if a cell is not as expected.
    pub(super) fn finish(self) -> Result<(), Error> {
        println!("\n{}", self.table());
        for (reason, titles) in &self.not_offered {
            println!("n/a, {reason} ({})", titles.iter().cloned().collect::<Vec<_>>().join(", "));
        }
        for reason in &self.reasons {
            println!("{reason}");
        }
        println!("total: {} ok, {} failed, {} {}(s) not run", self.ok, self.failed, self.not_run, self.peers);
        if self.failed == 0 && self.not_run == 0 && self.ok > 0 {
            return Ok(());
        }
        Err(Error::msg(format!("{} check(s) failed, {} {}(s) were not run", self.failed, self.not_run, self.peers)))
    }

    fn table(&self) -> String {
        let head = [self.peers, "transport", "era"].iter().chain(self.columns).map(|&word| word.to_owned()).collect();
        let rows: Vec<&Vec<String>> = std::iter::once(&head).chain(&self.rows).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        let mut table = String::new();
        for row in rows {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            table += cells.collect::<Vec<_>>().join("  ").trim_end();
            table.push('\n');
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_counts_cells_and_aligns_columns() {
        let mut matrix = Matrix::new("client", COLUMNS);
        let mut cells = vec![Cell::Ok; COLUMNS.len()];
        matrix.row("a", "stdio", Era::Legacy, cells.clone());
        cells[1] = Cell::Failed("no tools".into());
        cells[2] = Cell::NotReached;
        cells[3] = Cell::NotOffered("it is small".into());
        matrix.row("longer name", "http", Era::Auto, cells);
        matrix.not_run("b", "no Python");
        let table = matrix.table();
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].starts_with("client       transport  era     connect  tools  call  big"), "{table}");
        assert!(lines[1].starts_with("a            stdio      legacy  ok       ok     ok    ok"), "{table}");
        assert!(lines[2].starts_with("longer name  http       auto    ok       FAIL   -     n/a"), "{table}");
        assert_eq!((matrix.ok, matrix.failed, matrix.not_run), (2 * COLUMNS.len() - 3, 2, 1));
        assert_eq!(matrix.reasons, ["longer name, http, auto, tools: no tools", "b was not run: no Python"]);
        let small = ("big: it is small".to_owned(), BTreeSet::from(["longer name".to_owned()]));
        assert_eq!(matrix.not_offered, BTreeMap::from([small]));
        assert!(matrix.finish().is_err());
    }

    #[test]
    fn a_matrix_without_rows_is_an_error() {
        assert!(Matrix::new("client", COLUMNS).finish().is_err());
        let mut matrix = Matrix::new("client", COLUMNS);
        matrix.row("a", "stdio", Era::Legacy, vec![Cell::Ok; COLUMNS.len()]);
        assert!(matrix.finish().is_ok());
    }
}
