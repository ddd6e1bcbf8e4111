//! Approvals of project servers, discovery of files, and the watcher.

use std::{path::Path, time::Duration};

use mcp_agent::config::{
    Approval, Approvals, Code, ConfigDiff, ConfigFile, ConfigWatch, Environment, Format, Origin, Scope,
    ServerDefinition, discover,
};

use super::directory;

fn project(file: &Path, text: &str, scope: Scope) -> ConfigFile {
    ConfigFile::parse(file, text, scope, &Environment::default()).unwrap()
}

#[test]
fn an_approval_is_for_one_definition_in_one_file() {
    let directory = directory("approvals");
    let approvals = Approvals::open(directory.join("state"));
    let file = Path::new("/p/.mcp.json");
    let text = r#"{"mcpServers":{"a":{"command":"a","env":{"K":"${K:-1}"}},"b":{"command":"b"}}}"#;
    let config = project(file, text, Scope::Project);
    let [a, b] = &config.servers[..] else { panic!("{config:?}") };
    assert_eq!(approvals.of(a).unwrap(), Approval::Missing);
    approvals.approve(a).unwrap();
    approvals.deny(b).unwrap();
    assert_eq!((approvals.of(a).unwrap(), approvals.of(b).unwrap()), (Approval::Approved, Approval::Denied));
    assert!(Approval::Approved.permits() && !Approval::Denied.permits() && !Approval::Missing.permits());
    // Another process reads the same decisions.
    assert_eq!(Approvals::open(directory.join("state")).of(a).unwrap(), Approval::Approved);

    for (text, file, expected) in [
        // The order of members and the values of variables do not change a definition.
        (r#"{"mcpServers":{"a":{"env":{"K":"${K:-1}"},"command":"a"}}}"#, "/p/.mcp.json", Approval::Approved),
        (r#"{"mcpServers":{"a":{"command":"evil","env":{"K":"${K:-1}"}}}}"#, "/p/.mcp.json", Approval::Missing),
        (r#"{"mcpServers":{"a":{"command":"a","env":{"K":"2"}}}}"#, "/p/.mcp.json", Approval::Missing),
        (r#"{"mcpServers":{"c":{"command":"a","env":{"K":"${K:-1}"}}}}"#, "/p/.mcp.json", Approval::Missing),
        (r#"{"mcpServers":{"a":{"command":"a","env":{"K":"${K:-1}"}}}}"#, "/q/.mcp.json", Approval::Missing),
    ] {
        let config = project(Path::new(file), text, Scope::Project);
        assert_eq!(approvals.of(&config.servers[0]).unwrap(), expected, "{file}: {text}");
    }
    for scope in [Scope::Named, Scope::User] {
        let config = project(file, text, scope);
        assert_eq!(approvals.of(&config.servers[0]).unwrap(), Approval::NotNeeded, "{scope:?}");
    }
    approvals.deny(a).unwrap();
    assert_eq!(approvals.of(a).unwrap(), Approval::Denied);
    std::fs::write(directory.join("state/approvals.json"), "{").unwrap();
    assert!(approvals.of(a).is_err(), "a damaged file approves nothing");
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn an_entry_with_a_fault_can_be_denied() {
    let directory = directory("denied-entry");
    let approvals = Approvals::open(directory.join("state"));
    let file = Path::new("/p/.mcp.json");
    let text = r#"{"mcpServers":{"a":{"command":"${UNSET_IN_THIS_TEST}"},"b":{"command":"b"}}}"#;
    let config = project(file, text, Scope::Project);
    assert_eq!((config.servers.len(), config.errors.len()), (1, 1));
    assert!(!approvals.is_denied(&config, "a").unwrap());
    assert!(approvals.deny_entry(&config, "a").unwrap() && !approvals.deny_entry(&config, "none").unwrap());
    assert!(approvals.is_denied(&config, "a").unwrap());
    assert!(!approvals.is_denied(&config, "b").unwrap() && !approvals.is_denied(&config, "none").unwrap());
    // The decision is for the entry, so it remains when the variable is set.
    let environment = Environment::default().variable("UNSET_IN_THIS_TEST", "a");
    let valid = ConfigFile::parse(file, text, Scope::Project, &environment).unwrap();
    assert_eq!(approvals.of(&valid.servers[0]).unwrap(), Approval::Denied);
    let named = project(file, text, Scope::Named);
    assert!(!approvals.is_denied(&named, "a").unwrap());
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn processes_do_not_lose_decisions_of_each_other() {
    let directory = directory("concurrent-approvals");
    let names: Vec<String> = (0..8).map(|number| format!("s{number}")).collect();
    let entries: Vec<String> = names.iter().map(|name| format!(r#""{name}":{{"command":"{name}"}}"#)).collect();
    let config =
        project(Path::new("/p/.mcp.json"), &format!("{{\"mcpServers\":{{{}}}}}", entries.join(",")), Scope::Project);
    std::thread::scope(|scope| {
        for server in &config.servers {
            scope.spawn(|| Approvals::open(&directory).approve(server).unwrap());
        }
    });
    let approvals = Approvals::open(&directory);
    assert!(config.servers.iter().all(|server| approvals.of(server).unwrap() == Approval::Approved));
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn discovers_the_nearest_project_file_and_then_that_of_the_user() {
    let root = directory("discover");
    let (home, deep) = (root.join("home"), root.join("home/code/demo/src"));
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::create_dir_all(home.join(".config/mcp")).unwrap();
    let environment = Environment::default().home(&home).workspace(&deep);
    let write = |file: &str| std::fs::write(home.join(file), "{}").unwrap();
    write(".config/mcp/mcp.json");
    assert_eq!(discover(&environment), Some((home.join(".config/mcp/mcp.json"), Scope::User)));
    write(".mcp.json");
    assert_eq!(discover(&environment), Some((home.join(".mcp.json"), Scope::User)));
    write("code/demo/.mcp.json");
    assert_eq!(discover(&environment), Some((home.join("code/demo/.mcp.json"), Scope::Project)));
    std::fs::remove_dir_all(root).unwrap();
}

#[tokio::test]
async fn a_watcher_reports_each_change_and_each_fault_once() {
    let directory = directory("watch");
    let file = directory.join("servers.json");
    // A rename is atomic, so the watcher never reads a part of a text.
    let write = |text: &str| {
        std::fs::write(directory.join("new"), text).unwrap();
        std::fs::rename(directory.join("new"), &file).unwrap();
    };
    write(r#"{"mcpServers":{"a":{"command":"a"}}}"#);
    let mut watch = ConfigWatch::new(&file, Scope::Named, Environment::default()).interval(Duration::from_millis(5));
    let next = async |watch: &mut ConfigWatch| {
        tokio::time::timeout(Duration::from_secs(20), watch.next()).await.expect("a change is reported")
    };
    let first = next(&mut watch).await.unwrap();
    write(r#"{"mcpServers":{"a":{"command":"a2"},"b":{"command":"b"}}}"#);
    let second = next(&mut watch).await.unwrap();
    let diff = ConfigDiff::between(&first.servers, &second.servers);
    assert_eq!((diff.changed, diff.added, diff.removed), (vec!["a".to_owned()], vec!["b".to_owned()], vec![]));
    write("{");
    let error = next(&mut watch).await.unwrap_err();
    assert_eq!(error.code.as_str(), "syntax");
    // The same fault is not reported again.
    assert!(tokio::time::timeout(Duration::from_millis(60), watch.next()).await.is_err());
    std::fs::remove_file(&file).unwrap();
    assert_eq!(next(&mut watch).await.unwrap_err().code.as_str(), "file-missing");
    write(r#"{"mcpServers":{}}"#);
    assert!(next(&mut watch).await.unwrap().servers.is_empty());
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_changed_input_or_referenced_file_needs_a_new_approval() {
    let directory = directory("approved-sources");
    let approvals = Approvals::open(directory.join("state"));
    let code = r#"{"inputs":[{"id":"x","default":"DEFAULT"}],"servers":{"a":{"command":"${input:x}"}}}"#;
    let env_file = r#"{"servers":{"a":{"command":"a","envFile":"data"}}}"#;
    let open_code = r#"{"mcp":{"a":{"type":"local","command":["a","{file:data}"]}}}"#;
    for (file, text) in [(".vscode/mcp.json", code), (".vscode/mcp.json", env_file), ("opencode.json", open_code)] {
        let read = |value: &str| {
            for data in ["data", ".vscode/data"].map(|data| directory.join(data)) {
                std::fs::create_dir_all(data.parent().unwrap()).unwrap();
                std::fs::write(data, format!("A={value}\n")).unwrap();
            }
            let config = project(&directory.join(file), &text.replace("DEFAULT", value), Scope::Project);
            assert!(config.errors.is_empty(), "{:?}", config.errors);
            config.servers.into_iter().next().unwrap()
        };
        let old = read("old");
        approvals.approve(&old).unwrap();
        assert_eq!(approvals.of(&read("old")).unwrap(), Approval::Approved, "{text}");
        assert_eq!(approvals.of(&read("new")).unwrap(), Approval::Missing, "{text}");
    }
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn the_answer_to_an_input_does_not_hide_a_changed_default() {
    let read = |default: &str| {
        let text = format!(
            r#"{{"inputs":[{{"id":"x","default":"{default}"}}],"servers":{{"a":{{"command":"${{input:x}}"}}}}}}"#
        );
        let environment = Environment::default().variable("MCP_INPUT_X", "answer");
        let file = Path::new("/p/.vscode/mcp.json");
        let config = ConfigFile::parse(file, &text, Scope::Project, &environment).unwrap();
        config.servers[0].origin.clone().unwrap().fingerprint
    };
    assert_eq!(read("old"), read("old"));
    assert_ne!(read("old"), read("new"));
}

#[tokio::test]
async fn a_relative_path_becomes_absolute() {
    let config = project(Path::new(".mcp.json"), r#"{"mcpServers":{"a":{"command":"a"}}}"#, Scope::Project);
    let file = std::env::current_dir().unwrap().join(".mcp.json");
    assert_eq!((&config.file, &config.servers[0].origin.as_ref().unwrap().file), (&file, &file));
    let absolute = project(&file, r#"{"mcpServers":{"a":{"command":"a"}}}"#, Scope::Project);
    assert_eq!(config, absolute);
    let error = ConfigWatch::new("missing.json", Scope::Project, Environment::default()).next().await.unwrap_err();
    assert_eq!(error.file, std::env::current_dir().unwrap().join("missing.json"));
}

#[test]
fn an_origin_without_a_fingerprint_cannot_be_approved() {
    let directory = directory("no-fingerprint");
    let approvals = Approvals::open(&directory);
    let mut server = ServerDefinition::stdio("a", "a");
    server.origin = Some(Origin::new("/p/.mcp.json", "$.mcpServers.a", Format::Portable, Scope::Project));
    assert_eq!(approvals.approve(&server).unwrap_err().code, Code::NeedsApproval);
    assert_eq!(approvals.deny(&server).unwrap_err().code, Code::NeedsApproval);
    assert_eq!(approvals.of(&server).unwrap(), Approval::Missing);
    // A former version stored such a decision.
    let stored = r#"{"decisions":{"":{"name":"b","file":"/q/.mcp.json","approved":true}}}"#;
    std::fs::write(directory.join("approvals.json"), stored).unwrap();
    assert_eq!(approvals.of(&server).unwrap(), Approval::Missing);
    std::fs::remove_dir_all(directory).unwrap();
}
