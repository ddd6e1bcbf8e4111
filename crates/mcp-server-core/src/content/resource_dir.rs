//! A directory whose files are resources.

use std::{path::PathBuf, sync::Arc, time::Duration};

use mcp_protocol::{Annotations, ReadResourceResult};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    encode_path,
    listing::{self, Listing},
    mime,
    sandbox::{FileStamp, ReadError, Sandbox},
    watch::{Known, Watched},
};
use crate::{
    Args, Completing, RegistrationError, ResourceRoute, ServerBuilder, TemplateRoute, ToolError, resource,
    tasks::timestamp, template,
};

/// A directory whose files are resources: what lies in it is listed, and can be read by a resource template.
///
/// A file is read when it is asked for. Nothing outside of the directory can be reached, whatever a URI says and whatever
/// symbolic links lie in the directory: links that lead to files beneath it are followed, all others are not. Only plain
/// files are read. Names that begin with a dot are neither listed nor read, and neither is what a link to them leads to.
///
/// While the server runs in a Tokio runtime the directory is looked at every two seconds: clients are told when files come
/// and go, and of each listed file that changed.
///
/// ```
/// use mcp_server_core::{ResourceDir, Server};
///
/// let dir = std::env::temp_dir();
/// let docs = ResourceDir::new(dir).uri_prefix("docs://guide/").max_file_size(1024 * 1024);
/// let server = Server::builder("docs", "1.0.0").resource_dir(docs).build();
/// # let _: Server = server;
/// ```
#[derive(Debug, Clone)]
#[must_use = "a directory is served by a server"]
pub struct ResourceDir {
    sandbox: Sandbox,
    prefix: String,
    max_file_size: u64,
    max_listed: usize,
    interval: Option<Duration>,
    name: String,
    description: Option<String>,
}

