//! Several hosts that use one manifest, and manifests that are invalid.

use std::fs;

use mcp_protocol::{JsonObject, Tool};

use super::*;
use crate::catalog::ListedTool;

fn entries(tool: &str) -> Arc<ServerEntries> {
    let tools = vec![ListedTool::new(tool, Tool::new(tool, JsonObject::new()), None)];
    Arc::new(ServerEntries { tools, ..ServerEntries::default() })
}

fn server(name: &str, fingerprint: &str, tool: &str) -> (Arc<str>, Arc<str>, Arc<ServerEntries>) {
    (name.into(), fingerprint.into(), entries(tool))
}

#[tokio::test]
async fn hosts_with_one_manifest_keep_the_items_of_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("manifest.json");
    let hosts: Vec<Arc<Manifest>> = (0..8).map(|_| Arc::new(Manifest::read(path.clone()))).collect();
    let writing: Vec<_> = hosts
        .iter()
        .enumerate()
        .map(|(n, host)| {
            let host = Arc::clone(host);
            tokio::spawn(async move {
                let servers = [server("shared", &n.to_string(), "t"), server(&format!("s{n}"), "1", "t")];
                host.write(servers.into_iter()).await;
            })
        })
        .collect();
    for written in writing {
        written.await.unwrap();
    }
    let read = Manifest::read(path.clone());
    for n in 0..8 {
        assert!(read.find(&format!("s{n}"), "1").is_some(), "{n}");
        assert!(read.find("shared", &n.to_string()).is_some(), "definitions with one name do not replace each other");
    }
    assert!(read.find("s0", "2").is_none());
    let files: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files.len(), 2, "the manifest and its lock: {files:?}");
}

#[tokio::test]
async fn unchanged_items_are_not_written_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("manifest.json");
    let manifest = Manifest::read(path.clone());
    manifest.write([server("s", "1", "t")].into_iter()).await;
    fs::remove_file(&path).unwrap();
    manifest.write([server("s", "1", "t")].into_iter()).await;
    assert!(!path.exists());
    manifest.write([server("s", "1", "other")].into_iter()).await;
    assert_eq!(Manifest::read(path).find("s", "1").unwrap().tools[0].tool.name, "other");
    // Several changes need one task that writes.
    assert!(manifest.schedule() && !manifest.schedule());
    manifest.unschedule();
    assert!(manifest.schedule());
}

#[test]
fn an_unusable_file_has_no_items_and_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("manifest.json");
    for text in ["", "{ not JSON", "[]", r#"{ "version": 1, "servers": {} }"#, r#"{ "version": 2, "servers": 7 }"#] {
        fs::write(&path, text).unwrap();
        assert!(Manifest::read(path.clone()).stored.lock().is_empty(), "{text}");
        update(&path, vec![(key("s", "1"), entries("t"))]).unwrap();
        assert!(Manifest::read(path.clone()).find("s", "1").is_some(), "{text}");
    }
}

#[test]
fn the_number_of_stored_servers_is_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("manifest.json");
    let many = (0..SERVERS + 10).map(|n| (key("s", &format!("{n:05}")), entries("t")));
    update(&path, many.collect()).unwrap();
    assert_eq!(read(&path).len(), SERVERS);
}

#[tokio::test]
async fn items_of_former_definitions_are_not_kept_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("manifest.json");
    let manifest = Manifest::read(path.clone());
    for definition in ["1", "2", "3"] {
        manifest.write([server("s", definition, "t")].into_iter()).await;
    }
    assert_eq!(manifest.stored.lock().keys().collect::<Vec<_>>(), [&key("s", "3")]);
    assert_eq!(read(&path).len(), 3, "the file keeps the items of all definitions");
}

#[test]
fn a_file_that_is_too_large_loses_the_servers_that_were_stored_first() {
    let stored = |n: u64| (key("s", &n.to_string()), Stored { changed: n, entries: entries("t") });
    let all = || (0..40).map(stored).collect::<HashMap<_, _>>();
    let whole = bounded(all(), SERVERS, LARGEST).unwrap().len();
    let text = bounded(all(), SERVERS, whole as u64 / 2).unwrap();
    let file: File = serde_json::from_slice(&text).unwrap();
    assert!(text.len() <= whole / 2 && file.servers.len() >= 10, "{} of {whole}", text.len());
    let oldest = file.servers.values().map(|stored| stored.changed).min().unwrap();
    assert_eq!(oldest, 40 - file.servers.len() as u64, "the newest servers stay");
    let none: File = serde_json::from_slice(&bounded(all(), SERVERS, 1).unwrap()).unwrap();
    assert!(none.servers.is_empty());
}

#[cfg(unix)]
#[test]
fn a_device_at_the_path_does_not_block_the_reader() {
    assert!(read(Path::new("/dev/zero")).is_empty());
}
