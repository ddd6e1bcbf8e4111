//! Finds tools, prompts and resources by their names, and suggests names for unknown ones.

use std::collections::BTreeSet;

use mcp_client::{Error, ListWarning, OmittedItem};
use mcp_protocol::{ErrorCode, Prompt, Resource, ResourceTemplate, Tool};

use parking_lot::Mutex;

use super::Session;
use crate::{failure::Failure, screen::warn, suggestion::nearest, text::line};

/// The number of names that an error text suggests at most.
const MAX_SUGGESTIONS: usize = 5;

/// The largest number of warnings about lists that the program keeps, so as not to repeat them.
const MAX_WARNINGS: usize = 1_000;
/// The warnings about lists so far. A command can read a list several times.
static WARNINGS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Warns about a list that the server did not end, and about each of its invalid items. A warning appears once.
pub(super) fn warn_about(session: &Session, list: &str, warning: Option<ListWarning>, omitted: &[OmittedItem]) {
    let early = warning.map(|warning| format!("the list of {list} may be incomplete: {warning}"));
    let info = session.client.server_info();
    let server = if info.name.is_empty() { "the server".to_owned() } else { format!("the server `{}`", info.name) };
    let items = omitted.iter().map(|item| format!("{server}: {item}"));
    for text in early.into_iter().chain(items) {
        let mut known = WARNINGS.lock();
        if known.len() < MAX_WARNINGS && known.insert(text.clone()) {
            warn(&line(&text));
        }
    }
}

/// A tool that the list for this caller does not contain. The server may hide it, because the caller lacks a scope.
#[derive(Debug)]
pub(super) struct Unlisted {
    name: String,
    suggestion: String,
}

impl Unlisted {
    /// Returns the text about the list, with the suggested names.
    pub(super) fn text(&self) -> String {
        format!("{}{}", self.statement(), self.suggestion)
    }

    /// Returns the text about the list.
    pub(super) fn statement(&self) -> String {
        format!("the server lists no tool `{}` for this caller", line(&self.name))
    }

    /// Returns the failure of a call of this tool.
    pub(super) fn failure(&self, error: Error) -> Failure {
        if is_unknown_name(&error) {
            return Failure::usage(self.text()).with_line(&Failure::from(error).to_string());
        }
        Failure::from(error).with_line(&self.statement())
    }
}

impl From<Unlisted> for Failure {
    fn from(unlisted: Unlisted) -> Self {
        Self::usage(unlisted.text())
    }
}

/// Finds a tool by its name.
pub(super) async fn find_tool(session: &Session, name: &str) -> Result<Result<Tool, Unlisted>, Failure> {
    session.check_allowed(name)?;
    if let Some(tool) = session.requests.listed_tool(name) {
        return Ok(Ok(tool));
    }
    let mut tools = session.client.list_tools().stream();
    let mut others = Vec::new();
    while let Some(tool) = tools.next().await {
        let tool = tool?;
        if tool.name == name {
            return Ok(Ok(tool));
        }
        if session.offers(&tool) {
            others.push(tool.name);
        }
    }
    warn_about(session, "tools", tools.warning(), tools.omitted());
    Ok(Err(Unlisted { name: name.to_owned(), suggestion: did_you_mean(name, &others) }))
}

/// Finds a prompt by its name.
pub(super) async fn find_prompt(session: &Session, name: &str) -> Result<Option<Prompt>, Failure> {
    let mut prompts = session.client.list_prompts().stream();
    while let Some(prompt) = prompts.next().await {
        let prompt = prompt?;
        if prompt.name == name {
            return Ok(Some(prompt));
        }
    }
    warn_about(session, "prompts", prompts.warning(), prompts.omitted());
    Ok(None)
}

/// Returns the failure of a request for a prompt. If the server lists no such prompt, it suggests a name.
pub(super) async fn prompt_failure(session: &Session, name: &str, error: Error) -> Failure {
    if !is_unknown_name(&error) {
        return error.into();
    }
    let Some(prompts) = prompt_names(session).await else { return error.into() };
    if prompts.iter().any(|other| other == name) {
        return error.into();
    }
    Failure::from(error).wrong_name(&did_you_mean(name, &prompts))
}

