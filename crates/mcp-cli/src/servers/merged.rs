//! Commands over the merged catalog of several servers: a name or a URI determines the server of a command.

use std::collections::BTreeSet;

use mcp_agent::{Catalog, CatalogItem, Lists, config::ServerDefinition};
use mcp_protocol::Prompt;
use mcp_uri_template::UriTemplate;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    Work, connected,
    fleet::{self, Fleet},
};
use crate::{
    args::Command,
    commands,
    connection::ClientSettings,
    failure::Failure,
    opened::Opened,
    output::{Output, styled},
    style::Style,
    suggestion::nearest,
    text::line,
};

/// Runs a command about all servers, or connects the command to the server of its name or URI.
pub(super) async fn run(
    mut command: Command,
    servers: Vec<ServerDefinition>,
    settings: ClientSettings,
    opened: &Opened,
) -> Result<Work, Failure> {
    let out = Output::new(settings.options.json);
    let lists = match &command {
        Command::Call { .. } => Lists::Tools,
        Command::Resources(words) => {
            commands::no_words(&words.words)?;
            Lists::All
        }
        Command::Prompts(words) => {
            commands::optional(&words.words)?;
            Lists::All
        }
        Command::Read { words, .. } => {
            commands::required(&words.words)?;
            Lists::All
        }
        Command::Prompt(_) | Command::Complete(_) => Lists::All,
        Command::Info(words) => {
            commands::no_words(&words.words)?;
            Lists::None
        }
        _ => return Err(Failure::usage(choice(&names(&servers)))),
    };
    let noun = match &command {
        Command::Call { .. } => Some("a tool"),
        Command::Prompt(_) => Some("a prompt"),
        Command::Complete(_) => Some("a prompt or a template"),
        _ => None,
    };
    if let (Some(noun), true) = (noun, command.words_mut().is_none_or(|words| words.words.is_empty())) {
        return Err(Failure::usage(format!("the name of {noun} is required")));
    }
    let mut fleet = Fleet::start(servers, lists, settings, true, opened).await?;
    fleet.check()?;
    let catalog = fleet.catalog();
    if matches!(command, Command::Info(_)) {
        info(out, &mut fleet).await?;
        return Ok(Work::Done);
    }
    if matches!(command, Command::Resources(_)) {
        resources(out, &catalog)?;
        return Ok(Work::Done);
    }
    let (is_call, is_list) = (matches!(command, Command::Call { .. }), matches!(command, Command::Prompts(_)));
    let is_uri = matches!(command, Command::Read { .. });
    let server = match command.words_mut().and_then(|words| words.words.first_mut()) {
        None => {
            prompts(out, &catalog)?;
            return Ok(Work::Done);
        }
        Some(name) if is_call => {
            let tool = fleet::find(&catalog, name)?;
            *name = tool.original_name().to_owned();
            tool.server().to_owned()
        }
        Some(uri) if is_uri => server_of_uri(&catalog, uri, &names(&fleet.servers))?,
        Some(uri) if uri.contains('{') => server_of_template(&catalog, uri, &names(&fleet.servers))?,
        Some(name) => {
            let prompt = find_prompt(&catalog, name)?;
            if is_list {
                commands::show_prompt(out, &named(prompt))?;
                return Ok(Work::Done);
            }
            prompt.server().to_owned()
        }
    };
    Ok(Work::One(Box::new(connected(&mut fleet, &server).await?), command))
}

fn names(servers: &[ServerDefinition]) -> Vec<&str> {
    servers.iter().map(|server| server.name.as_str()).collect()
}

fn choice(servers: &[&str]) -> String {
    format!("choose a server with --server: {}", line(&servers.join(", ")))
}

/// Prints the revision and the capabilities of each ready server.
async fn info(out: Output, fleet: &mut Fleet) -> Result<(), Failure> {
    let mut found = Vec::new();
    for server in names(&fleet.servers).into_iter().map(str::to_owned).collect::<Vec<_>>() {
        // The check has printed the failures.
        if let Ok(client) = fleet.host().client(&server).await {
            found.push((server, client.negotiated()));
        }
    }
    if out.json {
        let values = found.iter().map(|(server, negotiated)| with_server(commands::server_to_json(negotiated), server));
        return out.value(&values.collect::<Vec<_>>());
    }
    let texts = found.iter().map(|(server, negotiated)| commands::describe_server(Some(server), negotiated));
    styled(&texts.collect::<Vec<_>>().join("\n"))
}

