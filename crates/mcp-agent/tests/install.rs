//! Installation and uninstallation in the files of all clients: bytes, links, permissions.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use mcp_agent::{
    config::{ConfigFile, Endpoint, Environment, Format, HttpTransport, Scope, ServerDefinition},
    install::{Edit, Installer},
};

fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("install-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

fn local() -> ServerDefinition {
    ServerDefinition::stdio("git \"x\"", "git-mcp").args(["--repo", "C:\\a b", "é"]).env("TOKEN", "t0ken")
}

fn remote() -> ServerDefinition {
    ServerDefinition::http("search", "https://search.example/mcp").header("X-Key", "k")
}

/// The file of a format in a directory that stands for the home directory.
fn file_of(format: Format, home: &Path) -> PathBuf {
    let file = format.user_file(&Environment::default().home(home)).unwrap();
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    file
}

fn servers(file: &Path) -> Vec<ServerDefinition> {
    let config =
        ConfigFile::read(file, Scope::Named, &Environment::default()).unwrap_or_else(|error| panic!("{error}"));
    assert!(config.errors.is_empty(), "{:?}", config.errors);
    config.servers
}

/// Texts with the key `KEY`: comments, line ends, trailing commas and white space of many kinds.
const TEXTS: &[&str] = &[
    "{}",
    "{ }\n",
    "{\n}\n",
    "\u{feff}{}\r\n",
    "{\"KEY\":{}}",
    "{\"other\":1,\"KEY\":{\"a\":{\"command\":[\"a\"]}}}",
    "{\n  \"KEY\": {}\n}\n",
    "{\n  \"KEY\": {\n  }\n}",
    "{\n  \"KEY\": { /* none yet */ }\n}",
    "{\n  \"KEY\": {\n    // none yet\n  }\n}\n",
    "{\r\n\t\"other\": [1, 2],\r\n\t\"KEY\": {\r\n\t\t\"a\": {\"command\": [\"a\"]}\r\n\t}\r\n}\r\n",
    "// head\n{\n    /* é */ \"KEY\": {\n        \"a\": {\"command\": [\"a\"]}, // about a, with a comma\n    },\n    \"z\": null,\n}\n// tail",
    "{\n  \"KEY\": {\n    \"a\": {\"command\": [\"a\"]} // about a\n    // about nothing\n  }\n}\n",
    "{\n  \"KEY\": {\n\n    \"a\": {\"command\": [\"a\"]}  /* wide */  ,  \n\n  }\n\n}\n",
    "{\n  \"KEY\": {\"a\": {\"command\": [\"a\"]}, \"b\": {\"command\": [\"b\"]}}\n}\n",
    "{\n  \"other\": \"// no comment, {}\"\n}\n",
];

#[test]
fn an_uninstallation_restores_the_bytes_of_each_format() {
    for format in Format::ALL.iter().copied().filter(|format| format.is_editable() && *format != Format::Codex) {
        let home = directory(format.name());
        let file = file_of(format, &home);
        let key = match format {
            Format::VsCode => "servers",
            Format::Zed => "context_servers",
            Format::OpenCode | Format::Crush => "mcp",
            Format::Agents => "KEY",
            _ => "mcpServers",
        };
        // Formats with the same form of a file differ in their keys and entries only.
        let has_own_form = matches!(format, Format::Cursor | Format::OpenCode | Format::Agents);
        for text in TEXTS.iter().enumerate().filter(|(index, _)| has_own_form || index % 5 == 0).map(|(_, text)| text) {
            // The flat file of agents has no key, and its members are servers.
            if format == Format::Agents && (text.contains("KEY") || text.contains("other")) {
                continue;
            }
            let mut text = text.replace("KEY", key);
            if !matches!(format, Format::OpenCode) {
                text = text.replace("[\"a\"]", "\"a\"").replace("[\"b\"]", "\"b\"");
            }
            for with_record in [true, false] {
                let installer = Installer::new(home.join("state"));
                let mut added = vec![local()];
                if format != Format::ClaudeDesktop {
                    added.push(remote());
                }
                fs::write(&file, &text).unwrap();
                // A file with other members only does not define servers yet.
                let read = ConfigFile::read(&file, Scope::Named, &Environment::default());
                let before = read.map_or(0, |config| config.servers.len());
                for server in &added {
                    assert_eq!(installer.install(format, &file, server).unwrap(), Edit::Written, "{format:?} {text:?}");
                }
                let installed = fs::read_to_string(&file).unwrap();
                let found = servers(&file);
                assert_eq!(found.len(), before + added.len(), "{installed}");
                check(&found, &added);
                if text.contains("\r\n") {
                    assert!(!installed.replace("\r\n", "").contains('\n'), "{installed:?}");
                }
                assert_eq!(comments(&installed), comments(&text), "{installed}");
                if !with_record {
                    fs::remove_dir_all(home.join("state")).unwrap();
                }
                for server in added.iter().rev() {
                    installer
                        .uninstall(format, &file, &server.name)
                        .unwrap_or_else(|error| panic!("{error}: {installed}"));
                }
                let after = fs::read_to_string(&file).unwrap();
                if with_record {
                    assert_eq!(after, text, "{format:?}: {installed}");
                } else {
                    // Without a record, the servers and the comments are those of the file before.
                    assert_eq!(servers(&file).len(), before, "{after}");
                    assert_eq!(comments(&after), comments(&text), "{installed}\n{after}");
                }
            }
        }
        fs::remove_dir_all(home).unwrap();
    }
}

/// Returns the comments of a text, except for those inside of strings.
fn comments(text: &str) -> Vec<&str> {
    [
        "// head",
        "/* é */",
        "// about a, with a comma",
        "// tail",
        "// about a\n",
        "// about nothing",
        "/* wide */",
        "/* none yet */",
        "// none yet",
    ]
    .into_iter()
    .filter(|comment| text.contains(*comment))
    .collect()
}

fn check(found: &[ServerDefinition], added: &[ServerDefinition]) {
    for server in added {
        let found = found.iter().find(|found| found.name == server.name).unwrap();
        match (&found.endpoint, &server.endpoint) {
            (Endpoint::Stdio(found), Endpoint::Stdio(server)) => assert_eq!(found, server),
            (Endpoint::Http(found), Endpoint::Http(server)) => {
                assert_eq!((&found.url, &found.headers), (&server.url, &server.headers));
            }
            endpoints => panic!("{endpoints:?}"),
        }
    }
}

#[test]
fn an_uninstallation_restores_the_bytes_of_codex() {
    let home = directory("codex-toml");
    let file = file_of(Format::Codex, &home);
    for text in [
        "",
        "model = \"x\" # best\n",
        "model = \"x\"",
        "# head\r\n[mcp_servers.a]\r\ncommand = \"a\" # about a\r\n\r\n[profiles.b]\r\nx = 1\r\n",
        "[mcp_servers]\n\n[mcp_servers.a]\ncommand = \"a\"\n\n\n# tail",
        "[[hooks]]\nx = 1\n",
    ] {
        for with_record in [true, false] {
            let installer = Installer::new(home.join("state"));
            fs::write(&file, text).unwrap();
            for server in [local(), remote()] {
                installer.install(Format::Codex, &file, &server).unwrap();
            }
            let installed = fs::read_to_string(&file).unwrap();
            assert!(installed.starts_with(text), "{installed}");
            check(&servers(&file), &[local(), remote()]);
            if !with_record {
                fs::remove_dir_all(home.join("state")).unwrap();
            }
            for server in [remote(), local()] {
                installer.uninstall(Format::Codex, &file, &server.name).unwrap();
            }
            let after = fs::read_to_string(&file).unwrap();
            if with_record {
                assert_eq!(after, text);
            } else {
                assert_eq!(after.trim_end(), text.trim_end(), "{installed:?}");
            }
        }
    }
    // An inline table cannot get a new table.
    let inline = "mcp_servers = { a = { command = \"a\" } }\n";
    fs::write(&file, inline).unwrap();
    let error = Installer::new(home.join("state")).install(Format::Codex, &file, &local()).unwrap_err();
    assert_eq!(error.code.as_str(), "not-editable");
    assert_eq!(fs::read_to_string(&file).unwrap(), inline);
    fs::remove_dir_all(home).unwrap();
}

#[test]
fn the_order_of_uninstallations_and_other_edits_do_not_matter() {
    let home = directory("order");
    let file = file_of(Format::Cursor, &home);
    let installer = Installer::new(home.join("state"));
    let text = "{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"a\" } // first\n  }\n}\n";
    fs::write(&file, text).unwrap();
    installer.install(Format::Cursor, &file, &local()).unwrap();
    installer.install(Format::Cursor, &file, &remote()).unwrap();
    installer.uninstall(Format::Cursor, &file, &local().name).unwrap();
    installer.uninstall(Format::Cursor, &file, &remote().name).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), text);

    installer.install(Format::Cursor, &file, &remote()).unwrap();
    let edited = fs::read_to_string(&file).unwrap().replace("// first", "// one");
    fs::write(&file, edited).unwrap();
    installer.uninstall(Format::Cursor, &file, "search").unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), text.replace("// first", "// one"));
    fs::remove_dir_all(home).unwrap();
}

