//! The connections of a session end with the session, also after requests without a result.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::sync::{Arc, atomic::AtomicUsize, atomic::Ordering};

use mcp_agent::{Gateway, Host, ServerOptions, Sharing};
use mcp_client::{
    Client,
    http::Http,
    transport::{BoxFuture, Connect, Transport, TransportError, ndjson::Ndjson},
};
use mcp_protocol::{ProtocolVersion, TaskSupport};
use mcp_server::{Server, tool};
use serde_json::json;
use tokio::{io::AsyncReadExt as _, sync::Notify, time::timeout};

use crate::common::{Processes, REVISIONS, SOON, client, over_http, raw};

const LEGACY: ProtocolVersion = REVISIONS[0];

/// Serves a gateway whose server has a connection for each session.
async fn gateway(connector: Arc<dyn Connect>) -> String {
    let options = ServerOptions::new().sharing(Sharing::Session);
    let host = Host::builder("gateway", "1").server_with("s", connector, options).start().await.unwrap();
    over_http(Gateway::builder(host).build().unwrap().versions([LEGACY]).build()).await
}

async fn connect(url: &str) -> Client {
    timeout(SOON, client().connect(Http::new(url).unwrap())).await.unwrap().unwrap()
}

fn processes() -> Processes {
    Processes::new(|_| {
        let build = tool("build", async || "built").task(TaskSupport::Optional);
        Server::builder("s", "1").versions([LEGACY]).tool(build).build()
    })
}

#[tokio::test]
async fn the_process_of_a_session_ends_after_a_failed_request() {
    let processes = processes();
    let url = gateway(Arc::new(processes.clone())).await;
    let owner = connect(&url).await;
    let created = raw(&owner, "tools/call", json!({ "name": "s__build", "task": {} })).await.unwrap();
    let id = &created["task"]["taskId"];
    assert!(id.is_string(), "{created}");
    assert_eq!(processes.started(), 2);
    // The process of another session has the task, so a request about it starts none.
    for (method, params, starts) in [
        ("resources/subscribe", json!({ "uri": "mcp://s/x:a" }), 1),
        ("resources/read", json!({ "uri": "mcp://s/x:a" }), 1),
        ("tasks/get", json!({ "taskId": id }), 0),
        ("tasks/result", json!({ "taskId": id }), 0),
        ("tasks/cancel", json!({ "taskId": id }), 0),
    ] {
        let (ada, started) = (connect(&url).await, processes.started());
        let error = raw(&ada, method, params).await.unwrap_err();
        if starts == 0 {
            let data = json!({ "server": "s", "reason": "other_session" });
            assert_eq!((&*error.message, error.data), ("Task not found", Some(data)), "{method}");
        }
        assert_eq!(processes.started(), started + starts, "{method}");
        timeout(SOON, ada.close()).await.unwrap();
        // The process that lists the items, and the process of the owner, remain.
        processes.until_running(2).await;
    }
}

/// A server whose first process lists the items, and whose other processes are silent.
struct Silent {
    first: Processes,
    connections: AtomicUsize,
    connected: Arc<Notify>,
    ended: Arc<Notify>,
}

impl Connect for Silent {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        if self.connections.fetch_add(1, Ordering::SeqCst) == 0 {
            return self.first.connect();
        }
        let (ours, mut theirs) = tokio::io::duplex(1 << 16);
        let ended = Arc::clone(&self.ended);
        tokio::spawn(async move {
            theirs.read_to_end(&mut Vec::new()).await.unwrap();
            ended.notify_one();
        });
        self.connected.notify_one();
        let (reader, writer) = tokio::io::split(ours);
        Box::pin(async { Ok(Box::new(Ndjson::new(reader, writer)) as Box<dyn Transport>) })
    }

    fn describe(&self) -> String {
        "a silent process".to_owned()
    }
}

#[tokio::test]
async fn the_process_of_a_session_ends_after_a_call_that_was_cancelled_at_its_start() {
    let (connected, ended) = (Arc::<Notify>::default(), Arc::<Notify>::default());
    let (first, connections) = (processes(), AtomicUsize::new(0));
    let silent = Silent { first, connections, connected: Arc::clone(&connected), ended: Arc::clone(&ended) };
    let ada = connect(&gateway(Arc::new(silent)).await).await;
    {
        let mut call = std::pin::pin!(ada.call_tool("s__build", ()).into_future());
        tokio::select! {
            _ = &mut call => panic!("a silent process has no result"),
            connected = timeout(SOON, connected.notified()) => connected.unwrap(),
        }
    }
    timeout(SOON, ada.close()).await.unwrap();
    timeout(SOON, ended.notified()).await.unwrap();
}
