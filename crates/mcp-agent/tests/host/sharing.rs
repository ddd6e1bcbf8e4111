//! The connections of callers: which callers share one, how many there are, and when they end.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_agent::{CallError, Caller, Host, HostBuilder, ServerOptions, ServerState, Sharing};
use mcp_client::{
    Handler, InputContext, Reconnect,
    transport::{BoxFuture, Connect, Transport, TransportError},
};
use mcp_protocol::{
    ClientCapabilities, ElicitResult, ElicitationCapability, FormElicitParams, JsonObject, RootsCapability, RpcError,
};
use mcp_test::peer::{Reply, ScriptedServer};
use serde_json::json;
use tokio::time::timeout;

use crate::common::{TEST_TIMEOUT, scripted, server, text, until_state};

fn builder() -> HostBuilder {
    Host::builder("test", "1")
}

fn done() -> ScriptedServer {
    scripted(&["t"]).on("tools/call", text("done"))
}

async fn call(host: &Host, caller: &Caller) -> Result<String, CallError> {
    let call = host.for_caller(caller.clone()).call("s:t", ());
    timeout(TEST_TIMEOUT, call.into_future()).await.unwrap().map(|result| result.text())
}

fn elicits() -> ClientCapabilities {
    ClientCapabilities::new().with_elicitation(ElicitationCapability::new())
}

#[tokio::test]
async fn callers_share_a_connection_by_principal_and_capabilities() {
    let upstream = done();
    let host = builder().server("s", upstream.clone()).start().await.unwrap();
    let ada = Caller::new().principal("ada");
    for session in 0..50 {
        call(&host, &ada.clone().session(session.to_string())).await.unwrap();
    }
    assert_eq!(upstream.connections(), 1, "the connection that lists the items serves the first principal");
    let with_capabilities = ada.clone().capabilities(elicits());
    let other = Caller::new().principal("bob");
    let roots = ada.clone().capabilities(ClientCapabilities::new().with_roots(RootsCapability::new()));
    for (caller, connections) in [
        (&ada, 1),
        (&with_capabilities, 2),
        (&other, 3),
        (&with_capabilities, 3),
        (&ada.clone().capabilities(ClientCapabilities::new()), 3),
        (&roots, 4),
        (&Caller::new(), 5),
        (&other, 5),
    ] {
        assert_eq!(call(&host, caller).await.unwrap(), "done");
        assert_eq!(upstream.connections(), connections, "{caller:?}");
    }
    let declared = upstream.seen_of("initialize");
    let declared: Vec<_> = declared.iter().map(|request| request["params"]["capabilities"].clone()).collect();
    assert_eq!(declared, [json!({}), json!({ "elicitation": {} }), json!({}), json!({ "roots": {} }), json!({})]);
    assert_eq!(upstream.seen_of("tools/list").len(), 1, "only one connection lists the items");
    // The option of a call replaces the caller of the host.
    host.call("s:t", ()).caller(other).await.unwrap();
    assert_eq!(upstream.connections(), 5);
    timeout(TEST_TIMEOUT, host.shutdown()).await.unwrap();
    assert_eq!(upstream.open_connections(), 0);
}

#[tokio::test]
async fn all_callers_share_a_connection_if_the_server_permits_it() {
    let upstream = done();
    let options = ServerOptions::new().sharing(Sharing::All);
    let host = builder().server_with("s", upstream.clone(), options).start().await.unwrap();
    for n in 0..10 {
        call(&host, &Caller::new().principal(n.to_string()).session("x")).await.unwrap();
    }
    assert_eq!(upstream.connections(), 1);
    call(&host, &Caller::new().capabilities(elicits())).await.unwrap();
    assert_eq!(upstream.connections(), 2, "declared capabilities belong to a connection");
}

