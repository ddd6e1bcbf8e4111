//! Loads the parts of a content directory: `tools/`, `prompts/`, `resources/` and `skills/`.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use mcp_server_core::{RawArgs, ToolRoute, extension::Registrar, tool};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::{
    ContentError, ResourceDir,
    command::CommandTool,
    content_dir::Parts,
    error::ErrorReport,
    manifest::{self, OutputForm, ServerManifest, ToolManifest},
    sandbox::Sandbox,
};

/// The largest size of a manifest or a prompt, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// The number of manifests or prompts that a directory may hold.
const MAX_FILES: usize = 10_000;
/// The default limit of the output of a command, in bytes.
const DEFAULT_OUTPUT_BYTES: usize = 1024 * 1024;
/// The largest limit of the output of a command that a manifest may set, in bytes.
const MAX_OUTPUT_BYTES: usize = 1024 * 1024 * 1024;
/// The default number of commands of one tool that run at the same time.
const DEFAULT_RUNNING: usize = 16;

/// Registers the content of a directory file by file, and collects the errors.
pub(crate) struct Loader<'a, 'b> {
    registrar: &'a mut Registrar<'b>,
    errors: &'a ErrorReport,
    root: PathBuf,
}

impl<'a, 'b> Loader<'a, 'b> {
    pub(crate) fn new(registrar: &'a mut Registrar<'b>, root: &Path, errors: &'a ErrorReport) -> Self {
        // A program in the directory is found from every working directory, if its path is absolute.
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        Self { registrar, errors, root }
    }

    /// Registers everything that can be served.
    pub(crate) fn load(mut self) -> Parts {
        let mut parts = Parts::default();
        match fs::metadata(&self.root) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => {
                self.error(self.root.clone(), "it is not a directory");
                return parts;
            }
            Err(error) => {
                self.error(self.root.clone(), error);
                return parts;
            }
        }
        self.load_files("tools", &["json", "toml"], Self::tool);
        self.load_files("prompts", &["md"], |loader, file| {
            let route = manifest::prompt(file.stem, file.text)?;
            loader.registrar.prompt(route).map_err(|error| error.to_string())
        });
        parts.resources = self.resources();
        #[cfg(feature = "skills")]
        if self.root.join("skills").exists() {
            parts.skills = self.skills();
        }
        parts
    }

    /// Loads the files of a subdirectory that have one of the endings.
    fn load_files(
        &mut self,
        directory: &str,
        endings: &[&str],
        add: impl Fn(&mut Self, &File<'_>) -> Result<(), String>,
    ) {
        let directory = self.root.join(directory);
        let names = match names(&directory, endings) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return self.error(directory, error),
        };
        // The owner of the directory chose its files, also those behind a link to a hidden file.
        let sandbox = Sandbox::new(&directory).with_hidden();
        for name in names {
            let path = directory.join(&name);
            let text = match sandbox.read(&name, MAX_FILE_BYTES).map(String::from_utf8) {
                Ok(Ok(text)) => text,
                Ok(Err(_)) => {
                    self.error(path, "it is not UTF-8");
                    continue;
                }
                Err(error) => {
                    self.error(path, error);
                    continue;
                }
            };
            let stem = name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem);
            if let Err(reason) = add(self, &File { name: &name, stem, text: &text }) {
                self.error(path, reason);
            }
        }
    }

    fn tool(&mut self, file: &File<'_>) -> Result<(), String> {
        let manifest: ToolManifest = manifest::read(file.name, file.text)?;
        let route = self.route(file.stem, manifest)?;
        self.registrar.tool(route).map_err(|error| error.to_string())
    }

    fn route(&self, stem: &str, manifest: ToolManifest) -> Result<ToolRoute, String> {
        let limit = manifest.limit()?;
        let name = manifest.name.unwrap_or_else(|| stem.to_owned());
        let Some((program, arguments)) = manifest.command.split_first().filter(|(program, _)| !program.is_empty())
        else {
            return Err("`command` is empty: it is a list of the program and its arguments".to_owned());
        };
        // A path is relative to the directory. A name without a slash is searched in PATH, as a shell does it.
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
        let running = manifest.max_running.unwrap_or(DEFAULT_RUNNING);
        if running == 0 || running > Semaphore::MAX_PERMITS {
            return Err(format!("`max_running` is {running}: it must be a number of processes above zero"));
        }
        let max_output = manifest.max_output.unwrap_or(DEFAULT_OUTPUT_BYTES);
        if max_output > MAX_OUTPUT_BYTES {
            return Err(format!("`max_output` is {max_output}: it must be a number of bytes up to {MAX_OUTPUT_BYTES}"));
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

    fn resources(&mut self) -> Option<ResourceDir> {
        let path = self.root.join("resources");
        if !path.exists() {
            return None;
        }
        let mut dir = ResourceDir::new(&path);
        match dir.register_files(self.registrar) {
            Ok(refused) => {
                refused.into_iter().for_each(|(file, error)| self.error(file, error));
                Some(dir)
            }
            Err(error) => {
                self.error(path, error);
                None
            }
        }
    }

    #[cfg(feature = "skills")]
    fn skills(&mut self) -> Option<crate::Skills> {
        use mcp_server_core::extension::ServerExtension as _;

        let path = self.root.join("skills");
        let mut skills = crate::Skills::new().dir(&path).report_to(self.errors);
        match skills.register(self.registrar) {
            Ok(()) => Some(skills),
            Err(error) => {
                self.error(path, error);
                None
            }
        }
    }

    fn error(&self, path: PathBuf, reason: impl std::fmt::Display) {
        self.errors.push(ContentError::new(path, reason));
    }
}

/// Reads the server manifest of a directory: `server.toml` or `server.json`.
pub(crate) fn server_manifest(root: &Path) -> Result<ServerManifest, ContentError> {
    let sandbox = Sandbox::new(root).with_hidden();
    for name in ["server.toml", "server.json"] {
        let path = root.join(name);
        if !path.exists() {
            continue;
        }
        let bytes = sandbox.read(name, MAX_FILE_BYTES).map_err(|error| ContentError::new(&path, error))?;
        let text = String::from_utf8(bytes).map_err(|_| ContentError::new(&path, "it is not UTF-8"))?;
        return manifest::read(name, &text).map_err(|reason| ContentError::new(&path, reason));
    }
    Ok(ServerManifest::default())
}

/// A manifest or a prompt.
struct File<'a> {
    name: &'a str,
    stem: &'a str,
    text: &'a str,
}

/// Whether the permissions of a file allow the system to run it.
#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// On other systems only an attempt to run the file shows it.
#[cfg(not(unix))]
fn is_executable(_path: &Path) -> bool {
    true
}

/// Whether the system finds a program in PATH. Relative entries of PATH count from the working directory of the program.
fn is_in_path(program: &Path, cwd: &Path) -> bool {
    // Other systems search more places, and add endings. Without PATH the system uses its own default.
    if !cfg!(unix) {
        return true;
    }
    std::env::var_os("PATH").is_none_or(|path| {
        std::env::split_paths(&path).any(|directory| is_executable(&cwd.join(directory).join(program)))
    })
}

/// Returns the names of the files with one of the endings, in order.
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
