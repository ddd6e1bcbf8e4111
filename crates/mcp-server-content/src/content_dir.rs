//! A directory that describes a server, or a part of a server.

use std::path::{Path, PathBuf};

use mcp_protocol::{ProtocolVersion, ServerCapabilities};
use mcp_server_core::{
    RegistrationError, Server, ServerBuilder,
    extension::{BackgroundWork, Registrar, ServerExtension, WeakServer},
};

#[cfg(feature = "skills")]
use crate::Skills;
use crate::{
    ContentError, ResourceDir,
    error::ErrorReport,
    load::{self, Loader},
};

/// An extension that serves the tools, prompts, resources and skills of a directory.
///
/// The directory holds, each of them optional:
///
/// - `tools/*.toml`, `tools/*.json`: manifests of tools. Each tool runs a command.
/// - `prompts/*.md`: prompts in Markdown, with front matter and placeholders (`{name}`, `{?name? … }`).
/// - `resources/`: files that a [`ResourceDir`] serves as `file:///…`.
/// - `skills/`: skills, with feature `skills`.
///
/// The guide `docs/content.md` describes the files. A file that cannot be served is logged by `tracing`, and the server
/// serves the others. [`ContentDir::add_to`] returns the errors as well.
///
/// The name and the version of the server are those of the builder. [`server_from_dir`] reads them from the directory.
///
/// # Example
/// ```no_run
/// use mcp_server_content::ContentDir;
/// use mcp_server_core::Server;
///
/// let server = Server::builder("mine", "1.0.0").extension(ContentDir::new("content")).build();
/// # let _: Server = server;
/// ```
#[derive(Debug)]
#[must_use = "an extension does nothing until a server has it"]
pub struct ContentDir {
    root: PathBuf,
    errors: ErrorReport,
    parts: Parts,
}

/// The extensions for parts of the directory, after the registration.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) resources: Option<ResourceDir>,
    #[cfg(feature = "skills")]
    pub(crate) skills: Option<Skills>,
}

impl ContentDir {
    /// Serves the content of a directory.
    ///
    /// See the [example](Self#example).
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { root: path.into(), errors: ErrorReport::default(), parts: Parts::default() }
    }

    /// Adds the content of the directory to a builder. Returns the errors of the files that cannot be served.
    ///
    /// A missing directory is one error.
    ///
    /// ```no_run
    /// use mcp_server_content::ContentDir;
    /// use mcp_server_core::Server;
    ///
    /// let (builder, errors) = ContentDir::new("content").add_to(Server::builder("mine", "1.0.0"));
    /// for error in errors {
    ///     eprintln!("{}: {}", error.path().display(), error.reason());
    /// }
    /// let server = builder.build();
    /// # let _: Server = server;
    /// ```
    pub fn add_to<S: Clone + Send + Sync + 'static>(
        self,
        builder: ServerBuilder<S>,
    ) -> (ServerBuilder<S>, Vec<ContentError>) {
        let errors = self.errors.clone();
        (builder.extension(self), errors.take())
    }
}

impl ServerExtension for ContentDir {
    /// Registers all files that can be served. The others are logged, and are not an error of the registration.
    fn register(&mut self, registrar: &mut Registrar<'_>) -> Result<(), RegistrationError> {
        self.parts = Loader::new(registrar, &self.root, &self.errors).load();
        Ok(())
    }

    fn declare(&self, version: ProtocolVersion, capabilities: ServerCapabilities) -> ServerCapabilities {
        #[cfg(feature = "skills")]
        if let Some(skills) = &self.parts.skills {
            return skills.declare(version, capabilities);
        }
        let _ = version;
        capabilities
    }

    fn start(&self, server: WeakServer) -> Option<BackgroundWork> {
        self.parts.resources.as_ref()?.start(server)
    }
}

/// Makes a server of a directory: the content that [`ContentDir`] describes, and `server.toml` or `server.json`.
///
/// The server manifest holds the name, version, title, description and instructions of the server, each of them optional.
/// Without a name, the server has the name of the directory.
///
/// # Errors
/// Returns an error when the path is not a readable directory, or the server manifest is not valid.
///
/// ```no_run
/// let server = mcp_server_content::server_from_dir("content")?;
/// # let _: mcp_server_core::Server = server;
/// # Ok::<(), mcp_server_content::ContentError>(())
/// ```
pub fn server_from_dir(path: impl AsRef<Path>) -> Result<Server, ContentError> {
    server_from_dir_report(path).map(|(server, _)| server)
}

/// Makes a server of a directory like [`server_from_dir`]. Returns the errors of the files that cannot be served as well.
///
/// # Errors
/// Returns an error when the path is not a readable directory, or the server manifest is not valid.
///
/// ```no_run
/// let (server, errors) = mcp_server_content::server_from_dir_report("content")?;
/// assert!(errors.is_empty(), "{errors:?}");
/// # let _: mcp_server_core::Server = server;
/// # Ok::<(), mcp_server_content::ContentError>(())
/// ```
pub fn server_from_dir_report(path: impl AsRef<Path>) -> Result<(Server, Vec<ContentError>), ContentError> {
    let path = path.as_ref();
    let root = path.canonicalize().map_err(|error| ContentError::new(path, error))?;
    if !root.is_dir() {
        return Err(ContentError::new(path, "it is not a directory"));
    }
    let manifest = load::server_manifest(&root)?;
    if manifest.name.as_ref().is_some_and(|name| name.trim().is_empty()) {
        return Err(ContentError::new(&root, "`name` of the server is empty"));
    }
    let named = || root.file_name().map_or_else(|| "server".to_owned(), |name| name.to_string_lossy().into_owned());
    let version = manifest.version.unwrap_or_else(|| "0.0.0".to_owned());
    let mut builder = Server::builder(manifest.name.unwrap_or_else(named), version);
    if let Some(title) = manifest.title {
        builder = builder.title(title);
    }
    if let Some(text) = manifest.description {
        builder = builder.description(text);
    }
    if let Some(text) = manifest.instructions {
        builder = builder.instructions(text);
    }
    let (builder, errors) = ContentDir::new(root).add_to(builder);
    Ok((builder.build(), errors))
}
