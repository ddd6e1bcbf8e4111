//! The number of processes of a server of the session era: idle sessions share one process. The clock of these tests is paused.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{sync::Arc, time::Duration};

use mcp_agent::{Gateway, Host, ServerOptions};
use mcp_client::{Client, ClientBuilder, transport::Connect};
use mcp_protocol::{CreateMessageResult, ElicitResult, JsonObject, ProtocolVersion};
use mcp_server::prelude::*;
use tokio::{
    sync::Barrier,
    time::{sleep, timeout},
};

use crate::common::{Processes, REVISIONS, SOON, client, connect_as};

const LEGACY: ProtocolVersion = REVISIONS[0];
const SERVERS: usize = 8;
const SESSIONS: usize = 50;
/// Longer than the time after which an idle connection of callers ends.
const IDLE: Duration = Duration::from_secs(301);

#[derive(Deserialize, JsonSchema)]
struct Answer {
    name: String,
}

/// A server whose tool `plain` returns at once, and whose tool `form` asks for a name.
fn server() -> Server {
    Server::builder("s", "1")
        .versions([LEGACY])
        .tool(tool("plain", async || "done"))
        .tool(tool("form", async |inputs: Inputs| {
            let Answer { name } = inputs.elicit("name", "Your name?").await?;
            Ok::<_, ToolError>(name)
        }))
        .build()
}

fn processes() -> Processes {
    Processes::new(|_| server())
}

/// Returns a gateway in front of a server.
async fn gateway(processes: &Processes, options: ServerOptions, down: ProtocolVersion) -> Server {
    let connector: Arc<dyn Connect> = Arc::new(processes.clone());
    let host = Host::builder("gateway", "1").server_with("s", connector, options).start().await.unwrap();
    Gateway::builder(host).build().unwrap().versions([down]).build()
}

/// Returns a client that servers can ask.
fn with_forms() -> ClientBuilder {
    client().on_elicit(async |_form| Ok(ElicitResult::accept(JsonObject::new().with("name", "ada"))))
}

async fn call(client: &Client, name: &str) -> String {
    timeout(SOON, client.call_tool(name, ()).into_future()).await.unwrap().unwrap().text()
}

#[tokio::test(start_paused = true)]
async fn fifty_idle_sessions_with_forms_share_the_process_of_each_server() {
    for down in REVISIONS {
        let servers: Vec<Processes> = (0..SERVERS).map(|_| processes()).collect();
        let mut host = Host::builder("gateway", "1");
        for (number, processes) in servers.iter().enumerate() {
            let connector: Arc<dyn Connect> = Arc::new(processes.clone());
            host = host.server(format!("s{number}"), connector);
        }
        let gateway = Gateway::builder(host.start().await.unwrap()).build().unwrap().versions([down]).build();
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS {
            let session = with_forms().connect(&gateway).await.unwrap();
            assert_eq!(session.list_tools().await.unwrap().len(), 2 * SERVERS);
            sessions.push(session);
        }
        let started = || servers.iter().map(Processes::started).collect::<Vec<_>>();
        assert_eq!(started(), [1; SERVERS], "{down}: sessions without calls");
        for session in &sessions {
            for server in 0..SERVERS {
                assert_eq!(call(session, &format!("s{server}__plain")).await, "done");
            }
        }
        // The process that lists the items declares no forms, so the calls share another process.
        assert_eq!(started(), [2; SERVERS], "{down}");
        sleep(IDLE).await;
        for processes in &servers {
            processes.until_running(1).await;
        }
        // The sessions are still open.
        assert_eq!(call(&sessions[0], "s0__plain").await, "done", "{down}");
        assert_eq!(servers[0].started(), 3, "{down}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_set_of_capabilities_and_each_principal_has_a_process_until_it_is_idle() {
    for down in REVISIONS {
        let processes = processes();
        let gateway = gateway(&processes, ServerOptions::new(), down).await;
        let with_model = || client().on_sample(async |_question| Ok(CreateMessageResult::new("model", "text")));
        let mut sessions = Vec::new();
        for (builder, expected) in
            [(client(), 1), (with_forms(), 2), (with_forms(), 2), (with_model(), 3), (client(), 3)]
        {
            let session = builder.connect(&gateway).await.unwrap();
            assert_eq!(call(&session, "s__plain").await, "done");
            assert_eq!(processes.started(), expected, "{down}");
            sessions.push(session);
        }
        // The callers without a principal used the process that lists the items first, so it is theirs.
        for (user, expected) in [("ada", 4), ("ada", 4), ("grace", 5)] {
            let session = connect_as(&gateway, user).await;
            assert_eq!(call(&session, "s__plain").await, "done");
            assert_eq!(processes.started(), expected, "{down} {user}");
            sessions.push(session);
        }
        processes.until_running(5).await;
        sleep(IDLE).await;
        processes.until_running(1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn each_call_at_the_same_time_has_a_process_after_the_first_question() {
    const CALLS: usize = 3;
    for down in REVISIONS {
        let processes = processes();
        let gateway = gateway(&processes, ServerOptions::new(), down).await;
        assert_eq!(call(&with_forms().connect(&gateway).await.unwrap(), "s__form").await, "ada", "{down}");
        // Calls one after the other share a process.
        for _ in 0..CALLS {
            assert_eq!(call(&with_forms().connect(&gateway).await.unwrap(), "s__plain").await, "done", "{down}");
        }
        assert_eq!(processes.started(), 2, "{down}");
        // No user answers before all calls have asked.
        let asked = Arc::new(Barrier::new(CALLS));
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..CALLS {
            let asked = Arc::clone(&asked);
            let user = client().on_elicit(move |_form| {
                let asked = Arc::clone(&asked);
                async move {
                    asked.wait().await;
                    Ok(ElicitResult::accept(JsonObject::new().with("name", "ada")))
                }
            });
            let user = user.connect(&gateway).await.unwrap();
            calls.spawn(async move { call(&user, "s__form").await });
        }
        assert_eq!(calls.join_all().await, ["ada"; CALLS], "{down}");
        assert_eq!(processes.started(), 1 + CALLS, "{down}");
        sleep(IDLE).await;
        processes.until_running(1).await;
    }
}