impl ResourceDir {
    /// The files of a directory, as `file:///` and their path in it.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            sandbox: Sandbox::new(path),
            prefix: "file:///".to_owned(),
            max_file_size: 4 * 1024 * 1024,
            max_listed: 1_000,
            interval: Some(Duration::from_secs(2)),
            name: "files".to_owned(),
            description: None,
        }
    }

    /// What stands before a path in the URI of a file: `docs://guide/`. It has a scheme, and no braces.
    pub fn uri_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// The most bytes of a file that is listed and read. 4 MiB by default.
    pub fn max_file_size(mut self, bytes: u64) -> Self {
        self.max_file_size = bytes;
        self
    }

    /// The most files that are listed: the first ones of a walk that takes each directory's names in order and goes into a
    /// directory where its name comes, so that `a/b` is before `a.txt`. 1,000 by default. Others can be read all the same.
    pub fn max_listed(mut self, files: usize) -> Self {
        self.max_listed = files;
        self
    }

    /// Whether files are served whose name, or whose directory's name, begins with a dot, also through links of another
    /// name. Not by default.
    pub fn hidden_files(mut self, on: bool) -> Self {
        self.sandbox = self.sandbox.hidden(on);
        self
    }

    /// How often the directory is looked at for changes; ten milliseconds at least.
    pub fn watch_every(mut self, interval: Duration) -> Self {
        self.interval = Some(interval.max(Duration::from_millis(10)));
        self
    }

    /// The directory is not looked at for changes: the list stays as it was at the start.
    pub fn unwatched(mut self) -> Self {
        self.interval = None;
        self
    }

    /// The name of the resource template, for programs. `files` by default.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// What the files are, for the model: the description of the resource template.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = Some(text.into());
        self
    }

    pub(super) fn interval(&self) -> Option<Duration> {
        self.interval
    }

    pub(super) fn uri(&self, path: &str) -> String {
        format!("{}{}", self.prefix, encode_path(path))
    }

    pub(super) fn list(&self) -> std::io::Result<Listing> {
        listing::list(&self.sandbox, self.max_listed, self.max_file_size)
    }

    /// A listed file.
    pub(super) fn file_route<S>(self: &Arc<Self>, path: &str, stamp: &FileStamp) -> ResourceRoute<S>
    where
        S: Clone + Send + Sync + 'static,
    {
        let (dir, file) = (self.clone(), path.to_owned());
        let read = move || async move { dir.read(file).await };
        let mut route = resource(self.uri(path), read).name(path).size(stamp.size);
        if let Some(mime_type) = mime::of_name(path) {
            route = route.mime_type(mime_type);
        }
        if let Some(millis) = stamp.modified_millis() {
            let mut annotations = Annotations::default();
            annotations.last_modified = Some(timestamp(millis));
            route = route.annotations(annotations);
        }
        route
    }

    fn template_route<S>(self: &Arc<Self>, known: &Known) -> TemplateRoute<S>
    where
        S: Clone + Send + Sync + 'static,
    {
        let (reading, known) = (self.clone(), known.clone());
        let read = move |Args(Captured { path }): Args<Captured>| async move { reading.read(path).await };
        let complete = move |typed: Completing| {
            let found = known.beginning_with(&typed.value);
            async move { found }
        };
        let route = template(format!("{}{{+path}}", self.prefix), read).name(&self.name).complete("path", complete);
        match &self.description {
            Some(text) => route.description(text),
            None => route.description("A file, by its path."),
        }
    }

    /// Reads a file, off the threads that serve everybody.
    async fn read(self: Arc<Self>, path: String) -> Result<ReadResourceResult, ToolError> {
        let dir = self.clone();
        let name = path.clone();
        let bytes = tokio::task::spawn_blocking(move || dir.sandbox.read(&name, dir.max_file_size)).await?;
        match bytes {
            Ok(bytes) => Ok(ReadResourceResult::new(vec![mime::contents(&path, bytes)])),
            Err(ReadError::TooLarge(limit)) => Err(ToolError::new(format!("the file is larger than {limit} bytes"))),
            Err(ReadError::NotFound(error)) => {
                tracing::debug!(root = %self.sandbox.root().display(), path, %error, "a file is not served");
                Err(ToolError::not_found())
            }
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct Captured {
    path: String,
}

impl<S: Clone + Send + Sync + 'static> ServerBuilder<S> {
    /// Serves the files of a directory as resources.
    ///
    /// # Panics
    /// When the directory cannot be read, or a URI is taken: see [`ServerBuilder::try_resource_dir`].
    #[track_caller]
    pub fn resource_dir(self, dir: ResourceDir) -> Self {
        crate::builder::accept(self.try_resource_dir(dir))
    }

    /// Serves the files of a directory as resources.
    ///
    /// # Errors
    /// When the directory cannot be read, or a URI is taken or not a URI.
    pub fn try_resource_dir(mut self, dir: ResourceDir) -> Result<Self, RegistrationError> {
        match self.add_resource_dir(dir)?.into_iter().next() {
            Some((_, error)) => Err(error),
            None => Ok(self),
        }
    }

    /// Adds what can be added, and returns the other files, with why each of them is not listed.
    pub(super) fn add_resource_dir(
        &mut self,
        dir: ResourceDir,
    ) -> Result<Vec<(PathBuf, RegistrationError)>, RegistrationError> {
        let root = dir.sandbox.root().to_owned();
        let mut listing = dir
            .list()
            .map_err(|error| RegistrationError::new(format!("the resource directory `{}`: {error}", root.display())))?;
        let dir = Arc::new(dir);
        let known = Known::default();
        let mut refused = Vec::new();
        if let Err(error) = self.add_resource_template(dir.template_route(&known)) {
            refused.push((root.clone(), error));
        }
        // What is not listed is somebody else's, and must not go when the file does.
        listing.retain(|path, stamp| match self.add_resource(dir.file_route(path, stamp)) {
            Ok(()) => true,
            Err(error) => {
                refused.push((root.join(path), error));
                false
            }
        });
        known.replace(listing);
        self.config.watched.push(Watched::new(dir, known));
        Ok(refused)
    }
}
