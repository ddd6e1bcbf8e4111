//! Policies in TOML files.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::watch;

use super::{Effect, Policy, PolicyError, Rule};
use crate::bounded_file;

/// The largest file, in bytes.
const LARGEST: u64 = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    default: Option<Effect>,
    #[serde(default)]
    rule: Vec<Rule>,
}

impl Policy {
    /// Reads a policy from TOML text. Errors refer to it by `name`.
    ///
    /// The members of the file are `default` (an effect for calls that no rule matches) and `[[rule]]`. The members of a rule are:
    ///
    /// - `server`, `tool`, `resource`, `prompt`, `principal`: patterns with `*` and `?`;
    /// - `annotation.read_only`, `annotation.destructive`, `annotation.idempotent`, `annotation.open_world`: true or false;
    /// - `effect`: `allow`, `ask` or `deny`, which each rule needs;
    /// - `reason`: a text.
    ///
    /// ```
    /// use mcp_agent::policy::Policy;
    ///
    /// let error = Policy::parse("policy.toml", "[[rule]]\nefect = \"ask\"\n").unwrap_err();
    /// assert_eq!((error.line(), error.column()), (Some(2), Some(1)));
    /// assert!(error.to_string().starts_with("policy.toml:2:1: unknown field `efect`"));
    /// ```
    ///
    /// # Errors
    /// The text is not TOML, or has a member or a value that no policy has. The error names the line and the column.
    pub fn parse(name: impl Into<String>, text: &str) -> Result<Self, PolicyError> {
        let name = name.into();
        let content: Content = toml::from_str(text).map_err(|error| {
            let at = error.span().map(|span| place(text, span.start));
            PolicyError::at(name.clone(), at, error.message().trim_end())
        })?;
        Ok(Self { rules: content.rule, default: content.default, name: Some(name.into()) })
    }

    /// Reads a policy from a TOML file of at most 1 MiB. The function blocks the thread for the time of the read.
    ///
    /// ```no_run
    /// use mcp_agent::policy::Policy;
    ///
    /// let policy = Policy::load("policy.toml")?;
    /// # let _ = policy;
    /// # Ok::<(), mcp_agent::policy::PolicyError>(())
    /// ```
    ///
    /// # Errors
    /// The file cannot be read, or [`parse`](Self::parse) rejects it. A file that is missing is an error too: a policy that
    /// silently allows everything would be a fault.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, PolicyError> {
        let path = path.as_ref();
        Self::parse(path.display().to_string(), &read(path)?)
    }
}

/// Reads a regular file.
fn read(path: &Path) -> Result<String, PolicyError> {
    bounded_file::read_text(path, LARGEST).map_err(|error| {
        PolicyError::at(path.display().to_string(), None, &format!("the file cannot be read: {error}"))
    })
}

/// A policy file that a [`Gate`](super::Gate) can read again. Clones share the policy.
///
/// ```no_run
/// use mcp_agent::policy::{Gate, PolicyFile};
///
/// # fn example() -> Result<(), mcp_agent::policy::PolicyError> {
/// let file = PolicyFile::load("policy.toml")?;
/// let gate = Gate::new().policy_file(file.clone());
/// // A change of the file has an effect for later calls of the gate.
/// if file.reload()? == Some(true) {
///     println!("{} rules", file.policy().rules().len());
/// }
/// # let _ = gate;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PolicyFile {
    path: PathBuf,
    state: Arc<Mutex<State>>,
    changed: watch::Sender<()>,
}

struct State {
    policy: Arc<Policy>,
    /// The text of the last reading, also if it is not a policy. `None` if the file could not be read.
    text: Option<String>,
}

impl PolicyFile {
    /// Reads a file as [`Policy::load`] does. A relative path belongs to the current directory of the call.
    ///
    /// # Errors
    /// Those of [`Policy::load`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self, PolicyError> {
        let path = path.as_ref();
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let text = read(&path)?;
        let policy = Arc::new(Policy::parse(path.display().to_string(), &text)?);
        let state = Arc::new(Mutex::new(State { policy, text: Some(text) }));
        Ok(Self { path, state, changed: watch::Sender::new(()) })
    }

    /// Returns the path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the policy of the last valid reading.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.state.lock().policy)
    }

    /// Returns a receiver that changes with the policy, in all clones.
    #[cfg(feature = "gateway")]
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Reads the file again, and returns whether its policy changed. `None` if the text is that of the last reading. The function
    /// blocks the thread for the time of the read.
    ///
    /// # Errors
    /// The file cannot be read or is invalid. The former policy stays. An invalid text is reported once.
    pub fn reload(&self) -> Result<Option<bool>, PolicyError> {
        let text = read(&self.path).inspect_err(|_| self.state.lock().text = None)?;
        if self.state.lock().text.as_ref() == Some(&text) {
            return Ok(None);
        }
        let parsed = Policy::parse(self.path.display().to_string(), &text);
        let mut state = self.state.lock();
        state.text = Some(text);
        let policy = parsed?;
        let has_changed = *state.policy != policy;
        // The toolset of a host compares the allocation.
        if has_changed {
            state.policy = Arc::new(policy);
            drop(state);
            self.changed.send_replace(());
        }
        Ok(Some(has_changed))
    }
}

impl fmt::Debug for PolicyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Returns the line and the column of a byte, from 1. The column counts characters.
fn place(text: &str, byte: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..byte.min(text.len())];
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let column = String::from_utf8_lossy(&before[line_start..]).chars().count();
    (before.iter().filter(|byte| **byte == b'\n').count() + 1, column + 1)
}