#[tokio::test]
async fn principals_with_credentials_of_their_own_have_their_own_connections() {
    let (common, of_ada) = (done(), scripted(&["t"]).on("tools/call", text("ada")));
    let connector: Arc<dyn Connect> = Arc::new(of_ada.clone());
    let options = ServerOptions::new()
        .sharing(Sharing::All)
        .connector_of(move |principal| (principal == "ada").then(|| Arc::clone(&connector)));
    let host = builder().server_with("s", common.clone(), options).start().await.unwrap();
    assert_eq!(call(&host, &Caller::new().principal("ada")).await.unwrap(), "ada");
    assert_eq!(call(&host, &Caller::new()).await.unwrap(), "done");
    assert_eq!(call(&host, &Caller::new().principal("bob")).await.unwrap(), "done");
    assert_eq!((common.connections(), of_ada.connections()), (2, 1));
}

#[tokio::test]
async fn the_connection_that_was_not_used_for_the_longest_time_makes_room() {
    let upstream = scripted(&["t", "slow"]).on("tools/call", text("done"));
    let options = ServerOptions::new().max_connections(3);
    let host = builder().server_with("s", upstream.clone(), options).start().await.unwrap();
    call(&host, &Caller::new()).await.unwrap();
    for n in 0..20 {
        call(&host, &Caller::new().principal(n.to_string())).await.unwrap();
        assert!(upstream.open_connections() <= 3);
    }
    assert_eq!(upstream.connections(), 21);
    call(&host, &Caller::new().principal("19")).await.unwrap();
    assert_eq!(upstream.connections(), 21, "the newest connections stay");
}

#[tokio::test]
async fn a_principal_leaves_connections_for_others() {
    for sharing in [Sharing::Principal, Sharing::Session] {
        let upstream = scripted(&["t"]).on("tools/call", Reply::silence());
        let options = ServerOptions::new().sharing(sharing).max_connections(40).connections_per_principal(30);
        let host = builder().server_with("s", upstream.clone(), options).start().await.unwrap();
        let calls = |principal: &'static str, number: usize| {
            let mut declared = ClientCapabilities::new();
            declared.extensions.get_or_insert_default().insert(format!("example.com/{number}"), Default::default());
            let caller = Caller::new().principal(principal).session(number.to_string()).capabilities(declared);
            host.for_caller(caller).call("s:t", ())
        };
        let waiting: Vec<_> = (0..30).map(|number| tokio::spawn(calls("ada", number).into_future())).collect();
        upstream.wait_for("tools/call", 30).await;
        let limited = calls("ada", 30).timeout(Duration::from_millis(50));
        let full = timeout(TEST_TIMEOUT, limited.into_future()).await.unwrap().unwrap_err();
        assert!(full.to_string().contains("in use"), "{full}");
        assert!(waiting.iter().all(|call| !call.is_finished()));
        waiting.into_iter().for_each(|call| call.abort());
        let bob = tokio::spawn(calls("bob", 0).into_future());
        upstream.wait_for("tools/call", 31).await;
        bob.abort();
    }
}

#[tokio::test]
async fn closures_of_the_application_answer_no_question_of_a_caller() {
    let upstream = done();
    let sampler = async |_| Err(RpcError::internal("the sampler of the host"));
    let host = builder()
        .clients(move |_, client| client.on_sample(sampler).roots([]))
        .server("s", upstream.clone())
        .start()
        .await
        .unwrap();
    call(&host, &Caller::new()).await.unwrap();
    call(&host, &Caller::new().capabilities(ClientCapabilities::new())).await.unwrap();
    let declared = upstream.seen_of("initialize");
    let declared: Vec<_> = declared.iter().map(|request| &request["params"]["capabilities"]).collect();
    assert_eq!(declared[1], &json!({}), "{declared:?}");
    assert!(declared[0]["sampling"].is_object() && declared[0]["roots"].is_object(), "{declared:?}");
}

#[tokio::test]
async fn callers_wait_for_a_connection_that_makes_room() {
    let upstream = done();
    let options = ServerOptions::new().max_connections(2);
    let host = builder().server_with("s", upstream.clone(), options).start().await.unwrap();
    call(&host, &Caller::new()).await.unwrap();
    // Callers of four principals use the only other connection in turn.
    let calls: Vec<_> = (0..40)
        .map(|n| {
            let host = host.clone();
            tokio::spawn(async move { call(&host, &Caller::new().principal((n % 4).to_string())).await })
        })
        .collect();
    for called in calls {
        assert_eq!(timeout(TEST_TIMEOUT, called).await.unwrap().unwrap().unwrap(), "done");
    }
    assert!(upstream.open_connections() <= 2);
}

