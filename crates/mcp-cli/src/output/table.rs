//! Tables for people: rows of names, and arrays of JSON objects.

use anstyle::{Ansi256Color, Effects, RgbColor};
use comfy_table::{Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Row, Table, presets};
use serde_json::{Map, Value};

use crate::{
    style::{self, Style},
    text::line,
};

/// The number of objects that a table shows at most.
const MAX_ROWS: usize = 1000;
/// The number of columns that a table of objects has at most. Objects with more members are shown as JSON.
const MAX_COLUMNS: usize = 50;
/// The narrowest column of a table of objects, with its gap.
const MIN_COLUMN: usize = 6;

/// The effects of a style, with their attributes of a cell.
const EFFECTS: [(Effects, Attribute); 4] = [
    (Effects::BOLD, Attribute::Bold),
    (Effects::UNDERLINE, Attribute::Underlined),
    (Effects::DIMMED, Attribute::Dim),
    (Effects::INVERT, Attribute::Reverse),
];

/// The title of a column, and the colour of its cells.
pub(crate) type Column = (&'static str, Style);

/// Formats rows below a header, within a width.
///
/// A name in the first column is never broken, because users copy it. If the names fill more than half of the width, the
/// other cells follow below each name.
pub(super) fn of_rows(columns: &[Column], rows: &[Vec<String>], width: Option<u16>) -> String {
    let names = rows.iter().filter_map(|row| row.first()).map(|name| name.chars().count()).max().unwrap_or_default();
    let style_of = |index: usize| columns.get(index).map_or(Style::Plain, |(_, style)| *style);
    if width.is_some_and(|width| names * 2 > usize::from(width)) {
        let entry = |row: &Vec<String>| {
            let cells = row.iter().enumerate().skip(1).filter(|(_, cell)| !cell.is_empty());
            let rest: String =
                cells.map(|(index, cell)| format!("\n    {}", style::out(style_of(index), &line(cell)))).collect();
            format!("{}{rest}", row.first().map(|name| style::out(style_of(0), &line(name))).unwrap_or_default())
        };
        return rows.iter().map(entry).collect::<Vec<_>>().join("\n");
    }
    let mut table = new_table(width);
    table.set_header(columns.iter().map(|(title, _)| cell(title, Style::Header)));
    for row in rows {
        table.add_row(row.iter().enumerate().map(|(index, text)| cell(&line(text), style_of(index))));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index == 0 {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    lines(&table)
}

/// Formats a JSON value that is an array of objects, or an object that contains such arrays.
///
/// Returns `None` for other values, and if the width is too small for the columns.
pub(super) fn of_objects(value: &Value, width: Option<u16>) -> Option<String> {
    match value {
        Value::Array(items) => array(items, width),
        Value::Object(members) if members.values().any(is_table) => {
            let mut text = String::new();
            for (name, value) in members.iter().filter(|(_, value)| !is_table(value)) {
                text.push_str(&format!("{}  {}\n", style::out(Style::Name, &line(name)), shown(value)));
            }
            for (name, value) in members.iter().filter(|(_, value)| is_table(value)) {
                let gap = if text.is_empty() { "" } else { "\n" };
                let table = array(value.as_array()?, width)?;
                // A single table needs no heading.
                let heading = if members.len() == 1 { String::new() } else { format!("{}\n", line(name)) };
                text.push_str(&format!("{gap}{heading}{table}\n"));
            }
            Some(text)
        }
        _ => None,
    }
}

fn is_table(value: &Value) -> bool {
    value.as_array().is_some_and(|items| !items.is_empty() && items.iter().all(Value::is_object))
}

fn array(items: &[Value], width: Option<u16>) -> Option<String> {
    let objects: Vec<&Map<String, Value>> = items.iter().map(Value::as_object).collect::<Option<_>>()?;
    let mut columns: Vec<&str> = Vec::new();
    for name in objects.iter().take(MAX_ROWS).flat_map(|object| object.keys()) {
        if !columns.contains(&name.as_str()) {
            columns.push(name);
        }
        if columns.len() > MAX_COLUMNS {
            return None;
        }
    }
    if columns.is_empty() || width.is_some_and(|width| usize::from(width) < columns.len() * MIN_COLUMN) {
        return None;
    }
    let mut table = new_table(width);
    // A cell that does not fit ends with this character.
    table.set_truncation_indicator("…");
    table.set_header(single_line(columns.iter().map(|name| cell(&line(name), Style::Header))));
    for object in objects.iter().take(MAX_ROWS) {
        let cells = columns.iter().map(|name| cell(&object.get(*name).map(shown).unwrap_or_default(), Style::Plain));
        table.add_row(single_line(cells));
    }
    let is_number = |name: &str| objects.iter().all(|object| object.get(name).is_none_or(Value::is_number));
    for (column, name) in table.column_iter_mut().zip(&columns) {
        column.set_padding((0, 2));
        if is_number(name) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = lines(&table);
    if let Some(more @ 1..) = objects.len().checked_sub(MAX_ROWS) {
        text.push_str(&format!("\n({more} more; --json shows all)"));
    }
    Some(text)
}

fn single_line(cells: impl Iterator<Item = Cell>) -> Row {
    let mut row = Row::from(cells.collect::<Vec<_>>());
    row.max_height(1);
    row
}

/// Returns a value as the text of a cell.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => line(text),
        value => line(&value.to_string()),
    }
}

fn new_table(width: Option<u16>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    if style::on_stdout() {
        table.enforce_styling().style_text_only();
    }
    table
}

fn cell(text: &str, style: Style) -> Cell {
    if style::on_stdout() { painted(text, style.ansi()) } else { Cell::new(text) }
}

/// Returns a cell with the colour and the effects of a style.
fn painted(text: &str, style: anstyle::Style) -> Cell {
    let attributes = EFFECTS.iter().filter(|(effect, _)| style.get_effects().contains(*effect));
    let cell = Cell::new(text).add_attributes(attributes.map(|(_, attribute)| *attribute).collect());
    match style.get_fg_color() {
        Some(anstyle::Color::Ansi(color)) => cell.fg(Color::AnsiValue(Ansi256Color::from(color).index())),
        Some(anstyle::Color::Ansi256(color)) => cell.fg(Color::AnsiValue(color.index())),
        Some(anstyle::Color::Rgb(RgbColor(r, g, b))) => cell.fg(Color::Rgb { r, g, b }),
        None => cell,
    }
}

fn lines(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    const COLUMNS: [Column; 2] = [("NAME", Style::Name), ("PURPOSE", Style::Plain)];

    /// Returns the codes of a terminal before the letter `x`. The codes `38;5;n` and `3n` are the same colour.
    fn codes(text: &str) -> BTreeSet<String> {
        let (before, _) = text.split_once('x').unwrap();
        let codes = before.split("\u{1b}[").filter_map(|code| code.strip_suffix('m'));
        codes.map(|code| code.strip_prefix("38;5;").map_or(code.to_owned(), |colour| format!("3{colour}"))).collect()
    }

    #[test]
    fn cells_have_the_colours_of_their_style() {
        use Style::*;
        for style in [Plain, Header, Name, Type, Error, Warning, Good, Dim, Strong] {
            let mut table = new_table(None);
            table.enforce_styling().style_text_only();
            table.add_row([painted("x", style.ansi())]);
            let shown: String = table.lines().collect();
            assert_eq!(codes(&shown), codes(&format!("{}x", style.ansi())), "{style:?}: {shown:?}");
            assert_eq!(codes(&shown).is_empty(), style == Plain, "{style:?}");
        }
    }

    #[test]
    fn tables_do_not_wrap_names() {
        let rows = [["a_name_of_some_length", "and what it is for, at length"], ["b", ""]];
        let rows = rows.map(|row| row.map(ToOwned::to_owned).to_vec());
        assert_eq!(
            of_rows(&COLUMNS, &rows, None),
            "NAME                   PURPOSE\na_name_of_some_length  and what it is for, at length\nb"
        );
        assert_eq!(
            of_rows(&COLUMNS, &rows, Some(45)),
            "NAME                   PURPOSE\na_name_of_some_length  and what it is for,\n                       at length\nb"
        );
        assert_eq!(of_rows(&COLUMNS, &rows, Some(40)), "a_name_of_some_length\n    and what it is for, at length\nb");
    }

    #[test]
    fn arrays_of_objects_are_aligned_and_fit_the_width() {
        let value = json!([
            {"id": 1, "name": "Ada", "tags": ["x"]},
            {"id": 20, "name": "a\u{1b}[2Jb\nc", "note": "a long text that does not fit into the width"},
        ]);
        let text = of_objects(&value, None).unwrap();
        assert_eq!(
            text,
            "id  name      tags   note\n 1  Ada       [\"x\"]\n20  a\u{fffd}[2Jb\u{23ce}c         \
             a long text that does not fit into the width"
        );
        let narrow = of_objects(&value, Some(40)).unwrap();
        assert_eq!(narrow.lines().count(), 3, "{narrow}");
        assert!(narrow.lines().all(|line| line.chars().count() <= 40) && narrow.contains('…'), "{narrow}");
        // JSON shows more than four columns in ten characters.
        assert_eq!(of_objects(&value, Some(10)), None);
    }

    #[test]
    fn only_arrays_of_objects_become_tables() {
        for value in [json!([]), json!([1]), json!([{"a": 1}, 2]), json!({"a": [1]}), json!("x"), json!([{}])] {
            assert_eq!(of_objects(&value, None), None, "{value}");
        }
        assert_eq!(of_objects(&json!({"rows": [{"a": 1}]}), None).as_deref(), Some("a\n1\n"));
        assert_eq!(
            of_objects(&json!({"rows": [{"a": 1}], "total": 7}), None).as_deref(),
            Some("total  7\n\nrows\na\n1\n")
        );
    }

    #[test]
    fn long_tables_end_with_the_number_of_hidden_rows() {
        let many: Vec<Value> = (0..MAX_ROWS + 2).map(|number| json!({"n": number})).collect();
        let text = of_objects(&Value::Array(many), None).unwrap();
        assert!(text.ends_with("(2 more; --json shows all)"));
        assert_eq!(text.lines().count(), MAX_ROWS + 2);
    }
}
