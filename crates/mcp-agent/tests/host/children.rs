//! Servers as child processes: none is left after a shutdown, a dropped host and SIGTERM.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]
#![cfg(unix)]

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use mcp_agent::{
    Caller, Host, HostBuilder, ServerError, ServerOptions, ServerState, Sharing, StartError,
    config::{Approvals, ConfigFile, Environment, Scope, ServerDefinition},
    filter::ToolFilter,
};
use mcp_client::ChildProcess;
use mcp_server::prelude::*;
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
    time::timeout,
};

use crate::common::{TEST_TIMEOUT, until_state};

/// Set in the environment of this program where it is a server.
const SERVES: &str = "TEST_SERVES_STDIO";
/// Set in the environment of this program where it is a host.
const HOSTS: &str = "TEST_HOSTS";
/// The number of servers of a host.
const SERVERS: usize = 8;

/// The server of the tests below: this program in another process. Without the variable, it does nothing.
#[tokio::test]
async fn a_child_process_serves_stdio() {
    let Some(mode) = std::env::var_os(SERVES) else { return };
    if mode == "fails" {
        eprintln!("the configuration is missing");
        std::process::abort();
    }
    if mode == "silent" {
        eprintln!("pid {}", std::process::id());
        // Answers nothing, and ignores the end of its input. SIGTERM ends it.
        return std::future::pending().await;
    }
    let server = Server::builder("child", "1")
        .tool(tool("pid", async || std::process::id().to_string()))
        .tool(tool("die", async || -> String { std::process::abort() }))
        .build();
    server.serve_stdio().await.unwrap();
    if mode == "stays" {
        // Ignores the end of its input. SIGTERM ends it.
        std::future::pending::<()>().await;
    }
}

/// A host in another process, which ends by SIGTERM. Without the variable, it does nothing.
#[tokio::test]
async fn a_child_process_is_a_host() {
    if std::env::var_os(HOSTS).is_none() {
        return;
    }
    let host = many("stays").start().await.unwrap();
    for pid in pids(&host).await {
        println!("pid {pid}");
    }
    let mut ended = std::pin::pin!(host.shutdown_on_signal());
    // The first poll registers for the signal. Before that, the signal would kill this process.
    tokio::select! {
        biased;
        ended = &mut ended => panic!("the host ended before the signal: {ended:?}"),
        () = std::future::ready(()) => println!("ready"),
    }
    ended.await.unwrap();
}

fn this_program(test: &str) -> [String; 5] {
    // With one thread, the test harness would print the name of the test before the first message.
    ["--exact", test, "--nocapture", "-q", "--test-threads=2"].map(str::to_owned)
}

fn child(mode: &str) -> ChildProcess {
    let program = std::env::current_exe().unwrap();
    let child =
        ChildProcess::new(program).args(this_program("children::a_child_process_serves_stdio")).env(SERVES, mode);
    child.end_within(Duration::from_millis(500))
}

fn many(mode: &str) -> HostBuilder {
    let builder = Host::builder("test", "1").start_limit(TEST_TIMEOUT);
    (0..SERVERS).fold(builder, |builder, n| builder.server(format!("s{n}"), child(mode)))
}

async fn pids(host: &Host) -> Vec<String> {
    let mut pids = Vec::new();
    for n in 0..SERVERS {
        pids.push(host.call(format!("s{n}:pid"), ()).await.unwrap().text());
    }
    pids
}

fn is_running(pid: &str) -> bool {
    let stat: PathBuf = Path::new("/proc").join(pid).join("stat");
    std::fs::read_to_string(stat).is_ok_and(|stat| !stat.contains(") Z "))
}

