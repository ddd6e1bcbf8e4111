//! The processes behind a gateway.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_agent::{Gateway, Host};
use mcp_client::{
    ChildProcess,
    transport::{BoxFuture, Connect, Transport, TransportError},
};
use mcp_protocol::{ElicitResult, ProtocolVersion};
use mcp_server::{Server, tool};
use tokio::time::timeout;

use crate::common::{REVISIONS, SOON, client, over_http};

/// The variable that makes this program the server of the tests. Its value is the revision of the server.
const SERVES: &str = "TEST_GATEWAY_SERVES";
const SERVERS: usize = 8;
const SESSIONS: usize = 50;
/// The longest time between the end of the gateway and the end of its servers.
const END: Duration = Duration::from_secs(5);

/// With the variable: the server of the tests of this program. Without it, the test starts this server.
#[tokio::test]
async fn a_child_process_serves_stdio_and_ends_with_its_client() {
    if let Some(version) = std::env::var_os(SERVES) {
        return serve(version.to_str().unwrap().parse().unwrap()).await;
    }
    for version in REVISIONS {
        let client = timeout(SOON, client().connect(child(version))).await.unwrap().unwrap();
        let pid = timeout(SOON, client.call_tool("pid", ())).await.unwrap().unwrap().text();
        assert!(client.version() == version && is_running(&pid), "{version} {pid}");
        assert_ne!(pid, std::process::id().to_string());
        timeout(SOON, client.close()).await.unwrap();
        assert!(!is_running(&pid), "{version}");
    }
}

async fn serve(version: ProtocolVersion) {
    let pid = tool("pid", async || std::process::id().to_string());
    // Serves a gateway too, and returns its URL.
    let gateway = tool("gateway", async || {
        let local = Server::builder("local", "1").tool(tool("t", async || "t")).build();
        let host = Host::builder("gateway", "1").server("s", &local).start().await.unwrap();
        over_http(Gateway::builder(host).build().unwrap().build()).await
    });
    Server::builder("child", "1").versions([version]).tool(pid).tool(gateway).build().serve_stdio().await.unwrap();
}

/// Returns a server of a revision in another process.
pub(crate) fn child(version: ProtocolVersion) -> ChildProcess {
    // With one thread, the test harness would print the name of the test before the first message.
    let test = "children::a_child_process_serves_stdio_and_ends_with_its_client";
    let arguments = ["--exact", test, "--nocapture", "-q", "--test-threads=2"].map(str::to_owned);
    ChildProcess::new(std::env::current_exe().unwrap()).args(arguments).env(SERVES, version.as_str())
}

fn is_running(pid: &str) -> bool {
    let stat = Path::new("/proc").join(pid).join("stat");
    std::fs::read_to_string(stat).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Counts the processes that a connector starts.
struct Counted(ChildProcess, Arc<AtomicUsize>);

impl Connect for Counted {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.connect()
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

#[tokio::test]
async fn fifty_sessions_share_the_processes_of_each_server() {
    for (up, declares_forms, processes) in [
        (REVISIONS[1], true, 1),
        (REVISIONS[0], false, 1),
        // A server of the session era receives the capabilities once, and the process that lists the items declares none.
        (REVISIONS[0], true, 2),
    ] {
        let case = format!("{up}, forms: {declares_forms}");
        let (mut host, started) = (Host::builder("gateway", "1").start_limit(SOON), Arc::<AtomicUsize>::default());
        for number in 0..SERVERS {
            let connector: Arc<dyn Connect> = Arc::new(Counted(child(up), Arc::clone(&started)));
            host = host.server(format!("s{number}"), connector);
        }
        let host = host.start().await.unwrap();
        let server = host.clone().into_server().unwrap().build();
        let (mut clients, mut pids) = (Vec::new(), Vec::new());
        for number in 0..SESSIONS {
            let mut client = client().versions([REVISIONS[number % REVISIONS.len()]]);
            if declares_forms {
                client = client.on_elicit(async |_form| Ok(ElicitResult::decline()));
            }
            let client = timeout(SOON, client.connect(&server)).await.unwrap().unwrap();
            assert_eq!(timeout(SOON, client.list_tools()).await.unwrap().unwrap().len(), 2 * SERVERS, "{case}");
            // Each session stays open.
            clients.push(client);
        }
        assert_eq!(started.load(Ordering::SeqCst), SERVERS, "{case}: sessions without calls");
        for client in &clients {
            for server in 0..SERVERS {
                let called = timeout(SOON, client.call_tool(format!("s{server}__pid"), ())).await.unwrap();
                pids.push(called.unwrap().text());
            }
        }
        pids.sort();
        pids.dedup();
        assert_eq!(pids.len(), SERVERS, "{case}: {pids:?}");
        assert_eq!(started.load(Ordering::SeqCst), SERVERS * processes, "{case}");
        assert!(pids.iter().all(|pid| is_running(pid)), "{case}: {pids:?}");
        drop((clients, server));
        timeout(END, host.shutdown()).await.unwrap();
        // The shutdown waits for the processes.
        assert!(!pids.iter().any(|pid| is_running(pid)), "{case}: {pids:?}");
    }
}
