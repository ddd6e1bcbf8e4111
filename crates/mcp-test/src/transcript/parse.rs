//! Parses the text of a transcript into items. Each item keeps its lines.

use serde_json::Value;

use super::TranscriptError;

/// One part of a transcript.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// The number of its first line, from one.
    pub(super) line: usize,
    /// The original lines, which a rewritten transcript keeps.
    pub(super) text: String,
    pub(super) kind: ItemKind,
}

#[derive(Debug, Clone)]
pub(super) enum ItemKind {
    /// A comment or an empty line.
    Prose,
    Let(String, Value),
    /// A message of the client.
    Client(Sent),
    /// An expected message of the server.
    Server(Expected),
}

#[derive(Debug, Clone)]
pub(super) enum Sent {
    Message(Value),
    /// Text that may be invalid.
    Raw(String),
}

#[derive(Debug, Clone)]
pub(super) struct Expected {
    /// Whether the message may arrive in any order with its free neighbours.
    pub(super) is_free: bool,
    /// The HTTP status.
    pub(super) status: u16,
    pub(super) message: Value,
}

/// The status of a line without a status.
pub(super) const OK: u16 = 200;

pub(super) fn items(name: &str, text: &str) -> Result<Vec<Item>, TranscriptError> {
    let mut found: Vec<(usize, String)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let continues = line.starts_with([' ', '\t']) && !line.trim().is_empty();
        match found.last_mut() {
            Some((_, before)) if continues => {
                before.push('\n');
                before.push_str(line);
            }
            _ => found.push((index + 1, line.trim_end().to_owned())),
        }
    }
    let mut items = Vec::with_capacity(found.len());
    for (line, text) in found {
        let kind = kind(&text).map_err(|problem| TranscriptError::new(name, Some(line), None, problem))?;
        items.push(Item { line, text, kind });
    }
    Ok(items)
}

fn kind(text: &str) -> Result<ItemKind, String> {
    if text.is_empty() || text.starts_with('#') {
        return if text.contains('\n') {
            Err("a line that begins with a blank must follow a message".to_owned())
        } else {
            Ok(ItemKind::Prose)
        };
    }
    if let Some(definition) = text.strip_prefix("let ") {
        let (name, value) = definition.split_once('=').ok_or("a definition is `let name = json`")?;
        let name = name.trim();
        if !is_name(name) || name == ANY {
            return Err(format!(
                "`{name}` is not a valid name: use lower case letters, digits and hyphens, but not `{ANY}`"
            ));
        }
        return Ok(ItemKind::Let(name.to_owned(), json(value)?));
    }
    if let Some(raw) = text.strip_prefix(">!") {
        return match raw.contains('\n') {
            true => Err("raw text is one line".to_owned()),
            false => Ok(ItemKind::Client(Sent::Raw(raw.trim_start().to_owned()))),
        };
    }
    if let Some(message) = text.strip_prefix('>') {
        return json(message).map(Sent::Message).map(ItemKind::Client);
    }
    let is_free = text.starts_with('~');
    let Some(rest) = text.strip_prefix(['<', '~']) else {
        return Err("a line begins with `#`, `let`, `>`, `>!`, `<`, `~` or a blank".to_owned());
    };
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let status = match &rest[..digits] {
        "" => OK,
        status => status.parse().map_err(|_| format!("`{status}` is not an HTTP status"))?,
    };
    Ok(ItemKind::Server(Expected { is_free, status, message: json(&rest[digits..])? }))
}

/// The name of the placeholder for any value.
pub(super) const ANY: &str = "any";

pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text.trim()).map_err(|error| format!("not JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let shown = match items("t", text) {
            Ok(items) => items
                .iter()
                .map(|item| match &item.kind {
                    ItemKind::Prose => format!("{} prose", item.line),
                    ItemKind::Let(name, value) => format!("{} {name}={value}", item.line),
                    ItemKind::Client(Sent::Message(value)) => format!("{} >{value}", item.line),
                    ItemKind::Client(Sent::Raw(text)) => format!("{} >!{text}", item.line),
                    ItemKind::Server(Expected { is_free, status, message }) => {
                        format!("{} {}{status}{message}", item.line, if *is_free { '~' } else { '<' })
                    }
                })
                .collect::<Vec<_>>()
                .join(" | "),
            Err(failure) => failure.to_string(),
        };
        assert!(shown.starts_with(expected), "{text}\n{shown}");
    }

    #[test]
    fn parses_lines_and_reports_errors_with_their_number() {
        check("# a\n\n> {\"a\":\n  1}\n< 2", "1 prose | 2 prose | 3 >{\"a\":1} | 5 <2002");
        check("let meta = {}\n~ 1\n~404 2\n<400 3", "1 meta={} | 2 ~2001 | 3 ~4042 | 4 <4003");
        check(">! {\"a\":", "1 >!{\"a\":");
        check("> {", "t:1: not JSON: EOF");
        check("\nhello", "t:2: a line begins with");
        check("# a\n  b", "t:1: a line that begins with a blank");
        check("let any = 1", "t:1: `any` is not a valid name");
        check("let A = 1", "t:1: `A` is not a valid name");
        check("let a", "t:1: a definition is");
        check("<99999 1", "t:1: `99999` is not an HTTP status");
    }
}