async fn until_ended(pids: &[String]) {
    let ended = timeout(Duration::from_secs(5), async {
        while pids.iter().any(|pid| is_running(pid)) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(ended.await.is_ok(), "processes are left: {pids:?}");
}

#[tokio::test]
async fn no_process_is_left_after_a_shutdown() {
    for mode in ["ends", "stays"] {
        let host = many(mode).start().await.unwrap();
        let pids = pids(&host).await;
        assert!(pids.iter().all(|pid| is_running(pid)), "{pids:?}");
        timeout(TEST_TIMEOUT, host.shutdown()).await.unwrap();
        // The shutdown waits for the processes.
        assert!(!pids.iter().any(|pid| is_running(pid)), "{mode} {pids:?}");
        let ended = host.call("s0:pid", ()).await.unwrap_err().to_string();
        assert!(ended.contains("stopped"), "{ended}");
    }
}

#[tokio::test]
async fn a_second_shutdown_also_waits_for_the_processes() {
    let host = Host::builder("test", "1").start_limit(TEST_TIMEOUT).server("s0", child("stays")).start().await.unwrap();
    let pid = host.call("s0:pid", ()).await.unwrap().text();
    assert!(timeout(Duration::from_millis(20), host.shutdown()).await.is_err(), "the process ignores its end of input");
    timeout(TEST_TIMEOUT, host.shutdown()).await.unwrap();
    assert!(!is_running(&pid));
}

#[tokio::test]
async fn no_process_is_left_after_a_dropped_host() {
    let host = many("stays").start().await.unwrap();
    let pids = pids(&host).await;
    drop(host);
    until_ended(&pids).await;
}

#[tokio::test]
async fn fifty_sessions_of_a_principal_share_one_process_for_each_server() {
    let host = many("ends").start().await.unwrap();
    let mut found = Vec::new();
    for session in 0..50 {
        let caller = Caller::new().principal("ada").session(session.to_string());
        found.extend(pids(&host.for_caller(caller)).await);
    }
    found.sort();
    found.dedup();
    assert_eq!(found.len(), SERVERS);
    host.shutdown().await;
    assert!(!found.iter().any(|pid| is_running(pid)), "{found:?}");
}

#[tokio::test]
async fn the_processes_of_isolated_sessions_are_bounded_and_end() {
    let options = ServerOptions::new().sharing(Sharing::Session).max_connections(4).connections_per_principal(4);
    let builder = Host::builder("test", "1").start_limit(TEST_TIMEOUT).server_with("s", child("stays"), options);
    let host = builder.start().await.unwrap();
    let caller = |session: usize| Caller::new().principal("ada").session(session.to_string());
    let pid = async |session| host.for_caller(caller(session)).call("s:pid", ()).await.map(|result| result.text());
    let mut found = vec![host.call("s:pid", ()).await.unwrap().text()];
    for session in 0..3 {
        found.push(pid(session).await.unwrap());
    }
    assert!((0..4).all(|n| !found[n + 1..].contains(&found[n])), "{found:?}");
    assert_eq!(pid(1).await.unwrap(), found[2], "a session keeps its process");
    let full = pid(3).await.unwrap_err().to_string();
    assert!(full.contains("all its 4 connections are in use"), "{full}");
    host.disconnect(&caller(0)).await;
    assert!(!is_running(&found[1]) && is_running(&found[2]));
    found.push(pid(3).await.unwrap());
    timeout(TEST_TIMEOUT, host.shutdown()).await.unwrap();
    assert!(!found.iter().any(|pid| is_running(pid)), "{found:?}");
}

#[tokio::test]
async fn a_definition_can_give_each_session_a_process() {
    let mut definition = project(Path::new("/projects/demo/.mcp.json"), "die", "ends");
    definition.origin = None;
    (definition.sharing, definition.max_connections) = (Some(Sharing::Session), Some(2));
    let builder = Host::builder("test", "1").start_limit(TEST_TIMEOUT);
    let host = builder.definition(&definition).start().await.unwrap();
    let of = |session: &'static str| host.for_caller(Caller::new().session(session)).call("project:pid", ());
    let first = of("a").await.unwrap().text();
    assert_eq!(of("a").await.unwrap().text(), first);
    assert_ne!(host.call("project:pid", ()).await.unwrap().text(), first);
    assert!(of("b").await.unwrap_err().to_string().contains("all its 2 connections are in use"));
    host.shutdown().await;
}

#[tokio::test]
async fn no_process_is_left_when_a_server_ends_during_its_handshake() {
    let host = Host::builder("test", "1")
        .start_limit(Duration::from_millis(10))
        .server("silent", child("silent"))
        .server("good", child("ends"))
        .start()
        .await
        .unwrap();
    let pid = timeout(TEST_TIMEOUT, async {
        loop {
            let lines = host.status("silent").unwrap().stderr;
            if let Some(pid) = lines.iter().find_map(|line| line.strip_prefix("pid ")) {
                return pid.to_owned();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let pid = pid.await.unwrap();
    assert!(is_running(&pid));
    assert!(timeout(TEST_TIMEOUT, host.remove("silent")).await.unwrap());
    assert!(!is_running(&pid), "the removal waits for the process");
    host.shutdown().await;
}

#[tokio::test]
async fn no_process_is_left_after_sigterm() {
    let mut host = Command::new(std::env::current_exe().unwrap())
        .args(this_program("children::a_child_process_is_a_host"))
        .env(HOSTS, "1")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(host.stdout.take().unwrap()).lines();
    let mut pids = Vec::new();
    timeout(TEST_TIMEOUT, async {
        while let Some(line) = lines.next_line().await.unwrap() {
            match line.split_once("pid ") {
                Some((_, pid)) => pids.push(pid.to_owned()),
                None if line.contains("ready") => return,
                None => {}
            }
        }
        panic!("the host ended: {pids:?}");
    })
    .await
    .unwrap();
    assert_eq!(pids.len(), SERVERS);
    assert!(pids.iter().all(|pid| is_running(pid)));
    let sent = Command::new("kill").args(["-TERM", &host.id().unwrap().to_string()]).status().await.unwrap();
    assert!(sent.success());
    timeout(TEST_TIMEOUT, host.wait()).await.unwrap().unwrap();
    until_ended(&pids).await;
}

#[tokio::test]
async fn a_removed_and_a_replaced_process_end() {
    let host = many("stays").start().await.unwrap();
    let pids = pids(&host).await;
    assert!(host.remove("s0").await);
    assert!(!is_running(&pids[0]));
    host.replace("s1", std::sync::Arc::new(child("ends")), ServerOptions::new()).await.unwrap();
    assert!(!is_running(&pids[1]) && is_running(&pids[2]));
    host.shutdown().await;
}

#[tokio::test]
async fn a_failed_process_shows_its_last_lines() {
    let host = Host::builder("test", "1")
        .reconnect(mcp_client::Reconnect::default().attempts(1))
        .server("fails", child("fails"))
        .server("good", child("ends"))
        .start_limit(TEST_TIMEOUT)
        .start()
        .await
        .unwrap();
    let status = host.status("fails").unwrap();
    assert_eq!(status.state, ServerState::Failed);
    assert!(status.stderr.iter().any(|line| line == "the configuration is missing"), "{status:?}");

    // A process that dies in a call starts again.
    let first = host.call("good:pid", ()).await.unwrap().text();
    let mut events = host.status_events();
    assert!(host.call("good:die", ()).await.unwrap_err().client().unwrap().is_closed());
    timeout(TEST_TIMEOUT, async { while events.next().await.unwrap().state != ServerState::Degraded {} })
        .await
        .unwrap();
    until_state(&host, "good", ServerState::Ready).await;
    assert_ne!(host.call("good:pid", ()).await.unwrap().text(), first);
    host.shutdown().await;
}

#[tokio::test]
async fn a_project_definition_starts_only_after_its_approval() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join(".mcp.json");
    let program = std::env::current_exe().unwrap();
    let entry = json!({
        "command": program, "args": this_program("children::a_child_process_serves_stdio"), "env": { SERVES: "ends" },
        "x-mcp": { "denyTools": ["die"] },
    });
    let text = json!({ "mcpServers": { "project": entry } }).to_string();
    let read = ConfigFile::parse(&file, &text, Scope::Project, &Environment::default()).unwrap();
    let approvals = Approvals::open(directory.path().join("state"));
    let start = async || {
        let builder = Host::builder("test", "1").start_limit(TEST_TIMEOUT).approvals(approvals.clone());
        builder.definition(&read.servers[0]).start().await.unwrap()
    };
    let host = start().await;
    assert_eq!(host.status("project").unwrap().state, ServerState::NeedsApproval);
    host.shutdown().await;
    approvals.approve(&read.servers[0]).unwrap();
    let host = start().await;
    let names: Vec<String> = host.catalog().tools().iter().map(|tool| tool.display_name().to_owned()).collect();
    assert_eq!(names, ["project:pid"], "the definition denies the other tool");
    assert!(host.call("project:pid", ()).await.unwrap().text().parse::<u32>().is_ok());
    host.shutdown().await;
}

/// Returns the definition of a project file that denies this tool.
fn project(file: &Path, denied: &str, mode: &str) -> ServerDefinition {
    let entry = json!({
        "command": std::env::current_exe().unwrap(), "args": this_program("children::a_child_process_serves_stdio"), "env": { SERVES: mode },
        "x-mcp": { "denyTools": [denied] },
    });
    let text = json!({ "mcpServers": { "project": entry } }).to_string();
    let mut read = ConfigFile::parse(file, &text, Scope::Project, &Environment::default()).unwrap();
    read.servers.remove(0)
}

fn tools(host: &Host) -> Vec<String> {
    host.catalog().tools().iter().map(|tool| tool.display_name().to_owned()).collect()
}

#[tokio::test]
async fn a_replaced_project_definition_needs_its_approval_and_keeps_its_filter() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join(".mcp.json");
    let approvals = Approvals::open(directory.path().join("state"));
    let (first, second, third) = (project(&file, "die", "ends"), project(&file, "pid", "ends"), {
        let mut third = project(&file, "die", "ends");
        third.enabled = false;
        third
    });
    approvals.approve(&first).unwrap();
    let host = Host::builder("test", "1").start_limit(TEST_TIMEOUT).approvals(approvals.clone()).start().await.unwrap();
    let unknown = host.replace_definition(&first).await.unwrap_err();
    assert!(matches!(unknown, ServerError::Unknown { .. }), "{unknown}");
    let disabled = host.add_definition(&third).unwrap_err();
    assert!(matches!(disabled, ServerError::Disabled { .. }) && host.statuses().is_empty(), "{disabled}");
    host.add_definition(&first).unwrap();
    until_state(&host, "project", ServerState::Ready).await;
    assert_eq!(tools(&host), ["project:pid"]);

    host.replace_definition(&second).await.unwrap();
    assert_eq!(host.status("project").unwrap().state, ServerState::NeedsApproval);
    assert!(tools(&host).is_empty());
    approvals.approve(&second).unwrap();
    host.replace_definition(&second).await.unwrap();
    assert_eq!(tools(&host), ["project:die"], "the changed definition denies the other tool");

    host.replace_definition(&third).await.unwrap();
    assert!(host.statuses().is_empty());
    host.shutdown().await;
}

#[tokio::test]
async fn an_invalid_definition_fails_its_server_only() {
    let invalid = ServerDefinition::http("invalid", "ftp://search.example");
    let good =
        || Host::builder("test", "1").start_limit(TEST_TIMEOUT).server("good", &Server::builder("good", "1").build());
    let host = good().definition(&invalid).definition(&ServerDefinition::stdio("a:b", "files")).start().await.unwrap();
    for (name, reason) in [("invalid", "ftp"), ("a:b", "without `:`")] {
        let status = host.status(name).unwrap();
        assert_eq!(status.state, ServerState::Failed);
        assert!(status.reason.as_ref().unwrap().contains(reason), "{status:?}");
    }
    assert_eq!(host.status("good").unwrap().state, ServerState::Ready);
    host.shutdown().await;
    let failed = good().definition(&invalid.required()).start().await.unwrap_err();
    assert!(matches!(failed, StartError::Server(ServerError::Definition(_))), "{failed}");
}

#[tokio::test]
async fn a_manifest_belongs_to_the_command_the_variables_and_the_filter() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("manifest.json");
    let denying = || ServerOptions::new().filter(ToolFilter::new().deny("die".parse().unwrap()));
    // The file has the first server only, so each other server starts.
    for (server, options, is_stored) in [
        (child("ends"), ServerOptions::new(), false),
        (child("ends"), ServerOptions::new(), true),
        (child("stays"), ServerOptions::new(), true),
        (child("ends").env("OTHER", "1"), ServerOptions::new(), false),
        (child("ends").inherit_env("ANOTHER"), ServerOptions::new(), false),
        (child("ends").arg("--show-output"), ServerOptions::new(), false),
        (child("ends"), denying(), false),
        (child("ends"), denying(), true),
    ] {
        let text = format!("{server:?} {options:?}");
        let builder = Host::builder("test", "1").start_limit(TEST_TIMEOUT).manifest(&path);
        let host = builder.server_with("s", server, options).start().await.unwrap();
        let expected = if is_stored { ServerState::Configured } else { ServerState::Ready };
        assert_eq!(host.status("s").unwrap().state, expected, "{text}");
        assert!(!host.catalog().tools().is_empty(), "{text}");
        host.shutdown().await;
    }
}

#[tokio::test]
async fn an_invalid_entry_of_a_required_server_is_the_error_of_the_start() {
    let file = |required: bool| {
        let entry = json!({ "command": 7, "x-mcp": { "required": required } });
        let good = json!({ "command": std::env::current_exe().unwrap(), "env": { SERVES: "ends" },
            "args": this_program("children::a_child_process_serves_stdio") });
        let text = json!({ "mcpServers": { "bad": entry, "good": good } }).to_string();
        ConfigFile::parse(Path::new("/projects/demo/.mcp.json"), &text, Scope::Named, &Environment::default()).unwrap()
    };
    let builder = || Host::builder("test", "1").start_limit(TEST_TIMEOUT);
    let error = builder().config_file(&file(true)).start().await.unwrap_err();
    assert!(matches!(&error, StartError::Config(error) if error.path == "$.mcpServers.bad.command"), "{error}");
    let host = builder().config_file(&file(false)).start().await.unwrap();
    let status = host.status("bad").unwrap();
    assert_eq!(status.state, ServerState::Failed);
    assert!(status.reason.as_ref().unwrap().contains("$.mcpServers.bad.command"), "{status:?}");
    assert_eq!(host.status("good").unwrap().state, ServerState::Ready);
    host.shutdown().await;
}
