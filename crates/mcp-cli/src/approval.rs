//! Approvals of the user: requests for which a policy requires a person, and changed definitions of tools.

use std::sync::Arc;

use mcp_agent::policy::{Action, Approver, PendingApproval, Refusal};
use mcp_client::transport::BoxFuture;
use serde_json::Value;

use crate::{
    answers::Answers,
    question,
    screen::{note, print},
    text::line,
};

/// The number of characters of the arguments that a question shows at most.
const MAX_ARGUMENTS: usize = 2000;
/// How the user leaves a question.
const KEYS: &str = "(Ctrl-D declines, Ctrl-C ends the command)";

/// Asks the user about a request, unless an option decides.
pub(crate) struct User {
    answers: Arc<Answers>,
}

impl User {
    /// Returns the approver. `None` if neither an option nor a terminal can give the approval.
    pub(crate) fn new(answers: &Arc<Answers>) -> Option<Self> {
        let can_decide = question::is_possible() || answers.agrees() || answers.declines();
        can_decide.then(|| Self { answers: Arc::clone(answers) })
    }
}

impl Approver for User {
    fn approve<'a>(&'a self, question: &'a PendingApproval) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let request = describe(question);
            if self.answers.agrees() {
                note(format!("approved with --yes: {request}"));
                return true;
            }
            if !question::is_possible() {
                note(format!("declined with --decline: {request}"));
                return false;
            }
            let reason = question.reason.as_deref().map(|reason| format!("{}\n", line(reason))).unwrap_or_default();
            agrees(format!("\nA policy requires your approval: {request}\n{reason}{KEYS}"), "Do you approve? [y/n] ")
                .await
        })
    }
}

/// Asks the user to accept the changed definition of a tool.
pub(crate) async fn accepts_definition(tool: &str, refusal: &Refusal) -> bool {
    let change = refusal.reason().map(|reason| format!(":\n{}", line(reason))).unwrap_or_default();
    let intro = format!("\nThe definition of the tool `{}` has changed{change}\n{KEYS}", line(tool));
    agrees(intro, "Do you accept the new definition? [y/n] ").await
}

async fn agrees(intro: String, prompt: &'static str) -> bool {
    let asked = question::ask(async |turn| {
        print(&intro);
        question::choose(turn, prompt, &["y", "n"]).await == Some("y")
    });
    asked.await.unwrap_or(false)
}

/// Returns the request of a question in one line.
fn describe(question: &PendingApproval) -> String {
    let input = &question.input;
    let (server, name) = (line(&input.server), line(&input.tool));
    let request = match input.action {
        Action::ReadResource if input.is_completion => {
            format!("complete a variable of the resource `{name}` of `{server}`")
        }
        Action::GetPrompt if input.is_completion => {
            format!("complete an argument of the prompt `{name}` of `{server}`")
        }
        Action::ReadResource => format!("read the resource `{name}` of `{server}`"),
        Action::GetPrompt => format!("get the prompt `{name}` of `{server}`"),
        _ => format!("call the tool `{name}` of `{server}`"),
    };
    if input.arguments.is_empty() {
        return request;
    }
    let arguments = line(&Value::from(input.arguments.clone()).to_string());
    match arguments.char_indices().nth(MAX_ARGUMENTS) {
        None => format!("{request} with {arguments}"),
        Some((end, _)) => format!("{request} with {}… ({} bytes)", &arguments[..end], arguments.len()),
    }
}
