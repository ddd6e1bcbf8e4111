//! Input requests that do not name their calls: each reaches the user of its call, or fails.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_agent::{CallError, Caller, Host, ServerOptions, Sharing};
use mcp_client::{
    Handler, InputContext,
    transport::{BoxFuture, Connect, Transport, TransportError, ndjson::Ndjson},
};
use mcp_protocol::{
    ClientCapabilities, ElicitResult, ElicitationCapability, FormElicitParams, JsonObject, ProtocolVersion, RpcError,
};
use mcp_server::prelude::*;
use tokio::{sync::Barrier, time::timeout};

use crate::common::TEST_TIMEOUT;

#[derive(Deserialize, JsonSchema)]
struct Answer {
    name: String,
}

/// A server of the session era that counts its connections. Each of them is a pipe, as over stdio, so its questions do not name
/// their calls.
#[derive(Clone)]
struct Asking {
    server: Server,
    connections: Arc<AtomicUsize>,
}

impl Asking {
    /// `together` calls run before the first of them asks.
    fn new(together: usize) -> Self {
        let barrier = Arc::new(Barrier::new(together));
        let ask = move |inputs: Inputs| {
            let barrier = Arc::clone(&barrier);
            async move {
                barrier.wait().await;
                let Answer { name } = inputs.elicit("name", "Your name?").await?;
                Ok::<_, ToolError>(name)
            }
        };
        let server =
            Server::builder("asking", "1").versions([ProtocolVersion::V2025_11_25]).tool(tool("t", ask)).build();
        Self { server, connections: Arc::default() }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Connect for Asking {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        self.connections.fetch_add(1, Ordering::SeqCst);
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let server = self.server.clone();
        tokio::spawn(async move {
            let (reader, writer) = tokio::io::split(theirs);
            server.serve(Ndjson::new(reader, writer)).await
        });
        let (reader, writer) = tokio::io::split(ours);
        Box::pin(async { Ok(Box::new(Ndjson::new(reader, writer)) as Box<dyn Transport>) })
    }

    fn describe(&self) -> String {
        "an asking server".to_owned()
    }
}

/// Answers each form with the name of the user, when this many users have a form.
struct User {
    name: String,
    together: Arc<Barrier>,
}

impl Handler for User {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::new().with_elicitation(ElicitationCapability::new())
    }

    fn elicit(&self, _: InputContext<FormElicitParams>) -> BoxFuture<'_, Result<ElicitResult, RpcError>> {
        Box::pin(async {
            self.together.wait().await;
            Ok(ElicitResult::accept(JsonObject::new().with("name", &*self.name)))
        })
    }
}

async fn host(server: &Asking, options: ServerOptions) -> Host {
    Host::builder("test", "1").server_with("s", server.clone(), options).start().await.unwrap()
}

/// Calls the tool for users of one principal and one session at the same time. Returns their names and their results.
async fn call_together(host: &Host, users: usize, together: &Arc<Barrier>) -> Vec<(String, Result<String, CallError>)> {
    let calls: Vec<_> = (0..users)
        .map(|n| {
            let (name, together) = (n.to_string(), Arc::clone(together));
            let user = User { name: name.clone(), together };
            let caller = Caller::new().principal("office").session("7").answers(Arc::new(user));
            let call = host.for_caller(caller).call("s:t", ()).into_future();
            tokio::spawn(async move { (name, call.await.map(|result| result.text())) })
        })
        .collect();
    let mut results = Vec::new();
    for call in calls {
        results.push(timeout(TEST_TIMEOUT, call).await.unwrap().unwrap());
    }
    results
}

#[tokio::test]
async fn a_server_that_asks_serves_one_call_at_a_time_on_each_connection() {
    // The principal has half of the connections, so two of its users have a form at the same time.
    for (options, together, connections) in
        [(ServerOptions::new(), 2, 3), (ServerOptions::new().sharing(Sharing::Session), 1, 2)]
    {
        let server = Asking::new(1);
        let host = host(&server, options.max_connections(4).asks()).await;
        for (name, result) in call_together(&host, 8, &Arc::new(Barrier::new(together))).await {
            assert_eq!(result.unwrap(), name);
        }
        assert_eq!(server.connections(), connections);
    }
}

#[tokio::test]
async fn the_host_learns_from_the_first_question_and_rejects_a_question_of_several_users() {
    let server = Asking::new(2);
    let host = host(&server, ServerOptions::new()).await;
    let mut events = host.status_events();
    let failed = async {
        loop {
            let status = events.next().await.unwrap();
            if !status.diagnostics.is_empty() {
                return status.diagnostics;
            }
        }
    };
    let alone = Arc::new(Barrier::new(1));
    let results = call_together(&host, 2, &alone).await;
    // The question of the last running call has a certain user again.
    let is_safe = |(name, result): &(String, Result<String, CallError>)| match result {
        Ok(text) => text == name || text.parse::<usize>().is_err(),
        Err(_) => true,
    };
    assert!(results.iter().all(is_safe), "a question reached another user: {results:?}");
    assert!(results.iter().any(|(name, result)| result.as_ref().ok() != Some(name)), "{results:?}");
    let diagnostics = timeout(TEST_TIMEOUT, failed).await.unwrap();
    assert!(diagnostics.len() == 1 && diagnostics[0].contains("`\"asks\": true`"), "{diagnostics:?}");
    assert_eq!(server.connections(), 2);
    for (name, result) in call_together(&host, 2, &alone).await {
        assert_eq!(result.unwrap(), name);
    }
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn a_question_of_a_cancelled_call_does_not_reach_the_next_user() {
    let server = Asking::new(1);
    let host = host(&server, ServerOptions::new().asks()).await;
    let never = Arc::new(Barrier::new(2));
    let caller = |name: &str, together: &Arc<Barrier>| {
        let user = User { name: name.to_owned(), together: Arc::clone(together) };
        Caller::new().principal("office").answers(Arc::new(user))
    };
    let cancelled = host.for_caller(caller("first", &never)).call("s:t", ()).into_future();
    assert!(timeout(Duration::from_millis(50), cancelled).await.is_err());
    let next = host.for_caller(caller("second", &Arc::new(Barrier::new(1)))).call("s:t", ()).into_future();
    assert_eq!(timeout(TEST_TIMEOUT, next).await.unwrap().unwrap().text(), "second");
}
