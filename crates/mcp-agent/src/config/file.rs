//! Reads a configuration file.

use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{
    code::Code,
    definition::ServerDefinition,
    document,
    entry::{self, Context},
    environment::Environment,
    error::{ConfigError, Fault},
    expand::Expander,
    fingerprint::{self, Files, Sources},
    location,
    node::{Node, member},
    origin::{Format, Origin, Scope},
    summary,
};
use crate::bounded_file;

/// The largest configuration file, in bytes.
pub const MAX_FILE: u64 = 16 << 20;

/// The largest number of entries in a configuration file.
const MAX_ENTRIES: usize = 1000;

/// The servers of one configuration file.
///
/// A fault of the whole file is an error of [`ConfigFile::read`]. A fault of one entry is in [`ConfigFile::errors`], and the
/// other servers are usable.
///
/// ```
/// use std::path::Path;
///
/// use mcp_agent::config::{ConfigFile, Endpoint, Environment, Scope};
///
/// let text = r#"{ "mcpServers": { "search": { "url": "${BASE:-https://search.example}/mcp" } } }"#;
/// let file = ConfigFile::parse(Path::new("/projects/demo/.mcp.json"), text, Scope::Named, &Environment::default())?;
/// let Endpoint::Http(http) = &file.servers[0].endpoint else { unreachable!() };
/// assert_eq!(http.url, "https://search.example/mcp");
/// # Ok::<(), mcp_agent::config::ConfigError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ConfigFile {
    /// The path of the file.
    pub file: PathBuf,
    /// The format, which the path decides.
    pub format: Format,
    /// The owner of the file.
    pub scope: Scope,
    /// The valid servers in the order of the file, also disabled ones.
    pub servers: Vec<ServerDefinition>,
    /// The faults of single entries.
    pub errors: Vec<ConfigError>,
    /// The members of the valid servers that have no effect, and that look like members with an effect.
    pub warnings: Vec<ConfigError>,
    /// The entries that define a server, without expanded variables.
    entries: Vec<Entry>,
    /// The files that the entries name.
    files: Files,
}

/// An entry of a file.
#[derive(Clone, PartialEq)]
struct Entry {
    name: String,
    fingerprint: String,
    value: Value,
}

impl std::fmt::Debug for Entry {
    /// Omits the value, which can contain secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ConfigFile {
    /// Reads a file. The path decides the format.
    ///
    /// The function blocks while it reads. It follows no command of the file and starts no program.
    ///
    /// # Errors
    /// If the file cannot be read, its path belongs to no format, its syntax is invalid, or it has no member with servers.
    pub fn read(file: impl AsRef<Path>, scope: Scope, environment: &Environment) -> Result<Self, ConfigError> {
        let file = absolute(file.as_ref());
        let text = read_text(&file).map_err(|(code, reason)| {
            let remedy = match code {
                Code::FileMissing => "correct the path, or create the file",
                Code::FileTooLarge => "move the servers to a file of their own",
                Code::NotUtf8 => "save the file in UTF-8",
                _ if file.is_dir() => "name a file of the directory, such as its `.mcp.json`",
                _ => "correct the permissions of the file",
            };
            let reason = if file.is_dir() { "it is a directory" } else { &reason };
            ConfigError::new(code, &file, "$", format!("the file cannot be read: {reason}"), remedy)
        })?;
        Self::parse(&file, &text, scope, environment)
    }

    /// Reads the text of a file. The path decides the format, and relative paths of the text belong to it. A relative path
    /// belongs to the current directory.
    ///
    /// # Errors
    /// If the path belongs to no format, the syntax is invalid, or the text has no member with servers or more than 1,000
    /// entries.
    pub fn parse(file: &Path, text: &str, scope: Scope, environment: &Environment) -> Result<Self, ConfigError> {
        let file = &absolute(file);
        let format = Format::of_path(file).ok_or_else(|| unknown_format(file))?;
        let value = document::parse(text, format.rules().syntax).map_err(|fault| fault.in_file(file))?;
        let (servers, errors, warnings, entries) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let files = Files::default();
        let mut config = Self { file: file.to_owned(), format, scope, servers, errors, warnings, entries, files };
        config.read_servers(&value, environment).map_err(|fault| fault.in_file(file))?;
        Ok(config)
    }