fn resources(out: Output, catalog: &Catalog) -> Result<(), Failure> {
    if out.json {
        let (resources, templates) = (to_json(catalog.resources()), to_json(catalog.templates()));
        return out.value(&json!({ "resources": resources, "resourceTemplates": templates }));
    }
    let row = |server: &str, cells: Vec<String>| [vec![server.to_owned()], cells].concat();
    let resources = catalog.resources().iter().map(|item| row(item.server(), commands::resource_row(item.item())));
    let templates = catalog.templates().iter().map(|item| row(item.server(), commands::template_row(item.item())));
    let columns: Vec<_> = [("SERVER", Style::Plain)].into_iter().chain(commands::RESOURCE_COLUMNS).collect();
    out.table(&columns, &resources.chain(templates).collect::<Vec<_>>(), "no resources")
}

fn prompts(out: Output, catalog: &Catalog) -> Result<(), Failure> {
    if out.json {
        let values = catalog.prompts().iter().map(|prompt| with_server(json!(named(prompt)), prompt.server()));
        return out.value(&values.collect::<Vec<_>>());
    }
    let named: Vec<Prompt> = catalog.prompts().iter().map(named).collect();
    commands::show_prompts(out, named.iter())
}

fn to_json<T: Serialize>(items: &[CatalogItem<T>]) -> Vec<Value> {
    items.iter().map(|item| with_server(json!(item.item()), item.server())).collect()
}

fn with_server(mut value: Value, server: &str) -> Value {
    value["server"] = json!(server);
    value
}

/// Returns a prompt with its display name.
fn named(prompt: &CatalogItem<Prompt>) -> Prompt {
    let mut named = prompt.item().clone();
    named.name = display_name(prompt);
    named
}

fn display_name(prompt: &CatalogItem<Prompt>) -> String {
    format!("{}:{}", prompt.server(), prompt.item().name)
}

/// Finds a prompt by its name at the only server that has such a prompt.
fn find_prompt<'a>(catalog: &'a Catalog, name: &str) -> Result<&'a CatalogItem<Prompt>, Failure> {
    let mut found = catalog.prompts().iter().filter(|prompt| prompt.item().name == name);
    match (found.next(), found.next()) {
        (Some(prompt), None) => Ok(prompt),
        (Some(first), Some(second)) => {
            let names = [first, second].map(|prompt| line(&display_name(prompt))).join(", ");
            Err(Failure::usage(format!("several servers have the prompt `{}`: {names}", line(name))))
        }
        (None, _) => {
            let names: Vec<String> = catalog.prompts().iter().map(display_name).collect();
            let own = catalog.prompts().iter().map(|prompt| prompt.item().name.as_str());
            let near = nearest(name, names.iter().map(String::as_str).chain(own));
            let hint = near.map(|near| format!("; did you mean {}?", line(near))).unwrap_or_default();
            Err(Failure::usage(format!("no server lists the prompt `{}`{hint}", line(name))))
        }
    }
}

/// Returns the only server that lists a resource. If no server lists it: the only server with a template for it.
fn server_of_uri(catalog: &Catalog, uri: &str, servers: &[&str]) -> Result<String, Failure> {
    let listed = catalog.resources().iter().filter(|item| item.item().uri == uri).map(CatalogItem::server);
    let mut found: BTreeSet<&str> = listed.collect();
    if found.is_empty() {
        let fits = |template: &str| UriTemplate::parse(template).is_ok_and(|parsed| parsed.matches(uri).is_some());
        found
            .extend(catalog.templates().iter().filter(|item| fits(&item.item().uri_template)).map(CatalogItem::server));
    }
    only("resource", uri, &found, servers)
}

/// Returns the only server that lists a resource template.
fn server_of_template(catalog: &Catalog, uri: &str, servers: &[&str]) -> Result<String, Failure> {
    let listed = catalog.templates().iter().filter(|item| item.item().uri_template == uri);
    only("resource template", uri, &listed.map(CatalogItem::server).collect(), servers)
}

fn only(noun: &str, uri: &str, found: &BTreeSet<&str>, servers: &[&str]) -> Result<String, Failure> {
    let uri = line(uri);
    match found.iter().collect::<Vec<_>>()[..] {
        [server] => Ok((*server).to_owned()),
        [] => Err(Failure::usage(format!("no server lists the {noun} `{uri}`; {}", choice(servers)))),
        _ => {
            let found: Vec<&str> = found.iter().copied().collect();
            Err(Failure::usage(format!("several servers have the {noun} `{uri}`; {}", choice(&found))))
        }
    }
}
