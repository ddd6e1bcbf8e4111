//! Adds servers to the configuration files of clients, and removes them again.
//!
//! [`Installer`] changes one entry of a file and keeps all other bytes: comments, order and line ends. An uninstallation after
//! an installation restores the bytes of the file.

mod json;
mod record;
mod rendering;
mod toml;
mod yaml;

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use self::record::Record;
use crate::config::{
    Code, ConfigError, Format, ServerDefinition, Syntax, lock_file, parse_document, read_text, replace_file,
};

/// Edits the configuration files of clients.
///
/// Installers in several processes that use the same directory change files one after the other.
///
/// For each installation, the installer stores the change of the file in a directory of the user. With this record, the
/// uninstallation restores the bytes. Without it, the uninstallation removes the entry and the separators around it.
///
/// ```
/// use mcp_agent::{
///     config::{Format, ServerDefinition},
///     install::{Edit, Installer},
/// };
///
/// # let directory = std::env::temp_dir().join(format!("mcp-agent-install-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// let file = directory.join("mcp.json");
/// std::fs::write(&file, "{\n  // servers\n  \"mcpServers\": {}\n}\n")?;
/// let installer = Installer::new(directory.join("state"));
/// let server = ServerDefinition::stdio("git", "git-mcp").args(["--repo", "."]);
/// assert_eq!(installer.install(Format::Cursor, &file, &server)?, Edit::Written);
/// assert!(std::fs::read_to_string(&file)?.contains("// servers"));
/// assert_eq!(installer.uninstall(Format::Cursor, &file, "git")?, Edit::Written);
/// assert_eq!(std::fs::read_to_string(&file)?, "{\n  // servers\n  \"mcpServers\": {}\n}\n");
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Installer {
    records: PathBuf,
}

/// The result of an installation or an uninstallation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Edit {
    /// The file is changed.
    Written,
    /// The file is not changed. The user inserts or removes this text.
    Manual(String),
}

impl Installer {
    /// Returns an installer with its records in a directory. The first installation creates it.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { records: directory.into().join("installs") }
    }

    /// Adds a server to a file. A missing file is created. For YAML, the result is the text that the user inserts.
    ///
    /// # Errors
    /// If the file is invalid, already has a server with this name, is a symbolic link, is read-only or cannot be written. The
    /// file does not change then.
    pub fn install(&self, format: Format, file: &Path, server: &ServerDefinition) -> Result<Edit, ConfigError> {
        let entry = rendering::entry(format, server)
            .map_err(|(message, remedy)| ConfigError::new(Code::Unsupported, file, "$", message, remedy))?;
        let key = rendering::key(format);
        let syntax = format.syntax();
        let name = server.name.as_str();
        let _lock = self.lock(syntax)?;
        let old = read(file)?;
        let text = old.as_deref().unwrap_or_default();
        let path = |name: &str| key.map_or_else(|| format!("$.{name}"), |key| format!("$.{key}.{name}"));
        let before = document(file, text, syntax)?;
        if lookup(&before, key, name).is_some() || yaml::contains(&before, key, name) {
            let message = "the file already defines a server with this name";
            let remedy = "choose another name, or uninstall the server first";
            return Err(ConfigError::new(Code::AlreadyInstalled, file, path(name), message, remedy).server(name));
        }
        if syntax == Syntax::Yaml {
            return Ok(Edit::Manual(yaml::snippet(format, name, &entry)));
        }
        check_writable(file)?;
        let new = match syntax {
            Syntax::Toml => toml::insert(text, key.unwrap_or_default(), name, &entry),
            _ => json::insert(text, key, name, &entry),
        };
        let new = new.ok_or_else(|| not_editable(file))?;
        // The new text must have the new entry and no other difference.
        let mut after = document(file, &new, syntax).map_err(|_| not_editable(file))?;
        if !remove_member(&mut after, key, name) || !is_same(&after, &before, key) {
            return Err(not_editable(file));
        }
        // A record without its installation is harmless: its text is not in the file.
        let record = Record::between(old.as_deref(), &new);
        record.save(&self.records, file, name).map_err(|error| write_failed(&self.records, &error))?;
        write(file, old.as_deref(), &new)?;
        Ok(Edit::Written)
    }

    /// Removes a server from a file. For YAML, the result describes the part that the user removes.
    ///
    /// A file that the installation created is removed if it has no other members.
    ///
    /// # Errors
    /// If the file is missing or invalid, has no server with this name, is a symbolic link, is read-only or cannot be written.
    /// The file does not change then.
    pub fn uninstall(&self, format: Format, file: &Path, name: &str) -> Result<Edit, ConfigError> {
        let key = rendering::key(format);
        let syntax = format.syntax();
        let _lock = self.lock(syntax)?;
        let old = read(file)?.ok_or_else(|| unknown(file, name))?;
        let before = document(file, &old, syntax)?;
        if lookup(&before, key, name).is_none() && !yaml::contains(&before, key, name) {
            return Err(unknown(file, name));
        }
        if syntax == Syntax::Yaml {
            return Ok(Edit::Manual(yaml::removal(format, name)));
        }
        check_writable(file)?;
        let mut expected = before;
        remove_member(&mut expected, key, name);
        let is_expected = |text: &str| document(file, text, syntax).is_ok_and(|value| is_same(&value, &expected, key));
        match Record::load(&self.records, file, name).and_then(|record| record.undo(&old)) {
            Some(None) => {
                check_unchanged(file, Some(&old))?;
                fs::remove_file(file).map_err(|error| write_failed(file, &error))?;
            }
            Some(Some(text)) if is_expected(&text) => write(file, Some(&old), &text)?,
            _ => {
                let text = match syntax {
                    Syntax::Toml => toml::remove(&old, key.unwrap_or_default(), name),
                    _ => json::remove(&old, key, name),
                };
                let text = text.filter(|text| is_expected(text)).ok_or_else(|| not_editable(file))?;
                write(file, Some(&old), &text)?;
            }
        }
        Record::forget(&self.records, file, name);
        Ok(Edit::Written)
    }

    /// Locks the files of all clients against other installers with these records. `None` for files that no installer writes.
    fn lock(&self, syntax: Syntax) -> Result<Option<fs::File>, ConfigError> {
        if syntax == Syntax::Yaml {
            return Ok(None);
        }
        lock_file(&self.records.join("lock")).map(Some).map_err(|error| write_failed(&self.records, &error))
    }
}

