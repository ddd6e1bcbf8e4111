//! `mcp doctor`: checks a configuration file and each of its servers.

use mcp_agent::{
    Lists,
    config::{Code, ConfigError, ConfigFile, Endpoint, ServerDefinition},
};
use serde_json::{Value, json};
use url::Url;

use super::{
    credentials,
    fleet::{Failed, Fleet},
    source::{self, Source},
};
use crate::{
    args::Options,
    configuration,
    connection::ClientSettings,
    failure::Failure,
    login,
    opened::Opened,
    output::{Output, styled},
    style::{self, Style},
    text::line,
    tokens,
};

/// The state of one server.
struct Report {
    name: String,
    state: &'static str,
    /// The tools of a ready server with their estimated tokens.
    tools: Option<Vec<(String, usize)>>,
    login: &'static str,
    /// The parts of the entry without an effect.
    notes: Vec<String>,
}

/// Checks the file and its servers.
pub(super) async fn run(options: &Options, opened: &Opened) -> Result<(), Failure> {
    let out = Output::new(options.json);
    let Some((file, scope)) = configuration::path(options) else {
        let message = "no configuration file is found: there is no `.mcp.json` here or above, and the user has no file";
        let remedy = "write `.mcp.json`, or name a file with --config";
        print(out, None, &[], &[ConfigError::new(Code::NoServers, "", "$", message, remedy)])?;
        return Err(Failure::reported_refusal());
    };
    let config = match source::read(file.clone(), scope) {
        Ok(config) => config,
        Err(error) => {
            print(out, Some(&file.to_string_lossy()), &[], &[error])?;
            return Err(Failure::reported_refusal());
        }
    };
    let file = config.file.to_string_lossy().into_owned();
    if let Some(name) = &options.config_server
        && !config.names().contains(&name.as_str())
    {
        print(out, Some(&file), &[], &[with_file(source::unknown(&config, name), options)])?;
        return Err(Failure::reported_refusal());
    }
    let (reports, errors, faults) = check(config, options, opened).await?;
    let diagnostics: Vec<ConfigError> =
        errors.iter().chain(&faults).map(|error| with_file(error.clone(), options)).collect();
    print(out, Some(&file), &reports, &diagnostics)?;
    match (errors.is_empty(), faults.is_empty()) {
        (false, _) => Err(Failure::reported_refusal()),
        (true, false) => Err(Failure::reported()),
        (true, true) => Ok(()),
    }
}

/// Adds the option `--config` of this command line to the commands of a remedy.
fn with_file(mut error: ConfigError, options: &Options) -> ConfigError {
    let Some(file) = &options.config_file else { return error };
    let file = shell_words::quote(&file.to_string_lossy()).into_owned();
    let mut parts = error.remedy.split(COMMAND);
    let mut remedy = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(part.len());
        let (name, rest) = part.split_at(end);
        let option = if COMMANDS.contains(&name) { format!(" --config {file}") } else { String::new() };
        remedy.push_str(&format!("{COMMAND}{name}{option}{rest}"));
    }
    error.remedy = remedy;
    error
}

/// The begin of a command in a remedy.
const COMMAND: &str = "`mcp ";
/// The commands of remedies that name a server of the file.
const COMMANDS: [&str; 4] = ["approve", "deny", "info", "login"];

/// Returns the states of the servers, the errors of the file and the faults of servers.
async fn check(
    config: ConfigFile,
    options: &Options,
    opened: &Opened,
) -> Result<(Vec<Report>, Vec<ConfigError>, Vec<ConfigError>), Failure> {
    let names: Vec<String> = config.names().into_iter().map(ToOwned::to_owned).collect();
    let is_selected = |name: &str| options.config_server.as_deref().is_none_or(|only| only == name);
    let (mut reports, mut faults, mut open) = (Vec::new(), Vec::new(), Vec::new());
    let mut errors = config.errors;
    errors.retain(|error| error.server.as_deref().is_none_or(is_selected));
    for error in &errors {
        let state = if error.code == Code::Denied { "denied" } else { "invalid" };
        reports.extend(error.server.clone().map(|name| Report::new(name, state)));
    }
    // A denied entry is no fault of the file.
    faults.extend(errors.extract_if(.., |error| error.code == Code::Denied));
    for server in config.servers.into_iter().filter(|server| is_selected(&server.name)) {
        if !server.enabled {
            reports.push(Report::new(server.name, "disabled"));
        } else if let Some(fault) = Source::refusal(&server)? {
            reports.push(Report::new(server.name, fault.code.as_str()));
            faults.push(fault);
        } else {
            open.push(server);
        }
    }
    // A check never opens the page of a login.
    let settings = ClientSettings::without_answers(options);
    let mut fleet = Fleet::start(open, Lists::Tools, settings, false, opened).await?;
    let catalog = fleet.catalog();
    for server in std::mem::take(&mut fleet.servers) {
        let mut report = Report::new(server.name.clone(), "ready");
        report.login = login_state(&server).await;
        report.notes = fleet.notes(&server.name);
        let tools = catalog.tools().iter().filter(|tool| tool.server() == server.name);
        let tools = tools.map(|tool| (tool.name().to_owned(), tokens::of(tool.tool()))).collect();
        match (fleet.take_failure(&server.name), fleet.gap(&server.name)) {
            (None, None) => report.tools = Some(tools),
            (None, Some(gap)) => {
                (report.state, report.tools) = ("degraded", Some(tools));
                faults.push(fault(&server, &Failed::State(gap)));
            }
            (Some(failed), _) => {
                let fault = fault(&server, &failed);
                report.state = if fault.code == Code::NeedsLogin { "needs-login" } else { "failed" };
                faults.push(fault);
            }
        }
        reports.push(report);
    }
    for warning in config.warnings {
        let of_warning = |report: &&mut Report| warning.server.as_ref() == Some(&report.name);
        if let Some(report) = reports.iter_mut().find(of_warning) {
            report.notes.push(format!("{}: {}; {}", warning.path, warning.message, warning.remedy));
        }
    }
    reports.sort_by_key(|report| names.iter().position(|name| *name == report.name));
    Ok((reports, errors, faults))
}

