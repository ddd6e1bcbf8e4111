//! A directory that becomes a server, or a part of one.

use std::path::Path;

use super::{ContentProblem, load::Loader};
use crate::{Server, ServerBuilder};

impl Server {
    /// A server made of a directory:
    ///
    /// - `tools/*.toml`, `tools/*.json`: manifests of tools, each of which runs a command;
    /// - `prompts/*.md`: prompts in Markdown, with front matter and places for arguments (`{name}`, `{?name? … }`);
    /// - `resources/`: files, served by a [`ResourceDir`](crate::ResourceDir) as `file:///…`;
    /// - `skills/`: skills, with feature `skills`;
    /// - `server.toml` or `server.json`: name, version, title, description and instructions of the server. Without it, or
    ///   a name in it, the server is called as the directory is.
    ///
    /// Each of them may be missing. A file that cannot be served is told to `tracing`, and the others are served;
    /// [`ServerBuilder::dir_report`] returns them. `docs/content.md` says what stands in the files.
    ///
    /// # Errors
    /// When the directory cannot be read or is none, or what it says of the server cannot be used.
    pub fn from_dir(path: impl AsRef<Path>) -> Result<Self, ContentProblem> {
        Self::from_dir_report(path).map(|(server, _)| server)
    }

    /// Like [`Server::from_dir`], with what could not be served.
    ///
    /// # Errors
    /// When the directory cannot be read or is none, or what it says of the server cannot be used.
    pub fn from_dir_report(path: impl AsRef<Path>) -> Result<(Self, Vec<ContentProblem>), ContentProblem> {
        let path = path.as_ref();
        let root = path.canonicalize().map_err(|error| ContentProblem::new(path, error))?;
        if !root.is_dir() {
            return Err(ContentProblem::new(path, "it is not a directory"));
        }
        let manifest = Loader::<()>::server(&root)?;
        if manifest.name.as_ref().is_some_and(|name| name.trim().is_empty()) {
            return Err(ContentProblem::new(&root, "`name` of the server is empty"));
        }
        let named = || root.file_name().map_or_else(|| "server".to_owned(), |name| name.to_string_lossy().into_owned());
        let version = manifest.version.unwrap_or_else(|| "0.0.0".to_owned());
        let mut builder = Self::builder(manifest.name.unwrap_or_else(named), version);
        if let Some(title) = manifest.title {
            builder = builder.title(title);
        }
        if let Some(text) = manifest.description {
            builder = builder.description(text);
        }
        if let Some(text) = manifest.instructions {
            builder = builder.instructions(text);
        }
        let (builder, problems) = builder.dir_report(&root);
        Ok((builder.build(), problems))
    }
}

impl<S: Clone + Send + Sync + 'static> ServerBuilder<S> {
    /// Adds the tools, prompts, resources and skills of a directory, as [`Server::from_dir`] lays them out. What cannot be
    /// served is told to `tracing`. Name and version are the builder's: `server.toml` and `server.json` are not read.
    pub fn dir(self, path: impl AsRef<Path>) -> Self {
        self.dir_report(path).0
    }

    /// Like [`ServerBuilder::dir`], with what could not be served. A directory that is missing, or is none, is one problem.
    pub fn dir_report(self, path: impl AsRef<Path>) -> (Self, Vec<ContentProblem>) {
        let loader = Loader::new(self, path.as_ref()).load();
        (loader.builder, loader.problems)
    }
}