/// Returns the failure of a request for a resource. It suggests a URI or a template.
///
/// The exit code is that of the server: a server can serve resources that it does not list.
pub(super) async fn resource_failure(session: &Session, uri: &str, error: Error) -> Failure {
    if !is_unknown_name(&error) {
        return error.into();
    }
    let uris = match session.client.list_resources().await {
        Ok(resources) => resources.into_iter().map(|resource: Resource| resource.uri).collect(),
        Err(_) => Vec::new(),
    };
    let templates = template_uris(session).await.unwrap_or_default();
    let is_listed = |other: &String| other == uri || (other.contains('{') && fits(other, uri));
    if uris.iter().chain(&templates).any(is_listed) {
        return error.into();
    }
    let mut suggestion = did_you_mean(uri, &uris);
    if suggestion.is_empty() {
        suggestion = template_like(uri, &templates);
    }
    Failure::from(error).with_hint(&suggestion)
}

/// Returns the failure of a completion for a prompt or a template. If the server does not list it, it suggests a name.
pub(super) async fn completion_failure(session: &Session, reference: &str, error: Error) -> Failure {
    if !is_unknown_name(&error) {
        return error.into();
    }
    let prompts = prompt_names(session).await;
    let templates = template_uris(session).await;
    if prompts.is_none() && templates.is_none() {
        return error.into();
    }
    let names = [prompts.unwrap_or_default(), templates.unwrap_or_default()].concat();
    if names.iter().any(|other| other == reference) {
        return error.into();
    }
    let mut suggestion = did_you_mean(reference, &names);
    if suggestion.is_empty() {
        suggestion = template_like(reference, &names);
    }
    Failure::from(error).wrong_name(&suggestion)
}

/// Returns whether the server can have rejected a name or a URI.
fn is_unknown_name(error: &Error) -> bool {
    error.rpc().is_some_and(|error| [ErrorCode::INVALID_PARAMS, ErrorCode::RESOURCE_NOT_FOUND].contains(&error.code))
}

async fn prompt_names(session: &Session) -> Option<Vec<String>> {
    let prompts = session.client.list_prompts().await.ok()?;
    Some(prompts.into_iter().map(|prompt| prompt.name).collect())
}

async fn template_uris(session: &Session) -> Option<Vec<String>> {
    let templates = session.client.list_resource_templates().await.ok()?;
    Some(templates.into_iter().map(|template: ResourceTemplate| template.uri_template).collect())
}

/// Returns the end of an error text: the names that contain `name`, or the most similar name.
pub(super) fn did_you_mean(name: &str, others: &[String]) -> String {
    let part = name.to_lowercase();
    let containing = others.iter().map(String::as_str).filter(|other| other.to_lowercase().contains(&part));
    let mut names: Vec<&str> = containing.take(MAX_SUGGESTIONS).collect();
    if names.is_empty() {
        names.extend(nearest(name, others.iter().map(String::as_str)));
    }
    if names.is_empty() { String::new() } else { format!("; did you mean {}?", line(&names.join(", "))) }
}

/// Returns the end of an error text: the template whose literal begin is similar to the begin of `uri`.
fn template_like(uri: &str, templates: &[String]) -> String {
    let similar = templates.iter().find(|template| {
        let literal = literal(template);
        let begin: String = uri.chars().take(literal.chars().count()).collect();
        !literal.is_empty() && nearest(&begin, [literal]).is_some()
    });
    similar.map_or_else(String::new, |template| format!("; did you mean {}?", line(template)))
}

/// Returns whether a URI begins as a template does.
fn fits(template: &str, uri: &str) -> bool {
    uri.starts_with(literal(template))
}

/// Returns the text of a template before its first expression.
fn literal(template: &str) -> &str {
    template.split('{').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_the_template_that_begins_similarly() {
        let templates = ["note://{id}", "file:///{+path}", "{any}"].map(ToOwned::to_owned);
        for (uri, expected) in [
            ("nte://milk", "; did you mean note://{id}?"),
            ("fil:///a/b", "; did you mean file:///{+path}?"),
            ("https://example.com", ""),
            ("", ""),
        ] {
            assert_eq!(template_like(uri, &templates), expected, "{uri}");
        }
    }
}