#[test]
fn a_new_file_is_created_and_removed() {
    for format in Format::ALL.iter().copied().filter(|format| format.is_editable()) {
        let home = directory(&format!("new-{}", format.name()));
        let file = format.user_file(&Environment::default().home(&home)).unwrap();
        let installer = Installer::new(home.join("state"));
        installer.install(format, &file, &local()).unwrap();
        check(&servers(&file), &[local()]);
        installer.uninstall(format, &file, &local().name).unwrap();
        assert!(!file.exists(), "{format:?}");
        fs::remove_dir_all(home).unwrap();
    }
}

#[test]
fn yaml_clients_get_a_text_that_is_valid_and_complete() {
    for format in [Format::Goose, Format::Continue] {
        let home = directory(&format!("yaml-{}", format.name()));
        let file = file_of(format, &home);
        let installer = Installer::new(home.join("state"));
        for server in [local(), remote()] {
            let Edit::Manual(text) = installer.install(format, &file, &server).unwrap() else { panic!("{format:?}") };
            assert!(!file.exists());
            fs::write(&file, &text).unwrap();
            check(&servers(&file), std::slice::from_ref(&server));
            let error = installer.install(format, &file, &server).unwrap_err();
            assert_eq!(error.code.as_str(), "already-installed");
            assert!(matches!(installer.uninstall(format, &file, &server.name).unwrap(), Edit::Manual(_)));
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
            fs::remove_file(&file).unwrap();
        }
        fs::remove_dir_all(home).unwrap();
    }
}

