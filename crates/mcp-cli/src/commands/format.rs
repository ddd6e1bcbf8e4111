//! Tools and calls in the formats of LLM providers.

use mcp_protocol::{JsonObject, Tool};
use mcp_tool_format::{Call, Diagnostic, DiagnosticKind, Options, Provider, render, safe_name};
use serde_json::{Value, json};

use super::{
    Session,
    list::{all_tools, listed_tools},
    names::find_tool,
};
use crate::{failure::Failure, output::Output, screen::warn, text::line};

/// Prints the tools as the member `tools` of a request to the provider, and the losses on stderr.
pub(crate) async fn tools(
    session: &Session,
    name: Option<&str>,
    provider: Provider,
    strict: bool,
) -> Result<(), Failure> {
    let (tools, invalid) = match name {
        Some(name) => (vec![find_tool(session, name).await??], 0),
        None => listed_tools(session).await?,
    };
    let left_out = print(session.out, tools.iter().map(|tool| (tool.name.as_str(), tool)), provider)?;
    check_strict(strict, invalid + left_out)
}

/// Prints tools under their names for the provider. Returns the number of tools that were left out.
pub(crate) fn print<'a>(
    out: Output,
    tools: impl IntoIterator<Item = (&'a str, &'a Tool)>,
    provider: Provider,
) -> Result<usize, Failure> {
    let rendered = render(tools, &Options::new(provider));
    let is_over = |diagnostic: &&Diagnostic| diagnostic.kind == DiagnosticKind::OverBudget;
    let over: Vec<&Diagnostic> = rendered.diagnostics.iter().filter(is_over).collect();
    if let [first, others @ ..] = &over[..] {
        let others = if others.is_empty() { String::new() } else { format!(" and {} other tools", others.len()) };
        let verb = if over.len() == 1 { "is" } else { "are" };
        warn(&line(&format!("{}{others} {verb} left out: {}", first.tool, first.message)));
    }
    for diagnostic in rendered.diagnostics.iter().filter(|diagnostic| !is_over(diagnostic)) {
        if diagnostic.kind.is_left_out() {
            warn(&line(&format!("{} is left out: {}", diagnostic.tool, diagnostic.message)));
        } else {
            warn(&line(&diagnostic.to_string()));
        }
    }
    out.value(rendered.tools())?;
    Ok(rendered.diagnostics.iter().filter(|diagnostic| diagnostic.kind.is_left_out()).count())
}

/// Returns the failure of `--strict` if tools were left out.
pub(crate) fn check_strict(strict: bool, left_out: usize) -> Result<(), Failure> {
    match left_out {
        0 => Ok(()),
        _ if !strict => Ok(()),
        1 => Err(Failure::local("1 tool was left out")),
        count => Err(Failure::local(format!("{count} tools were left out"))),
    }
}

/// Returns the tool and the arguments of a call that a model of the provider made.
pub(crate) async fn parse(
    session: &Session,
    name: &str,
    words: &[String],
    provider: Provider,
) -> Result<(Tool, JsonObject), Failure> {
    let arguments = super::optional(words)?.unwrap_or_default();
    let text = match arguments.strip_prefix('@').or_else(|| (arguments == "-").then_some("-")) {
        Some(file) => session.input.read(file).await?,
        None => arguments.to_owned(),
    };
    let tools = all_tools(session).await?;
    let tool = match tools.into_iter().find(|tool| safe_name(&tool.name) == name) {
        Some(tool) => tool,
        None => find_tool(session, name).await??,
    };
    let rendered = render([(tool.name.as_str(), &tool)], &Options::new(provider));
    let Some(provider_name) = rendered.provider_name(&tool.name) else {
        let reason = rendered.diagnostics.first().map_or_else(String::new, |found| format!(": {}", found.message));
        return Err(Failure::usage(format!("{provider} does not accept the tool `{}`{}", line(name), line(&reason))));
    };
    let block = json!({ "name": provider_name, "arguments": Value::String(text) });
    match Call::parse(&rendered, &block) {
        Ok(call) => Ok((tool, call.arguments)),
        Err(error) => Err(Failure::usage(error.to_string())),
    }
}
