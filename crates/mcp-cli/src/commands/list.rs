//! Lists: tools, resources and their templates, prompts.

use mcp_protocol::{Prompt, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::Session;
use crate::{
    arguments::{choices, kind, signature},
    failure::Failure,
    output::{first_line, line, one_line},
};

pub(crate) async fn tools(session: &Session, name: Option<&str>) -> Result<(), Failure> {
    if let Some(name) = name {
        return tool(session, name).await;
    }
    let tools = session.client.list_tools().await?;
    if session.out.json {
        return session.out.value(&tools);
    }
    let row =
        |tool: &Tool| vec![tool.name.clone(), signature(&tool.input_schema), first_line(tool.description.as_deref())];
    session.out.table(&["TOOL", "ARGUMENTS", "WHAT IT DOES"], &tools.iter().map(row).collect::<Vec<_>>(), "no tools")
}

/// The tool of this name.
pub(crate) async fn find_tool(session: &Session, name: &str) -> Result<Tool, Failure> {
    let mut tools = session.client.list_tools().stream();
    let mut near = Vec::new();
    while let Some(tool) = tools.next().await {
        let tool = tool?;
        if tool.name == name {
            return Ok(tool);
        }
        if tool.name.to_lowercase().contains(&name.to_lowercase()) {
            near.push(tool.name);
        }
    }
    let hint = if near.is_empty() { String::new() } else { format!("; is it {}?", line(&near.join(", "))) };
    Err(Failure::usage(format!("the server has no tool `{name}`{hint}")))
}

async fn tool(session: &Session, name: &str) -> Result<(), Failure> {
    let tool = find_tool(session, name).await?;
    if session.out.json {
        return session.out.value(&tool);
    }
    let mut text = heading(&tool.name, tool.title.as_deref(), tool.description.as_deref());
    let hints = tool.annotations.as_ref().map(hints).unwrap_or_default();
    if !hints.is_empty() {
        text.push_str(&format!("\nIt says of itself: {}\n", hints.join(", ")));
    }
    text.push('\n');
    session.out.text(&text)?;
    let properties = tool.input_schema.get("properties").and_then(Value::as_object);
    let required = tool.input_schema.get("required").cloned().unwrap_or_default();
    let rows = properties.into_iter().flatten().map(|(name, property)| {
        let needed = required.as_array().is_some_and(|names| names.iter().any(|other| other == name.as_str()));
        let mut what = one_line(property["description"].as_str());
        if let Some(default) = property.get("default") {
            what.push_str(&format!(" (default: {default})"));
        }
        let shown = |value: &&Value| value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
        let kind = match choices(&tool.input_schema, property) {
            values if values.is_empty() => kind(&tool.input_schema, property),
            values => values.iter().map(shown).collect::<Vec<_>>().join("|"),
        };
        vec![name.clone(), kind, if needed { "required" } else { "" }.to_owned(), what]
    });
    session.out.table(&["ARGUMENT", "TYPE", "", ""], &rows.collect::<Vec<_>>(), "It takes no arguments.")
}

fn hints(annotations: &ToolAnnotations) -> Vec<&'static str> {
    let said = |hint: Option<bool>, yes: &'static str, no: &'static str| hint.map(|hint| if hint { yes } else { no });
    [
        said(annotations.read_only_hint, "it only reads", "it changes things"),
        said(annotations.destructive_hint, "it may destroy", "it destroys nothing"),
        said(annotations.idempotent_hint, "twice is as once", "twice is not as once"),
        said(annotations.open_world_hint, "it reaches the outside world", "it stays within its own world"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

pub(crate) async fn resources(session: &Session) -> Result<(), Failure> {
    let resources = session.client.list_resources().await?;
    // A server may have the one and not know the other.
    let templates = match session.client.list_resource_templates().await {
        Err(error) if error.is_unsupported() => Vec::new(),
        templates => templates?,
    };
    if session.out.json {
        return session.out.value(&json!({"resources": resources, "resourceTemplates": templates}));
    }
    let mut rows = Vec::new();
    for resource in &resources {
        let what = resource.title.as_ref().unwrap_or(&resource.name).clone();
        rows.push(vec![resource.uri.clone(), resource.mime_type.clone().unwrap_or_default(), what]);
    }
    for template in &templates {
        let what = template.title.as_ref().unwrap_or(&template.name).clone();
        rows.push(vec![template.uri_template.clone(), template.mime_type.clone().unwrap_or_default(), what]);
    }
    session.out.table(&["URI", "TYPE", "NAME"], &rows, "no resources")
}

pub(crate) async fn prompts(session: &Session, name: Option<&str>) -> Result<(), Failure> {
    let prompts = session.client.list_prompts().await?;
    if let Some(name) = name {
        let prompt = prompts.iter().find(|prompt| prompt.name == name);
        return match prompt {
            Some(prompt) => one_prompt(session, prompt),
            None => Err(Failure::usage(format!("the server has no prompt `{name}`"))),
        };
    }
    if session.out.json {
        return session.out.value(&prompts);
    }
    let row = |prompt: &Prompt| {
        let arguments = prompt.arguments.iter().map(|argument| {
            if argument.required == Some(true) { argument.name.clone() } else { format!("[{}]", argument.name) }
        });
        let arguments = arguments.collect::<Vec<_>>().join(" ");
        vec![prompt.name.clone(), arguments, first_line(prompt.description.as_deref())]
    };
    session.out.table(
        &["PROMPT", "ARGUMENTS", "WHAT IT IS FOR"],
        &prompts.iter().map(row).collect::<Vec<_>>(),
        "no prompts",
    )
}

fn one_prompt(session: &Session, prompt: &Prompt) -> Result<(), Failure> {
    if session.out.json {
        return session.out.value(prompt);
    }
    let heading = heading(&prompt.name, prompt.title.as_deref(), prompt.description.as_deref());
    session.out.text(&format!("{heading}\n"))?;
    let rows = prompt.arguments.iter().map(|argument| {
        let needed = if argument.required == Some(true) { "required" } else { "" };
        vec![argument.name.clone(), needed.to_owned(), one_line(argument.description.as_deref())]
    });
    session.out.table(&["ARGUMENT", "", ""], &rows.collect::<Vec<_>>(), "It takes no arguments.")
}

fn heading(name: &str, title: Option<&str>, description: Option<&str>) -> String {
    let mut text = match title.filter(|title| *title != name) {
        Some(title) => format!("{}: {}\n", line(name), line(title)),
        None => format!("{}\n", line(name)),
    };
    if let Some(description) = description {
        text.push_str(&format!("\n{}\n", description.trim_end()));
    }
    text
}
