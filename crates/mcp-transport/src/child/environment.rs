//! The environment of a child process: inherited names and set values.

use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    fmt,
};

use tokio::process::Command;

/// The variables that programs need. None of them is likely to hold a secret.
#[cfg(not(windows))]
const NEEDED: &[&str] =
    &["HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];
#[cfg(windows)]
const NEEDED: &[&str] = &[
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMFILES",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
];

/// How the environment of the process is built.
#[derive(Clone, Default)]
pub(super) struct Environment {
    all: bool,
    /// Inherited names (`None`) and set values.
    variables: BTreeMap<OsString, Option<OsString>>,
}

impl Environment {
    pub(super) fn set(&mut self, name: &OsStr, value: &OsStr) {
        self.variables.insert(name.to_owned(), Some(value.to_owned()));
    }

    pub(super) fn inherit(&mut self, name: &OsStr) {
        self.variables.insert(name.to_owned(), None);
    }

    pub(super) fn inherit_all(&mut self) {
        self.all = true;
    }

    pub(super) fn apply(&self, command: &mut Command) {
        if !self.all {
            command.env_clear();
            let needed = NEEDED.iter().filter_map(|name| Some((name, env::var_os(name)?)));
            command.envs(needed.filter(|(_, value)| !is_function(value)));
        }
        for (name, value) in &self.variables {
            match value.clone().or_else(|| env::var_os(name)) {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
    }
}

/// Whether a shell would read the value as an exported function.
fn is_function(value: &OsStr) -> bool {
    value.as_encoded_bytes().starts_with(b"()")
}

impl fmt::Debug for Environment {
    /// Shows names only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment")
            .field("all", &self.all)
            .field("variables", &self.variables.keys().collect::<Vec<_>>())
            .finish()
    }
}