    /// Returns the names of all entries of the file that define a server, also of those with faults, in the order of the file.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let mut known = HashSet::new();
        let entries = self.entries.iter().map(|entry| entry.name.as_str());
        let faulty = self.errors.iter().filter_map(|error| error.server.as_deref());
        entries.chain(faulty).filter(|name| known.insert(*name)).collect()
    }

    /// Returns the entry of a server for a user who decides about it: each member with its text. Variables are not expanded.
    /// `None` if the file has no such entry.
    ///
    /// Of environment variables and headers, the text has the names only. `…` replaces each other value that may be a secret.
    ///
    /// ```
    /// use std::path::Path;
    ///
    /// use mcp_agent::config::{ConfigFile, Environment, Scope};
    ///
    /// let text = r#"{ "mcpServers": { "git": { "command": "git-mcp", "args": ["--token=x1"], "env": { "KEY": "x2" } } } }"#;
    /// let file = ConfigFile::parse(Path::new("/projects/demo/.mcp.json"), text, Scope::Project, &Environment::default())?;
    /// let lines: Vec<String> =
    ///     file.summary("git").into_iter().flatten().map(|(member, text)| format!("{member}: {text}")).collect();
    /// assert_eq!(lines, ["command: git-mcp", "args: --token=…", "env: KEY"]);
    /// # Ok::<(), mcp_agent::config::ConfigError>(())
    /// ```
    #[must_use]
    pub fn summary(&self, name: &str) -> Option<Vec<(String, String)>> {
        self.entries.iter().find(|entry| entry.name == name).map(|entry| summary::of(&entry.value))
    }

    /// Returns the files that the entries name: `envFile` and `{file:path}`.
    pub(super) fn files(&self) -> &Files {
        &self.files
    }

    /// Returns the names without a valid definition, each with the first fault of its entries.
    pub(crate) fn unusable(&self) -> impl Iterator<Item = (&str, &ConfigError)> {
        let mut known: HashSet<&str> = self.servers.iter().map(|server| server.name.as_str()).collect();
        let named = self.errors.iter().filter_map(|error| Some((error.server.as_deref()?, error)));
        named.filter(move |(name, _)| known.insert(*name))
    }

    /// Returns the fingerprints of the entries with a name. A list can have several.
    pub(super) fn fingerprints(&self, name: &str) -> Vec<&str> {
        let named = self.entries.iter().filter(|entry| entry.name == name);
        named.map(|entry| entry.fingerprint.as_str()).collect()
    }

    fn read_servers(&mut self, value: &Value, environment: &Environment) -> Result<(), Fault> {
        let root = Node::root(value);
        root.object()?;
        let file = self.file.clone();
        let base = location::base(&file, self.format);
        let is_of_user = self.format.user_file(environment).is_some_and(|user| user == file);
        let workspace = if is_of_user { environment.workspace.clone() } else { Some(base.to_owned()) };
        let sources = Sources::default();
        let context = Context {
            format: self.format,
            rules: self.format.rules(),
            expander: Expander {
                variables: self.format.rules().variables,
                environment,
                directory: file.parent().unwrap_or(base),
                workspace,
                inputs: root.get("inputs").filter(|_| self.format == Format::VsCode),
                sources: &sources,
            },
            base,
        };
        let entries = entries(&root, self.format, environment)?;
        if entries.len() > MAX_ENTRIES {
            let message = format!("the file has {} entries, and at most {MAX_ENTRIES} are permitted", entries.len());
            return Err(root.fault(Code::TooManyServers, message, "move entries to another file"));
        }
        let mut known = HashSet::new();
        for (name, node) in entries {
            self.add(&name, &node, &context, &mut known);
        }
        self.files = sources.take_files();
        if self.format == Format::GeminiCli {
            apply_gemini_lists(&root, &mut self.servers)?;
        }
        Ok(())
    }

    fn add(&mut self, name: &str, node: &Node<'_>, context: &Context<'_>, known: &mut HashSet<String>) {
        let read = entry::read(name, node, context);
        let sources = context.expander.sources.take();
        let is_required = || entry::is_required(node, self.format);
        if matches!(read, Ok(None)) {
            tracing::debug!(name, file = %self.file.display(), "an entry of the client itself is not a server");
            return;
        }
        let fingerprint = fingerprint::of(&self.file, name, node.value, &sources);
        if self.format == Format::ClaudeCode {
            self.entries.retain(|entry| entry.name != name);
        }
        let value = node.value.clone();
        self.entries.push(Entry { name: name.to_owned(), fingerprint: fingerprint.clone(), value });
        let server = match read {
            Ok(Some(server)) => server,
            Ok(None) => return,
            Err(fault) => {
                let error = fault.in_file(&self.file).server(name).required(is_required());
                if self.format == Format::ClaudeCode {
                    self.forget(name);
                }
                self.errors.push(error);
                known.insert(name.to_owned());
                return;
            }
        };
        if !known.insert(name.to_owned()) {
            if self.format == Format::ClaudeCode {
                self.forget(name);
            } else {
                let fault = node.fault(Code::DuplicateName, "two entries have the same name", "rename one of the two");
                let error = fault.in_file(&self.file).server(name).required(is_required());
                self.errors.push(error);
                return;
            }
        }
        let without_effect = entry::without_effect(node, context).into_iter();
        self.warnings.extend(without_effect.map(|fault| fault.in_file(&self.file).server(name)));
        let mut origin = Origin::new(&self.file, &node.path, self.format, self.scope);
        origin.fingerprint = fingerprint;
        self.servers.push(ServerDefinition { origin: Some(origin), ..server });
    }

    /// Removes the result of a former entry: the entry of a project in the file of Claude Code replaces that of the user.
    fn forget(&mut self, name: &str) {
        self.servers.retain(|known| known.name != name);
        self.errors.retain(|error| error.server.as_deref() != Some(name));
        self.warnings.retain(|warning| warning.server.as_deref() != Some(name));
    }
}

