//! Elicitation at the terminal: forms, and pages that the user opens.

mod field;
mod page;

use mcp_client::InputContext;
use mcp_protocol::{ElicitAction, ElicitResult, FormElicitParams, JsonObject, RpcError, UrlElicitParams};
use mcp_schema::elicitation::{Field, Form};
use serde_json::{Map, Value};

pub(crate) use self::field::answer;
use self::page::Page;
use crate::{
    answers::{Answers, Decision},
    question,
    screen::{InputTurn, note, print},
    style::{self, Style},
    text::{line, printable},
};

/// Asks for the fields of a form, one after the other, unless the options answer it.
pub(crate) async fn form(request: InputContext<FormElicitParams>, answers: &Answers) -> Result<ElicitResult, RpcError> {
    let form = request.form().map_err(|error| RpcError::invalid_params(error.to_string()))?;
    let can_ask = question::is_possible();
    let known = match answers.decide(&form, can_ask).map_err(|problem| answers.refuse(problem))? {
        Decision::Accept(content) => {
            let option = if content.is_empty() { "agreed with --yes" } else { "answered with --answer" };
            report(&request.server().name, &request.message, option);
            return Ok(ElicitResult::accept(JsonObject::from(content)));
        }
        Decision::Decline => return Ok(declined(&request.server().name, &request.message)),
        Decision::Ask(known) if !can_ask => {
            return Err(answers.refuse(answers.unanswered(&request.message, &form, &known)));
        }
        Decision::Ask(known) => known,
    };
    let defaults = if form.fields().is_empty() { "" } else { ", an empty line selects the default" };
    let intro = format!(
        "\n{} asks: {}\n(Ctrl-D declines, Ctrl-C ends the command{defaults})",
        question::server_name(&request.server().name),
        printable(&request.message)
    );
    let content = question::ask(async |turn| {
        print(&intro);
        if form.fields().is_empty() {
            // A form without fields is a question for consent.
            let agreed = question::choose(turn, "Do you agree? [y/n] ", &["y", "n"]).await == Some("y");
            return agreed.then(Map::new);
        }
        fill(turn, &form, known).await
    });
    Ok(match content.await {
        Some(Some(content)) => ElicitResult::accept(JsonObject::from(content)),
        Some(None) => ElicitResult::decline(),
        None => ElicitResult::cancel(),
    })
}

/// Shows the URL of a page and asks for consent. `mcp` never opens the page: the user does.
pub(crate) async fn url(request: InputContext<UrlElicitParams>, answers: &Answers) -> Result<ElicitResult, RpcError> {
    let page = Page::parse(&request.url).map_err(RpcError::invalid_params)?;
    if answers.declines() {
        return Ok(declined(&request.server().name, &request.message));
    }
    let mut intro = format!(
        "\n{} asks: {}\nThe server wants you to open this page of {} in a browser:\n  {}",
        question::server_name(&request.server().name),
        printable(&request.message),
        strong(page.host()),
        page.with_marked_host(strong)
    );
    for warning in page.warnings() {
        intro.push_str(&format!("\n{} {warning}", strong("warning:")));
    }
    let consent = question::ask(async |turn| {
        print(&intro);
        Some(question::choose(turn, "Will you open it? [y/n] ", &["y", "n"]).await == Some("y"))
    });
    Ok(match consent.await {
        Some(Some(true)) => ElicitResult::new(ElicitAction::Accept),
        Some(_) => ElicitResult::decline(),
        None => ElicitResult::cancel(),
    })
}

/// Declines a question with `--decline`.
fn declined(server: &str, message: &str) -> ElicitResult {
    report(server, message, "declined with --decline");
    ElicitResult::decline()
}

/// Prints a question that an option answers.
fn report(server: &str, message: &str, option: &str) {
    note(format!("{} asks: {} ({option})", question::server_name(server), line(message)));
}

/// Returns the text in bold, reversed characters if the terminal supports them.
fn strong(text: &str) -> String {
    style::err(Style::Strong, text)
}

/// Asks for every field that has no value yet. Returns `None` if the user declines.
async fn fill(turn: &mut InputTurn, form: &Form, mut content: Map<String, Value>) -> Option<Map<String, Value>> {
    for field in form.fields() {
        if content.contains_key(&field.name) {
            continue;
        }
        if let Some(value) = fill_field(turn, form, field).await? {
            content.insert(field.name.clone(), value);
        }
    }
    Some(content)
}

/// Asks until the value is valid, or the user skips an optional field.
async fn fill_field(turn: &mut InputTurn, form: &Form, field: &Field) -> Option<Option<Value>> {
    if let Some(description) = &field.description {
        print(&format!("  {}", printable(description)));
    }
    for choice in field::choices(&field.kind) {
        print(&format!("  {choice}"));
    }
    let prompt = field::prompt(field);
    loop {
        let typed = question::read(turn, &prompt).await?;
        match field::value(form, field, typed.trim()) {
            Ok(value) => return Some(value),
            Err(reason) => print(&format!("  {}", line(&reason))),
        }
    }
}
