//! Requests for a server that has not listed its items yet. The clock of these tests is paused.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_agent::{
    CallError, Gateway, Host, HostBuilder,
    filter::AnnotationMatch,
    policy::{AuditEvent, Effect, Policy, Rule},
};
use mcp_client::{
    Client, Reconnect,
    transport::{BoxFuture, Connect, Transport, TransportError},
};
use mcp_protocol::{CompletionReference, RpcError};
use mcp_server::prelude::*;
use mcp_test::peer::{Reply, ScriptedServer};
use serde_json::json;
use tokio::{
    sync::Semaphore,
    time::{Instant, advance, sleep},
};

use crate::common::{Pipe, REVISIONS, connect_as};

const SECOND: Duration = Duration::from_secs(1);

#[derive(Deserialize, JsonSchema)]
struct Topic {
    topic: String,
}

/// A server whose connections fail, or wait until the test permits them. It counts the attempts.
#[derive(Clone)]
struct Late {
    server: Pipe,
    fails: bool,
    permits: Arc<Semaphore>,
    attempts: Arc<AtomicUsize>,
}

impl Late {
    fn new(fails: bool) -> Self {
        Self { fails, ..Self::slow(Duration::ZERO) }
    }

    /// Returns a server whose tool and prompt need a time.
    fn slow(time: Duration) -> Self {
        let called = async move || {
            sleep(time).await;
            "called"
        };
        let written = async move |Args(Topic { topic }): Args<Topic>| {
            sleep(time).await;
            topic
        };
        let server = Server::builder("two", "1")
            .tool(tool("x", called))
            .prompt(prompt("x", written).complete_from("topic", ["rust"]))
            .build();
        let fails = false;
        Self { server: Pipe::new(server), fails, permits: Arc::new(Semaphore::new(0)), attempts: Arc::default() }
    }

    fn attempts(&self) -> usize {
        self.attempts.load(Ordering::SeqCst)
    }

    /// Returns the builder of a host with this server and another server. Without a call, the host does not repeat a failed attempt.
    fn host(&self) -> HostBuilder {
        Host::builder("gateway", "1")
            .reconnect(Reconnect::default().attempts(1))
            .start_limit(SECOND)
            .call_wait(5 * SECOND)
            .server("one", &Server::builder("one", "1").build())
            .server("two", self.clone())
    }
}

impl Connect for Late {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        self.attempts.fetch_add(1, Ordering::SeqCst);
        Box::pin(async {
            if self.fails {
                return Err(TransportError::unreachable("the port is closed"));
            }
            drop(self.permits.acquire().await);
            self.server.connect().await
        })
    }

    fn describe(&self) -> String {
        "a server that starts late".to_owned()
    }
}

async fn call(client: &Client, name: &str) -> RpcError {
    client.call_tool(name, ()).await.unwrap_err().rpc().unwrap().clone()
}

async fn prompt_of(client: &Client, name: &str) -> Result<String, RpcError> {
    let prompt = client.get_prompt(name, json!({ "topic": "rust" })).await;
    let text = prompt.map(|prompt| prompt.messages[0].content.as_text().unwrap().to_owned());
    text.map_err(|error| error.rpc().unwrap().clone())
}

async fn completions(client: &Client, name: &str) -> Result<Vec<String>, RpcError> {
    let completed = client.complete(CompletionReference::prompt(name), "topic", "").await;
    completed.map(|completed| completed.completion.values).map_err(|error| error.rpc().unwrap().clone())
}

/// Returns an error without the name of the request.
fn without(name: &str, error: &RpcError) -> String {
    format!("{error:?}").replace(name, "NAME")
}