/// Returns the absolute path of a file. Approvals are for paths, so two projects must not share one.
pub(super) fn absolute(file: &Path) -> PathBuf {
    std::path::absolute(file).unwrap_or_else(|_| file.to_owned())
}

/// Reads a text. The error has a code and a reason.
pub(crate) fn read_text(file: &Path) -> Result<String, (Code, String)> {
    bounded_file::read_text(file, MAX_FILE).map_err(|error| {
        let code = match error.kind() {
            io::ErrorKind::NotFound => Code::FileMissing,
            io::ErrorKind::FileTooLarge => Code::FileTooLarge,
            io::ErrorKind::InvalidData => Code::NotUtf8,
            _ => Code::FileUnreadable,
        };
        (code, error.to_string())
    })
}

fn unknown_format(file: &Path) -> ConfigError {
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let remedy = match name.as_str() {
        "settings.json" => "use the path of its client: `.gemini/settings.json` or `zed/settings.json`",
        _ if name.ends_with("yaml") || name.ends_with("yml") => {
            "use the path of its client: `goose/config.yaml` or `.continue/config.yaml`"
        }
        _ => "use the path of a known client, or a file with the extension `.json`",
    };
    ConfigError::new(Code::UnknownFormat, file, "$", "the path belongs to no known format", remedy)
}

/// Returns the names and the entries of a file.
fn entries<'a>(root: &Node<'a>, format: Format, environment: &Environment) -> Result<Vec<(String, Node<'a>)>, Fault> {
    let rules = format.rules();
    let owned = |(name, node): (&str, Node<'a>)| (name.to_owned(), node);
    let Some(key) = rules.key else {
        // The flat map of `.agents/mcp.json` may have a schema.
        let members = root.members()?.into_iter().filter(|(name, _)| *name != "$schema");
        return Ok(members.map(owned).collect());
    };
    let mut found = Vec::new();
    match root.get(key) {
        Some(list) if format == Format::Continue => {
            for node in list.items()? {
                // The check of the name rejects an entry without one, and the other entries stay usable.
                let name = node.value.get("name").and_then(Value::as_str).unwrap_or_default();
                found.push((name.to_owned(), node));
            }
        }
        Some(servers) => found.extend(servers.members()?.into_iter().map(owned)),
        None if rules.is_dedicated && !root.object()?.is_empty() => {
            let other = ["mcpServers", "servers", "context_servers", "mcp_servers", "mcp"];
            let other = other.into_iter().find(|name| root.get(name).is_some());
            let path = other.map_or_else(|| root.path.clone(), |name| member(&root.path, name));
            let remedy = match other {
                Some(other) => format!("rename `{other}` to `{key}`, which this format requires"),
                None => format!("add the member `{key}` with the servers"),
            };
            return Err(Fault::new(Code::MissingKey, path, format!("the file has no member `{key}`"), remedy));
        }
        None => {}
    }
    if format == Format::ClaudeCode {
        found.extend(servers_of_project(root, environment)?);
    }
    Ok(found)
}

/// Returns the servers of the project in the file of Claude Code: those of the nearest directory.
fn servers_of_project<'a>(root: &Node<'a>, environment: &Environment) -> Result<Vec<(String, Node<'a>)>, Fault> {
    let (Some(workspace), Some(projects)) = (&environment.workspace, root.get("projects")) else {
        return Ok(Vec::new());
    };
    projects.object()?;
    for directory in workspace.ancestors() {
        let project = directory.to_str().and_then(|directory| projects.get(directory));
        if let Some(servers) = project.and_then(|project| project.get("mcpServers")) {
            return Ok(servers.members()?.into_iter().map(|(name, node)| (name.to_owned(), node)).collect());
        }
    }
    Ok(Vec::new())
}

/// Disables the servers that `mcp.allowed` and `mcp.excluded` of Gemini CLI do not permit.
fn apply_gemini_lists(root: &Node<'_>, servers: &mut [ServerDefinition]) -> Result<(), Fault> {
    let Some(lists) = root.get("mcp") else { return Ok(()) };
    let list = |name: &str| lists.get(name).map(|node| node.texts()).transpose();
    let (allowed, excluded) = (list("allowed")?, list("excluded")?.unwrap_or_default());
    for server in servers {
        let is_allowed = allowed.as_ref().is_none_or(|allowed| allowed.contains(&server.name));
        server.enabled &= is_allowed && !excluded.contains(&server.name);
    }
    Ok(())
}
