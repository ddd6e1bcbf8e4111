//! Reads any bytes as a file of a content directory, or as a file of a host: pins, policies, a recording, the stored items of servers,
//! and approvals. The first byte selects the kind.
//!
//! A fault of a file is an error, and the server or the host starts without it. A replay of a recording ends. A host that reads stored
//! items offers valid names. A server has an approval only if the file has one for its fingerprint, and a later decision replaces it.
//! Placeholders: `{fingerprint}` is the fingerprint of the server of the approvals, `{key}` the key of the server of the items, and
//! `{stored}` a valid file of items.

#![no_main]

use std::{
    cell::OnceCell,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use fuzz::{expanded, fuzz_target, isolated};
use mcp_agent::{
    Host,
    config::{Approval, Approvals, ConfigFile, Environment, Scope, ServerDefinition},
    pins::PinFile,
    policy::Policy,
    record::Recording,
};
use mcp_client::{Client, Reconnect};
use mcp_server_content::{ContentDir, server_from_dir};
use mcp_server_core::{Server, tool};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::timeout;

const FILES: [&str; 6] = ["tools/t.toml", "tools/t.json", "prompts/p.md", "server.toml", "server.json", "pins.json"];
/// The kinds of the first byte: the files, a policy, a recording, stored items and approvals.
const KINDS: usize = FILES.len() + 4;
const LIMIT: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(600);

thread_local! {
    static DIRECTORY: OnceCell<TempDir> = const { OnceCell::new() };
    static STORED: OnceCell<String> = const { OnceCell::new() };
}

/// Returns the path of a file in the directory of the target.
fn path(name: &str) -> PathBuf {
    DIRECTORY.with(|cell| cell.get_or_init(|| tempfile::tempdir().unwrap()).path().join(name))
}

fn in_directory(name: &str, bytes: &[u8]) {
    let (root, file) = (path(""), path(name));
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, bytes).unwrap();
    if name == "pins.json" {
        if let Ok(pins) = PinFile::new(&file).load() {
            assert_eq!(PinFile::new(&file).load().unwrap(), pins);
        }
    } else if name.starts_with("server") {
        if let Err(error) = server_from_dir(&root) {
            assert!(error.path().starts_with(&root), "{error}");
        }
    } else {
        let (builder, errors) = ContentDir::new(&root).add_to(Server::builder("fuzz", "1"));
        let _: Server = builder.build();
        assert!(errors.iter().all(|error| error.path() == file && !error.reason().is_empty()), "{errors:?}");
    }
    fs::remove_file(&file).unwrap();
}

fn policy(text: &str) {
    if let Err(error) = Policy::parse("policy.toml", text) {
        assert!(error.line().is_none_or(|line| line <= text.split('\n').count()), "{error}");
    }
}

fn recording(text: &str) {
    let recording = match Recording::parse(text) {
        Ok(recording) => recording,
        Err(error) => {
            let lines = text.lines().count().max(1);
            return assert!(error.line().is_some_and(|line| (1..=lines).contains(&line)), "{error}");
        }
    };
    let servers = recording.servers();
    isolated(async {
        for server in servers.iter().take(2) {
            let builder = Client::builder("fuzz", "1")
                .connect_timeout(LIMIT)
                .idle_timeout(LIMIT)
                .total_timeout(LIMIT)
                .reconnect(Reconnect::never());
            let replay = async {
                let Ok(client) = builder.connect(recording.connector(server)).await else { return };
                let _ = client.call_tool("greet", ()).await;
                let _ = client.list_tools().await;
                client.close().await;
            };
            timeout(LONGEST, replay).await.expect("a replay ends");
        }
    });
    for difference in recording.differences().iter().chain(&recording.missing()) {
        assert!(!difference.to_string().is_empty());
    }
}

/// Returns the file of a host that has stored the items of a server.
fn stored() -> String {
    let file = path("stored.json");
    isolated(async {
        let server = Server::builder("s", "1").tool(tool("greet", async || "Hello!")).build();
        let host = Host::builder("fuzz", "1").manifest(&file).server("s", &server).start().await.unwrap();
        host.shutdown().await;
    });
    let text = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    text
}

fn items(bytes: &[u8]) {
    let file = path("items.json");
    let known = STORED.with(|cell| cell.get_or_init(stored).clone());
    let keys: Value = serde_json::from_str(&known).unwrap();
    let key = keys["servers"].as_object().unwrap().keys().next().unwrap().clone();
    let server = Server::builder("s", "1").tool(tool("greet", async || "Hello!")).build();
    fs::write(&file, expanded(bytes, &[("{stored}", &known), ("{key}", &key)])).unwrap();
    isolated(async {
        let host = Host::builder("fuzz", "1").start_limit(LIMIT).manifest(&file).server("s", &server);
        let host = timeout(LONGEST, host.start()).await.expect("a host starts").unwrap();
        let catalog = host.catalog();
        for (name, tool) in catalog.definitions() {
            let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
            assert!(name.len() <= 64 && name.bytes().all(is_safe) && name.starts_with("s__"), "{name}: {tool:?}");
            assert!(catalog.tool(name).is_ok(), "{name}");
        }
        let called = timeout(LONGEST, async { host.call("s__greet", ()).await }).await.expect("a call ends");
        if let Ok(result) = called {
            assert_eq!(result.text(), "Hello!");
        }
        timeout(LONGEST, host.shutdown()).await.expect("a host ends");
    });
    let _ = fs::remove_file(&file);
}

/// Returns a server of a project file.
fn project_server() -> ServerDefinition {
    let file = Path::new("/nonexistent/project/.mcp.json");
    let text = r#"{ "mcpServers": { "a": { "command": "server" } } }"#;
    ConfigFile::parse(file, text, Scope::Project, &Environment::default()).unwrap().servers.remove(0)
}

fn approvals(bytes: &[u8]) {
    let server = project_server();
    let fingerprint = server.origin.as_ref().unwrap().fingerprint.clone();
    let (directory, file) = (path("approvals"), path("approvals/approvals.json"));
    fs::create_dir_all(&directory).unwrap();
    let bytes = expanded(bytes, &[("{fingerprint}", &fingerprint)]);
    fs::write(&file, &bytes).unwrap();
    let approvals = Approvals::open(&directory);
    match approvals.of(&server) {
        Ok(found) => {
            let file: Value = serde_json::from_slice(&bytes).unwrap();
            let expected = match file["decisions"][&fingerprint]["approved"].as_bool() {
                Some(true) => Approval::Approved,
                Some(false) => Approval::Denied,
                None => Approval::Missing,
            };
            assert_eq!(found, expected);
            approvals.deny(&server).unwrap();
            assert_eq!(approvals.of(&server).unwrap(), Approval::Denied);
            approvals.approve(&server).unwrap();
            assert_eq!(approvals.of(&server).unwrap(), Approval::Approved);
        }
        Err(_) => assert!(approvals.approve(&server).is_err() && fs::read(&file).unwrap() == bytes),
    }
    fs::remove_file(&file).unwrap();
}

fuzz_target!(|data: &[u8]| {
    let Some((selected, bytes)) = data.split_first() else { return };
    let kind = usize::from(selected.wrapping_sub(b'a')) % KINDS;
    if let Some(name) = FILES.get(kind) {
        return in_directory(name, bytes);
    }
    match (kind - FILES.len(), std::str::from_utf8(bytes)) {
        (0, Ok(text)) => policy(text),
        (1, Ok(text)) => recording(text),
        (2, _) => items(bytes),
        (3, _) => approvals(bytes),
        _ => {}
    }
});
