//! Reads any bytes as a file of a content directory, or as a file of a host: pins and policies. The first byte selects the kind.
//!
//! A fault of a file is an error, and the server starts without it.

#![no_main]

use std::{cell::OnceCell, fs};

use fuzz::fuzz_target;
use mcp_agent::{pins::PinFile, policy::Policy};
use mcp_server_content::{ContentDir, server_from_dir};
use mcp_server_core::Server;
use tempfile::TempDir;

const FILES: [&str; 6] = ["tools/t.toml", "tools/t.json", "prompts/p.md", "server.toml", "server.json", "pins.json"];

thread_local! {
    static DIRECTORY: OnceCell<TempDir> = const { OnceCell::new() };
}

fn in_directory(name: &str, bytes: &[u8]) {
    DIRECTORY.with(|cell| {
        let root = cell.get_or_init(|| tempfile::tempdir().unwrap()).path();
        let file = root.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, bytes).unwrap();
        if name == "pins.json" {
            if let Ok(pins) = PinFile::new(&file).load() {
                assert_eq!(PinFile::new(&file).load().unwrap(), pins);
            }
        } else if name.starts_with("server") {
            if let Err(error) = server_from_dir(root) {
                assert!(error.path().starts_with(root), "{error}");
            }
        } else {
            let (builder, errors) = ContentDir::new(root).add_to(Server::builder("fuzz", "1"));
            let _: Server = builder.build();
            assert!(errors.iter().all(|error| error.path() == file && !error.reason().is_empty()), "{errors:?}");
        }
        fs::remove_file(&file).unwrap();
    });
}

fuzz_target!(|data: &[u8]| {
    let Some((selected, bytes)) = data.split_first() else { return };
    match FILES.get(usize::from(selected.wrapping_sub(b'a')) % (FILES.len() + 1)) {
        Some(name) => in_directory(name, bytes),
        None => {
            let Ok(text) = std::str::from_utf8(bytes) else { return };
            if let Err(error) = Policy::parse("policy.toml", text) {
                assert!(error.line().is_none_or(|line| line <= text.split('\n').count()), "{error}");
            }
        }
    }
});
