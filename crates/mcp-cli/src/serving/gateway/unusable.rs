//! The servers of a configuration file that a gateway cannot use. They are not servers of its host.

use std::{collections::HashMap, time::SystemTime};

use mcp_agent::config::{ConfigError, ServerDefinition};
use serde_json::{Value, json};

use super::status::seconds;
use crate::failure::Failure;

/// The servers that a gateway cannot use, and the other faults of its configuration file.
pub(super) struct Unusable {
    since: SystemTime,
    servers: Vec<UnusableServer>,
    faults: Vec<String>,
}

/// A server that a gateway cannot use.
struct UnusableServer {
    name: String,
    reason: String,
    /// The change that lets the gateway use the server.
    remedy: String,
}

impl Unusable {
    /// `faults` are those of the file, and `failures` those of its other entries.
    pub(super) fn new(
        servers: &[ServerDefinition],
        faults: &[ConfigError],
        failures: &HashMap<String, Failure>,
    ) -> Self {
        let mut unusable = Self { since: SystemTime::now(), servers: Vec::new(), faults: Vec::new() };
        for fault in faults {
            // A second entry with the name of a server is a fault of the file alone.
            let is_known = |name: &String| {
                servers.iter().any(|server| server.name == *name)
                    || unusable.servers.iter().any(|known| known.name == *name)
            };
            match fault.server.as_ref().filter(|name| !is_known(name)) {
                Some(name) => unusable.servers.push(UnusableServer {
                    name: name.clone(),
                    reason: fault.to_string(),
                    remedy: format!("{}; then start the gateway again", fault.remedy),
                }),
                None => unusable.faults.push(fault.to_string()),
            }
        }
        let failed = servers.iter().filter_map(|server| Some((&server.name, failures.get(&server.name)?)));
        unusable.servers.extend(failed.map(|(name, failure)| UnusableServer {
            name: name.clone(),
            reason: failure.to_string(),
            remedy: "correct the entry; then start the gateway again".to_owned(),
        }));
        unusable
    }

    /// Returns the number of servers that the gateway cannot use.
    pub(super) fn count(&self) -> usize {
        self.servers.len()
    }

    /// Returns the faults of the file that concern no server.
    pub(super) fn faults(&self) -> &[String] {
        &self.faults
    }

    /// Returns the servers for the status.
    pub(super) fn states(&self) -> impl Iterator<Item = Value> {
        // The gateway does not start without a required server.
        self.servers.iter().map(|UnusableServer { name, reason, remedy }| {
            json!({
                "name": name,
                "state": "unusable",
                "since": seconds(self.since),
                "reason": reason,
                "remedy": remedy,
                "tools": 0,
                "estimatedTokens": 0,
                "required": false,
                "diagnostics": [],
                "notes": [],
            })
        })
    }
}