#[test]
fn files_that_an_edit_could_damage_do_not_change() {
    let home = directory("refused");
    let installer = Installer::new(home.join("state"));
    let install = |file: &Path| installer.install(Format::Cursor, file, &local()).unwrap_err().code.as_str();
    let text = "{\"mcpServers\": {\"search\": {\"url\": \"https://x.example/\"}}}\n";
    let target = home.join("target.json");
    fs::write(&target, text).unwrap();
    #[cfg(unix)]
    {
        let link = home.join("link.json");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert_eq!(install(&link), "symlink");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let broken = home.join("broken.json");
        std::os::unix::fs::symlink(home.join("none.json"), &broken).unwrap();
        assert_eq!(install(&broken), "symlink");
        assert!(!home.join("none.json").exists());
        assert_eq!(installer.uninstall(Format::Cursor, &link, "search").unwrap_err().code.as_str(), "symlink");
    }
    let read_only = home.join("read-only.json");
    fs::write(&read_only, text).unwrap();
    let writable = fs::metadata(&read_only).unwrap().permissions();
    let mut permissions = writable.clone();
    permissions.set_readonly(true);
    fs::set_permissions(&read_only, permissions).unwrap();
    assert_eq!(install(&read_only), "read-only");
    assert_eq!(installer.uninstall(Format::Cursor, &read_only, "search").unwrap_err().code.as_str(), "read-only");
    fs::set_permissions(&read_only, writable).unwrap();
    for (name, broken, code) in [
        ("syntax.json", "{\"mcpServers\": {", "syntax"),
        ("list.json", "{\"mcpServers\": []}", "not-editable"),
        ("root.json", "[]", "not-editable"),
    ] {
        let file = home.join(name);
        fs::write(&file, broken).unwrap();
        assert_eq!(install(&file), code, "{name}");
        assert_eq!(fs::read_to_string(&file).unwrap(), broken);
    }
    for file in [&target, &read_only] {
        assert_eq!(fs::read_to_string(file).unwrap(), text);
    }
    assert_eq!(installer.uninstall(Format::Cursor, &target, "none").unwrap_err().code.as_str(), "unknown-server");
    assert_eq!(installer.install(Format::Cursor, &target, &remote()).unwrap_err().code.as_str(), "already-installed");
    assert_eq!(
        installer.uninstall(Format::Cursor, &home.join("x.json"), "a").unwrap_err().code.as_str(),
        "unknown-server"
    );
    let leftovers: Vec<_> = fs::read_dir(&home)
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().ends_with(".tmp"))
        .collect();
    assert!(leftovers.is_empty(), "{leftovers:?}");
    fs::remove_dir_all(home).unwrap();
}