#[tokio::test]
async fn a_call_waits_for_a_connection_within_its_limit() {
    let upstream = scripted(&["t"]).on("tools/call", Reply::silence());
    let options = ServerOptions::new().max_connections(2);
    let host = builder().server_with("s", upstream.clone(), options).start().await.unwrap();
    let of_principal = |name: &str| host.for_caller(Caller::new().principal(name));
    let first = tokio::spawn(of_principal("ada").call("s:t", ()).into_future());
    upstream.wait_for("tools/call", 1).await;
    let second = tokio::spawn(of_principal("bob").call("s:t", ()).into_future());
    upstream.wait_for("tools/call", 2).await;
    let limited = of_principal("eve").call("s:t", ()).timeout(Duration::from_millis(50));
    let full = timeout(TEST_TIMEOUT, limited.into_future()).await.unwrap().unwrap_err();
    let expected =
        "no connection to the server s is free: its connections were in use for 50ms (at most 2, and 1 of a principal)";
    assert_eq!(full.to_string(), expected);
    // The limit of a principal does not hold for callers without one.
    let anonymous = host.for_caller(Caller::new().capabilities(elicits()));
    let full = timeout(TEST_TIMEOUT, anonymous.call("s:t", ()).timeout(Duration::from_millis(50)).into_future());
    let full = full.await.unwrap().unwrap_err();
    assert!(full.to_string().ends_with("were in use for 50ms (at most 2)"), "{full}");
    let third = tokio::spawn(of_principal("eve").call("s:t", ()).into_future());
    second.abort();
    assert!(second.await.unwrap_err().is_cancelled());
    upstream.wait_for("tools/call", 3).await;
    first.abort();
    third.abort();
}

#[tokio::test]
async fn an_idle_connection_of_a_caller_ends() {
    let upstream = done();
    let options = ServerOptions::new().idle_stop(Duration::from_millis(50));
    let host = builder().server_with("s", upstream.clone(), options).start().await.unwrap();
    let ada = Caller::new().principal("ada").capabilities(elicits());
    for connections in [2, 3] {
        assert_eq!(call(&host, &ada).await.unwrap(), "done");
        assert_eq!(upstream.connections(), connections);
        upstream.wait_until_disconnected().await;
        until_state(&host, "s", ServerState::Stopped).await;
    }
}

// The clock is paused. It advances only while each task waits for a time.
#[tokio::test(start_paused = true)]
async fn the_connection_of_a_session_has_no_default_idle_time() {
    for (sharing, connections) in [(Sharing::Principal, 3), (Sharing::Session, 2)] {
        let upstream = done();
        let options = ServerOptions::new().sharing(sharing);
        let host = builder().server_with("s", upstream.clone(), options).start().await.unwrap();
        let ada = Caller::new().principal("ada").session("x").capabilities(elicits());
        for _ in 0..2 {
            assert_eq!(call(&host, &ada).await.unwrap(), "done");
            tokio::time::sleep(Duration::from_secs(3600)).await;
        }
        assert_eq!(upstream.connections(), connections, "{sharing:?}");
        host.disconnect(&ada).await;
        assert_eq!(upstream.open_connections(), 1, "{sharing:?}");
    }
}

#[tokio::test]
async fn a_server_without_approval_is_started_for_no_caller() {
    let upstream = done();
    let options = ServerOptions::new().needs_approval();
    let host = builder().server_with("s", upstream.clone(), options).start().await.unwrap();
    for caller in [Caller::new(), Caller::new().principal("ada"), Caller::new().capabilities(elicits())] {
        let refused = host.for_caller(caller).client("s").await.unwrap_err();
        assert!(matches!(refused, CallError::Unavailable { state: ServerState::NeedsApproval, .. }), "{refused}");
    }
    assert_eq!(upstream.connections(), 0);
}

