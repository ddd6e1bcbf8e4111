//! Approvals of project servers, discovery of files, and the watcher.

use std::{path::Path, time::Duration};

use mcp_agent::config::{Approval, Approvals, ConfigDiff, ConfigFile, ConfigWatch, Environment, Scope, discover};

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