#[cfg(unix)]
#[test]
fn an_edit_keeps_the_permissions_of_the_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = directory("permissions");
    let file = home.join("mcp.json");
    let installer = Installer::new(home.join("state"));
    fs::write(&file, "{}").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    installer.install(Format::Cursor, &file, &local()).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    let records = fs::read_dir(home.join("state/installs")).unwrap().flatten();
    let records: Vec<_> = records.filter(|record| record.file_name() != "lock").collect();
    assert_eq!(records[0].metadata().unwrap().permissions().mode() & 0o077, 0);
    fs::remove_dir_all(home).unwrap();
}

#[test]
fn a_setting_that_the_entry_would_lose_is_unsupported() {
    let directory = directory("lost");
    let installer = Installer::new(directory.join("state"));
    let changes: [fn(&mut ServerDefinition); 9] = [
        |server| server.required = true,
        |server| server.enabled = false,
        |server| server.call_timeout = Some(std::time::Duration::from_secs(1)),
        |server| server.allowed_tools = Some(Vec::new()),
        |server| server.denied_tools = vec!["x".to_owned()],
        |server| server.asking_tools = vec!["x".to_owned()],
        |server| match &mut server.endpoint {
            Endpoint::Stdio(stdio) => drop(stdio.inherited_env.insert("PATH".to_owned())),
            Endpoint::Http(http) => http.oauth_client_id = Some("id".to_owned()),
            _ => {}
        },
        |server| match &mut server.endpoint {
            Endpoint::Http(http) => http.oauth_redirect_port = Some(8123),
            _ => server.description = Some("x".to_owned()),
        },
        |server| server.description = Some("x".to_owned()),
    ];
    let file = directory.join("mcp.json");
    for (index, change) in changes.into_iter().enumerate() {
        for mut server in [local(), remote()] {
            change(&mut server);
            let error = installer.install(Format::Cursor, &file, &server).unwrap_err();
            assert_eq!(error.code.as_str(), "unsupported", "{index}");
            assert!(!file.exists());
        }
    }
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn the_transport_of_an_entry_is_that_of_the_definition() {
    let directory = directory("transport");
    let installer = Installer::new(directory.join("state"));
    let mut server = remote();
    if let Endpoint::Http(http) = &mut server.endpoint {
        http.transport = HttpTransport::Sse;
    }
    for format in [Format::Portable, Format::VsCode, Format::Cline] {
        let file = directory.join(format!("{}.json", format.name()));
        installer.install(format, &file, &server).unwrap();
        assert!(fs::read_to_string(&file).unwrap().contains("\"type\": \"sse\""), "{}", format.name());
    }
    for format in [Format::Cursor, Format::Codex, Format::OpenCode] {
        let error = installer.install(format, &directory.join("none"), &server).unwrap_err();
        assert_eq!(error.code.as_str(), "unsupported", "{}", format.name());
    }
    fs::remove_dir_all(directory).unwrap();
}

#[cfg(unix)]
#[test]
fn a_pipe_is_rejected_without_a_wait() {
    let directory = directory("pipe");
    let pipe = directory.join("mcp.json");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (sender, receiver) = std::sync::mpsc::channel();
    let installer = Installer::new(directory.join("state"));
    std::thread::spawn(move || sender.send(installer.install(Format::Cursor, &pipe, &local())));
    let result = receiver.recv_timeout(std::time::Duration::from_secs(10)).expect("the installer does not wait");
    assert_eq!(result.unwrap_err().code.as_str(), "file-unreadable");
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn concurrent_installations_do_not_lose_servers() {
    let home = directory("concurrent");
    let file = file_of(Format::Cursor, &home);
    let text = "{\n  // mine\n  \"mcpServers\": {}\n}\n";
    fs::write(&file, text).unwrap();
    let names: Vec<String> = (0..8).map(|number| format!("s{number}")).collect();
    let run = |edit: &(dyn Fn(&Installer, &str) + Sync)| {
        std::thread::scope(|scope| {
            for name in &names {
                // Each process has its own installer.
                scope.spawn(|| edit(&Installer::new(home.join("state")), name));
            }
        });
    };
    run(&|installer, name| {
        installer.install(Format::Cursor, &file, &ServerDefinition::stdio(name, "x")).unwrap();
    });
    assert_eq!(servers(&file).len(), names.len());
    run(&|installer, name| {
        installer.uninstall(Format::Cursor, &file, name).unwrap();
    });
    assert_eq!(servers(&file).len(), 0);
    assert!(fs::read_to_string(&file).unwrap().contains("// mine"));
    fs::remove_dir_all(home).unwrap();
}
