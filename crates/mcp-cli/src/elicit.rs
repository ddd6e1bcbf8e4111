//! Asks the user at the terminal what a server wants to know: one question after the other.

mod field;
mod page;

use std::io::{IsTerminal, stderr, stdin};

use mcp_client::Asked;
use mcp_protocol::{ElicitAction, ElicitResult, FormElicitParams, JsonObject, RpcError, UrlElicitParams};
use mcp_schema::elicitation::{Field, Form};
use serde_json::{Map, Value};

use self::page::Page;
use crate::{
    keyboard,
    output::{line, printable},
    screen::{self, Typing, say},
};

/// Whether there is a user to ask: where there is none, servers are not told that they may ask.
pub(crate) fn possible() -> bool {
    stdin().is_terminal() && stderr().is_terminal()
}

/// Asks for the fields of a form, one after the other.
pub(crate) async fn form(asked: Asked<FormElicitParams>) -> Result<ElicitResult, RpcError> {
    let form = asked.form().map_err(|error| RpcError::invalid_params(error.to_string()))?;
    let intro = format!(
        "\n{} asks: {}\n(Ctrl-D declines, Ctrl-C ends the command; an empty line takes the default)",
        name(&asked.server().name),
        printable(&asked.message)
    );
    let filled = question(async |typing| {
        say(&intro);
        fill(typing, &form).await
    });
    Ok(match filled.await {
        Some(Some(content)) => ElicitResult::accept(JsonObject::from(content)),
        Some(None) => ElicitResult::decline(),
        None => ElicitResult::cancel(),
    })
}

/// Shows a page and asks for consent. It is the user who opens it.
pub(crate) async fn url(asked: Asked<UrlElicitParams>) -> Result<ElicitResult, RpcError> {
    let page = Page::read(&asked.url).map_err(RpcError::invalid_params)?;
    let mut intro = format!(
        "\n{} asks: {}\nIt wants you to open this page of {} in a browser:\n  {}",
        name(&asked.server().name),
        printable(&asked.message),
        strong(page.host()),
        page.marked(strong)
    );
    for warning in page.warnings() {
        intro.push_str(&format!("\n{} {warning}", strong("careful:")));
    }
    let agreed = question(async |typing| {
        say(&intro);
        Some(choose(typing, "Will you open it? [y/n] ", &["y", "n"]).await == Some("y"))
    });
    Ok(match agreed.await {
        Some(Some(true)) => ElicitResult::new(ElicitAction::Accept),
        Some(_) => ElicitResult::decline(),
        None => ElicitResult::cancel(),
    })
}

/// Asks one of the answers that are named by their first letters; `None` where the user declines. Who only presses Enter has
/// answered nothing yet.
pub(crate) async fn choose(typing: &mut Typing, prompt: &str, answers: &[&'static str]) -> Option<&'static str> {
    loop {
        let typed = read(typing, prompt).await?.trim().to_lowercase();
        let long = |answer: &str| matches!((answer, &*typed), ("y", "yes") | ("n", "no") | ("a", "all"));
        if let Some(answer) = answers.iter().find(|answer| **answer == typed || long(answer)) {
            return Some(answer);
        }
    }
}

/// Asks when it is this question's turn. `None` where nobody answers any more: the command that it was asked for has ended.
///
/// Dropping the future ends the question too.
pub(crate) async fn question<T>(ask: impl AsyncFnOnce(&mut Typing) -> T) -> Option<T> {
    let asking = async {
        let mut typing = screen::typing().await;
        keyboard::forget();
        ask(&mut typing).await
    };
    tokio::select! {
        answer = asking => Some(answer),
        () = screen::command_ended() => None,
    }
}

/// A line that is typed behind a prompt; `None` where the user declines, and where nothing can be read.
async fn read(typing: &mut Typing, prompt: &str) -> Option<String> {
    typing.prompt(prompt);
    let line = keyboard::line().await;
    typing.finished();
    match line {
        Ok(Some(line)) => return Some(line),
        // The cursor still stands behind the prompt.
        Ok(None) => say(""),
        Err(error) => say(&format!("\nmcp: cannot read from the terminal: {error}")),
    }
    None
}

/// How a server is called in a question.
pub(crate) fn name(name: &str) -> String {
    if name.is_empty() { "The server".to_owned() } else { line(name) }
}

/// Stands out, where the terminal can do that.
fn strong(text: &str) -> String {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if is_set("NO_COLOR") || std::env::var_os("TERM").is_none_or(|term| term == "dumb") {
        text.to_owned()
    } else {
        format!("\u{1b}[1;7m{text}\u{1b}[0m")
    }
}

/// `None` where the user declines.
async fn fill(typing: &mut Typing, form: &Form) -> Option<Map<String, Value>> {
    let mut content = Map::new();
    for field in form.fields() {
        if let Some(value) = ask_field(typing, form, field).await? {
            content.insert(field.name.clone(), value);
        }
    }
    Some(content)
}

/// Asks until the value fits, or the user leaves out what may be left out.
async fn ask_field(typing: &mut Typing, form: &Form, field: &Field) -> Option<Option<Value>> {
    if let Some(description) = &field.description {
        say(&format!("  {}", printable(description)));
    }
    for choice in field::choices(&field.kind) {
        say(&format!("  {choice}"));
    }
    let prompt = field::prompt(field);
    loop {
        let typed = read(typing, &prompt).await?;
        match field::value(form, field, typed.trim()) {
            Ok(value) => return Some(value),
            Err(problem) => say(&format!("  {}", line(&problem))),
        }
    }
}
