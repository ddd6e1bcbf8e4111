//! Edits of JSON with comments. An edit inserts or removes text, and changes no other byte.

use jsonc_parser::{CollectOptions, ast, parse_to_ast};
use serde_json::{Value, json};

use crate::config::json_options;

/// The layout of a text.
struct Style {
    end_of_line: &'static str,
    unit: String,
    is_multiline: bool,
}

/// Returns the text with a new member of the map of servers. `None` if the text does not permit it.
pub(super) fn insert(text: &str, key: Option<&str>, name: &str, entry: &Value) -> Option<String> {
    let (mark, body) = match text.strip_prefix('\u{feff}') {
        Some(body) => ("\u{feff}", body),
        None => ("", text),
    };
    if body.trim().is_empty() {
        let root = key.map_or_else(|| json!({ name: entry }), |key| json!({ key: { name: entry } }));
        return Some(format!("{mark}{root:#}\n"));
    }
    let parsed = parse_to_ast(body, &CollectOptions::default(), &json_options()).ok()?;
    let root = parsed.value.as_ref()?.as_object()?;
    let style = Style::of(body, root);
    let edited = match key {
        None => add(body, root, name, entry, &style),
        Some(key) => match root.properties.iter().find(|property| property.name.as_str() == key) {
            Some(servers) => add(body, servers.value.as_object()?, name, entry, &style),
            None => add(body, root, key, &json!({ name: entry }), &style),
        },
    };
    Some(format!("{mark}{edited}"))
}

/// Returns the text without a member of the map of servers.
pub(super) fn remove(text: &str, key: Option<&str>, name: &str) -> Option<String> {
    let (mark, body) = match text.strip_prefix('\u{feff}') {
        Some(body) => ("\u{feff}", body),
        None => ("", text),
    };
    let parsed = parse_to_ast(body, &CollectOptions::default(), &json_options()).ok()?;
    let root = parsed.value.as_ref()?.as_object()?;
    let servers = match key {
        None => root,
        Some(key) => root.properties.iter().find(|property| property.name.as_str() == key)?.value.as_object()?,
    };
    let index = servers.properties.iter().position(|property| property.name.as_str() == name)?;
    let (start, end) = range(&servers.properties[index]);
    let (mut from, mut to) = (start, end);
    let mut removed_comma = None;
    match comma(body, end) {
        Some(at) => to = at + 1,
        // The last member without a comma also loses the comma before it.
        None => removed_comma = index.checked_sub(1).and_then(|index| comma(body, range(&servers.properties[index]).1)),
    }
    let line = body[..start].rfind('\n').map_or(0, |at| at + 1);
    let rest = body[to..].find('\n').map_or(body.len(), |at| to + at);
    let is_alone = body[line..start].trim().is_empty() && body[to..rest].trim().is_empty();
    if is_alone && line > 0 {
        // The line ends before the line break, which belongs to the removed line.
        from = line - 1;
        from -= usize::from(body[..from].ends_with('\r'));
        to = rest - usize::from(body[to..rest].ends_with('\r'));
    } else {
        from -= body[..from].len() - body[..from].trim_end_matches([' ', '\t']).len();
    }
    if servers.properties.len() == 1 {
        let inside = (servers.range.start + 1, servers.range.end - 1);
        if body[inside.0..from].trim().is_empty() && body[to..inside.1].trim().is_empty() {
            (from, to) = inside;
        }
    }
    let kept = match removed_comma {
        Some(at) => format!("{}{}", &body[..at], &body[at + 1..from]),
        None => body[..from].to_owned(),
    };
    Some(format!("{mark}{kept}{}", &body[to..]))
}

