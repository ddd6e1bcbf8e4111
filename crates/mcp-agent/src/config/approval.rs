//! Approvals of the servers in project files, stored outside of the project.

use std::{fs, io, path::PathBuf};

use serde_json::{Map, Value, json};

use super::{code::Code, definition::ServerDefinition, error::ConfigError, file::read_text, write};

/// The largest number of stored decisions. Beyond it, the store removes the oldest.
const MAX_DECISIONS: usize = 10_000;

/// The decisions of the user about servers of project files.
///
/// A decision is for the hash of one definition: the entry without expanded variables, the path of its file, its name, and the
/// inputs and files that the entry refers to. If one of them changes, the server needs a new decision. The values of
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

    fn decide(&self, server: &ServerDefinition, is_approved: bool) -> Result<(), ConfigError> {
        let Some(origin) = server.origin.as_ref().filter(|origin| origin.needs_approval()) else { return Ok(()) };
        if origin.fingerprint.is_empty() {
            let message = "the definition has no fingerprint, so a decision cannot be for it alone";
            let remedy = "read the file of the server, and decide about the server that the file defines";
            let error = ConfigError::new(Code::NeedsApproval, &origin.file, &origin.path, message, remedy);
            return Err(error.server(&server.name));
        }
        let _lock = self.lock().map_err(|error| self.fault(Code::WriteFailed, &error.to_string()))?;
        let mut decisions = self.read()?;
        // The decision is the newest, so it is the last.
        decisions.shift_remove(&origin.fingerprint);
        let decision = json!({ "name": server.name, "file": origin.file.to_string_lossy(), "approved": is_approved });
        decisions.insert(origin.fingerprint.clone(), decision);
        let surplus = decisions.len().saturating_sub(MAX_DECISIONS);
        let decisions: Map<String, Value> = decisions.into_iter().skip(surplus).collect();
        let text = format!("{:#}\n", json!({ "decisions": decisions }));
        write::replace(&self.file, text.as_bytes()).map_err(|error| self.fault(Code::WriteFailed, &error.to_string()))
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

    /// Locks the decisions against other processes. The lock ends with the file.
    fn lock(&self) -> io::Result<fs::File> {
        write::lock(&self.file.with_extension("lock"))
    }

    fn fault(&self, code: Code, reason: &str) -> ConfigError {
        let message = format!("the approvals cannot be used: {reason}");
        ConfigError::new(code, &self.file, "$", message, "correct or remove the file, and approve the servers again")
    }
}
