//! Lists tools, resources, resource templates and prompts.

use mcp_protocol::{Prompt, Resource, ResourceTemplate, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::{
    Session,
    names::{did_you_mean, find_tool, warn_about},
};
use crate::{
    arguments::{choices, signature, type_names},
    failure::Failure,
    output::{Column, Output, styled},
    style::{self, Style},
    text::{first_line, line, one_line, printable},
};

pub(crate) async fn tools(session: &Session, name: Option<&str>) -> Result<(), Failure> {
    if let Some(name) = name {
        return tool(session, name).await;
    }
    let tools = session.client.list_tools().await?;
    warn_about(session, "tools", tools.warning(), tools.omitted());
    let tools: Vec<Tool> = tools.into_iter().filter(|tool| session.offers(tool)).collect();
    if session.out.json {
        return session.out.value(&tools);
    }
    let row =
        |tool: &Tool| vec![tool.name.clone(), signature(&tool.input_schema), first_line(tool.description.as_deref())];
    session.out.table(
        &[("TOOL", Style::Name), ("ARGUMENTS", Style::Type), ("DESCRIPTION", Style::Plain)],
        &tools.iter().map(row).collect::<Vec<_>>(),
        "no tools",
    )
}

/// Returns all tools; none if the server offers no tools.
pub(crate) async fn all_tools(session: &Session) -> Result<Vec<Tool>, Failure> {
    Ok(listed_tools(session).await?.0)
}

/// Returns all tools, and the number of invalid tools that are left out.
pub(super) async fn listed_tools(session: &Session) -> Result<(Vec<Tool>, usize), Failure> {
    if let Some(tools) = session.requests.listed_tools() {
        return Ok((tools, 0));
    }
    match session.client.list_tools().await {
        Err(error) if error.is_unsupported() => Ok((Vec::new(), 0)),
        tools => {
            let tools = tools?;
            warn_about(session, "tools", tools.warning(), tools.omitted());
            let omitted = tools.omitted().len();
            Ok((tools.into_iter().filter(|tool| session.offers(tool)).collect(), omitted))
        }
    }
}

async fn tool(session: &Session, name: &str) -> Result<(), Failure> {
    show_tool(session.out, &find_tool(session, name).await??)
}

/// Prints a tool with its description and its arguments.
pub(crate) fn show_tool(out: Output, tool: &Tool) -> Result<(), Failure> {
    if out.json {
        return out.value(tool);
    }
    let mut text = heading(&tool.name, tool.title.as_deref(), tool.description.as_deref());
    let hints = tool.annotations.as_ref().map(hints).unwrap_or_default();
    if !hints.is_empty() {
        text.push_str(&format!("\nThe server declares: {}\n", hints.join(", ")));
    }
    text.push('\n');
    styled(&text)?;
    let properties = tool.input_schema.get("properties").and_then(Value::as_object);
    let required = tool.input_schema.get("required").cloned().unwrap_or_default();
    let rows = properties.into_iter().flatten().map(|(name, property)| {
        let is_required = required.as_array().is_some_and(|names| names.iter().any(|other| other == name.as_str()));
        let mut description = one_line(property["description"].as_str());
        if let Some(default) = property.get("default") {
            description.push_str(&format!(" (default: {default})"));
        }
        let shown = |value: &&Value| value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
        let types = match choices(&tool.input_schema, property) {
            values if values.is_empty() => type_names(&tool.input_schema, property),
            values => values.iter().map(shown).collect::<Vec<_>>().join("|"),
        };
        vec![name.clone(), types, if is_required { "required" } else { "" }.to_owned(), description]
    });
    out.table(
        &[("ARGUMENT", Style::Name), ("TYPE", Style::Type), ("", Style::Dim), ("", Style::Plain)],
        &rows.collect::<Vec<_>>(),
        "no arguments",
    )
}

fn hints(annotations: &ToolAnnotations) -> Vec<String> {
    use Style::{Error, Good, Plain};

    let text = |hint: Option<bool>, yes, no| {
        hint.map(|hint| if hint { yes } else { no }).map(|(style, text)| style::out(style, text))
    };
    [
        text(annotations.read_only_hint, (Good, "read-only"), (Plain, "not read-only")),
        text(annotations.destructive_hint, (Error, "destructive"), (Good, "not destructive")),
        text(annotations.idempotent_hint, (Good, "idempotent"), (Plain, "not idempotent")),
        text(annotations.open_world_hint, (Plain, "open world"), (Plain, "closed world")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

pub(crate) async fn resources(session: &Session) -> Result<(), Failure> {
    let resources = session.client.list_resources().await?;
    // A server may offer resources without supporting templates.
    let templates = match session.client.list_resource_templates().await {
        Err(error) if error.is_unsupported() => Vec::new(),
        templates => {
            let templates = templates?;
            warn_about(session, "resource templates", templates.warning(), templates.omitted());
            templates.into_vec()
        }
    };
    warn_about(session, "resources", resources.warning(), resources.omitted());
    if session.out.json {
        return session.out.value(&json!({"resources": resources, "resourceTemplates": templates}));
    }
    let rows = resources.iter().map(resource_row).chain(templates.iter().map(template_row));
    session.out.table(&RESOURCE_COLUMNS, &rows.collect::<Vec<_>>(), "no resources")
}

/// The columns of a table of resources and templates.
pub(crate) const RESOURCE_COLUMNS: [Column; 4] =
    [("URI", Style::Name), ("TYPE", Style::Type), ("NAME", Style::Plain), ("DESCRIPTION", Style::Plain)];

/// Returns the cells of a resource.
pub(crate) fn resource_row(resource: &Resource) -> Vec<String> {
    let name = resource.title.as_ref().unwrap_or(&resource.name);
    row(&resource.uri, resource.mime_type.as_ref(), name, resource.description.as_deref())
}

/// Returns the cells of a resource template.
pub(crate) fn template_row(template: &ResourceTemplate) -> Vec<String> {
    let name = template.title.as_ref().unwrap_or(&template.name);
    row(&template.uri_template, template.mime_type.as_ref(), name, template.description.as_deref())
}

fn row(uri: &str, mime_type: Option<&String>, name: &str, description: Option<&str>) -> Vec<String> {
    vec![uri.to_owned(), mime_type.cloned().unwrap_or_default(), name.to_owned(), first_line(description)]
}

pub(crate) async fn prompts(session: &Session, name: Option<&str>) -> Result<(), Failure> {
    let prompts = session.client.list_prompts().await?;
    warn_about(session, "prompts", prompts.warning(), prompts.omitted());
    if let Some(name) = name {
        if let Some(prompt) = prompts.iter().find(|prompt| prompt.name == name) {
            return show_prompt(session.out, prompt);
        }
        let others: Vec<String> = prompts.into_iter().map(|prompt| prompt.name).collect();
        return Err(Failure::usage(format!("the server has no prompt `{name}`{}", did_you_mean(name, &others))));
    }
    if session.out.json {
        return session.out.value(&prompts);
    }
    show_prompts(session.out, prompts.iter())
}

/// Prints a table of prompts.
pub(crate) fn show_prompts<'a>(out: Output, prompts: impl Iterator<Item = &'a Prompt>) -> Result<(), Failure> {
    let row = |prompt: &Prompt| {
        let arguments = prompt.arguments.iter().map(|argument| {
            if argument.required == Some(true) { argument.name.clone() } else { format!("[{}]", argument.name) }
        });
        let arguments = arguments.collect::<Vec<_>>().join(" ");
        vec![prompt.name.clone(), arguments, first_line(prompt.description.as_deref())]
    };
    out.table(
        &[("PROMPT", Style::Name), ("ARGUMENTS", Style::Type), ("DESCRIPTION", Style::Plain)],
        &prompts.map(row).collect::<Vec<_>>(),
        "no prompts",
    )
}

/// Prints a prompt with its description and its arguments.
pub(crate) fn show_prompt(out: Output, prompt: &Prompt) -> Result<(), Failure> {
    if out.json {
        return out.value(prompt);
    }
    let heading = heading(&prompt.name, prompt.title.as_deref(), prompt.description.as_deref());
    styled(&format!("{heading}\n"))?;
    let rows = prompt.arguments.iter().map(|argument| {
        let required = if argument.required == Some(true) { "required" } else { "" };
        vec![argument.name.clone(), required.to_owned(), one_line(argument.description.as_deref())]
    });
    let columns = [("ARGUMENT", Style::Name), ("", Style::Dim), ("", Style::Plain)];
    out.table(&columns, &rows.collect::<Vec<_>>(), "no arguments")
}

/// Returns the name and the description of an entry, printable and with colours.
fn heading(name: &str, title: Option<&str>, description: Option<&str>) -> String {
    let mut text = match title.filter(|title| *title != name) {
        Some(title) => format!("{}: {}\n", style::out(Style::Name, &line(name)), line(title)),
        None => format!("{}\n", style::out(Style::Name, &line(name))),
    };
    if let Some(description) = description {
        text.push_str(&format!("\n{}\n", printable(description.trim_end())));
    }
    text
}
