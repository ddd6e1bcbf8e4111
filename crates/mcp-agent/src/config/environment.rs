//! The surroundings of a configuration file: variables, directories and inputs.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
};

/// The variables, the directories and the inputs that configuration files may refer to.
///
/// `Debug` shows the names of variables and inputs without their values.
///
/// ```
/// use mcp_agent::config::Environment;
///
/// let environment = Environment::default().variable("TOKEN", "hunter2").home("/users/demo").input("key", "s3cret");
/// assert!(!format!("{environment:?}").contains("hunter2"));
/// ```
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
    inputs: BTreeMap<String, String>,
    pub(super) home: Option<PathBuf>,
    pub(super) workspace: Option<PathBuf>,
    pub(super) app_data: Option<PathBuf>,
}

impl Environment {
    /// Returns the environment of this process. The workspace is the current directory.
    ///
    /// A variable `MCP_INPUT_ID` is the answer to the input `id` of a file of VS Code.
    #[must_use]
    pub fn of_process() -> Self {
        let variables: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        let absolute =
            |name: &str| variables.get(std::ffi::OsStr::new(name)).map(PathBuf::from).filter(|path| path.is_absolute());
        Self {
            home: absolute("HOME").or_else(|| absolute("USERPROFILE")),
            app_data: absolute("APPDATA"),
            workspace: std::env::current_dir().ok(),
            inputs: BTreeMap::new(),
            variables,
        }
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// Sets the answer to an input of a file of VS Code.
    #[must_use]
    pub fn input(mut self, id: impl Into<String>, answer: impl Into<String>) -> Self {
        self.inputs.insert(id.into(), answer.into());
        self
    }

    /// Sets the home directory of the user.
    #[must_use]
    pub fn home(mut self, directory: impl Into<PathBuf>) -> Self {
        self.home = Some(directory.into());
        self
    }

    /// Sets the directory of the project.
    #[must_use]
    pub fn workspace(mut self, directory: impl Into<PathBuf>) -> Self {
        self.workspace = Some(directory.into());
        self
    }

    /// Returns a variable. A value that is not Unicode counts as unset.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(std::ffi::OsStr::new(name))?.to_str()
    }

    /// Returns a variable with the path of an absolute directory.
    pub(super) fn directory(&self, name: &str) -> Option<&Path> {
        self.get(name).map(Path::new).filter(|path| path.is_absolute())
    }

    /// Returns the answer to an input.
    pub(super) fn answer(&self, id: &str) -> Option<&str> {
        self.inputs.get(id).map(String::as_str).or_else(|| self.get(&input_variable(id)))
    }
}

/// Returns the variable with the answer to an input.
pub(super) fn input_variable(id: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("MCP_INPUT_{}", id.chars().map(letter).collect::<String>())
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment")
            .field("variables", &self.variables.len())
            .field("inputs", &self.inputs.keys())
            .field("home", &self.home)
            .field("workspace", &self.workspace)
            .finish_non_exhaustive()
    }
}
