//! Loads what a directory describes into a builder: `tools/`, `prompts/`, `resources/` and `skills/`.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::Value;
use tokio::sync::Semaphore;

use super::{
    ContentProblem, ResourceDir,
    command::CommandTool,
    manifest::{self, OutputForm, ServerManifest, ToolManifest},
    sandbox::Sandbox,
};
use crate::{RawArgs, ServerBuilder, ToolRoute, tool};

/// The most bytes of a manifest, or of a prompt.
const MAX_FILE: u64 = 1024 * 1024;
/// Files of one kind that are loaded; more are a problem.
const MAX_FILES: usize = 10_000;
/// Bytes that a command may write, where its manifest says nothing.
const MAX_OUTPUT: usize = 1024 * 1024;
/// Bytes that a manifest may allow a command to write.
const MOST_OUTPUT: usize = 1024 * 1024 * 1024;
/// Calls of a tool whose commands run at once, where its manifest says nothing; more wait.
const MAX_RUNNING: usize = 16;

/// Adds what a directory holds, file by file, and collects what is wrong.
pub(super) struct Loader<S> {
    pub(super) builder: ServerBuilder<S>,
    pub(super) problems: Vec<ContentProblem>,
    root: PathBuf,
}

impl<S: Clone + Send + Sync + 'static> Loader<S> {
    pub(super) fn new(builder: ServerBuilder<S>, root: &Path) -> Self {
        // A program in the directory has to be found wherever it runs.
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        Self { builder, problems: Vec::new(), root }
    }

    /// Loads everything. What is not there is not served; what is wrong is a problem.
    pub(super) fn load(mut self) -> Self {
        match fs::metadata(&self.root) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => {
                self.problem(self.root.clone(), "it is not a directory");
                return self;
            }
            Err(error) => {
                self.problem(self.root.clone(), error);
                return self;
            }
        }
        self.each("tools", &["json", "toml"], Self::tool);
        self.each("prompts", &["md"], |loader, file| {
            let route = manifest::prompt(file.stem, file.text)?;
            loader.builder.add_prompt(route).map_err(|error| error.to_string())
        });
        self.resources();
        #[cfg(feature = "skills")]
        if self.root.join("skills").exists() {
            let problems = self.builder.add_skills_dir(&self.root.join("skills"));
            self.problems.extend(problems);
        }
        self
    }

    /// Loads the files of a subdirectory that have one of the endings. The others are nobody's business here.
    fn each(&mut self, directory: &str, endings: &[&str], add: impl Fn(&mut Self, &File<'_>) -> Result<(), String>) {
        let directory = self.root.join(directory);
        let names = match names(&directory, endings) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return self.problem(directory, error),
        };
        // Whoever made the directory chose its files: a link may lead to a hidden one.
        let sandbox = Sandbox::new(&directory).hidden(true);
        for name in names {
            let path = directory.join(&name);
            let text = match sandbox.read(&name, MAX_FILE).map(String::from_utf8) {
                Ok(Ok(text)) => text,
                Ok(Err(_)) => {
                    self.problem(path, "it is not UTF-8");
                    continue;
                }
                Err(error) => {
                    self.problem(path, error);
                    continue;
                }
            };
            let stem = name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem);
            if let Err(reason) = add(self, &File { name: &name, stem, text: &text }) {
                self.problem(path, reason);
            }
        }
    }

    fn tool(&mut self, file: &File<'_>) -> Result<(), String> {
        let manifest: ToolManifest = manifest::read(file.name, file.text)?;
        let route = self.route(file.stem, manifest)?;
        self.builder.add_tool(route).map_err(|error| error.to_string())
    }

    fn route(&self, stem: &str, manifest: ToolManifest) -> Result<ToolRoute<S>, String> {
        let limit = manifest.limit()?;
        let name = manifest.name.unwrap_or_else(|| stem.to_owned());
        let Some((program, arguments)) = manifest.command.split_first().filter(|(program, _)| !program.is_empty())
        else {
            return Err("`command` is empty: it is a list of the program and its arguments".to_owned());
        };
        // A path is meant from the directory on; a mere name is looked for as a shell would.
        let is_path = program.contains(['/', std::path::MAIN_SEPARATOR]);
        let program = if is_path { self.root.join(program) } else { PathBuf::from(program) };
        if is_path && !program.is_file() {
            return Err(format!("`command`: there is no file `{}`", program.display()));
        }
        if is_path && !is_executable(&program) {
            return Err(format!("`command`: `{}` cannot be executed", program.display()));
        }
        let cwd = manifest.cwd.map_or_else(|| self.root.clone(), |cwd| self.root.join(cwd));
        if !cwd.is_dir() {
            return Err(format!("`cwd`: there is no directory `{}`", cwd.display()));
        }
        if !is_path && !is_in_path(&program, &cwd) {
            return Err(format!("`command`: there is no program `{}` in PATH", program.display()));
        }
        let running = manifest.max_running.unwrap_or(MAX_RUNNING);
        if running == 0 || running > Semaphore::MAX_PERMITS {
            return Err(format!("`max_running` is {running}: it is a number of processes above zero"));
        }
        let max_output = manifest.max_output.unwrap_or(MAX_OUTPUT);
        if max_output > MOST_OUTPUT {
            return Err(format!("`max_output` is {max_output}: it is a number of bytes up to {MOST_OUTPUT}"));
        }
        let form = if manifest.output_schema.is_some() { OutputForm::Json } else { OutputForm::Text };
        if manifest.output == Some(OutputForm::Text) && manifest.output_schema.is_some() {
            return Err("`output` is \"text\", which has no `output_schema`".to_owned());
        }
        let command = Arc::new(CommandTool {
            name: name.clone(),
            program: program.into(),
            arguments: arguments.to_vec(),
            cwd,
            env: manifest.env,
            output: manifest.output.unwrap_or(form),
            max_output,
            running: Semaphore::new(running),
        });
        let run = move |RawArgs(arguments): RawArgs| command.run(arguments.into());
        let empty = || serde_json::json!({ "type": "object", "additionalProperties": false });
        let mut route = tool(name, run)
            .description(manifest.description)
            .input_schema(manifest.input_schema.map_or_else(empty, Value::Object))
            .requires_scopes(manifest.scopes);
        if let Some(schema) = manifest.output_schema {
            route = route.output_schema(Value::Object(schema));
        }
        if let Some(title) = manifest.title {
            route = route.title(title);
        }
        if let Some(hints) = manifest.annotations {
            route = route.annotations(hints.into());
        }
        Ok(match limit {
            Some(limit) => route.timeout(limit),
            None => route,
        })
    }

    fn resources(&mut self) {
        let path = self.root.join("resources");
        if !path.exists() {
            return;
        }
        match self.builder.add_resource_dir(ResourceDir::new(&path)) {
            Ok(refused) => refused.into_iter().for_each(|(file, error)| self.problem(file, error)),
            Err(error) => self.problem(path, error),
        }
    }

    /// What the directory says of the server: `server.toml` or `server.json`.
    pub(super) fn server(root: &Path) -> Result<ServerManifest, ContentProblem> {
        let sandbox = Sandbox::new(root).hidden(true);
        for name in ["server.toml", "server.json"] {
            let path = root.join(name);
            if !path.exists() {
                continue;
            }
            let bytes = sandbox.read(name, MAX_FILE).map_err(|error| ContentProblem::new(&path, error))?;
            let text = String::from_utf8(bytes).map_err(|_| ContentProblem::new(&path, "it is not UTF-8"))?;
            return manifest::read(name, &text).map_err(|reason| ContentProblem::new(&path, reason));
        }
        Ok(ServerManifest::default())
    }

    fn problem(&mut self, path: PathBuf, reason: impl std::fmt::Display) {
        let problem = ContentProblem::new(path, reason);
        problem.log();
        self.problems.push(problem);
    }
}

