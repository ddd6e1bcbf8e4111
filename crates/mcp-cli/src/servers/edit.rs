//! Commands that change configuration files and approvals.

use std::{collections::HashSet, path::PathBuf};

use mcp_agent::{
    config::{Approval, Approvals, Code, ConfigError, ConfigFile, Endpoint, Format, Scope, ServerDefinition},
    install::{Edit, Installer},
};
use serde_json::{Map, Value, json};
use url::Url;

use super::{environment, source, state_directory};
use crate::{
    args::Options, configuration, failure::Failure, output::Output, screen::note, suggestion::nearest, target::is_url,
    text::line,
};

/// Adds a server to the file of a client.
pub(super) fn install(
    client: &str,
    name: &str,
    url: Option<&str>,
    command: &[String],
    options: &Options,
) -> Result<(), Failure> {
    let (format, file) = file(client, options)?;
    let server = definition(name, url, command, options)?;
    let edit = installer()?.install(format, &file, &server).map_err(|error| failed(&error))?;
    report(&edit, "installed", name, &file, options)
}

/// Removes a server from the file of a client.
pub(super) fn uninstall(client: &str, name: &str, options: &Options) -> Result<(), Failure> {
    let (format, file) = file(client, options)?;
    let edit = installer()?.uninstall(format, &file, name).map_err(|error| failed(&error))?;
    report(&edit, "uninstalled", name, &file, options)
}

/// Approves or denies servers of the project file.
pub(super) fn decide(names: &[String], all: bool, is_approved: bool, options: &Options) -> Result<(), Failure> {
    let command = if is_approved { "approve" } else { "deny" };
    let (file, scope) = configuration::path(options)
        .ok_or_else(|| Failure::usage("no project file is found: there is no `.mcp.json` here or above"))?;
    // A file that the command line names may be the project file of another directory.
    let scope = if scope == Scope::Named { Scope::Project } else { scope };
    let config = ConfigFile::read(file, scope, &environment()).map_err(|error| source::refused(&error))?;
    let known = config.names();
    if names.is_empty() && !all {
        let names: Vec<String> = known.iter().map(|name| line(name)).collect();
        let hint = if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
        return Err(Failure::usage(format!("name the servers, or write `mcp {command} --all`{hint}")));
    }
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(source::refused(&source::unknown(&config, name)));
    }
    let mut chosen: Vec<&str> = if all { known } else { names.iter().map(String::as_str).collect() };
    let mut seen = HashSet::new();
    chosen.retain(|name| seen.insert(*name));
    let approvals = Approvals::open(state_directory()?);
    let (mut decided, mut faults, mut denied) = (Vec::new(), Vec::new(), Vec::new());
    for name in chosen {
        let done = if is_approved {
            if let Some(fault) = config.errors.iter().find(|error| error.server.as_deref() == Some(name)) {
                faults.push(fault);
                continue;
            }
            let mut definitions = config.servers.iter().filter(|server| server.name == name);
            if all && definitions.any(|server| approvals.of(server).is_ok_and(|decision| decision == Approval::Denied))
            {
                denied.push(name);
                continue;
            }
            config.servers.iter().filter(|server| server.name == name).try_for_each(|server| approvals.approve(server))
        } else {
            approvals.deny_entry(&config, name).map(drop)
        };
        done.map_err(|error| Failure::local(error.to_string()))?;
        decided.push(name);
    }
    report_decisions(&config, &decided, &faults, is_approved, Output::new(options.json))?;
    for name in denied.into_iter().map(line) {
        note(format!("{name} stays denied; `mcp approve {}` approves it", shell_words::quote(&name)));
    }
    if faults.is_empty() {
        return Ok(());
    }
    // The other servers are approved.
    faults.iter().for_each(|fault| source::refused(fault).print());
    Err(Failure::reported_refusal())
}

/// Prints the servers of a decision with their entries.
fn report_decisions(
    config: &ConfigFile,
    names: &[&str],
    faults: &[&ConfigError],
    is_approved: bool,
    out: Output,
) -> Result<(), Failure> {
    let word = if is_approved { "approved" } else { "denied" };
    if out.json {
        let invalid: Vec<_> = faults.iter().filter_map(|fault| fault.server.as_deref()).collect();
        let entries: Vec<_> = names
            .iter()
            .map(|name| {
                let members: Map<String, Value> = config
                    .summary(name)
                    .unwrap_or_default()
                    .into_iter()
                    .map(|(member, text)| (member, Value::String(text)))
                    .collect();
                json!({ "name": name, "members": members })
            })
            .collect();
        let file = config.file.to_string_lossy();
        return out.value(&json!({ "file": file, word: names, "entries": entries, "invalid": invalid }));
    }
    if config.scope == Scope::User {
        return out.text("the file belongs to the user, so its servers need no approval");
    }
    let mut text = String::new();
    for name in names {
        text.push_str(&format!("{word} {}\n", line(name)));
        for (member, value) in config.summary(name).unwrap_or_default() {
            text.push_str(&format!("  {}: {}\n", line(&member), line(&value)));
        }
    }
    match (text.is_empty(), faults.is_empty()) {
        (true, true) => out.text("the file defines no servers"),
        (true, false) => Ok(()),
        (false, _) => out.text(&text),
    }
}