#[tokio::test]
async fn a_removed_server_ends_the_connections_of_all_callers() {
    let upstream = done();
    let host = builder().server("s", upstream.clone()).start().await.unwrap();
    for n in 0..3 {
        call(&host, &Caller::new().principal(n.to_string())).await.unwrap();
    }
    assert_eq!(upstream.open_connections(), 3);
    let of_2 = Caller::new().principal("2");
    host.disconnect(&of_2).await;
    assert_eq!(upstream.open_connections(), 2);
    assert!(timeout(TEST_TIMEOUT, host.remove("s")).await.unwrap());
    assert_eq!(upstream.open_connections(), 0);
    assert!(call(&host, &of_2).await.is_err());
}

/// Answers each form with the name of its user.
struct User(&'static str);

impl Handler for User {
    fn capabilities(&self) -> ClientCapabilities {
        elicits()
    }

    fn elicit(&self, _: InputContext<FormElicitParams>) -> BoxFuture<'_, Result<ElicitResult, RpcError>> {
        Box::pin(async { Ok(ElicitResult::accept(JsonObject::new().with("name", self.0))) })
    }
}

#[tokio::test]
async fn the_handler_of_a_caller_answers_its_calls_alone() {
    use mcp_server::prelude::*;
    #[derive(Deserialize, JsonSchema)]
    struct Answer {
        name: String,
    }
    let asking = Server::builder("asking", "1")
        .tool(tool("t", async |inputs: Inputs| {
            let Answer { name } = inputs.elicit("name", "Your name?").await?;
            Ok::<_, ToolError>(name)
        }))
        .build();
    let host = builder().server("s", &asking).server("other", &server("other", &["x"])).start().await.unwrap();
    let users = ["ada", "bob"].map(|name| Caller::new().principal(name).answers(Arc::new(User(name))));
    for _ in 0..20 {
        let calls = users.clone().map(|user| host.for_caller(user).call("s:t", ()).into_future());
        let [ada, bob] = calls;
        let (ada, bob) = tokio::join!(ada, bob);
        assert_eq!((ada.unwrap().text(), bob.unwrap().text()), ("ada".to_owned(), "bob".to_owned()));
    }
    // The host itself answers no form.
    let unanswered = timeout(TEST_TIMEOUT, host.call("s:t", ()).into_future()).await.unwrap();
    assert!(unanswered.as_ref().map_or(true, |result| result.is_error), "{unanswered:?}");
}

#[tokio::test]
async fn the_handlers_of_the_host_do_not_answer_a_caller_with_capabilities() {
    use mcp_server::prelude::*;
    #[derive(Deserialize, JsonSchema)]
    struct Answer {
        name: String,
    }
    let ask = async |inputs: Inputs| {
        let Answer { name } = inputs.elicit("name", "Your name?").await?;
        Ok::<_, ToolError>(name)
    };
    let asking = Server::builder("asking", "1").tool(tool("t", ask)).build();
    let host = builder().server("s", &asking).handlers(|_| Arc::new(User("host"))).start().await.unwrap();
    assert_eq!(host.call("s:t", ()).await.unwrap().text(), "host");
    let bob = host.for_caller(Caller::new().principal("bob").capabilities(elicits()));
    let unanswered = timeout(TEST_TIMEOUT, bob.call("s:t", ()).into_future()).await.unwrap();
    assert!(unanswered.as_ref().map_or(true, |result| result.is_error), "{unanswered:?}");
}

struct Unreachable;

impl Connect for Unreachable {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        Box::pin(std::future::ready(Err(TransportError::unreachable("the credentials have expired"))))
    }

    fn describe(&self) -> String {
        "an unreachable server".into()
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_connection_of_a_caller_ends_and_the_next_one_has_new_credentials() {
    let (asked, of_ada) = (Arc::new(AtomicUsize::new(0)), done());
    let count = Arc::clone(&asked);
    let options = ServerOptions::new().connector_of(move |_| {
        let is_first = count.fetch_add(1, Ordering::SeqCst) == 0;
        Some(if is_first { Arc::new(Unreachable) } else { Arc::new(of_ada.clone()) as Arc<dyn Connect> })
    });
    let policy = Reconnect::default().attempts(1).first(Duration::from_secs(10));
    let host = builder().reconnect(policy).server_with("s", done(), options).start().await.unwrap();
    let ada = Caller::new().principal("ada");
    call(&host, &ada).await.unwrap_err();
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(call(&host, &ada).await.unwrap(), "done");
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}
