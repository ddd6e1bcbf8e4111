//! Watches a configuration file, and reads it again after a change.

use std::{path::PathBuf, time::Duration};

use tokio::task::spawn_blocking;

use super::{
    code::Code,
    definition::ServerDefinition,
    environment::Environment,
    error::ConfigError,
    file::{ConfigFile, absolute, read_text},
    origin::Scope,
};

/// The default interval between two readings of a file.
const INTERVAL: Duration = Duration::from_secs(1);

/// Reads a configuration file at each interval.
///
/// The watcher compares the text of the file, because the times of some file systems are coarse. A file that another program
/// writes in several steps can be incomplete at one reading. The watcher then reports an error, and the complete file at a
/// later reading. A file that is missing is an error too.
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
    /// The text or the fault of the last reading. `None` before the first reading.
    last: Option<Result<String, (Code, String)>>,
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

    /// Waits for the next change of the file, and returns its servers. The first call returns at once.
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
                if last.as_ref() == Some(&text) {
                    return None;
                }
                let config = match &text {
                    Ok(text) => ConfigFile::parse(&file, text, scope, &environment),
                    Err(_) => ConfigFile::read(&file, scope, &environment),
                };
                Some((text, config))
            });
            if let Ok(Some((text, config))) = read.await {
                self.last = Some(text);
                return config;
            }
        }
    }
}
