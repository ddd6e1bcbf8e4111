//! Watched files: configurations, policies and pins.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{path::Path, time::Duration};

use mcp_agent::{
    Host, ServerError, ServerState, StartError,
    config::{ConfigFile, ConfigWatch, Endpoint, Environment, Scope, ServerDefinition},
    pins::{FirstUse, PinFile, PinRules},
};
use tokio::time::timeout;

use crate::common::{TEST_TIMEOUT, server, until_tools};

/// The interval of the tests.
const OFTEN: Duration = Duration::from_millis(5);

fn watch(path: &Path) -> ConfigWatch {
    ConfigWatch::new(path, Scope::Named, Environment::default())
}

/// Waits for a state that has no event: the faults of files, policies and pins.
async fn until(event: &str, mut condition: impl FnMut() -> bool) {
    let reached = timeout(TEST_TIMEOUT, async {
        while !condition() {
            tokio::time::sleep(OFTEN).await;
        }
    });
    assert!(reached.await.is_ok(), "{event}");
}

/// Waits for a state of the servers. Each change of a server is an event of the host.
async fn until_status(host: &Host, event: &str, condition: impl Fn() -> bool) {
    let mut changes = host.status_events();
    let reached = timeout(TEST_TIMEOUT, async {
        while !condition() {
            assert!(changes.next().await.is_some(), "the host ended");
        }
    });
    assert!(reached.await.is_ok(), "{event}");
}

fn write(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, path).unwrap();
}