impl Report {
    fn new(name: String, state: &'static str) -> Self {
        Self { name, state, tools: None, login: "none", notes: Vec::new() }
    }

    fn tokens(&self) -> Option<usize> {
        self.tools.as_ref().map(|tools| tools.iter().map(|(_, tokens)| tokens).sum())
    }
}

/// Returns the credentials of a server: those of its entry, a stored login, or none.
async fn login_state(server: &ServerDefinition) -> &'static str {
    let Endpoint::Http(http) = &server.endpoint else { return "none" };
    if http.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
        return "header";
    }
    match Url::parse(&http.url) {
        Ok(url) if login::is_stored(&url).await => "stored",
        _ => "none",
    }
}

/// Returns the fault of a server that failed.
fn fault(server: &ServerDefinition, failed: &Failed) -> ConfigError {
    let is_command = matches!(server.endpoint, Endpoint::Stdio(_));
    let name = &server.name;
    let (code, remedy) = match failed {
        Failed::Client(error) if error.is_unauthorized() => {
            (Code::NeedsLogin, credentials::remedy(server, error, &format!("`mcp login {name}`")))
        }
        Failed::Client(error) if error.is_not_a_server() => {
            let remedy = "enter a program or a URL of an MCP server: it sends protocol messages only".to_owned();
            (Code::ServerError, remedy)
        }
        Failed::Client(error) if error.is_timeout() => {
            let remedy = "start the server by hand, or set `startTimeoutSeconds` in `x-mcp` of its entry".to_owned();
            (Code::StartTimeout, remedy)
        }
        Failed::Client(error) if is_command && (error.is_unreachable() || error.is_closed()) => {
            (Code::StartFailed, "check the command, its arguments and its variables".to_owned())
        }
        Failed::Client(error) if error.is_unreachable() || error.is_closed() => {
            (Code::Unreachable, "check the URL, the network and the server".to_owned())
        }
        _ => (Code::ServerError, format!("run `mcp info --server {name} --trace` to see the messages")),
    };
    let message = failed.message();
    let (file, path) = server.origin.as_ref().map_or_else(
        || (std::path::PathBuf::new(), "$".to_owned()),
        |origin| (origin.file.clone(), origin.path.clone()),
    );
    ConfigError::new(code, file, path, message, remedy).server(name)
}

fn print(out: Output, file: Option<&str>, reports: &[Report], diagnostics: &[ConfigError]) -> Result<(), Failure> {
    if out.json {
        let servers: Vec<Value> = reports.iter().map(server_json).collect();
        let diagnostics: Vec<Value> = diagnostics.iter().map(|error| diagnostic_json(error, file)).collect();
        return out.value(&json!({ "file": file, "servers": servers, "diagnostics": diagnostics }));
    }
    let mut text = format!("{}\n", style::out(Style::Dim, &line(file.unwrap_or("no file"))));
    for report in reports {
        let details = match (&report.tools, report.tokens()) {
            (Some(tools), Some(tokens)) => {
                let noun = if tools.len() == 1 { "tool" } else { "tools" };
                format!("  {} {noun}, about {tokens} tokens", tools.len())
            }
            _ => String::new(),
        };
        let login = if report.login == "none" { String::new() } else { format!("  login: {}", report.login) };
        text.push_str(&format!("{}  {}{details}{login}\n", style::out(Style::Name, &line(&report.name)), report.state));
        for note in &report.notes {
            text.push_str(&format!("  {} {}\n", style::out(Style::Warning, "note:"), line(note)));
        }
        for (tool, tokens) in report.tools.iter().flatten() {
            text.push_str(&format!("  {}  about {tokens} tokens\n", line(tool)));
        }
    }
    for error in diagnostics {
        let server = error.server.as_deref().map(|name| format!("{}: ", line(name))).unwrap_or_default();
        text.push_str(&format!(
            "\n{} {server}{}\n  {}\n  {}\n",
            style::out(Style::Error, error.code.as_str()),
            line(&error.message),
            line(&error.path),
            line(&error.remedy)
        ));
    }
    if !diagnostics.is_empty() {
        text.push_str("\nThe folder docs/doctor has a page for each code.\n");
    }
    styled(&text)
}

fn server_json(report: &Report) -> Value {
    let tools = report.tools.as_ref().map(|tools| {
        tools.iter().map(|(name, tokens)| json!({ "name": name, "estimatedTokens": tokens })).collect::<Vec<_>>()
    });
    json!({
        "name": report.name, "state": report.state, "login": report.login, "estimatedTokens": report.tokens(),
        "tools": tools, "notes": report.notes,
    })
}

fn diagnostic_json(error: &ConfigError, file: Option<&str>) -> Value {
    let own = error.file.to_string_lossy();
    let file = if own.is_empty() { file.map(ToOwned::to_owned) } else { Some(own.into_owned()) };
    json!({
        "code": error.code.as_str(), "file": file, "path": error.path, "message": error.message, "remedy": error.remedy,
    })
}
