//! Approvals of the servers in project files, stored outside of the project.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{
    code::Code,
    definition::ServerDefinition,
    error::ConfigError,
    file::{ConfigFile, read_text},
    lock::lock,
    origin::Scope,
    write,
};

/// The largest number of stored decisions. Beyond it, the store removes the oldest.
const MAX_DECISIONS: usize = 10_000;

/// The decisions of the user about servers of project files.
///
/// A decision is for the hash of one definition. The hash covers the entry without expanded variables, its name and the path of
/// its file. It also covers the inputs and files that the entry refers to. If a part changes, the server needs a new decision. The values of
/// environment variables do not belong to the hash. The file of the decisions contains hashes, paths and names.
///
/// ```no_run
/// use mcp_agent::config::{Approval, Approvals, ConfigFile, Environment, Scope};
///
/// let file = ConfigFile::read("/projects/demo/.mcp.json", Scope::Project, &Environment::of_process())?;
/// let approvals = Approvals::open("/users/demo/.local/state/mcp");
/// if approvals.of(&file.servers[0])? == Approval::Missing {
///     approvals.approve(&file.servers[0])?;
/// }
/// # Ok::<(), mcp_agent::config::ConfigError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Approvals {
    file: PathBuf,
}

/// The decision about a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Approval {
    /// The server needs no decision: a program or a file of the user defines it.
    NotNeeded,
    /// The user approved the definition.
    Approved,
    /// The user denied the definition.
    Denied,
    /// The user has not decided about the definition.
    Missing,
}

impl Approval {
    /// Returns whether a host may connect to the server.
    #[must_use]
    pub fn permits(self) -> bool {
        matches!(self, Self::NotNeeded | Self::Approved)
    }
}

impl Approvals {
    /// Returns the decisions in a directory, which must not belong to a project. The first decision creates it.
    pub fn open(directory: impl Into<PathBuf>) -> Self {
        Self { file: directory.into().join("approvals.json") }
    }

    /// Returns the decision about a server. A server of a project without a fingerprint has no decision.
    ///
    /// # Errors
    /// If the file of the decisions exists and cannot be read.
    pub fn of(&self, server: &ServerDefinition) -> Result<Approval, ConfigError> {
        let Some(origin) = server.origin.as_ref().filter(|origin| origin.needs_approval()) else {
            return Ok(Approval::NotNeeded);
        };
        if origin.fingerprint.is_empty() {
            return Ok(Approval::Missing);
        }
        let decisions = self.read()?;
        Ok(match decisions.get(&origin.fingerprint).and_then(|decision| decision["approved"].as_bool()) {
            Some(true) => Approval::Approved,
            Some(false) => Approval::Denied,
            None => Approval::Missing,
        })
    }

    /// Approves the definition of a server. A server that needs no decision does not change.
    ///
    /// # Errors
    /// If the file of the decisions cannot be read or written, or the origin of the server has no fingerprint.
    pub fn approve(&self, server: &ServerDefinition) -> Result<(), ConfigError> {
        self.decide(server, true)
    }

    /// Denies the definition of a server. A server that needs no decision does not change.
    ///
    /// # Errors
    /// If the file of the decisions cannot be read or written, or the origin of the server has no fingerprint.
    pub fn deny(&self, server: &ServerDefinition) -> Result<(), ConfigError> {
        self.decide(server, false)
    }

