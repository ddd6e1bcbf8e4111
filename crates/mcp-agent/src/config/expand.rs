//! Variables in the texts of a configuration file. Each format has its own rule, and texts of other rules stay unchanged.

mod names;
mod scan;

use std::path::{Path, PathBuf};

use super::{code::Code, environment::Environment, error::Fault, fingerprint::Sources, node::Node};

/// The largest number of variables that contain each other.
const MAX_NESTING: usize = 8;

/// The variable rule of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Variables {
    /// No text is a variable.
    None,
    /// `${VAR}` and `${VAR:-default}`.
    Defaults,
    /// `${VAR}`.
    Braces,
    /// `${env:VAR}`, `${input:id}` and the names of VS Code.
    VsCode,
    /// `${env:VAR}` and the names of Cursor.
    Cursor,
    /// `${env:VAR}`.
    Env,
    /// `$VAR` and `${VAR}`, on Windows `%VAR%` too; only in the environment of a command.
    Gemini,
    /// `{env:VAR}` and `{file:path}`.
    OpenCode,
    /// `${{ secrets.VAR }}`.
    Secrets,
    /// `$VAR` and `${VAR}`. A command substitution is a fault, and is never run.
    Shell,
}

/// The member that a text belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Env,
    Header,
    Other,
}

/// Expands the texts of one file.
#[derive(Debug)]
pub(super) struct Expander<'a> {
    pub(super) variables: Variables,
    pub(super) environment: &'a Environment,
    /// The directory of the file.
    pub(super) directory: &'a Path,
    /// The directory of the project, if there is one.
    pub(super) workspace: Option<PathBuf>,
    /// The member `inputs` of a file of VS Code.
    pub(super) inputs: Option<Node<'a>>,
    /// The inputs and the files that the texts refer to.
    pub(super) sources: &'a Sources,
}

/// The reason why a text cannot be expanded.
#[derive(Debug)]
pub(super) struct Refusal {
    code: Code,
    message: String,
    remedy: String,
}

impl Refusal {
    fn new(code: Code, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { code, message: message.into(), remedy: remedy.into() }
    }

    fn unset(name: &str) -> Self {
        // Another format has the prefix.
        if let Some(own) = name.strip_prefix("env:") {
            let message = format!("the variables of this format have no prefix `env:`: `${{{name}}}`");
            return Self::new(Code::UnsetVariable, message, format!("write `${{{own}}}`"));
        }
        let message = format!("the variable `{name}` is not set and has no default");
        Self::new(Code::UnsetVariable, message, format!("set the environment variable `{name}`"))
    }

    fn too_deep() -> Self {
        let message = format!("more than {MAX_NESTING} variables contain each other");
        Self::new(Code::InvalidVariable, message, "remove levels of nested defaults")
    }

    fn invalid(text: &str) -> Self {
        let message = format!("`{text}` is not a complete variable");
        Self::new(Code::InvalidVariable, message, "complete the variable, or remove it")
    }
}

impl Expander<'_> {
    /// Expands the text of a node.
    pub(super) fn expand(&self, node: &Node<'_>, place: Place) -> Result<String, Fault> {
        let expanded = self.expand_text(node.text()?, place, 1);
        expanded.map_err(|refusal| node.fault(refusal.code, refusal.message, refusal.remedy))
    }

    /// Expands a text. The level is the number of variables that contain those of the text, plus one.
    fn expand_text(&self, text: &str, place: Place, level: usize) -> Result<String, Refusal> {
        match self.variables {
            Variables::None => Ok(text.to_owned()),
            Variables::Defaults => scan::braces(text, place == Place::Header, &|inner, nested| {
                let Some((name, default)) = inner.split_once(":-") else { return self.variable(inner) };
                match self.environment.get(name) {
                    Some(value) => Ok(value.to_owned()),
                    None if nested && !default.contains("${") => Ok(default.to_owned()),
                    None if nested && level == MAX_NESTING => Err(Refusal::too_deep()),
                    None if nested => self.expand_text(default, place, level + 1),
                    None => Ok(default.to_owned()),
                }
            }),
            Variables::Braces => scan::braces(text, false, &|inner, _| self.variable(inner)),
            Variables::VsCode | Variables::Cursor | Variables::Env => {
                scan::known_braces(text, &|inner| self.named(inner))
            }
            Variables::Gemini if place != Place::Env => Ok(text.to_owned()),
            Variables::Gemini => {
                let text = scan::dollars(text, &|name| self.variable(name), None)?;
                if cfg!(windows) { scan::percents(&text, &|name| self.variable(name)) } else { Ok(text) }
            }
            Variables::OpenCode => scan::open_code(text, &|kind, value| match kind {
                "env" => self.variable(value),
                _ => self.file(value),
            }),
            Variables::Secrets => scan::double_braces(text, &|inner| match inner.trim().strip_prefix("secrets.") {
                Some(name) => self.variable(name.trim()),
                None => Err(Refusal::invalid(&format!("${{{{{inner}}}}}"))),
            }),
            Variables::Shell => {
                let substitution = Refusal::new(
                    Code::CommandSubstitution,
                    "the text runs a command, and this program does not run commands in configuration files",
                    "store the value in an environment variable, and refer to the variable",
                );
                scan::dollars(text, &|name| self.variable(name), Some(substitution))
            }
        }
    }

    fn variable(&self, name: &str) -> Result<String, Refusal> {
        if name.is_empty() {
            return Err(Refusal::invalid("${}"));
        }
        self.environment.get(name).map(ToOwned::to_owned).ok_or_else(|| Refusal::unset(name))
    }

    /// Reads a file for `{file:path}`. Its text has no line break at its end.
    fn file(&self, path: &str) -> Result<String, Refusal> {
        let file = match (path.strip_prefix("~/"), &self.environment.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => self.directory.join(path),
        };
        let text = self.sources.read_file(path, &file).map_err(|reason| {
            let message = format!("the file `{path}` cannot be read: {reason}");
            Refusal::new(Code::ReferencedFile, message, "create the file, or correct the path")
        })?;
        Ok(text.trim_end().to_owned())
    }
}
