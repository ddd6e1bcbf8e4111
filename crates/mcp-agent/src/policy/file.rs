//! Policies in TOML files.

use std::{fs, io, path::Path};

use serde::Deserialize;

use super::{Effect, Policy, PolicyError, Rule};

/// The largest file, in bytes.
const LARGEST: u64 = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyFile {
    default: Option<Effect>,
    #[serde(default)]
    rule: Vec<Rule>,
}

impl Policy {
    /// Reads a policy from TOML text. Errors refer to it by `name`.
    ///
    /// The members of the file are `default` (an effect for calls that no rule matches) and `[[rule]]`. The members of a rule
    /// are `server`, `tool`, `principal` (patterns with `*` and `?`), `annotation.read_only`, `annotation.destructive`,
    /// `annotation.idempotent`, `annotation.open_world` (true or false), `effect` (`allow`, `ask` or `deny`; required) and
    /// `reason` (a text).
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
        let file: PolicyFile = toml::from_str(text).map_err(|error| {
            let at = error.span().map(|span| place(text, span.start));
            PolicyError::at(name.into(), at, error.message().trim_end())
        })?;
        Ok(Self { rules: file.rule, default: file.default })
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
        let name = path.display().to_string();
        match read(path) {
            Ok(text) => Self::parse(name, &text),
            Err(error) => Err(PolicyError::at(name, None, &format!("the file cannot be read: {error}"))),
        }
    }
}

fn read(path: &Path) -> io::Result<String> {
    if fs::metadata(path)?.len() > LARGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it has more than 1 MiB"));
    }
    fs::read_to_string(path)
}

/// Returns the line and the column of a byte, from 1. The column counts characters.
fn place(text: &str, byte: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..byte.min(text.len())];
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let column = String::from_utf8_lossy(&before[line_start..]).chars().count();
    (before.iter().filter(|byte| **byte == b'\n').count() + 1, column + 1)
}