#[tokio::test]
async fn changes_of_a_configuration_file_add_replace_and_remove_servers() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("servers.json");
    let servers = |entries: &str| write(&path, &format!(r#"{{ "mcpServers": {{ {entries} }} }}"#));
    servers(r#""a": { "command": "no-such-a" }, "broken": { "command": 7 }"#);
    let host = Host::builder("test", "1")
        .server("own", &server("own", &["t"]))
        .config(watch(&path))
        .watch(OFTEN)
        .start()
        .await
        .unwrap();
    let reason = |name: &str| host.status(name).and_then(|status| status.reason).unwrap_or_default();
    assert!(
        reason("a").contains("no-such-a") && reason("broken").contains("$.mcpServers.broken"),
        "{:?}",
        host.statuses()
    );

    servers(r#""b": { "command": "no-such-b" }, "broken": { "command": 7 }"#);
    until_status(&host, "b is added and a is removed", || {
        host.status("a").is_none() && reason("b").contains("no-such-b")
    })
    .await;
    // A changed server that does not start leaves the former one in its place, and the fault is visible.
    servers(r#""b": { "command": "no-such-c" }, "broken": { "command": 7 }"#);
    until("the failed replacement is visible", || host.file_faults().iter().any(|fault| fault.contains("no-such-c")))
        .await;
    assert!(reason("b").contains("no-such-b"));
    // A file with a syntax error, and an entry with a fault, change nothing.
    write(&path, "{ not JSON");
    until("the syntax error is visible", || host.file_faults().iter().any(|fault| fault.contains("servers.json")))
        .await;
    assert!(host.status("b").is_some());
    servers(r#""b": { "command": 7 }"#);
    until("the entry is visible", || host.file_faults().iter().any(|fault| fault.contains("$.mcpServers.b"))).await;
    assert!(host.status("b").is_some());
    servers(r#""c": { "command": "no-such-c", "disabled": true }, "d": { "command": "no-such-d" }"#);
    until_status(&host, "d replaces the others", || host.status("d").is_some() && host.status("b").is_none()).await;
    assert!(host.status("c").is_none());
    assert!(host.status("broken").is_none(), "the failed server of a deleted entry is removed");
    assert_eq!(host.call("own:t", ()).await.unwrap().text(), "t");
    assert_eq!(host.status("own").unwrap().state, ServerState::Ready);
}

/// The host follows the files that the entries name: the variables of a server, and a text in its arguments.
#[tokio::test]
async fn changes_of_files_that_entries_name_replace_their_servers() {
    let directory = tempfile::tempdir().unwrap();
    let inside = |name: &str| directory.path().join(name);
    std::fs::create_dir(inside(".cursor")).unwrap();
    std::fs::write(inside(".env"), "PROGRAM=no-such-a\n").unwrap();
    write(
        &inside(".cursor/mcp.json"),
        r#"{ "mcpServers": { "a": { "command": "no-such-a", "envFile": "${workspaceFolder}/.env" } } }"#,
    );
    std::fs::write(inside("program"), "no-such-b\n").unwrap();
    write(&inside("opencode.json"), r#"{ "mcp": { "b": { "type": "local", "command": ["{file:./program}"] } } }"#);
    let mut env =
        ConfigWatch::new(inside(".cursor/mcp.json"), Scope::Named, Environment::default().workspace(directory.path()))
            .interval(OFTEN);
    let variable = |file: &ConfigFile| match &file.servers[0].endpoint {
        Endpoint::Stdio(stdio) => stdio.env["PROGRAM"].expose().to_owned(),
        _ => unreachable!(),
    };
    assert_eq!(variable(&env.next().await.unwrap()), "no-such-a");
    // The text has the same length, and its time can be the same too.
    std::fs::write(inside(".env"), "PROGRAM=no-such-c\n").unwrap();
    assert_eq!(variable(&timeout(TEST_TIMEOUT, env.next()).await.unwrap().unwrap()), "no-such-c");
    std::fs::remove_file(inside(".env")).unwrap();
    let missing = timeout(TEST_TIMEOUT, env.next()).await.unwrap().unwrap();
    assert!(missing.servers.is_empty() && missing.errors[0].to_string().contains("cannot be read"), "{missing:?}");
    std::fs::write(inside(".env"), "PROGRAM=no-such-d\n").unwrap();
    assert_eq!(variable(&timeout(TEST_TIMEOUT, env.next()).await.unwrap().unwrap()), "no-such-d");

    let host = Host::builder("test", "1")
        .server("own", &server("own", &["t"]))
        .config(watch(&inside("opencode.json")))
        .watch(OFTEN)
        .start()
        .await
        .unwrap();
    assert!(host.status("b").unwrap().reason.unwrap().contains("no-such-b"));
    std::fs::remove_file(inside("program")).unwrap();
    until("the missing file is visible", || host.file_faults().iter().any(|fault| fault.contains("`./program`"))).await;
    assert!(host.status("b").unwrap().reason.unwrap().contains("no-such-b"), "the former server stays");
}

/// A replacement that fails is tried again with each later reading, and its fault stays visible.
#[tokio::test]
async fn a_failed_replacement_is_tried_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("servers.json");
    let servers = |entries: &str| write(&path, &format!(r#"{{ "mcpServers": {{ {entries} }} }}"#));
    servers(r#""a": { "command": "no-such-a" }"#);
    let host = Host::builder("test", "1")
        .server("own", &server("own", &["t"]))
        .config(watch(&path))
        .watch(OFTEN)
        .start()
        .await
        .unwrap();
    let has_fault = || host.file_faults().iter().any(|fault| fault.contains("no-such-b"));
    servers(r#""a": { "command": "no-such-b" }"#);
    until("the failed replacement is visible", has_fault).await;
    // Another entry changes.
    servers(r#""a": { "command": "no-such-b" }, "c": { "command": "no-such-c" }"#);
    until("c is added", || host.status("c").is_some() && has_fault()).await;
    servers(r#""a": { "command": "no-such-a" }, "c": { "command": "no-such-c" }"#);
    until("the former entry is back", || !has_fault()).await;
    assert!(host.status("a").unwrap().reason.unwrap().contains("no-such-a"));
    servers(r#""c": { "command": "no-such-c" }"#);
    until_status(&host, "a is removed", || host.status("a").is_none()).await;
}

/// A person approves the definition that the application showed.
#[tokio::test]
async fn an_approval_is_for_the_shown_definition() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(".mcp.json");
    let entry =
        |command: &str| write(&path, &format!(r#"{{ "mcpServers": {{ "a": {{ "command": "{command}" }} }} }}"#));
    let read = || ConfigFile::read(&path, Scope::Project, &Environment::default()).unwrap().servers.remove(0);
    entry("no-such-shown");
    let shown = read();
    let host = Host::builder("test", "1")
        .server("own", &server("own", &["t"]))
        .config(ConfigWatch::new(&path, Scope::Project, Environment::default()))
        .watch(OFTEN)
        .start()
        .await
        .unwrap();
    entry("no-such-changed");
    let changed = read();
    let is_other = |error: &ServerError| matches!(error, ServerError::OtherDefinition { .. });
    until("the watched file changes the definition", || {
        // The approval of a definition that the host does not have changes nothing.
        !host.approve_definition(&changed).as_ref().is_err_and(is_other)
    })
    .await;
    assert!(host.approve_definition(&shown).as_ref().is_err_and(is_other));
    until_status(&host, "the approved server starts", || {
        host.status("a").and_then(|status| status.reason).is_some_and(|reason| reason.contains("no-such-changed"))
    })
    .await;
    let unknown = ServerDefinition::stdio("none", "x");
    assert!(matches!(host.approve_definition(&unknown), Err(ServerError::Unknown { .. })));
}

#[tokio::test]
async fn a_watched_file_does_not_change_servers_of_other_sources() {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (directory.path().join("first.json"), directory.path().join("second.json"));
    write(&first, r#"{ "mcpServers": { "x": { "command": "no-such-x" } } }"#);
    let entries = |entries: &str| write(&second, &format!(r#"{{ "mcpServers": {{ {entries} }} }}"#));
    let off = r#""x": { "command": "other-x", "disabled": true }"#;
    entries(off);
    let host = Host::builder("test", "1")
        .server("own", &server("own", &["t"]))
        .config(watch(&first))
        .config(ConfigWatch::new(&second, Scope::Project, Environment::default()))
        .watch(OFTEN)
        .start()
        .await
        .unwrap();
    let used = |names: &[&str]| {
        let faults = host.file_faults();
        faults.len() == names.len() && names.iter().all(|name| faults.iter().any(|fault| fault.contains(name)))
    };
    let steps = [
        ("a used name", format!(r#"{off}, "own": {{ "command": "c" }}"#), &["own"][..]),
        ("a changed entry", format!(r#"{off}, "own": {{ "command": "d" }}"#), &["own"]),
        ("a changed disabled entry", r#""x": { "command": "e", "disabled": true }"#.to_owned(), &[]),
        ("an enabled entry", r#""x": { "command": "e" }, "own": { "command": "d" }"#.to_owned(), &["own", "x"]),
        ("a changed enabled entry", r#""x": { "command": "f" }"#.to_owned(), &["x"]),
        ("no entry", String::new(), &[]),
        ("a disabled entry", off.to_owned(), &[]),
        ("no disabled entry", String::new(), &[]),
    ];
    for (at, (step, text, names)) in steps.into_iter().enumerate() {
        // The server of the last entry is there after the host has applied the others.
        let last = format!("last-{at}");
        let comma = if text.is_empty() { "" } else { "," };
        entries(&format!(r#"{text}{comma} "{last}": {{ "command": "{last}" }}"#));
        until(step, || host.status(&last).is_some() && used(names)).await;
        assert_eq!(host.status("own").unwrap().state, ServerState::Ready, "{step}");
        assert_eq!(host.call("own:t", ()).await.unwrap().text(), "t", "{step}");
        let x = host.status("x").unwrap();
        assert!(x.reason.as_ref().is_some_and(|reason| reason.contains("no-such-x")), "{step}: {x:?}");
    }
}

#[tokio::test]
async fn a_faulty_entry_with_the_name_of_another_entry_does_not_prevent_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(".continue/config.yaml");
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    let cases = [
        ("mcpServers: [{name: s, command: no-such-s}, {name: s, command: other}]", "no-such-s"),
        ("mcpServers: [{name: s, command: 7}, {name: s, command: other}]", "mcpServers[0].command"),
    ];
    for (text, reason) in cases {
        write(&path, text);
        let file = ConfigFile::read(&path, Scope::Named, &Environment::default()).unwrap();
        let builder = || Host::builder("test", "1").server("own", &server("own", &["t"]));
        for builder in [builder().config_file(&file), builder().config(watch(&path))] {
            let host = builder.start().await.unwrap();
            let s = host.status("s").unwrap();
            assert_eq!(s.state, ServerState::Failed, "{text}");
            assert!(s.reason.as_ref().is_some_and(|found| found.contains(reason)), "{text}: {s:?}");
        }
    }

    write(&path, "mcpServers: [{name: s, command: no-such-s}]");
    let host = Host::builder("test", "1")
        .server("own", &server("own", &["t"]))
        .config(ConfigWatch::new(&path, Scope::Project, Environment::default()))
        .watch(OFTEN)
        .start()
        .await
        .unwrap();
    write(&path, "mcpServers: [{name: s, command: no-such-new}, {name: s, command: 7}]");
    until("the fault is visible", || !host.file_faults().is_empty()).await;
    assert!(host.approve("s"));
    until_status(&host, "the server of the valid entry fails", || {
        host.status("s").and_then(|status| status.reason).is_some_and(|reason| reason.contains("no-such-new"))
    })
    .await;
}

#[tokio::test]
async fn a_watched_file_does_not_keep_its_host() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("servers.json");
    write(&path, r#"{ "mcpServers": {} }"#);
    let host = Host::builder("test", "1")
        .server("s", &server("s", &["t"]))
        .config(watch(&path))
        .watch(OFTEN)
        .start()
        .await
        .unwrap();
    let mut changes = host.catalog_changes();
    drop(host);
    assert!(timeout(TEST_TIMEOUT, changes.next()).await.unwrap().is_none(), "the host ended");

    let missing = Host::builder("test", "1").config(watch(&directory.path().join("none.json"))).start().await;
    assert!(matches!(missing.unwrap_err(), StartError::Config(_)));
    let required = r#"{ "mcpServers": { "r": { "command": 7, "x-mcp": { "required": true } } } }"#;
    write(&path, required);
    assert!(matches!(
        Host::builder("test", "1").config(watch(&path)).start().await.unwrap_err(),
        StartError::Config(_)
    ));
}

#[tokio::test]
async fn a_changed_policy_file_decides_later_calls() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("policy.toml");
    write(&path, "");
    let host = Host::builder("test", "1")
        .server("s", &server("s", &["t"]))
        .policy_file(&path)
        .watch(OFTEN)
        .start()
        .await
        .unwrap();
    assert_eq!(host.call("s:t", ()).await.unwrap().text(), "t");
    assert_eq!(host.toolset().hidden().len(), 0);
    write(&path, "[[rule]]\ntool = \"t\"\neffect = \"deny\"\n");
    until("the tool is denied", || host.toolset().hidden().len() == 1).await;
    assert!(host.call("s:t", ()).await.unwrap_err().to_string().contains("rule 1 of policy.toml denies"));
    // A restored file with the same text has no fault any more.
    std::fs::remove_file(&path).unwrap();
    until("the missing file is visible", || !host.file_faults().is_empty()).await;
    write(&path, "[[rule]]\ntool = \"t\"\neffect = \"deny\"\n");
    until("the fault ends", || host.file_faults().is_empty()).await;
    assert!(host.call("s:t", ()).await.is_err());
    // An invalid or missing file does not permit the call.
    write(&path, "[[rule]]\neffect = \"maybe\"\n");
    until("the fault is visible", || host.file_faults().iter().any(|fault| fault.contains("policy.toml:2:10"))).await;
    assert!(host.call("s:t", ()).await.is_err());
    std::fs::remove_file(&path).unwrap();
    until("the missing file is visible", || host.file_faults().iter().any(|fault| fault.contains("cannot be read")))
        .await;
    assert!(host.call("s:t", ()).await.is_err());
    write(&path, "# allowed again\n");
    until("the tool is allowed", || host.toolset().hidden().is_empty()).await;
    until("the fault ends", || host.file_faults().is_empty()).await;
    assert_eq!(host.call("s:t", ()).await.unwrap().text(), "t");
}

#[tokio::test]
async fn a_definition_that_another_process_accepted_is_usable() {
    let directory = tempfile::tempdir().unwrap();
    let file = PinFile::new(directory.path().join("pins.json"));
    let other = mcp_protocol::Tool::new("t", mcp_protocol::JsonObject::new()).with_description("Another tool.");
    let now = std::time::SystemTime::now();
    file.update(|pins| pins.accept("s", &other, now)).unwrap();
    let host = Host::builder("test", "1")
        .server("s", &server("s", &["t"]))
        .pins(file.clone(), PinRules::project())
        .watch(OFTEN)
        .start()
        .await
        .unwrap();
    until_tools(&host, &["s:t"]).await;
    assert!(host.call("s:t", ()).await.is_err());
    let definition = host.catalog().tools()[0].tool().clone();
    file.update(|pins| pins.accept("s", &definition, now)).unwrap();
    until("the pin is read", || host.toolset().hidden().is_empty()).await;
    assert_eq!(host.call("s:t", ()).await.unwrap().text(), "t");
}

#[tokio::test]
async fn a_damaged_file_of_pins_is_a_fault_and_known_comparisons_stay() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pins.json");
    let file = PinFile::new(&path);
    let rules = PinRules::project().first_use(FirstUse::Deny);
    let builder = Host::builder("test", "1").server("s", &server("s", &["t", "other"]));
    let host = builder.pins(file, rules).watch(OFTEN).start().await.unwrap();
    host.accept_definition("s:t").await.unwrap();
    let valid = std::fs::read_to_string(&path).unwrap();
    write(&path, "{");
    until("the fault is visible", || host.file_faults().iter().any(|fault| fault.contains("pins.json"))).await;
    assert_eq!(host.file_faults().len(), 1);
    assert_eq!(host.call("s:t", ()).await.unwrap().text(), "t");
    assert!(host.call("s:other", ()).await.is_err());
    write(&path, &valid);
    until("the fault has ended", || host.file_faults().is_empty()).await;
}
