//! The processes behind a gateway.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{path::Path, time::Duration};

use mcp_agent::Host;
use mcp_client::ChildProcess;
use mcp_server::{Server, tool};
use tokio::time::timeout;

use crate::common::{REVISIONS, SOON, client};

/// The variable that makes this program the server of the test.
const SERVES: &str = "TEST_GATEWAY_SERVES";
const SERVERS: usize = 8;
const SESSIONS: usize = 50;
/// The longest time between the end of the gateway and the end of its servers.
const END: Duration = Duration::from_secs(5);

/// The server of the test below: this program in another process. Without the variable, it does nothing.
#[tokio::test]
async fn a_child_process_serves_stdio() {
    if std::env::var_os(SERVES).is_some() {
        let pid = tool("pid", async || std::process::id().to_string());
        Server::builder("child", "1").tool(pid).build().serve_stdio().await.unwrap();
    }
}

fn child() -> ChildProcess {
    // With one thread, the test harness would print the name of the test before the first message.
    let arguments = ["--exact", "children::a_child_process_serves_stdio", "--nocapture", "-q", "--test-threads=2"]
        .map(str::to_owned);
    ChildProcess::new(std::env::current_exe().unwrap()).args(arguments).env(SERVES, "1")
}

fn is_running(pid: &str) -> bool {
    let stat = Path::new("/proc").join(pid).join("stat");
    std::fs::read_to_string(stat).is_ok_and(|stat| !stat.contains(") Z "))
}

#[tokio::test]
async fn fifty_sessions_share_one_process_for_each_server() {
    let mut host = Host::builder("gateway", "1").start_limit(SOON);
    for number in 0..SERVERS {
        host = host.server(format!("s{number}"), child());
    }
    let host = host.start().await.unwrap();
    let server = host.clone().into_server().unwrap().build();
    let (mut clients, mut pids) = (Vec::new(), Vec::new());
    for number in 0..SESSIONS {
        let version = REVISIONS[number % REVISIONS.len()];
        let client = timeout(SOON, client().versions([version]).connect(&server)).await.unwrap().unwrap();
        for server in 0..SERVERS {
            pids.push(timeout(SOON, client.call_tool(format!("s{server}__pid"), ())).await.unwrap().unwrap().text());
        }
        // Each session stays open.
        clients.push(client);
    }
    pids.sort();
    pids.dedup();
    assert_eq!(pids.len(), SERVERS, "{pids:?}");
    assert!(pids.iter().all(|pid| is_running(pid)), "{pids:?}");
    drop((clients, server));
    timeout(END, host.shutdown()).await.unwrap();
    // The shutdown waits for the processes.
    assert!(!pids.iter().any(|pid| is_running(pid)), "{pids:?}");
}
