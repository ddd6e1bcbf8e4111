//! Searches tools by words.

use mcp_agent::search::ToolIndex;
use mcp_protocol::Tool;
use serde_json::{Value, json};

use super::{Session, list::all_tools};
use crate::{arguments::signature, failure::Failure, output::Output, style::Style, text::first_line};

/// Searches the tools of one server.
pub(crate) async fn search(session: &Session, words: &[String], limit: usize) -> Result<(), Failure> {
    let query = query(words)?;
    let tools = all_tools(session).await?;
    let found: Vec<(String, &Tool, Value)> = tools.iter().map(|tool| (tool.name.clone(), tool, json!(tool))).collect();
    print(session.out, found, &query, limit)
}

/// Returns the words of a search as one text.
pub(crate) fn query(words: &[String]) -> Result<String, Failure> {
    if words.is_empty() {
        return Err(Failure::usage("the words of the search are required"));
    }
    Ok(words.join(" "))
}

/// Prints the tools that match a query, the best first. Each tool has its name and its JSON value.
pub(crate) fn print(
    out: Output,
    mut tools: Vec<(String, &Tool, Value)>,
    query: &str,
    limit: usize,
) -> Result<(), Failure> {
    let hits = ToolIndex::new(tools.iter().map(|(name, tool, _)| (name.as_str(), *tool))).search(query, limit);
    if out.json {
        let found: Vec<Value> = hits
            .iter()
            .map(|hit| {
                let mut value = tools[hit.position].2.take();
                value["score"] = json!(hit.score);
                value
            })
            .collect();
        return out.value(&found);
    }
    let rows = hits.iter().map(|hit| {
        let (name, tool, _) = &tools[hit.position];
        vec![name.clone(), signature(&tool.input_schema), first_line(tool.description.as_deref())]
    });
    let columns = [("TOOL", Style::Name), ("ARGUMENTS", Style::Type), ("DESCRIPTION", Style::Plain)];
    out.table(&columns, &rows.collect::<Vec<_>>(), "no tool matches")
}
