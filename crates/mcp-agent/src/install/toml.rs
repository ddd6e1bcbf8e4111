//! Edits of TOML: a new table at the end of the file, or the removal of a table.

use serde_json::Value;
use toml_edit::{Array, DocumentMut, Item, Key, Table, value};

/// Returns the text with a new table.
pub(super) fn insert(text: &str, key: &str, name: &str, entry: &Value) -> Option<String> {
    let end_of_line = end_of_line(text);
    let mut server = Table::new();
    let mut tables = Vec::new();
    for (member, value) in entry.as_object()? {
        match value {
            Value::Object(members) => tables.push((member, members)),
            value => {
                server.insert(member, scalar(value)?);
            }
        }
    }
    for (member, members) in tables {
        let mut table = Table::new();
        for (name, value) in members {
            table.insert(name, scalar(value)?);
        }
        server.insert(member, Item::Table(table));
    }
    let mut servers = Table::new();
    servers.set_implicit(true);
    servers.insert(name, Item::Table(server));
    let mut document = DocumentMut::new();
    document.insert(key, Item::Table(servers));
    let block = document.to_string().replace('\n', end_of_line);
    let separator = match text.trim_start_matches('\u{feff}') {
        "" => String::new(),
        text if text.ends_with('\n') => end_of_line.to_owned(),
        _ => end_of_line.repeat(2),
    };
    Some(format!("{text}{separator}{block}"))
}

/// Returns the text without a table, by its lines. The caller checks the result: a line of a text of several lines can
/// resemble a header.
pub(super) fn remove(text: &str, key: &str, name: &str) -> Option<String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut is_removed = vec![false; lines.len()];
    let mut at = 0;
    while at < lines.len() {
        let next = lines[at + 1..].iter().position(|line| line.trim_start().starts_with('['));
        let next = next.map_or(lines.len(), |offset| at + 1 + offset);
        if is_header_of(lines[at], key, name) {
            // Comments after the last member belong to the next table.
            let is_content = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
            let end = lines[at..next].iter().rposition(is_content).map_or(at, |last| at + last);
            let is_blank = at > 0 && lines[at - 1].trim().is_empty();
            is_removed[at - usize::from(is_blank)..=end].fill(true);
        }
        at = next;
    }
    let kept = lines.iter().zip(&is_removed).filter(|(_, is_removed)| !**is_removed).map(|(line, _)| *line).collect();
    is_removed.contains(&true).then_some(kept)
}

/// Returns whether a line is the header of the table or of a table in it.
fn is_header_of(line: &str, key: &str, name: &str) -> bool {
    let Some(header) = line.trim_start().strip_prefix('[').and_then(|line| line.rsplit_once(']')) else { return false };
    let Ok(keys) = Key::parse(header.0) else { return false };
    matches!(&keys[..], [first, second, ..] if first.get() == key && second.get() == name)
}

fn end_of_line(text: &str) -> &'static str {
    let is_crlf = text.find('\n').is_some_and(|at| text[..at].ends_with('\r'));
    if is_crlf { "\r\n" } else { "\n" }
}

fn scalar(json: &Value) -> Option<Item> {
    Some(match json {
        Value::String(text) => value(text.as_str()),
        Value::Bool(flag) => value(*flag),
        Value::Number(number) => value(number.as_i64()?),
        Value::Array(items) => value(items.iter().map(Value::as_str).collect::<Option<Array>>()?),
        Value::Null | Value::Object(_) => return None,
    })
}