/// Adds a member at the end of an object.
fn add(body: &str, object: &ast::Object<'_>, name: &str, value: &Value, style: &Style) -> String {
    let own = indent_of_line(body, object.range.start);
    let is_multiline = style.is_multiline;
    let inner = match object.properties.first() {
        Some(first) if starts_line(body, range(first).0) => indent_of_line(body, range(first).0),
        _ => format!("{own}{}", style.unit),
    };
    let member = style.member(name, value, &inner);
    let Some(last) = object.properties.last() else {
        let (open, close) = (object.range.start + 1, object.range.end - 1);
        let inside = &body[open..close];
        let head = inside.trim_end();
        let member = if is_multiline { format!("{0}{inner}{member}{0}{own}", style.end_of_line) } else { member };
        return format!("{}{head}{member}{}", &body[..open], &body[close..]);
    };
    let end = range(last).1;
    let on_own_line = is_multiline && starts_line(body, range(last).0);
    let separator = if on_own_line { format!("{}{inner}", style.end_of_line) } else { " ".to_owned() };
    match comma(body, end) {
        // The object has a trailing comma, so the new member has one too.
        Some(at) => {
            let at = if on_own_line { end_of_comments(body, at + 1) } else { at + 1 };
            format!("{}{separator}{member},{}", &body[..at], &body[at..])
        }
        None => {
            let at = if on_own_line { end_of_comments(body, end) } else { end };
            format!("{},{}{separator}{member}{}", &body[..end], &body[end..at], &body[at..])
        }
    }
}

fn range(property: &ast::ObjectProp<'_>) -> (usize, usize) {
    (property.range.start, property.range.end)
}

/// Returns whether only white space is before a position in its line.
fn starts_line(body: &str, at: usize) -> bool {
    body[..at].rfind('\n').is_some_and(|line| body[line..at].trim().is_empty())
}

fn indent_of_line(body: &str, at: usize) -> String {
    let line = &body[body[..at].rfind('\n').map_or(0, |at| at + 1)..at];
    line[..line.len() - line.trim_start_matches([' ', '\t']).len()].to_owned()
}

/// Returns the position of the comma after a value, behind white space and comments.
fn comma(body: &str, end: usize) -> Option<usize> {
    let at = skip_trivia(body, end, true);
    body[at..].starts_with(',').then_some(at)
}

/// Returns the end of the comments that follow in the same line.
fn end_of_comments(body: &str, at: usize) -> usize {
    let end = skip_trivia(body, at, false);
    let kept = body[at..end].trim_end();
    at + kept.len()
}

/// Skips white space and comments; with `lines` also over line breaks.
fn skip_trivia(body: &str, mut at: usize, lines: bool) -> usize {
    loop {
        let rest = &body[at..];
        let spaces = rest.len() - rest.trim_start_matches(|c: char| c.is_whitespace() && (lines || c != '\n')).len();
        at += spaces;
        let rest = &body[at..];
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if let Some(comment) = rest.strip_prefix("/*") {
            let length = comment.find("*/").map_or(rest.len(), |end| end + 4);
            if !lines && rest[..length].contains('\n') {
                return at;
            }
            at += length;
        } else {
            return at;
        }
    }
}

impl Style {
    fn of(body: &str, root: &ast::Object<'_>) -> Self {
        let is_crlf = body.find('\n').is_some_and(|at| body[..at].ends_with('\r'));
        let first = root.properties.first().map(|first| indent_of_line(body, range(first).0));
        let unit = first.filter(|indent| !indent.is_empty()).unwrap_or_else(|| "  ".to_owned());
        let is_multiline = body.trim_end().contains('\n') || root.properties.is_empty();
        Self { end_of_line: if is_crlf { "\r\n" } else { "\n" }, unit, is_multiline }
    }

    /// Returns the text of a member. Its lines after the first begin with the indent.
    fn member(&self, name: &str, value: &Value, indent: &str) -> String {
        if !self.is_multiline {
            return format!("{}: {value}", Value::from(name));
        }
        let mut text = String::new();
        self.write(value, indent, &mut text);
        format!("{}: {text}", Value::from(name))
    }

    fn write(&self, value: &Value, indent: &str, out: &mut String) {
        let inner = format!("{indent}{}", self.unit);
        match value {
            Value::Object(members) if !members.is_empty() => {
                out.push('{');
                for (index, (name, value)) in members.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { "," });
                    out.push_str(&format!("{}{inner}{}: ", self.end_of_line, Value::from(name.as_str())));
                    self.write(value, &inner, out);
                }
                out.push_str(&format!("{}{indent}}}", self.end_of_line));
            }
            // The values of an entry have arrays of texts only, which fit in a line.
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(ToString::to_string).collect();
                out.push_str(&format!("[{}]", items.join(", ")));
            }
            value => out.push_str(&value.to_string()),
        }
    }
}
