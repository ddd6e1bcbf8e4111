//! Replays the transcripts of every revision over every transport.
//!
//! If `MCP_SCHEMAS` names the folder of the schemas, the tests check each message of the server against its revision.

mod fixture;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write as _,
    path::{Path, PathBuf},
};

use mcp_protocol::ProtocolVersion;
use mcp_test::{
    schemas::{ProtocolSchemas, SCHEMAS_VARIABLE},
    transcript::{self, Replay, Transcript, TransportKind},
};

/// Definitions that the transcripts do not show.
const NOT_SHOWN: &[&str] = &[
    "CancelledNotification",
    "ElicitationCompleteNotification",
    // Tasks.
    "CancelTaskResult",
    "CreateTaskResult",
    "GetTaskPayloadResult",
    "GetTaskResult",
    "ListTasksResult",
    "TaskStatusNotification",
    // Inputs of 2026-07-28.
    "InputRequiredResult",
    // A transcript cannot shut the server down.
    "SubscriptionsListenResult",
];

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts").join(name)
}

macro_rules! transcripts {
    ($($test:ident $file:literal)*) => {
        $(
            #[tokio::test]
            async fn $test() {
                transcript::run(file($file), fixture::server).await.unwrap();
            }
        )*
        const FILES: &[&str] = &[$($file),*];
    };
}

transcripts! {
    revision_2024_11_05 "2024-11-05.txt"
    revision_2025_03_26 "2025-03-26.txt"
    revision_2025_06_18 "2025-06-18.txt"
    revision_2025_11_25 "2025-11-25.txt"
    revision_2026_07_28 "2026-07-28.txt"
    both_eras_on_one_connection "both-eras.txt"
}

#[test]
fn every_transcript_is_run() {
    let mut found: Vec<String> = std::fs::read_dir(file(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".txt"))
        .collect();
    found.sort();
    assert_eq!(found, FILES);
}

#[tokio::test]
async fn messages_match_the_schemas_of_their_revisions() {
    let Some(schemas) = ProtocolSchemas::from_env().unwrap() else {
        print(&format!("SKIPPED: the messages were not checked, because {SCHEMAS_VARIABLE} names no folder"));
        return;
    };
    let mut seen: BTreeMap<ProtocolVersion, BTreeMap<String, usize>> = BTreeMap::new();
    let mut problems = Vec::new();
    for name in FILES {
        let transcript = Transcript::load(file(name)).unwrap();
        for transport in TransportKind::ALL {
            let replay = transcript.replay(&fixture::server(), *transport).await.unwrap();
            count(&schemas, name, &replay, &mut seen, &mut problems);
        }
    }
    let count = problems.len();
    problems.truncate(20);
    assert!(count == 0, "{count} messages are invalid, for example\n{}", problems.join("\n\n"));
    for &version in ProtocolVersion::ALL {
        let counts = seen.remove(&version).unwrap_or_default();
        let list: Vec<String> = counts.iter().map(|(definition, count)| format!("{definition} {count}")).collect();
        print(&format!("{version}: {}", list.join(", ")));
        let missing: BTreeSet<String> = schemas
            .definitions(version)
            .into_iter()
            .filter(|definition| !counts.contains_key(definition) && !NOT_SHOWN.contains(&definition.as_str()))
            .collect();
        assert!(missing.is_empty(), "{version}: the transcripts do not show {missing:?}");
    }
}

fn count(
    schemas: &ProtocolSchemas,
    name: &str,
    replay: &Replay,
    seen: &mut BTreeMap<ProtocolVersion, BTreeMap<String, usize>>,
    problems: &mut Vec<String>,
) {
    for message in &replay.messages {
        let definitions = match schemas.check(message) {
            Ok(definitions) => definitions,
            Err(error) => {
                problems.push(format!("{name}:{} over {}: {error}", message.line, replay.transport));
                continue;
            }
        };
        if let Some(version) = message.version {
            let counts = seen.entry(version).or_default();
            for definition in definitions {
                *counts.entry(definition).or_default() += 1;
            }
        }
    }
}

/// Prints to stderr past the capture of the test harness, because the log must show which checks ran.
fn print(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
