//! Prompts without a handler: messages with placeholders for the arguments.
//!
//! The argument `name` replaces the placeholder `{name}`. A missing argument leaves it empty. The condition `{?name? … }`
//! keeps its text if the argument is given and not empty, and may contain placeholders. Other braces are plain text.

use std::sync::Arc;

use mcp_protocol::{ContentBlock, GetPromptResult, Prompt, PromptArgument, PromptMessage, Role};

use super::PromptRoute;
use crate::handler::{Arguments, Erased, Ready, StringArgument, ToolError};

/// One message of a declarative prompt.
///
/// # Example
/// ```
/// use mcp_protocol::{ContentBlock, Role};
/// use mcp_server_core::{MessageTemplate, PromptRoute, prompt_template};
///
/// let route: PromptRoute = prompt_template("review", [
///     MessageTemplate::user("Review this {language} code."),
///     MessageTemplate::assistant("Send it."),
///     MessageTemplate::content(Role::User, ContentBlock::text("fn main() {}")),
/// ]);
/// # let _ = route;
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MessageTemplate {
    role: Role,
    content: ContentBlock,
}

impl MessageTemplate {
    /// Creates a message of the user with placeholders for arguments.
    ///
    /// See the [example](Self#example).
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, content: ContentBlock::text(text.into()) }
    }

    /// Creates a message of the assistant with placeholders for arguments.
    ///
    /// See the [example](Self#example).
    pub fn assistant(text: impl Into<String>) -> Self {
        Self { role: Role::Assistant, content: ContentBlock::text(text.into()) }
    }

    /// Creates a message with content that stays as it is: an image, audio, a resource.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn content(role: Role, content: ContentBlock) -> Self {
        Self { role, content }
    }
}

/// Creates a prompt from message templates.
///
/// Every placeholder becomes an argument. The argument is required if a placeholder is outside of all conditions, and
/// optional otherwise. [`PromptRoute::arguments`] replaces the definitions of the arguments.
///
/// ```
/// use mcp_server_core::{MessageTemplate, prompt_template};
///
/// let review = prompt_template("review", [
///     MessageTemplate::user("Review this {language} code:{?focus? Look at {focus} above all.}\n{code}"),
/// ]);
/// # let _: mcp_server_core::PromptRoute<()> = review;
/// ```
pub fn prompt_template<S: Clone + Send + Sync + 'static>(
    name: impl Into<String>,
    messages: impl IntoIterator<Item = MessageTemplate>,
) -> PromptRoute<S> {
    let messages: Arc<[(Role, Body)]> = messages.into_iter().map(|m| (m.role, Body::new(m.content))).collect();
    let mut prompt = Prompt::new(name);
    for (_, body) in messages.iter() {
        if let Body::Text(pieces) = body {
            collect_arguments(pieces, true, &mut prompt.arguments);
        }
    }
    let handler = Erased::ready(Ready::new(move |call| {
        let result = render(&messages, call.arguments);
        Box::pin(async move { result })
    }));
    PromptRoute::from_parts(prompt, handler)
}

enum Body {
    Text(Vec<Piece>),
    Content(Box<ContentBlock>),
}

impl Body {
    fn new(content: ContentBlock) -> Self {
        match content.as_text().map(parse) {
            Some(pieces) => Self::Text(pieces),
            None => Self::Content(Box::new(content)),
        }
    }
}

#[derive(Debug, PartialEq)]
enum Piece {
    Literal(String),
    Place(String),
    When(String, Vec<Piece>),
}

fn render(messages: &[(Role, Body)], arguments: Arguments) -> Result<GetPromptResult, ToolError> {
    let arguments = match arguments {
        Arguments::Strings(list) => list,
        Arguments::Json(_) => Vec::new(),
    };
    let value = |name: &str| {
        arguments.iter().find_map(|(known, value)| match value {
            StringArgument::One(text) if known == name => Some(text.as_str()),
            _ => None,
        })
    };
    let messages = messages.iter().map(|(role, body)| {
        let content = match body {
            Body::Content(content) => (**content).clone(),
            Body::Text(pieces) => {
                let mut text = String::new();
                fill(pieces, &value, &mut text);
                ContentBlock::text(text)
            }
        };
        PromptMessage::new(*role, content)
    });
    Ok(GetPromptResult::new(messages.collect()))
}

fn fill<'a>(pieces: &[Piece], value: &impl Fn(&str) -> Option<&'a str>, out: &mut String) {
    for piece in pieces {
        match piece {
            Piece::Literal(text) => out.push_str(text),
            Piece::Place(name) => out.push_str(value(name).unwrap_or_default()),
            Piece::When(name, inner) if value(name).is_some_and(|text| !text.is_empty()) => fill(inner, value, out),
            Piece::When(..) => {}
        }
    }
}