/// Writes a new text, if the file still has the old one.
fn write(file: &Path, old: Option<&str>, new: &str) -> Result<(), ConfigError> {
    check_unchanged(file, old)?;
    replace_file(file, new.as_bytes()).map_err(|error| write_failed(file, &error))
}

/// Reads a file. `None` if it does not exist.
fn read(file: &Path) -> Result<Option<String>, ConfigError> {
    let fault = |code, reason: String| {
        let message = format!("the file cannot be read: {reason}");
        ConfigError::new(code, file, "$", message, "correct the path, the permissions or the encoding of the file")
    };
    match fs::metadata(file) {
        // A link to a missing file is a link too.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && fs::symlink_metadata(file).is_err() => {
            return Ok(None);
        }
        Err(error) if fs::symlink_metadata(file).is_err() => {
            return Err(fault(Code::FileUnreadable, error.to_string()));
        }
        _ => {}
    }
    check_link(file)?;
    read_text(file).map(Some).map_err(|(code, reason)| fault(code, reason))
}

fn check_link(file: &Path) -> Result<(), ConfigError> {
    if !fs::symlink_metadata(file).is_ok_and(|metadata| metadata.is_symlink()) {
        return Ok(());
    }
    let target = fs::read_link(file).map(|target| target.display().to_string()).unwrap_or_default();
    let message = format!("the file is a symbolic link to `{target}`, and an edit would replace the link");
    Err(ConfigError::new(Code::Symlink, file, "$", message, "edit the file by hand, or name the target of the link"))
}

fn check_writable(file: &Path) -> Result<(), ConfigError> {
    if fs::metadata(file).is_ok_and(|metadata| metadata.permissions().readonly()) {
        let remedy = "permit writing to the file, or edit it by hand";
        return Err(ConfigError::new(Code::ReadOnly, file, "$", "the file is read-only", remedy));
    }
    Ok(())
}

fn check_unchanged(file: &Path, old: Option<&str>) -> Result<(), ConfigError> {
    if read(file)?.as_deref() == old {
        return Ok(());
    }
    let message = "another program changed the file during the edit";
    Err(ConfigError::new(Code::FileChanged, file, "$", message, "run the command again"))
}

/// Returns the value of a text. An empty text has no members.
fn document(file: &Path, text: &str, syntax: Syntax) -> Result<Value, ConfigError> {
    if text.trim_start_matches('\u{feff}').trim().is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    parse_document(file, text, syntax)
}

fn lookup<'a>(value: &'a Value, key: Option<&str>, name: &str) -> Option<&'a Value> {
    key.map_or(Some(value), |key| value.get(key))?.get(name)
}

fn remove_member(value: &mut Value, key: Option<&str>, name: &str) -> bool {
    let servers = match key {
        Some(key) => value.get_mut(key),
        None => Some(value),
    };
    servers.and_then(Value::as_object_mut).and_then(|servers| servers.shift_remove(name)).is_some()
}

/// Compares two documents. An empty map of servers equals a missing one.
fn is_same(left: &Value, right: &Value, key: Option<&str>) -> bool {
    let without_empty = |value: &Value| {
        let mut value = value.clone();
        if let (Some(key), Some(members)) = (key, value.as_object_mut())
            && members.get(key).is_some_and(|servers| servers.as_object().is_some_and(serde_json::Map::is_empty))
        {
            members.shift_remove(key);
        }
        value
    };
    without_empty(left) == without_empty(right)
}

fn unknown(file: &Path, name: &str) -> ConfigError {
    let message = format!("the file defines no server `{name}`");
    ConfigError::new(Code::UnknownServer, file, "$", message, "correct the name or the client").server(name)
}

fn not_editable(file: &Path) -> ConfigError {
    let message = "the text of the file does not permit the edit";
    ConfigError::new(Code::NotEditable, file, "$", message, "edit the file by hand")
}

fn write_failed(file: &Path, error: &std::io::Error) -> ConfigError {
    let message = format!("the file cannot be written: {error}");
    ConfigError::new(Code::WriteFailed, file, "$", message, "correct the permissions of the file and its directory")
}
