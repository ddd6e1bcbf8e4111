//! The named variables of VS Code and Cursor.

use std::path::{MAIN_SEPARATOR, Path};

use super::{Expander, Refusal, Variables};
use crate::config::{code::Code, environment::input_variable};

impl Expander<'_> {
    /// Returns the value of `${inner}`. `None` if the format has no such variable.
    pub(super) fn named(&self, inner: &str) -> Result<Option<String>, Refusal> {
        if let Some(name) = inner.strip_prefix("env:") {
            return self.variable(name).map(Some);
        }
        if self.variables == Variables::Env {
            return Ok(None);
        }
        if self.variables == Variables::VsCode {
            if let Some(id) = inner.strip_prefix("input:") {
                return self.input(id).map(Some);
            }
            if inner.starts_with("command:") || inner.starts_with("config:") {
                let message = format!("only the editor knows `${{{inner}}}`");
                let remedy = "write the value, or refer to an environment variable with `${env:NAME}`";
                return Err(Refusal::new(Code::Unsupported, message, remedy));
            }
        }
        let path = |path: Option<&Path>, remedy: &str| {
            let missing = || Refusal::new(Code::UnsetVariable, format!("`${{{inner}}}` has no value"), remedy);
            path.and_then(Path::to_str).map(ToOwned::to_owned).ok_or_else(missing)
        };
        let workspace = self.workspace.as_deref();
        match inner {
            "userHome" => path(self.environment.home.as_deref(), "set the environment variable `HOME`").map(Some),
            "workspaceFolder" => path(workspace, "run the program in the directory of a project").map(Some),
            "workspaceFolderBasename" => {
                let name = workspace.and_then(Path::file_name).map(Path::new);
                path(name, "run the program in the directory of a project").map(Some)
            }
            "pathSeparator" | "/" => Ok(Some(MAIN_SEPARATOR.to_string())),
            _ => Ok(None),
        }
    }

    /// Returns the answer to an input, or its default unless it is a password.
    fn input(&self, id: &str) -> Result<String, Refusal> {
        let items = self.inputs.as_ref().and_then(|inputs| inputs.value.as_array()).map_or(&[][..], Vec::as_slice);
        let input = items.iter().find(|input| input["id"] == id);
        // An approval is for the definition of the input, also if this process has an answer.
        if let Some(input) = input {
            self.sources.add_input(id, input);
        }
        if let Some(answer) = self.environment.answer(id) {
            return Ok(answer.to_owned());
        }
        let Some(input) = input else {
            let message = format!("the file defines no input `{id}`");
            return Err(Refusal::new(Code::InvalidVariable, message, "add the input to the member `inputs`"));
        };
        let default = input["default"].as_str().filter(|_| input["password"] != true);
        default.map(ToOwned::to_owned).ok_or_else(|| {
            let remedy = format!("set the environment variable `{}`", input_variable(id));
            Refusal::new(Code::UnsetVariable, format!("the input `{id}` has no answer"), remedy)
        })
    }
}