/// A file that is loaded.
struct File<'a> {
    name: &'a str,
    stem: &'a str,
    text: &'a str,
}

/// Whether the system says that a file is a program.
#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Elsewhere only running it tells.
#[cfg(not(unix))]
fn is_executable(_path: &Path) -> bool {
    true
}

/// Whether a name would be found from the directory that the program runs in. Without a PATH the system has its own.
fn is_in_path(program: &Path, cwd: &Path) -> bool {
    // Other systems look in more places, and add endings.
    if !cfg!(unix) {
        return true;
    }
    std::env::var_os("PATH").is_none_or(|path| {
        std::env::split_paths(&path).any(|directory| is_executable(&cwd.join(directory).join(program)))
    })
}

/// The names of the files with one of the endings, in order.
fn names(directory: &Path, endings: &[&str]) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let Ok(name) = entry?.file_name().into_string() else { continue };
        let ending = name.rsplit_once('.').map(|(_, ending)| ending);
        if name.starts_with('.') || !ending.is_some_and(|ending| endings.contains(&ending)) {
            continue;
        }
        if names.len() >= MAX_FILES {
            return Err(io::Error::other(format!("there are more than {MAX_FILES} files")));
        }
        names.push(name);
    }
    names.sort_unstable();
    Ok(names)
}
