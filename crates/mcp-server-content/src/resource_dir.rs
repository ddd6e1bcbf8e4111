//! A directory whose files are resources.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use mcp_protocol::{Annotations, ReadResourceResult, timestamp};
use mcp_server_core::{
    Args, Completing, RegistrationError, ResourceRoute, TemplateRoute, ToolError,
    extension::{BackgroundWork, Registrar, ServerExtension, WeakServer},
    resource, template,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    listing::{self, Listing},
    mime,
    sandbox::{FileStamp, ReadError, Sandbox},
    uri::encode_path,
    watch::{Listed, Watched},
};

/// An extension that serves the files of a directory as resources.
///
/// The server lists the files, and reads each by a resource template when a client asks for it. A client cannot reach a
/// file outside of the directory, by no URI and by no symbolic link. The server follows links to files inside of the
/// directory, and refuses all others. It reads regular files only. It neither lists nor reads hidden files: files with a
/// name on their path that begins with a dot, and files behind a link to one.
///
/// In a Tokio runtime the server examines the directory every two seconds. It notifies clients when the list of files
/// changes, and subscribers of a file when that file changes.
///
/// # Example
/// ```
/// use std::time::Duration;
///
/// use mcp_server_content::ResourceDir;
/// use mcp_server_core::Server;
///
/// let dir = std::env::temp_dir();
/// let docs = ResourceDir::new(&dir)
///     .uri_prefix("docs://guide/")
///     .max_file_size(1024 * 1024)
///     .max_listed(100)
///     .watch_every(Duration::from_secs(5))
///     .name("guide")
///     .description("The files of the guide.");
/// let all = ResourceDir::new(&dir).uri_prefix("docs://all/").hidden_files().unwatched();
/// let server = Server::builder("docs", "1.0.0").extension(docs).extension(all).build();
/// # let _: Server = server;
/// ```
#[derive(Debug, Clone)]
#[must_use = "an extension does nothing until a server has it"]
pub struct ResourceDir {
    settings: Settings,
    /// The directory as one server watches it, after the registration.
    watched: Option<Watched>,
}

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    sandbox: Sandbox,
    prefix: String,
    max_file_size: u64,
    max_listed: usize,
    interval: Option<Duration>,
    name: String,
    description: Option<String>,
}

impl ResourceDir {
    /// Serves the files of a directory under URIs of `file:///` and their path in the directory.
    ///
    /// See the [example](Self#example).
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let settings = Settings {
            sandbox: Sandbox::new(path),
            prefix: "file:///".to_owned(),
            max_file_size: 4 * 1024 * 1024,
            max_listed: 1_000,
            interval: Some(Duration::from_secs(2)),
            name: "files".to_owned(),
            description: None,
        };
        Self { settings, watched: None }
    }

    /// Sets the text before the path in the URI of a file, for example `docs://guide/`. It has a scheme and no braces.
    ///
    /// See the [example](Self#example).
    pub fn uri_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.settings.prefix = prefix.into();
        self
    }

    /// Sets the largest size of a file, in bytes. The server does not list or read larger files. The default is 4 MiB.
    ///
    /// See the [example](Self#example).
    pub fn max_file_size(mut self, bytes: u64) -> Self {
        self.settings.max_file_size = bytes;
        self
    }

    /// Sets how many files the server lists. The default is 1,000.
    ///
    /// The server lists the first files of a walk in the order of the names. The walk enters a directory where its name
    /// comes, so that `a/b` is before `a.txt`. Clients can read the other files as well.
    ///
    /// See the [example](Self#example).
    pub fn max_listed(mut self, files: usize) -> Self {
        self.settings.max_listed = files;
        self
    }

    /// Serves hidden files as well. By default the server does not serve them.
    ///
    /// A file is hidden when its name, or the name of a directory on its path, begins with a dot. A link to a hidden file
    /// is hidden as well.
    ///
    /// See the [example](Self#example).
    pub fn hidden_files(mut self) -> Self {
        self.settings.sandbox = self.settings.sandbox.with_hidden();
        self
    }

    /// Sets the interval at which the server examines the directory for changes. The shortest interval is ten milliseconds.
    ///
    /// See the [example](Self#example).
    pub fn watch_every(mut self, interval: Duration) -> Self {
        self.settings.interval = Some(interval.max(Duration::from_millis(10)));
        self
    }

    /// Keeps the list of files as it is when the server starts.
    ///
    /// See the [example](Self#example).
    pub fn unwatched(mut self) -> Self {
        self.settings.interval = None;
        self
    }

    /// Sets the name of the resource template, for programs. The default is `files`.
    ///
    /// See the [example](Self#example).
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = name.into();
        self
    }

    /// Sets the description of the resource template, for the model.
    ///
    /// See the [example](Self#example).
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.settings.description = Some(text.into());
        self
    }

    /// Registers the template and the files. Returns the files that cannot be listed, each with the reason.
    pub(crate) fn register_files(
        &mut self,
        registrar: &mut Registrar<'_>,
    ) -> Result<Vec<(PathBuf, RegistrationError)>, RegistrationError> {
        let settings = Arc::new(self.settings.clone());
        let root = settings.sandbox.root().to_owned();
        let unreadable =
            |error| RegistrationError::new(format!("the resource directory `{}`: {error}", root.display()));
        let mut listing = settings.list().map_err(unreadable)?;
        let listed = Listed::default();
        let mut refused = Vec::new();
        if let Err(error) = registrar.resource_template(settings.template_route(&listed)) {
            refused.push((root.clone(), error));
        }
        // A file whose URI belongs to another resource is not listed: the watcher must not remove that resource.
        listing.retain(|path, stamp| match registrar.resource(settings.file_route(path, stamp)) {
            Ok(()) => true,
            Err(error) => {
                refused.push((root.join(path), error));
                false
            }
        });
        listed.replace(listing);
        self.watched = Some(Watched::new(settings, listed));
        Ok(refused)
    }
}

