//! Extracts the English text of a file: comments, rustdoc, error texts, guides, and the lines of the ledger.

use std::path::Path;

use super::super::File;

/// Functions and macros whose first argument is the text of an error.
const CALLS: &[&str] =
    &["Error", "error", "internal", "new", "msg", "anyhow!", "bail!", "format!", "#[error", "context"];
/// Shorter literals are names.
const TEXT: usize = 12;

/// A run of lines of one kind.
#[derive(Debug)]
pub(super) struct Block {
    /// `comments`, `rustdoc`, `errors`, `guides` or `ledger`.
    pub(super) kind: &'static str,
    /// The number of the first line.
    pub(super) line: usize,
    pub(super) text: String,
}

/// The blocks of a file. Test folders have none.
pub(super) fn of(file: &File) -> Vec<Block> {
    let path = Path::new(&file.path);
    if path.parent().is_some_and(|folder| folder.components().any(|part| part.as_os_str() == "tests")) {
        return Vec::new();
    }
    let blocks = match path.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => source(&file.text),
        Some("md") => file.text.lines().enumerate().map(|(n, line)| block("guides", n, line)).collect(),
        Some("toml") if file.path.starts_with("docs/ledger") => ledger(&file.text),
        _ => Vec::new(),
    };
    merge(blocks)
}

fn block(kind: &'static str, index: usize, text: &str) -> Block {
    Block { kind, line: index + 1, text: text.to_owned() }
}

/// Joins adjacent lines of one kind and drops fenced code.
fn merge(lines: Vec<Block>) -> Vec<Block> {
    let mut merged: Vec<Block> = Vec::new();
    let mut fenced = false;
    let mut next = 0;
    for line in lines {
        let follows = line.line == next && line.kind != "errors";
        next = line.line + 1;
        let fence = line.text.trim_start().starts_with("```");
        let same_kind = merged.last().is_some_and(|last| last.kind == line.kind);
        fenced = fence != (fenced && follows);
        match merged.last_mut() {
            _ if fence || fenced => {}
            Some(last) if follows && same_kind && !line.text.trim().is_empty() => {
                last.text.push('\n');
                last.text.push_str(&line.text);
            }
            _ => merged.push(line),
        }
    }
    merged
}

fn source(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let code = line.trim_start();
        if let Some(doc) = code.strip_prefix("//!").or_else(|| code.strip_prefix("///")) {
            blocks.push(block("rustdoc", n, doc));
        } else if let Some(comment) = code.strip_prefix("//") {
            blocks.push(block("comments", n, comment));
        } else {
            blocks.extend(errors(code).into_iter().map(|text| block("errors", n, text)));
        }
    }
    blocks
}

/// The string literals of a line that are the first argument of one of [`CALLS`].
fn errors(code: &str) -> Vec<&str> {
    let mut texts = Vec::new();
    let mut rest = code;
    while let Some((before, after)) = rest.split_once("(\"") {
        let end = literal_end(after);
        let called = |name: &&str| {
            let head = before.strip_suffix(*name);
            head.is_some_and(|head| !head.ends_with(|c: char| c.is_alphanumeric()) || name.starts_with("Error"))
        };
        if end >= TEXT && CALLS.iter().any(called) {
            texts.push(&after[..end]);
        }
        rest = &after[end..];
    }
    texts
}

/// The length of a string literal, up to its closing quote or the end of the line.
fn literal_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' if !escaped => return at,
            _ => escaped = c == '\\' && !escaped,
        }
    }
    text.len()
}

fn ledger(text: &str) -> Vec<Block> {
    let sentence = |line: &str| {
        let (key, value) = line.split_once(" = ")?;
        matches!(key, "line" | "why" | "note").then(|| value.trim_matches('"').to_owned())
    };
    let lines = text.lines().enumerate();
    // Each text is a block: an empty line precedes it.
    lines.filter_map(|(n, line)| Some(block("ledger", n, &format!("\n{}", sentence(line)?)))).collect()
}