fn installer() -> Result<Installer, Failure> {
    Ok(Installer::new(state_directory()?))
}

/// Returns the format and the file of a client.
fn file(client: &str, options: &Options) -> Result<(Format, PathBuf), Failure> {
    let names = || Format::ALL.iter().map(|format| format.name());
    let format = Format::by_name(client).ok_or_else(|| {
        let hint = match nearest(client, names()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("write one of {}", names().collect::<Vec<_>>().join(", ")),
        };
        Failure::usage(format!("there is no client `{}`; {hint}", line(client)))
    })?;
    let file = match &options.config_file {
        Some(file) => std::path::absolute(file).ok(),
        None => format.user_file(&environment()),
    };
    let file =
        file.ok_or_else(|| Failure::usage("the file of the client is unknown: set HOME, or name it with --config"))?;
    Ok((format, file))
}

fn definition(
    name: &str,
    url: Option<&str>,
    command: &[String],
    options: &Options,
) -> Result<ServerDefinition, Failure> {
    if let Some(reason) = ServerDefinition::name_fault(name) {
        return Err(Failure::usage(format!("the name `{}` is not usable: {reason}", line(name))));
    }
    match (url, command.split_first()) {
        (Some(_), Some(_)) => Err(Failure::usage("give either a URL or a command after `--`")),
        (None, None) => Err(Failure::usage("give the URL of the server, or its command after `--`")),
        (Some(url), None) => {
            if !is_url(url) || Url::parse(url).is_err() {
                let message = format!("`{}` is not an http or https URL; a command follows after `--`", line(url));
                return Err(Failure::usage(message));
            }
            if !options.env.is_empty() || options.cwd.is_some() {
                return Err(Failure::usage("--env and --cwd apply to the command of a server, not to a URL"));
            }
            let headers = options.header.iter().flatten();
            Ok(headers.fold(ServerDefinition::http(name, url), |server, (name, value)| {
                server.header(name.as_str(), value.as_str())
            }))
        }
        (None, Some((program, args))) => {
            if !options.header.is_empty() {
                return Err(Failure::usage("--header applies to a URL; set variables of a command with --env"));
            }
            let mut server = ServerDefinition::stdio(name, program).args(args);
            for (name, value) in &options.env {
                let value = value.to_str();
                let value = value.ok_or_else(|| Failure::usage(format!("the variable {name} is not Unicode")))?;
                server = server.env(name, value);
            }
            if let (Endpoint::Stdio(stdio), Some(directory)) = (&mut server.endpoint, &options.cwd) {
                stdio.cwd = Some(std::path::absolute(directory).unwrap_or_else(|_| directory.clone()));
            }
            Ok(server)
        }
    }
}

fn report(edit: &Edit, word: &str, name: &str, file: &std::path::Path, options: &Options) -> Result<(), Failure> {
    let out = Output::new(options.json);
    let manual = match edit {
        Edit::Manual(text) => Some(text),
        _ => None,
    };
    if out.json {
        return out.value(
            &json!({ "file": file.to_string_lossy(), "server": name, "written": manual.is_none(), "text": manual }),
        );
    }
    match manual {
        Some(text) => {
            note(format!("mcp: change {} by hand:", line(&file.to_string_lossy())));
            out.text(text)
        }
        None => {
            let preposition = if word == "installed" { "in" } else { "from" };
            out.text(&format!("{word} {} {preposition} {}", line(name), line(&file.to_string_lossy())))
        }
    }
}

/// Returns the failure of an edit: a wrong file, or a file that cannot be changed.
fn failed(error: &ConfigError) -> Failure {
    match error.code {
        Code::WriteFailed | Code::ReadOnly | Code::Symlink | Code::FileChanged | Code::FileUnreadable => {
            Failure::local(error.to_string())
        }
        _ => source::refused(error),
    }
}
