//! The order of a conversation in which tools are used: each use is answered by the next message (client, sampling).

use std::{collections::HashSet, fmt};

use crate::{CreateMessageParams, Role, SamplingBlock, SamplingMessage};

/// The reason why a model cannot continue the messages of a sampling request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationError {
    /// The place of the message.
    index: usize,
    problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Problem {
    Empty,
    UseByUser,
    ResultByModel,
    Mixed,
    Twice(String),
    Unanswered(String),
    Unasked(String),
}

impl fmt::Display for ConversationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`messages[{}]` ", self.index)?;
        match &self.problem {
            Problem::Empty => f.write_str("has no content"),
            Problem::UseByUser => f.write_str("is of the user and uses a tool, which only the model does"),
            Problem::ResultByModel => {
                f.write_str("is of the model and has the result of a tool, which only the user brings")
            }
            Problem::Mixed => f.write_str("has results of tools beside other content"),
            Problem::Twice(id) => write!(f, "names the use `{id}` of a tool twice"),
            Problem::Unanswered(id) => write!(f, "uses a tool (`{id}`), and the next message has no result of it"),
            Problem::Unasked(id) => write!(f, "has a result of `{id}`, which the message before does not use"),
        }
    }
}

impl std::error::Error for ConversationError {}

impl CreateMessageParams {
    /// Checks the rules for messages that types cannot express (2025-11-25 and later).
    ///
    /// - Each message has content.
    /// - Only the model uses tools.
    /// - The message after tool uses is of the user, and contains exactly the results of these uses.
    ///
    /// Clients reject a violation with `-32602`.
    ///
    /// # Errors
    /// The first message that violates a rule, and the rule.
    pub fn check_conversation(&self) -> Result<(), ConversationError> {
        let mut open: Vec<&str> = Vec::new();
        for (index, message) in self.messages.iter().enumerate() {
            let refuse = |index, problem| Err(ConversationError { index, problem });
            let (uses, results) = match tools(message) {
                Ok(tools) => tools,
                Err(problem) => return refuse(index, problem),
            };
            if let Some(id) = open.iter().find(|id| !results.contains(id)) {
                return refuse(index - 1, Problem::Unanswered((*id).to_owned()));
            }
            if let Some(id) = results.iter().find(|id| !open.contains(id)) {
                return refuse(index, Problem::Unasked((*id).to_owned()));
            }
            open = uses;
        }
        match open.first() {
            Some(id) => {
                let index = self.messages.len() - 1;
                Err(ConversationError { index, problem: Problem::Unanswered((*id).to_owned()) })
            }
            None => Ok(()),
        }
    }
}

/// The ids of the uses and of the results in a message.
fn tools(message: &SamplingMessage) -> Result<(Vec<&str>, Vec<&str>), Problem> {
    let (mut uses, mut results, mut others) = (Vec::new(), Vec::new(), 0);
    for block in &message.content.0 {
        match block {
            SamplingBlock::ToolUse(block) => uses.push(&*block.id),
            SamplingBlock::ToolResult(block) => results.push(&*block.tool_use_id),
            _ => others += 1,
        }
    }
    if message.content.0.is_empty() {
        return Err(Problem::Empty);
    }
    if message.role != Role::Assistant && !uses.is_empty() {
        return Err(Problem::UseByUser);
    }
    if message.role == Role::Assistant && !results.is_empty() {
        return Err(Problem::ResultByModel);
    }
    if !results.is_empty() && others > 0 {
        return Err(Problem::Mixed);
    }
    for ids in [&uses, &results] {
        let mut seen = HashSet::new();
        if let Some(twice) = ids.iter().find(|id| !seen.insert(**id)) {
            return Err(Problem::Twice((*twice).to_owned()));
        }
    }
    Ok((uses, results))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn used(ids: &[&str]) -> Value {
        let uses: Vec<_> =
            ids.iter().map(|id| json!({ "type": "tool_use", "id": id, "name": "t", "input": {} })).collect();
        json!({ "role": "assistant", "content": uses })
    }

    fn result(id: &str) -> Value {
        json!({ "type": "tool_result", "toolUseId": id, "content": [] })
    }

    fn answered(ids: &[&str]) -> Value {
        json!({ "role": "user", "content": ids.iter().map(|id| result(id)).collect::<Vec<_>>() })
    }

    #[test]
    fn the_next_message_contains_exactly_the_results_of_tool_uses() {
        let text = json!({ "type": "text", "text": "x" });
        let user = json!({ "role": "user", "content": text });
        let model = json!({ "role": "assistant", "content": text });
        let mixed_use = json!({ "role": "assistant", "content": [text, used(&["a"])["content"][0]] });
        let mixed_result = json!({ "role": "user", "content": [text, result("a")] });
        for (messages, expected) in [
            (json!([]), ""),
            (json!([user, model, user]), ""),
            (json!([user, used(&["a", "b"]), answered(&["b", "a"]), model]), ""),
            (json!([mixed_use, answered(&["a"]), used(&["a"]), answered(&["a"])]), ""),
            (json!([{ "role": "user", "content": [] }]), "`messages[0]` has no content"),
            (json!([used(&["a"]), mixed_result]), "`messages[1]` has results of tools beside other content"),
            (
                json!([used(&["a", "b"]), answered(&["a"])]),
                "`messages[0]` uses a tool (`b`), and the next message has no result of it",
            ),
            (json!([used(&["a"]), user]), "`messages[0]` uses a tool (`a`), and the next message has no result of it"),
            (json!([user, used(&["a"])]), "`messages[1]` uses a tool (`a`), and the next message has no result of it"),
            (
                json!([user, answered(&["a"])]),
                "`messages[1]` has a result of `a`, which the message before does not use",
            ),
            (
                json!([used(&["a"]), answered(&["a", "c"])]),
                "`messages[1]` has a result of `c`, which the message before does not use",
            ),
            (json!([used(&["a", "a"])]), "`messages[0]` names the use `a` of a tool twice"),
            (json!([used(&["a"]), answered(&["a", "a"])]), "`messages[1]` names the use `a` of a tool twice"),
            (
                json!([{ "role": "user", "content": used(&["a"])["content"] }]),
                "`messages[0]` is of the user and uses a tool, which only the model does",
            ),
            (
                json!([{ "role": "assistant", "content": result("a") }]),
                "`messages[0]` is of the model and has the result of a tool, which only the user brings",
            ),
        ] {
            let params = json!({ "messages": messages, "maxTokens": 1 });
            let params: CreateMessageParams = serde_json::from_value(params).unwrap();
            let got = params.check_conversation().err().map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(got, expected, "{messages}");
        }
    }
}