#[tokio::test(start_paused = true)]
async fn a_server_that_the_policies_deny_is_unknown_and_does_not_start_for_the_caller() {
    let guest_at = || Rule::new(Effect::Deny).server("two".parse().unwrap()).principal("guest".parse().unwrap());
    for (version, fails) in REVISIONS.into_iter().flat_map(|version| [(version, true), (version, false)]) {
        let (late, events) = (Late::new(fails), Arc::<Mutex<Vec<AuditEvent>>>::default());
        let sink = Arc::clone(&events);
        let host = late
            .host()
            .policy(Policy::new().rule(guest_at().reason("Guests have one server.")))
            .audit(move |event: &AuditEvent| sink.lock().unwrap().push(event.clone()));
        let gateway = Gateway::builder(host.start().await.unwrap()).build().unwrap().versions([version]).build();
        let (ada, guest) = (connect_as(&gateway, "ada").await, connect_as(&gateway, "guest").await);
        // The next call can start a failed server again.
        advance(600 * SECOND).await;
        let (attempts, began) = (late.attempts(), Instant::now());
        for name in ["two__x", "two__y", "two:x"] {
            let unknown = without("three__x", &call(&guest, "three__x").await);
            assert_eq!(without(name, &call(&guest, name).await), unknown, "{version} {fails}");
        }
        let unknown = without("three__x", &prompt_of(&guest, "three__x").await.unwrap_err());
        assert_eq!(without("two__x", &prompt_of(&guest, "two__x").await.unwrap_err()), unknown, "{version} {fails}");
        assert_eq!((began.elapsed(), late.attempts()), (Duration::ZERO, attempts), "{version} {fails}");
        let denied: Vec<AuditEvent> = std::mem::take(&mut *events.lock().unwrap());
        assert_eq!(denied.iter().map(|event| &*event.tool).collect::<Vec<_>>(), ["x", "y", "x", "x"]);
        assert!(denied.iter().all(|event| event.reason.as_deref() == Some("Guests have one server.")), "{denied:?}");
        // The server exists for a caller with another of its tools.
        let error = call(&ada, "two__x").await;
        assert_eq!((error.code.0, &error.data.unwrap()["server"]), (-32603, &json!("two")), "{version} {fails}");
        assert!(!fails || late.attempts() > attempts);
    }
}

