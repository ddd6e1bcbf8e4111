//! The loop of an agent: the model calls tools until it has an answer.

use std::error::Error;

use mcp_agent::Host;
use mcp_client::protocol::{CallToolResult, GetPromptResult, JsonObject, PromptMessage};
use mcp_tool_format::{Call, ContentOptions, Messages, Options, Provider, render};

use crate::{model::Model, response};

/// The most requests for one task. It ends a loop of calls that lead nowhere.
const MAX_REQUESTS: usize = 20;

/// Returns the answer of the model to a task.
pub(crate) async fn run(
    host: &Host,
    provider: Provider,
    model: &mut impl Model,
    task: &str,
) -> Result<String, Box<dyn Error>> {
    let options = ContentOptions::new();
    let task = GetPromptResult::new(vec![PromptMessage::user(task)]);
    let mut messages = Messages::from_prompt(provider, &task, &options).messages;
    for _ in 0..MAX_REQUESTS {
        // A server can join or change at any time, so each request has the tools of the current catalog.
        let catalog = host.catalog();
        let rendered = render(catalog.definitions(), &Options::new(provider));
        for diagnostic in rendered.diagnostics.iter().filter(|diagnostic| diagnostic.kind.is_left_out()) {
            eprintln!("{diagnostic}");
        }
        let member = match provider {
            Provider::OpenAiResponses => "input",
            Provider::Gemini => "contents",
            _ => "messages",
        };
        let mut request = JsonObject::new().with(member, messages.clone());
        rendered.add_to(&mut request);

        let response = model.complete(&request).await?;
        let parsed = Call::parse_all(&rendered, &response);
        if parsed.is_empty() {
            return Ok(response::text(provider, &response));
        }
        // The calls of one response run at the same time.
        let running = parsed.into_iter().map(|parsed| tokio::spawn(one(host.clone(), parsed, catalog.generation())));
        let running: Vec<_> = running.collect();
        let (mut calls, mut results) = (Vec::new(), Vec::new());
        for task in running {
            let (call, result) = task.await?;
            calls.push(call);
            results.push(result);
        }
        messages.extend(rendered.call_messages(&calls));
        let answers = rendered.result_messages(calls.iter().zip(&results), &options);
        for rest in answers.rest {
            host.keep_rest(rest.uri, rest.text);
        }
        messages.extend(answers.messages);
    }
    Err("the model has no answer after 20 requests".into())
}

/// Makes one call. Each fault is a result that the model reads, so that it can correct its call.
async fn one(host: Host, parsed: Result<Call, mcp_tool_format::CallError>, generation: u64) -> (Call, CallToolResult) {
    match parsed {
        Ok(call) => {
            let outcome = host.call(call.name.as_str(), &call.arguments).generation(generation).await;
            eprintln!("{} {}", call.name, if outcome.is_ok() { "returned" } else { "failed" });
            let result = outcome.map_or_else(|error| error.result(), mcp_agent::HostResult::into_inner);
            (call, result)
        }
        Err(error) => {
            let result = error.result();
            (*error.call, result)
        }
    }
}