impl ServerExtension for ResourceDir {
    /// # Errors
    /// Returns an error when the directory cannot be read, or the URI of a file is taken or not valid.
    fn register(&mut self, registrar: &mut Registrar<'_>) -> Result<(), RegistrationError> {
        self.register_files(registrar)?.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
    }

    fn start(&self, server: WeakServer) -> Option<BackgroundWork> {
        Some(self.watched.clone()?.run(self.settings.interval?, server))
    }
}

impl Settings {
    pub(crate) fn uri(&self, path: &str) -> String {
        format!("{}{}", self.prefix, encode_path(path))
    }

    pub(crate) fn list(&self) -> std::io::Result<Listing> {
        listing::list(&self.sandbox, self.max_listed, self.max_file_size)
    }

    /// Returns the resource of a listed file.
    pub(crate) fn file_route(self: &Arc<Self>, path: &str, stamp: &FileStamp) -> ResourceRoute {
        let (settings, file) = (self.clone(), path.to_owned());
        let read = move || async move { settings.read(file).await };
        let mut route = resource(self.uri(path), read).name(path).size(stamp.size);
        if let Some(mime_type) = mime::of_name(path) {
            route = route.mime_type(mime_type);
        }
        if let Some(millis) = stamp.modified_millis() {
            let mut annotations = Annotations::default();
            annotations.last_modified = Some(timestamp::from_millis(millis));
            route = route.annotations(annotations);
        }
        route
    }

    fn template_route(self: &Arc<Self>, listed: &Listed) -> TemplateRoute {
        let (settings, listed) = (self.clone(), listed.clone());
        let read = move |Args(Captured { path }): Args<Captured>| async move { settings.read(path).await };
        let complete = move |typed: Completing| {
            let found = listed.beginning_with(&typed.value);
            async move { found }
        };
        let description = self.description.as_deref().unwrap_or("A file, by its path.");
        template(format!("{}{{+path}}", self.prefix), read)
            .name(&self.name)
            .description(description)
            .complete("path", complete)
    }

    /// Reads a file on a thread for blocking work.
    async fn read(self: Arc<Self>, path: String) -> Result<ReadResourceResult, ToolError> {
        let settings = self.clone();
        let name = path.clone();
        let bytes = tokio::task::spawn_blocking(move || settings.sandbox.read(&name, settings.max_file_size)).await?;
        match bytes {
            Ok(bytes) => Ok(ReadResourceResult::new(vec![mime::contents(&path, bytes)])),
            Err(ReadError::TooLarge(limit)) => Err(ToolError::new(format!("the file is larger than {limit} bytes"))),
            Err(ReadError::NotFound(error)) => {
                let root: &Path = self.sandbox.root();
                tracing::debug!(root = %root.display(), path, %error, "a file is not served");
                Err(ToolError::not_found())
            }
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct Captured {
    path: String,
}