#[tokio::test(start_paused = true)]
async fn a_rule_for_some_tools_does_not_deny_the_others_before_they_are_known() {
    let rule = |effect| Rule::new(effect).server("two".parse().unwrap()).principal("guest".parse().unwrap());
    let read_only = || AnnotationMatch::new().read_only(true);
    let (any, some) = ("*".parse().unwrap(), "x*".parse().unwrap());
    for (rules, is_hidden) in [
        (vec![rule(Effect::Deny).tool(any)], true),
        (vec![rule(Effect::Deny).tool(some)], false),
        (vec![rule(Effect::Deny).annotation(read_only())], false),
        (vec![rule(Effect::Allow).annotation(read_only()), rule(Effect::Deny)], false),
        (vec![rule(Effect::Deny).prompt("*".parse().unwrap())], false),
        (vec![rule(Effect::Allow).prompt("*".parse().unwrap()), rule(Effect::Deny)], true),
        (vec![rule(Effect::Deny).principal("eve".parse().unwrap())], false),
    ] {
        let policy = rules.iter().cloned().fold(Policy::new(), Policy::rule);
        let host = Late::new(true).host().policy(policy).start().await.unwrap();
        let gateway = Gateway::builder(host).build().unwrap().build();
        let error = call(&connect_as(&gateway, "guest").await, "two__y").await;
        let expected = if is_hidden { -32602 } else { -32603 };
        assert_eq!(error.code.0, expected, "{rules:?}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_a_server_that_starts() {
    for version in REVISIONS {
        for (kind, name) in [("tool", "two__x"), ("prompt", "two__x"), ("completion", "two__x"), ("none", "two__y")] {
            let late = Late::new(false);
            let host = late.host().start().await.unwrap();
            let gateway = Gateway::builder(host).build().unwrap().versions([version]).build();
            let client = connect_as(&gateway, "ada").await;
            let began = Instant::now();
            let request = async {
                match kind {
                    "tool" => Ok(client.call_tool(name, ()).await.unwrap().text()),
                    "completion" => completions(&client, name).await.map(|values| values.join(" ")),
                    _ => prompt_of(&client, name).await,
                }
            };
            let permit = async {
                sleep(3 * SECOND).await;
                late.permits.add_permits(1);
            };
            let (result, ()) = tokio::join!(request, permit);
            let expected = match kind {
                "tool" => Ok("called"),
                "none" => Err(-32602),
                _ => Ok("rust"),
            };
            let result = result.as_deref().map_err(|error| error.code.0);
            assert_eq!((result, began.elapsed()), (expected, 3 * SECOND), "{version} {kind}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_of_a_request_includes_the_start_of_its_server() {
    const LIMIT: Duration = Duration::from_secs(4);
    for version in REVISIONS {
        for is_tool in [true, false] {
            // The host does not wait for the server, which starts after 3 seconds. The tool and the prompt need 3 seconds too.
            let late = Late::slow(3 * SECOND);
            let host = late.host().start_limit(Duration::ZERO).call_timeout(LIMIT).start().await.unwrap();
            let gateway = Gateway::builder(host).build().unwrap().versions([version]).build();
            let client = connect_as(&gateway, "ada").await;
            let began = Instant::now();
            let permit = async {
                sleep(3 * SECOND).await;
                late.permits.add_permits(1);
            };
            let request = async {
                match is_tool {
                    true => call(&client, "two__x").await,
                    false => prompt_of(&client, "two__x").await.unwrap_err(),
                }
            };
            let (error, ()) = tokio::join!(request, permit);
            assert_eq!(error.message, "the server did not answer in time", "{version} {is_tool}");
            assert!(began.elapsed() <= LIMIT + SECOND / 10, "{version} {is_tool}: {:?}", began.elapsed());
        }
        // A server that does not start does not delay the error beyond the limit.
        let host = Late::new(false).host().start_limit(Duration::ZERO).call_timeout(LIMIT).start().await.unwrap();
        let gateway = Gateway::builder(host).build().unwrap().versions([version]).build();
        let client = connect_as(&gateway, "ada").await;
        let began = Instant::now();
        assert_eq!(call(&client, "two__x").await.code.0, -32603);
        assert!(began.elapsed() <= LIMIT + SECOND / 10, "{version}: {:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_of_a_subscription_includes_the_start_of_its_server() {
    const LIMIT: Duration = Duration::from_secs(2);
    let empty = |list: &str| Reply::result(json!({ list: [] }));
    for starts in [true, false] {
        let scripted = ScriptedServer::for_revision(REVISIONS[0])
            .on("notifications/initialized", Reply::silence())
            .on("notifications/cancelled", Reply::silence())
            .on("resources/list", empty("resources"))
            .on("resources/templates/list", empty("resourceTemplates"))
            .on("prompts/list", empty("prompts"))
            .on("tools/list", empty("tools"))
            .on("resources/subscribe", Reply::silence())
            .on("resources/unsubscribe", Reply::silence());
        let builder = Late::new(false).host().start_limit(Duration::ZERO).call_wait(60 * SECOND);
        let host = builder.server("scripted", scripted).call_timeout(LIMIT).start().await.unwrap();
        let gateway = Gateway::builder(host).build().unwrap().versions([REVISIONS[0]]).build();
        let client = connect_as(&gateway, "ada").await;
        let (began, server) = (Instant::now(), if starts { "scripted" } else { "two" });
        let error = client.subscribe([format!("mcp://{server}/x:a")]).await.map(drop).unwrap_err();
        assert!(began.elapsed() <= LIMIT + SECOND / 10, "{server}: {:?}", began.elapsed());
        let (error, data) = (error.rpc().unwrap(), error.rpc().unwrap().data.as_ref().unwrap());
        assert_eq!((error.code.0, &data["server"], &data["retryable"]), (-32603, &json!(server), &json!(true)));
        let expected = match starts {
            true => "the server did not accept the subscription in time",
            false => "the server \"two\" is not available",
        };
        assert!(error.message.starts_with(expected), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_of_an_application_includes_the_wait_for_the_lists() {
    const LIMIT: Duration = Duration::from_secs(4);
    for is_tool in [true, false] {
        let late = Late::slow(3 * SECOND);
        let host = late.host().start_limit(Duration::ZERO).start().await.unwrap();
        let began = Instant::now();
        let permit = async {
            sleep(3 * SECOND).await;
            late.permits.add_permits(1);
        };
        let request = async {
            match is_tool {
                true => host.call("two__x", json!({})).timeout(LIMIT).await.map(drop),
                false => host.prompt("two:x", json!({ "topic": "rust" })).timeout(LIMIT).await.map(drop),
            }
        };
        let (result, ()) = tokio::join!(request, permit);
        assert!(matches!(result, Err(CallError::Client { .. })), "{is_tool}: {result:?}");
        let elapsed = began.elapsed();
        assert!((LIMIT..LIMIT + SECOND / 10).contains(&elapsed), "{is_tool}: {elapsed:?}");
    }
}
