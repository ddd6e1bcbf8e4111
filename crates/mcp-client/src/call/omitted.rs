//! The items of a list that the client omits, because their JSON is invalid.

use std::fmt;

use serde_json::Value;

use super::ListItem;

/// An item of a list that the client left out, because it is invalid. Its display text names the item and the fault.
///
/// ```
/// # use mcp_client::Client;
/// # use mcp_server::{Server, tool};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_client::Error> {
/// # let server = Server::builder("s", "1").tool(tool("greet", async || "Hello!")).build();
/// let client = Client::connect(&server).await?;
/// let tools = client.list_tools().await?;
/// for omitted in tools.omitted() {
///     // For example: the tool `find` is left out: its member `inputSchema` is boolean `false` instead of an object
///     eprintln!("{omitted}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OmittedItem {
    /// The position in the list, from 1. The position of an item of a single page is that in the page.
    pub position: usize,
    /// The name or the URI of the item, if it has one. At most 200 characters. `Display` escapes its control characters.
    pub name: Option<String>,
    /// The fault in words. At most 300 characters and an ellipsis, and control characters are escaped.
    pub fault: String,
    /// The noun of the items.
    noun: &'static str,
}

/// The largest number of omitted items that a page and a list name. The list is left out of them in every case.
pub(super) const MAX_OMITTED: usize = 100;
/// The longest name, in characters.
const MAX_NAME: usize = 200;
/// The longest text of a fault, in characters.
const MAX_FAULT: usize = 300;
/// The size of an item up to which the client searches its invalid member, in bytes. Each searched member costs a reading of
/// the item.
const MAX_SEARCHED: usize = 8 << 10;
/// The largest number of members that the client searches.
const MAX_MEMBERS: usize = 16;
/// The members that name items.
const NAMES: [&str; 4] = ["name", "uri", "uriTemplate", "taskId"];

impl OmittedItem {
    /// Describes an item that does not have the form `T`.
    pub(super) fn new<T: ListItem>(position: usize, json: &str, error: &serde_json::Error) -> Self {
        let value: Value = serde_json::from_str(json).unwrap_or_default();
        let name = NAMES.iter().find_map(|name| value[*name].as_str());
        let name = name.map(|name| name.chars().take(MAX_NAME).collect());
        let fault = printable(&excerpt(fault_of::<T>(json, &value, error)));
        Self { position, name, fault, noun: noun(T::METHOD) }
    }

    /// Moves the item by the items of earlier pages.
    pub(super) fn after(mut self, earlier: usize) -> Self {
        self.position += earlier;
        self
    }
}

fn noun(method: &str) -> &'static str {
    match method {
        "tools/list" => "tool",
        "resources/list" => "resource",
        "resources/templates/list" => "resource template",
        "prompts/list" => "prompt",
        "tasks/list" => "task",
        _ => "item",
    }
}

/// Returns the fault of an item, with the name of the invalid member.
fn fault_of<T: ListItem>(json: &str, value: &Value, error: &serde_json::Error) -> String {
    let Value::Object(members) = value else { return "it is not a JSON object".to_owned() };
    let text = words(error);
    if let Some(name) = missing(&text) {
        return format!("it has no member `{name}`");
    }
    if let Some(name) = repeated(&text) {
        return format!("it has the member `{name}` twice");
    }
    let is_culprit = |name: &&String| {
        let mut others = members.clone();
        others.remove(name.as_str());
        match serde_json::from_str::<T>(&Value::Object(others).to_string()) {
            Ok(_) => true,
            Err(error) => missing(&words(&error)) == Some(name.as_str()),
        }
    };
    let culprit = if json.len() <= MAX_SEARCHED { members.keys().take(MAX_MEMBERS).find(is_culprit) } else { None };
    let fault = match text.strip_prefix("invalid type: ").and_then(|rest| rest.split_once(", expected ")) {
        Some((found, "a map")) => format!("{found} instead of an object"),
        Some((found, "a sequence")) => format!("{found} instead of an array"),
        Some((found, expected)) => format!("{found} instead of {expected}"),
        None => text,
    };
    match culprit {
        Some(name) => format!("its member `{name}` is invalid: {fault}"),
        None => fault,
    }
}

