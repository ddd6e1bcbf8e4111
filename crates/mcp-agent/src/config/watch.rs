//! Watches a configuration file, and reads it again after a change.

use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use tokio::task::spawn_blocking;

use super::{
    code::Code,
    definition::ServerDefinition,
    environment::Environment,
    error::ConfigError,
    file::{ConfigFile, absolute, read_text},
    fingerprint::{Files, hash},
    origin::Scope,
};

/// The default interval between two readings of a file.
const INTERVAL: Duration = Duration::from_secs(1);
/// The largest number of files that the watcher follows besides the configuration file.
const FOLLOWED: usize = 64;
/// The largest file whose text is compared at each reading. The text of a larger file is read if its time or its size changes.
const SMALL: u64 = 64 << 10;

/// Reads a configuration file at each interval.
///
/// The watcher compares the text of the file, because the times of some file systems are coarse. A file that another program
/// writes in several steps can be incomplete at one reading. The watcher then reports an error, and the complete file at a
/// later reading. A file that is missing is an error too.
///
/// The watcher also follows the files that the entries name, such as `envFile` and `{file:path}`: the first 64 of them, in the order
/// of their paths. A change of such a file is a change of the configuration file.
///
/// ```no_run
/// use mcp_agent::config::{ConfigWatch, Environment, Scope};
///
/// # async fn example() {
/// let mut watch = ConfigWatch::new("/projects/demo/.mcp.json", Scope::Named, Environment::of_process());
/// let first = watch.next().await;
/// while let Ok(file) = watch.next().await {
///     println!("{} servers", file.servers.len());
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct ConfigWatch {
    file: PathBuf,
    scope: Scope,
    environment: Environment,
    interval: Duration,
    /// The last reading. `None` before the first one.
    last: Option<Reading>,
}

/// One reading of a configuration file.
#[derive(Debug, Clone)]
struct Reading {
    /// The text or the fault of the file.
    text: Result<String, (Code, String)>,
    followed: Vec<Followed>,
}

/// A file that an entry names.
#[derive(Clone)]
struct Followed {
    path: PathBuf,
    /// The hash of the text that the definitions contain. `None`: the file could not be read.
    hash: Option<String>,
    /// The time and the size at the last comparison.
    stamp: Option<(SystemTime, u64)>,
}

impl std::fmt::Debug for Followed {
    /// Omits the hash, because a short text can be a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Followed").field(&self.path).finish()
    }
}

impl Followed {
    fn all(files: &Files, of: &Path) -> Vec<Self> {
        if files.0.len() > FOLLOWED {
            tracing::warn!(file = %of.display(), files = files.0.len(), "changes of some files that the entries name are not followed");
        }
        let new =
            |(path, hash): (&PathBuf, &Option<String>)| Self { path: path.clone(), hash: hash.clone(), stamp: None };
        files.0.iter().take(FOLLOWED).map(new).collect()
    }

    /// Compares the file with its text in the definitions.
    fn has_changed(&mut self) -> bool {
        let stamp = std::fs::metadata(&self.path).ok().and_then(|found| Some((found.modified().ok()?, found.len())));
        let is_large = stamp.is_some_and(|(_, length)| length > SMALL);
        if is_large && stamp == self.stamp {
            return false;
        }
        self.stamp = stamp;
        read_text(&self.path).ok().as_deref().map(hash) != self.hash
    }
}

impl Reading {
    /// Returns whether a followed file has changed.
    fn has_changed(&mut self) -> bool {
        // A loop without `any`, which would stop at the first changed file: the stamps of all files are current.
        self.followed.iter_mut().filter_map(|file| file.has_changed().then_some(())).count() > 0
    }
}

/// The differences between two readings of a file.
///
/// ```
/// use mcp_agent::config::{ConfigDiff, ServerDefinition};
///
/// let old = [ServerDefinition::stdio("a", "a"), ServerDefinition::stdio("b", "b")];
/// let new = [ServerDefinition::stdio("b", "b").required(), ServerDefinition::stdio("c", "c")];
/// let diff = ConfigDiff::between(&old, &new);
/// assert_eq!((diff.added, diff.changed, diff.removed), (vec!["c".into()], vec!["b".into()], vec!["a".into()]));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigDiff {
    /// The names of new servers.
    pub added: Vec<String>,
    /// The names of servers with another definition.
    pub changed: Vec<String>,
    /// The names of servers that are no longer defined.
    pub removed: Vec<String>,
}

impl ConfigDiff {
    /// Compares the servers of two readings.
    #[must_use]
    pub fn between(old: &[ServerDefinition], new: &[ServerDefinition]) -> Self {
        let mut diff = Self::default();
        for server in new {
            match old.iter().find(|known| known.name == server.name) {
                None => diff.added.push(server.name.clone()),
                Some(known) if known != server => diff.changed.push(server.name.clone()),
                Some(_) => {}
            }
        }
        let is_gone = |server: &&ServerDefinition| new.iter().all(|known| known.name != server.name);
        diff.removed.extend(old.iter().filter(is_gone).map(|server| server.name.clone()));
        diff
    }

    /// Returns whether the readings have the same servers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

impl ConfigWatch {
    /// Returns the watcher of a file. It reads the file at once, and then each second. A relative path belongs to the current
    /// directory of the call.
    pub fn new(file: impl Into<PathBuf>, scope: Scope, environment: Environment) -> Self {
        Self { file: absolute(&file.into()), scope, environment, interval: INTERVAL, last: None }
    }

    /// Sets the time between two readings. It must be greater than zero. Default: 1 s.
    #[must_use]
    pub fn interval(mut self, time: Duration) -> Self {
        self.interval = time.max(Duration::from_millis(1));
        self
    }

    /// Waits for the next change of the file or of a file that its entries name, and returns its servers. The first call returns at
    /// once.
    ///
    /// A dropped future loses no change.
    ///
    /// # Errors
    /// The changed file cannot be read or is invalid. A host then keeps its servers, and waits for the next change.
    pub async fn next(&mut self) -> Result<ConfigFile, ConfigError> {
        loop {
            if self.last.is_some() {
                tokio::time::sleep(self.interval).await;
            }
            let (file, scope, environment) = (self.file.clone(), self.scope, self.environment.clone());
            let last = self.last.clone();
            let read = spawn_blocking(move || {
                let text = read_text(&file);
                if let Some(mut last) = last.filter(|last| last.text == text)
                    && !last.has_changed()
                {
                    return (last, None);
                }
                let config = match &text {
                    Ok(text) => ConfigFile::parse(&file, text, scope, &environment),
                    Err(_) => ConfigFile::read(&file, scope, &environment),
                };
                let followed = config.as_ref().map(|config| Followed::all(config.files(), &file)).unwrap_or_default();
                (Reading { text, followed }, Some(config))
            });
            if let Ok((reading, config)) = read.await {
                self.last = Some(reading);
                if let Some(config) = config {
                    return config;
                }
            }
        }
    }
}
