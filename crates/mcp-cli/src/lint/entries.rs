//! Rules for the entries of the lists.

use std::collections::HashSet;

use mcp_protocol::{Excerpt, Tool};
use mcp_uri_template::UriTemplate;
use serde_json::Value;
use url::Url;

use super::{List, MAX_ENTRY, Report, rule, schema, strings::invisible};
use crate::tokens;

/// The longest description, in characters. Providers of models reject longer descriptions of tools.
const MAX_DESCRIPTION: usize = 1024;
/// The longest name of a tool that each provider of models accepts.
const MAX_PROVIDER_NAME: usize = 64;

/// The kind of the entries of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Tool,
    Prompt,
    Resource,
    Template,
}

impl Kind {
    fn singular(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
            Self::Template => "template",
        }
    }

    /// The member that identifies an entry.
    fn key(self) -> &'static str {
        match self {
            Self::Tool | Self::Prompt => "name",
            Self::Resource => "uri",
            Self::Template => "uriTemplate",
        }
    }
}

/// Checks the description of the server.
pub(super) fn server(report: &mut Report, info: &Value) {
    common(report, "server", info);
}

/// Checks the instructions, which a model reads before the definitions.
pub(super) fn instructions(report: &mut Report, text: &str) {
    visible(report, "instructions", &Value::from(text));
}

/// Checks the entries of a list.
pub(super) fn list(report: &mut Report, kind: Kind, list: &List) {
    let plural = format!("{}s", kind.singular());
    if list.repeats_cursor {
        report.add(rule::LIST_CURSOR, &plural, "the server returned the same cursor twice");
    }
    if list.is_invalid {
        report.add(rule::LIST_INVALID, &plural, "a page of the list is not an array of objects");
    }
    let mut names = HashSet::new();
    for (index, entry) in list.entries.iter().enumerate() {
        let size = entry.to_string().len();
        if kind == Kind::Tool {
            report.bytes += size;
            report.tokens += tokens::of_entry(entry);
        }
        let Some(name) = entry[kind.key()].as_str() else {
            let place = format!("{} {}", kind.singular(), index + 1);
            report.add(rule::NAME_MISSING, place, format!("the entry has no text `{}`", kind.key()));
            continue;
        };
        let place = format!("{} `{}`", kind.singular(), Excerpt::new(name));
        if !names.insert(name) {
            report.add(rule::NAME_DUPLICATE, &place, "another entry of the list has the same name");
        }
        if size > MAX_ENTRY {
            report.add(rule::SIZE_ENTRY, &place, format!("the definition has {size} bytes"));
        }
        common(report, &place, entry);
        description(report, &place, entry);
        match kind {
            Kind::Tool => tool(report, &place, name, entry),
            Kind::Prompt => prompt(report, &place, entry),
            Kind::Resource => {
                has_name(report, &place, entry);
                if let Err(error) = Url::parse(name) {
                    report.add(rule::RESOURCE_URI, &place, format!("the URI is invalid: {error}"));
                }
                mime_type(report, &place, entry);
            }
            Kind::Template => {
                has_name(report, &place, entry);
                if let Err(error) = UriTemplate::parse_for_expansion(name) {
                    report.add(rule::TEMPLATE_INVALID, &place, format!("the template is invalid: {error}"));
                }
                mime_type(report, &place, entry);
            }
        }
    }
}

/// Checks the rules for every definition.
fn common(report: &mut Report, place: &str, entry: &Value) {
    visible(report, place, entry);
    for icon in entry["icons"].as_array().into_iter().flatten() {
        let source = icon["src"].as_str().unwrap_or_default();
        let scheme = Url::parse(source).map(|url| url.scheme().to_owned()).unwrap_or_default();
        if !matches!(&*scheme, "https" | "data") {
            let scheme = if scheme.is_empty() {
                "no scheme".to_owned()
            } else {
                format!("the scheme `{}`", Excerpt::new(&scheme))
            };
            report.add(rule::ICON_URL, place, format!("the URL of an icon has {scheme}"));
        }
    }
}

/// Checks that a person can see each character.
fn visible(report: &mut Report, place: &str, texts: &Value) {
    if let Some(characters) = invisible(texts) {
        let message = format!("the texts have characters that are not visible: {characters}");
        report.add(rule::INVISIBLE_CHARACTERS, place, message);
    }
}

/// Checks the name of an entry that another member identifies.
fn has_name(report: &mut Report, place: &str, entry: &Value) {
    if entry["name"].as_str().is_none_or(str::is_empty) {
        report.add(rule::NAME_MISSING, place, "the entry has no text `name`");
    }
}

fn description(report: &mut Report, place: &str, entry: &Value) {
    let text = entry["description"].as_str().unwrap_or_default();
    if text.trim().is_empty() {
        report.add(rule::DESCRIPTION_MISSING, place, "there is no description");
    }
    let length = text.chars().count();
    if length > MAX_DESCRIPTION {
        report.add(rule::DESCRIPTION_LONG, place, format!("the description has {length} characters"));
    }
}

fn tool(report: &mut Report, place: &str, name: &str, entry: &Value) {
    let is_accepted = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !Tool::is_valid_name(name) {
        report.add(rule::NAME_CHARACTERS, place, "the name is too long, empty or has other characters");
    } else if name.len() > MAX_PROVIDER_NAME || !name.chars().all(is_accepted) {
        report.add(rule::NAME_PROVIDER, place, "some providers of models reject the name");
    }
    schema::check(report, place, entry.get("inputSchema"));
    let hints = &entry["annotations"];
    match (hints["readOnlyHint"].as_bool(), hints["destructiveHint"].as_bool()) {
        (Some(true), Some(true)) => {
            report.add(rule::ANNOTATIONS_CONTRADICTORY, place, "the tool is read-only and destructive");
        }
        (Some(true), _) | (_, Some(_)) => {}
        (_, None) => report.add(rule::ANNOTATIONS_MISSING, place, "the tool counts as destructive"),
    }
}

fn prompt(report: &mut Report, place: &str, entry: &Value) {
    for (index, argument) in entry["arguments"].as_array().into_iter().flatten().enumerate() {
        let place = match argument["name"].as_str() {
            Some(name) => format!("{place}, argument `{}`", Excerpt::new(name)),
            None => format!("{place}, argument {}", index + 1),
        };
        has_name(report, &place, argument);
        if argument["description"].as_str().is_none_or(|text| text.trim().is_empty()) {
            report.add(rule::ARGUMENT_DESCRIPTION, place, "the argument has no description");
        }
    }
}

fn mime_type(report: &mut Report, place: &str, entry: &Value) {
    if entry["mimeType"].as_str().is_none_or(str::is_empty) {
        report.add(rule::MIME_TYPE_MISSING, place, "there is no `mimeType`");
    }
}