/// Returns the text of an error without the place in the item.
fn words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split_once(" at line ").map_or_else(|| text.clone(), |(text, _)| text.to_owned())
}

/// Returns the member that an item has twice.
fn repeated(text: &str) -> Option<&str> {
    text.strip_prefix("duplicate field `")?.strip_suffix('`')
}

/// Returns the member that an item lacks.
fn missing(text: &str) -> Option<&str> {
    text.strip_prefix("missing field `")?.strip_suffix('`')
}

fn excerpt(text: String) -> String {
    match text.char_indices().nth(MAX_FAULT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Escapes the characters with which a server could forge lines of a log or change the direction of a text.
fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                printable.extend(c.escape_unicode());
            }
            c if c.is_control() => printable.extend(c.escape_debug()),
            c => printable.push(c),
        }
    }
    printable
}

impl fmt::Display for OmittedItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => {
                write!(f, "the {} `{}` is left out: {}", self.noun, printable(name), self.fault)
            }
            None => {
                write!(f, "the {} at the position {} of the list is left out: {}", self.noun, self.position, self.fault)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mcp_protocol::{Resource, Tool};

    use super::*;
    use crate::RawItem;

    fn shown<T: ListItem>(json: &str) -> String {
        let error = serde_json::from_str::<T>(json).err().unwrap();
        OmittedItem::new::<T>(3, json, &error).to_string()
    }

    #[test]
    fn an_omitted_item_is_named_with_its_fault() {
        for (json, expected) in [
            (
                r#"{"name":"a","inputSchema":false}"#,
                "the tool `a` is left out: its member `inputSchema` is invalid: boolean `false` instead of an object",
            ),
            (
                r#"{"name":"a","inputSchema":null}"#,
                "the tool `a` is left out: its member `inputSchema` is invalid: null instead of an object",
            ),
            (r#"{"name":"a"}"#, "the tool `a` is left out: it has no member `inputSchema`"),
            (
                r#"{"name":"a","description":"b","inputSchema":{},"description":"c"}"#,
                "the tool `a` is left out: it has the member `description` twice",
            ),
            (
                r#"{"name":7,"inputSchema":{}}"#,
                "the tool at the position 3 of the list is left out: its member `name` is invalid: integer `7` instead of a \
                 string",
            ),
            ("7", "the tool at the position 3 of the list is left out: it is not a JSON object"),
        ] {
            assert_eq!(shown::<Tool>(json), expected, "{json}");
            assert_eq!(shown::<RawItem<Tool>>(json), expected, "{json}");
        }
        let text = shown::<Resource>(r#"{"uri":"a://b","name":[]}"#);
        assert!(text.starts_with("the resource `a://b` is left out: its member `name` is invalid"), "{text}");
        let text = shown::<Tool>("{\"name\":\"a\\nWARN b\\u202e\",\"inputSchema\":false}");
        assert!(text.starts_with(r"the tool `a\nWARN b\u{202e}` is left out: its member"), "{text}");
        let text = shown::<Tool>("{\"name\":\"a\",\"inputSchema\":\"x\\u001b[0m\"}");
        assert!(text.contains(r"x\u{1b}[0m") && !text.contains('\u{1b}'), "{text}");
        let long = format!(r#"{{"name":"{}","inputSchema":"{}"}}"#, "n".repeat(1_000), "x".repeat(1_000_000));
        assert!(shown::<Tool>(&long).chars().count() < 600);
    }

    #[test]
    fn the_search_for_the_invalid_member_is_bounded() {
        let before = |count: usize| (0..count).map(|at| format!(r#""a{at:02}":1,"#)).collect::<String>();
        let item = |members: String, description: usize| {
            format!(r#"{{"name":"n",{members}"description":"{}","inputSchema":false}}"#, "x".repeat(description))
        };
        for (json, is_named) in [
            (item(before(13), 1), true),
            (item(before(14), 1), false),
            (item(String::new(), MAX_SEARCHED - 100), true),
            (item(String::new(), MAX_SEARCHED), false),
        ] {
            let text = shown::<Tool>(&json);
            assert_eq!(text.contains("its member `inputSchema` is invalid"), is_named, "{text}");
            assert!(text.ends_with("boolean `false` instead of an object"), "{text}");
        }
    }
}
