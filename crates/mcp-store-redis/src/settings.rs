//! The check of the settings of a server: eviction, and the persistence of acknowledged writes.

use std::collections::HashMap;

use mcp_store::StoreError;
use redis::{FromRedisValue, aio::ConnectionLike, cmd};

/// The settings of a server, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    eviction: Option<String>,
    persistence: Option<Persistence>,
}

/// The writes that a crash of the server costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Persistence {
    /// Each write is on disk before it is acknowledged.
    Always,
    /// The append-only file, written each second.
    EverySecond,
    /// The append-only file, written when the system decides.
    System,
    /// The append-only file, with an unknown interval.
    Some,
    /// Snapshots alone.
    Snapshots,
    /// No append-only file, and unknown snapshots.
    Unlogged,
    /// Nothing on disk.
    Nothing,
}

impl Settings {
    /// Reads the settings by `CONFIG GET`, and by `INFO` if the server does not allow it.
    pub(crate) async fn read(connection: &mut impl ConnectionLike) -> Self {
        let mut config = cmd("CONFIG");
        config.arg("GET").arg(&["maxmemory-policy", "appendonly", "appendfsync", "save"]);
        match config.query_async::<HashMap<String, String>>(connection).await {
            Ok(config) if config.contains_key("maxmemory-policy") => return Self::from_config(&config),
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "redis does not allow CONFIG GET"),
        }
        let mut sections = String::new();
        for section in ["memory", "persistence"] {
            match cmd("INFO").arg(section).query_async::<redis::Value>(connection).await.map(String::from_redis_value) {
                Ok(Ok(text)) => sections.push_str(&text),
                Ok(Err(error)) => tracing::debug!(%error, "the reply of redis to INFO is not a text"),
                Err(error) => tracing::debug!(%error, "redis does not allow INFO"),
            }
        }
        Self::from_info(&sections)
    }

    /// Checks the eviction policy.
    ///
    /// # Errors
    /// [Invalid](StoreError::is_invalid) if the server evicts records that are in use.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        match self.eviction.as_deref() {
            Some("noeviction") | None => Ok(()),
            Some(policy) => Err(StoreError::invalid(format!(
                "the maxmemory-policy of redis is {policy} instead of noeviction, so that redis would drop records that are in use"
            ))),
        }
    }

    /// The warnings about these settings: each names the records that can be lost.
    pub(crate) fn warnings(&self) -> Vec<&'static str> {
        let mut warnings = Vec::new();
        if self.eviction.is_none() {
            warnings.push(
                "redis does not show its maxmemory-policy: if it is not noeviction, redis drops records that are in use",
            );
        }
        warnings.extend(match self.persistence {
            Some(Persistence::Nothing) => Some("redis stores nothing on disk: a crash of redis loses all records"),
            Some(Persistence::Unlogged) => Some(
                "redis has no append-only file: a crash of redis loses all writes since the last snapshot, and all records without snapshots",
            ),
            Some(Persistence::Snapshots) => Some(
                "redis stores snapshots alone: a crash of redis loses all writes since the last snapshot, often several minutes",
            ),
            Some(Persistence::System) => Some(
                "appendfsync of redis is no: a crash of its machine loses the writes of about the last 30 seconds",
            ),
            Some(Persistence::Always | Persistence::EverySecond | Persistence::Some) => None,
            None => Some("redis does not show its persistence: a crash of redis may lose acknowledged writes"),
        });
        warnings
    }

    /// The bounded loss that is usual, for a record of a lower level.
    pub(crate) fn note(&self) -> Option<&'static str> {
        match self.persistence {
            Some(Persistence::EverySecond) => {
                Some("appendfsync of redis is everysec: a crash of redis loses the writes of up to 2 seconds")
            }
            Some(Persistence::Some) => Some(
                "redis does not show appendfsync, because its user lacks +config|get: if it is not always, a crash of redis loses \
                 acknowledged writes",
            ),
            _ => None,
        }
    }

    fn from_config(config: &HashMap<String, String>) -> Self {
        let value = |name: &str| config.get(name).map(String::as_str);
        let persistence = match (value("appendonly"), value("appendfsync"), value("save")) {
            (Some("yes"), Some("always"), _) => Some(Persistence::Always),
            (Some("yes"), Some("everysec"), _) => Some(Persistence::EverySecond),
            (Some("yes"), Some("no"), _) => Some(Persistence::System),
            (Some("yes"), ..) => Some(Persistence::Some),
            (Some(_), _, Some("")) => Some(Persistence::Nothing),
            (Some(_), _, Some(_)) => Some(Persistence::Snapshots),
            _ => None,
        };
        Self { eviction: value("maxmemory-policy").map(str::to_owned), persistence }
    }

    fn from_info(info: &str) -> Self {
        let value = |name: &str| info.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'));
        let persistence = match value("aof_enabled") {
            Some("1") => Some(Persistence::Some),
            // `INFO` does not contain the settings of snapshots.
            Some(_) => Some(Persistence::Unlogged),
            None => None,
        };
        Self { eviction: value("maxmemory_policy").map(str::to_owned), persistence }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(pairs: &[(&str, &str)]) -> Settings {
        Settings::from_config(&pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn a_policy_that_evicts_is_rejected() {
        for policy in ["allkeys-lru", "volatile-ttl", "volatile-lru", "allkeys-random"] {
            let error = config(&[("maxmemory-policy", policy)]).check().unwrap_err();
            assert!(error.is_invalid() && error.to_string().contains(policy), "{error}");
        }
        assert!(config(&[("maxmemory-policy", "noeviction")]).check().is_ok());
        let info = Settings::from_info("# Memory\r\nmaxmemory_policy:allkeys-lfu\r\n");
        assert!(info.check().is_err());
        assert!(Settings::default().check().is_ok());
    }

    #[test]
    fn missing_persistence_names_the_loss() {
        let full = |pairs: &[(&str, &str)]| config(&[&[("maxmemory-policy", "noeviction")], pairs].concat());
        for (pairs, part, note) in [
            (&[("appendonly", "no"), ("appendfsync", "everysec"), ("save", "")][..], Some("loses all records"), None),
            (&[("appendonly", "no"), ("save", "3600 1")], Some("since the last snapshot"), None),
            (&[("appendonly", "yes"), ("appendfsync", "no")], Some("30 seconds"), None),
            (&[("appendonly", "yes"), ("appendfsync", "everysec")], None, Some("appendfsync of redis is everysec")),
            (&[("appendonly", "yes"), ("appendfsync", "always")], None, None),
            (&[], Some("does not show its persistence"), None),
        ] {
            let settings = full(pairs);
            let warnings = settings.warnings();
            assert_eq!(warnings.len(), usize::from(part.is_some()), "{pairs:?}: {warnings:?}");
            assert!(part.is_none_or(|part| warnings[0].contains(part)), "{pairs:?}: {warnings:?}");
            assert_eq!(settings.note().is_some(), note.is_some(), "{pairs:?}");
            assert!(note.is_none_or(|note| settings.note().unwrap().starts_with(note)), "{pairs:?}");
        }
        assert_eq!(Settings::from_info("").warnings().len(), 2);
        let unlogged = Settings::from_info("aof_enabled:0\r\nmaxmemory_policy:noeviction\r\n");
        assert!(unlogged.warnings()[0].starts_with("redis has no append-only file"), "{:?}", unlogged.warnings());
        let info = Settings::from_info("aof_enabled:1\r\nmaxmemory_policy:noeviction\r\n");
        assert_eq!(info.warnings().len(), 0);
        assert!(info.note().unwrap().starts_with("redis does not show appendfsync"), "{:?}", info.note());
    }
}