fn collect_arguments(pieces: &[Piece], required: bool, arguments: &mut Vec<PromptArgument>) {
    let mut add = |name: &str, required: bool| match arguments.iter_mut().find(|known| known.name == name) {
        Some(known) => known.required = Some(known.required == Some(true) || required),
        None => {
            let mut argument = PromptArgument::new(name);
            argument.required = Some(required);
            arguments.push(argument);
        }
    };
    let mut conditional = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Literal(_) => {}
            Piece::Place(name) => add(name, required),
            Piece::When(name, inner) => {
                add(name, false);
                conditional.push(inner);
            }
        }
    }
    for inner in conditional {
        collect_arguments(inner, false, arguments);
    }
}

fn parse(text: &str) -> Vec<Piece> {
    let mut rest = text;
    pieces(&mut rest, 0)
}

/// The deepest nesting of conditions. Deeper conditions are plain text.
const DEPTH: usize = 16;

fn pieces(rest: &mut &str, depth: usize) -> Vec<Piece> {
    let mut out = Vec::new();
    while let Some(c) = rest.chars().next() {
        if c == '}' && depth > 0 {
            break;
        }
        if c != '{' || !(condition(rest, depth, &mut out) || place(rest, &mut out)) {
            let end = rest[c.len_utf8()..].find(['{', '}']).map_or(rest.len(), |at| at + c.len_utf8());
            literal(&rest[..end], &mut out);
            *rest = &rest[end..];
        }
    }
    out
}

fn literal(text: &str, out: &mut Vec<Piece>) {
    match out.last_mut() {
        Some(Piece::Literal(last)) => last.push_str(text),
        _ => out.push(Piece::Literal(text.to_owned())),
    }
}

fn place(rest: &mut &str, out: &mut Vec<Piece>) -> bool {
    let Some((name, after)) = rest.strip_prefix('{').and_then(|text| text.split_once('}')) else { return false };
    if !is_name(name) {
        return false;
    }
    out.push(Piece::Place(name.to_owned()));
    *rest = after;
    true
}

fn condition(rest: &mut &str, depth: usize, out: &mut Vec<Piece>) -> bool {
    let Some((name, body)) = rest.strip_prefix("{?").and_then(|text| text.split_once('?')) else { return false };
    if !is_name(name) || depth >= DEPTH {
        return false;
    }
    let mut inner = body;
    let content = pieces(&mut inner, depth + 1);
    if let Some(after) = inner.strip_prefix('}') {
        out.push(Piece::When(name.to_owned(), content));
        *rest = after;
    } else {
        // A condition without its closing brace is plain text. The rest is parsed already.
        literal(&rest[..rest.len() - body.len()], out);
        out.extend(content);
        *rest = inner;
    }
    true
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(template: &str, arguments: &[(&str, &str)], expected: &str) {
        let mut out = String::new();
        let value = |name: &str| arguments.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        fill(&parse(template), &value, &mut out);
        assert_eq!(out, expected, "{template}");
    }

    #[test]
    fn fills_placeholders_and_conditions() {
        check("a {x} b", &[("x", "1")], "a 1 b");
        check("a {x} b", &[], "a  b");
        check("{?x?in {x}}!", &[("x", "1")], "in 1!");
        check("{?x?in {x}}!", &[], "!");
        check("{?x?in {x}}!", &[("x", "")], "!");
        check("{?x?a{?y?b{y}}c}", &[("x", "1"), ("y", "2")], "ab2c");
        check("{?x?a{?y?b{y}}c}", &[("x", "1")], "ac");
        check("{x}", &[("x", "{x}{?x?no}")], "{x}{?x?no}");
    }

    #[test]
    fn keeps_other_braces_unchanged() {
        for text in ["{", "}", "{}", "{ a }", "{?a", "{?a? open", "{\"json\": {\"a\": 1}}", "{a b}", "{ü}"] {
            check(text, &[("a", "X")], text);
        }
    }

    #[test]
    fn a_placeholder_outside_of_conditions_is_required() {
        let mut arguments = Vec::new();
        collect_arguments(&parse("{a}{?b?{b}{c}}{?a?x}"), true, &mut arguments);
        let got: Vec<_> = arguments.iter().map(|a| (a.name.as_str(), a.required)).collect();
        assert_eq!(got, [("a", Some(true)), ("b", Some(false)), ("c", Some(false))]);
    }

    #[test]
    fn deeply_nested_templates_do_not_overflow_the_stack() {
        let nested = "{?a?".repeat(10_000);
        check(&nested, &[], &nested);
    }
}