    /// Denies the entry of a server in a file, also if the entry has a fault. Returns false if the file has no such entry. An
    /// entry that needs no decision does not change.
    ///
    /// A program that removes the fault later does not permit the server.
    ///
    /// ```no_run
    /// # use mcp_agent::config::{Approvals, ConfigFile, Environment, Scope};
    /// # let approvals = Approvals::open("/users/demo/.local/state/mcp");
    /// let file = ConfigFile::read("/projects/demo/.mcp.json", Scope::Project, &Environment::of_process())?;
    /// approvals.deny_entry(&file, "suspicious")?;
    /// assert!(approvals.is_denied(&file, "suspicious")?);
    /// # Ok::<(), mcp_agent::config::ConfigError>(())
    /// ```
    ///
    /// # Errors
    /// If the file of the decisions cannot be read or written.
    pub fn deny_entry(&self, config: &ConfigFile, name: &str) -> Result<bool, ConfigError> {
        let fingerprints = config.fingerprints(name);
        if config.scope == Scope::Project && !fingerprints.is_empty() {
            self.store(&fingerprints, name, &config.file, false)?;
        }
        Ok(!fingerprints.is_empty())
    }

    /// Returns whether the user denied the entry of a server in a file. The entry can have a fault.
    ///
    /// See the example of [`Approvals::deny_entry`].
    ///
    /// # Errors
    /// If the file of the decisions exists and cannot be read.
    pub fn is_denied(&self, config: &ConfigFile, name: &str) -> Result<bool, ConfigError> {
        let fingerprints = config.fingerprints(name);
        if config.scope != Scope::Project || fingerprints.is_empty() {
            return Ok(false);
        }
        let decisions = self.read()?;
        let is_denied = |fingerprint: &&str| {
            decisions.get(*fingerprint).is_some_and(|decision| decision["approved"] == Value::Bool(false))
        };
        Ok(fingerprints.iter().all(is_denied))
    }

    fn decide(&self, server: &ServerDefinition, is_approved: bool) -> Result<(), ConfigError> {
        let Some(origin) = server.origin.as_ref().filter(|origin| origin.needs_approval()) else { return Ok(()) };
        if origin.fingerprint.is_empty() {
            let message = "the definition has no fingerprint, so a decision cannot be for it alone";
            let remedy = "read the file of the server, and decide about the server that the file defines";
            let error = ConfigError::new(Code::NeedsApproval, &origin.file, &origin.path, message, remedy);
            return Err(error.server(&server.name));
        }
        self.store(&[&origin.fingerprint], &server.name, &origin.file, is_approved)
    }

    /// Stores the same decision about fingerprints of a server.
    fn store(&self, fingerprints: &[&str], name: &str, file: &Path, is_approved: bool) -> Result<(), ConfigError> {
        let write_failed = |error: std::io::Error| self.fault(Code::WriteFailed, &error.to_string());
        let _lock = lock(&self.file.with_extension("lock")).map_err(write_failed)?;
        let mut decisions = self.read()?;
        for fingerprint in fingerprints {
            // The decision is the newest, so it is the last.
            decisions.shift_remove(*fingerprint);
            let decision = json!({ "name": name, "file": file.to_string_lossy(), "approved": is_approved });
            decisions.insert((*fingerprint).to_owned(), decision);
        }
        let surplus = decisions.len().saturating_sub(MAX_DECISIONS);
        let decisions: Map<String, Value> = decisions.into_iter().skip(surplus).collect();
        let text = format!("{:#}\n", json!({ "decisions": decisions }));
        write::replace(&self.file, text.as_bytes()).map_err(write_failed)
    }

    fn read(&self) -> Result<Map<String, Value>, ConfigError> {
        let text = match read_text(&self.file) {
            Ok(text) => text,
            Err((Code::FileMissing, _)) => return Ok(Map::new()),
            Err((code, reason)) => return Err(self.fault(code, &reason)),
        };
        let document: Option<Value> = serde_json::from_str(&text).ok();
        match document.and_then(|document| document.get("decisions")?.as_object().cloned()) {
            Some(decisions) => Ok(decisions),
            None => Err(self.fault(Code::Syntax, "the file of the approvals is damaged")),
        }
    }

    fn fault(&self, code: Code, reason: &str) -> ConfigError {
        let message = format!("the approvals cannot be used: {reason}");
        ConfigError::new(code, &self.file, "$", message, "correct or remove the file, and approve the servers again")
    }
}
