//! Server extensions: methods, capabilities, registrations and background work.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_protocol::{JsonObject, PaginatedParams, Principal, ProtocolVersion, RpcError, ServerCapabilities};
use mcp_server_core::{
    RegistrationError, Server,
    engine::Refusal,
    extension::{
        BackgroundWork, MethodCall, MethodResult, MethodRoute, PagedList, Registrar, ResourceUpdate, ServerExtension,
        WeakServer,
    },
    resource, tool,
};
use serde::Deserialize;
use serde_json::json;

use crate::{
    common::{Connection, code, initialize, modern},
    json_client::{Client, code_and_text, names, request_with_scope},
};

/// Serves `example/echo`, `example/panic`, `example/wait` and a paged list `example/planets`.
#[derive(Default)]
struct Example {
    started: Arc<AtomicUsize>,
    stopped: Arc<AtomicUsize>,
}

#[derive(Deserialize)]
struct Echo {
    text: String,
}

async fn echo(call: MethodCall) -> Result<MethodResult, RpcError> {
    let Echo { text } = call.params()?;
    MethodResult::json(&json!({ "text": text, "method": call.name(), "_meta": { "example/by": "echo" } }))
}

impl ServerExtension for Example {
    fn register(&mut self, registrar: &mut Registrar<'_>) -> Result<(), RegistrationError> {
        let mut planets = PagedList::new("planets");
        for name in ["Mercury", "Venus", "Earth"] {
            planets.push(name, &json!({ "name": name }))?;
        }
        registrar.tool(tool("orbit", async || "round and round"))?;
        registrar.method(MethodRoute::new("example/echo", echo))?;
        registrar.method(MethodRoute::new("example/panic", async |_| panic!("no")))?;
        registrar.method(MethodRoute::immediate("example/panic_at_once", |_| panic!("no")))?;
        registrar.method(MethodRoute::new("example/wait", async |_| std::future::pending().await))?;
        registrar.method(
            MethodRoute::immediate("example/guarded", |_| MethodResult::json(&json!({}))).requires_scopes(["planets"]),
        )?;
        registrar.method(
            MethodRoute::immediate("example/new", |_| MethodResult::json(&json!({})))
                .revisions(ProtocolVersion::is_stateless),
        )?;
        registrar.method(MethodRoute::immediate("example/planets", move |request| {
            let params: PaginatedParams = request.params()?;
            planets.page(request, params.cursor.as_deref())
        }))
    }

    fn declare(&self, version: ProtocolVersion, capabilities: ServerCapabilities) -> ServerCapabilities {
        if !version.is_stateless() {
            return capabilities;
        }
        capabilities.with_extension("example/planets", JsonObject::new())
    }

    fn start(&self, _server: WeakServer) -> Option<BackgroundWork> {
        self.started.fetch_add(1, Ordering::SeqCst);
        Some(BackgroundWork::new(std::future::pending()))
    }

    fn stop(&self) {
        self.stopped.fetch_add(1, Ordering::SeqCst);
    }
}

fn server() -> Server {
    let server = Server::builder("t", "1").page_size(2).extension(Example::default());
    server.limits(|limits| limits.read_timeout = Duration::from_nanos(59_999_871_234)).build()
}

#[tokio::test]
async fn methods_of_an_extension_are_served_in_every_revision() {
    let server = server();
    for version in ProtocolVersion::ALL.iter().copied() {
        let mut client = Client::connect(&server, version).await;
        let result = client.result("example/echo", json!({ "text": "hi" })).await;
        assert_eq!((&result["text"], &result["method"]), (&json!("hi"), &json!("example/echo")));
        assert_eq!(result["_meta"]["example/by"], "echo");
        assert_eq!(result["resultType"].is_null(), !version.is_stateless(), "{version}");
        let planets = client.list("example/planets", "planets").await;
        assert_eq!(names(&planets, "name"), ["Mercury", "Venus", "Earth"]);
        assert_eq!(names(&client.list("tools/list", "tools").await, "name"), ["orbit"]);
        let declared = &client.opening["capabilities"]["extensions"]["example/planets"];
        assert_eq!(declared.is_object(), version.is_stateless(), "{version}");
        if version.is_stateless() {
            client.result("example/new", json!({})).await;
        } else {
            assert_eq!(code_and_text(&client.error("example/new", json!({})).await).0, -32601);
        }
    }
}

#[tokio::test]
async fn errors_of_an_extension_method_have_json_rpc_codes() {
    let mut client = Client::connect(&server(), ProtocolVersion::LATEST).await;
    for (method, params, code) in [
        ("example/echo", json!({}), -32602),
        ("example/planets", json!({ "cursor": "made up" }), -32602),
        ("example/panic", json!({}), -32603),
        ("example/panic_at_once", json!({}), -32603),
        ("example/unknown", json!({}), -32601),
    ] {
        let error = client.error(method, params).await;
        assert_eq!(code_and_text(&error).0, code, "{method}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_extension_method_exceeds_the_read_timeout() {
    let mut client = Client::connect(&server(), ProtocolVersion::LATEST).await;
    let id = client.start("example/wait", json!({})).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let response = client.response(id).await;
    assert_eq!(response["error"]["message"], "the method `example/wait` took longer than 60s");
}

#[tokio::test]
async fn an_extension_method_requires_its_scopes() {
    let server = server();
    let refused = request_with_scope(&server, "example/guarded", json!({}), |scope| scope).await.unwrap_err();
    assert!(matches!(&refused, Refusal::Denied(denied) if denied.scopes == ["planets"]), "{refused:?}");
    let principal = Arc::new(Principal::new("ada").with_scopes(["planets"]));
    request_with_scope(&server, "example/guarded", json!({}), |scope| scope.principal(Some(principal))).await.unwrap();
}

#[tokio::test]
async fn the_server_starts_and_stops_an_extension_once() {
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let (started, stopped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let build = || {
        let example = Example { started: started.clone(), stopped: stopped.clone() };
        Server::builder("t", "1").extension(example).build()
    };
    let (dropped, shut_down) = (build(), build());
    assert_eq!((started.load(Ordering::SeqCst), alive()), (2, 2));
    drop(dropped);
    assert_eq!(stopped.load(Ordering::SeqCst), 1);
    shut_down.shutdown();
    shut_down.shutdown();
    drop(shut_down);
    assert_eq!(stopped.load(Ordering::SeqCst), 2);
    let ended = async {
        while alive() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), ended).await.expect("background work still runs");
}

#[test]
fn the_next_runtime_restarts_background_work() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let started = Arc::new(AtomicUsize::new(0));
    let example = Example { started: started.clone(), ..Example::default() };
    let server = Server::builder("t", "1").extension(example).build();
    assert_eq!(started.load(Ordering::SeqCst), 0);
    for expected in 1..=2 {
        runtime().block_on(async {
            for _ in 0..2 {
                Client::connect(&server, ProtocolVersion::LATEST_LEGACY).await;
            }
        });
        assert_eq!(started.load(Ordering::SeqCst), expected);
    }
}

/// Registers one method.
struct One(&'static str);

impl ServerExtension for One {
    fn register(&mut self, registrar: &mut Registrar<'_>) -> Result<(), RegistrationError> {
        registrar.method(MethodRoute::immediate(self.0, |_| MethodResult::json(&json!({}))))
    }
}

#[test]
fn a_builder_rejects_methods_that_are_already_registered() {
    let build = |name| Server::builder::<()>("t", "1").extension(One("example/one")).try_extension(One(name));
    for (name, reason) in [
        ("example/one", "the method `example/one` is already registered"),
        ("tools/call", "the method `tools/call` belongs to the protocol itself"),
        ("initialize", "the method `initialize` belongs to the protocol itself"),
        (" ", "empty"),
    ] {
        let error = build(name).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    assert!(build("skills/list").is_ok());
}

#[tokio::test]
async fn a_resource_update_changes_the_list_in_one_step() {
    let routes = ["a:1", "a:2", "a:3"].map(|uri| resource(uri, async || "old"));
    let server = routes.into_iter().fold(Server::builder("t", "1"), |builder, route| builder.resource(route)).build();
    let mut client = Client::connect(&server, ProtocolVersion::LATEST_LEGACY).await;
    // The server has received `notifications/initialized` when it answers.
    client.result("ping", json!({})).await;
    let mut update = ResourceUpdate::default();
    update.remove("a:1");
    update.replace(resource("a:2", async || "new")).unwrap();
    update.replace(resource("a:9", async || "new")).unwrap();
    update.add(resource("a:3", async || "new")).unwrap();
    update.add(resource("a:4", async || "new")).unwrap();
    assert_eq!(server.resources().apply(update), ["a:3"]);
    assert_eq!(server.resources().names(), ["a:2", "a:3", "a:4"]);
    client.notification("notifications/resources/list_changed").await;
    for (uri, text) in [("a:2", "new"), ("a:3", "old"), ("a:4", "new")] {
        assert_eq!(server.read_resource(uri).await.unwrap().contents[0].as_text(), Some(text), "{uri}");
    }
}

/// Panics in one of its functions.
struct Faulty {
    place: &'static str,
    started: Arc<AtomicUsize>,
}

impl ServerExtension for Faulty {
    fn register(&mut self, _registrar: &mut Registrar<'_>) -> Result<(), RegistrationError> {
        Ok(())
    }

    fn declare(&self, _version: ProtocolVersion, capabilities: ServerCapabilities) -> ServerCapabilities {
        assert_ne!(self.place, "declare", "a secret");
        capabilities.with_extension("example/faulty", JsonObject::new())
    }

    fn built(&self) {
        assert_ne!(self.place, "built", "a secret");
    }

    fn start(&self, _server: WeakServer) -> Option<BackgroundWork> {
        self.started.fetch_add(1, Ordering::SeqCst);
        assert_ne!(self.place, "start", "a secret");
        let place = self.place;
        Some(BackgroundWork::new(async move {
            tokio::task::yield_now().await;
            assert_ne!(place, "work", "a secret");
            std::future::pending().await
        }))
    }

    fn stop(&self) {
        assert_ne!(self.place, "stop", "a secret");
    }
}

#[tokio::test]
async fn a_panic_of_an_extension_is_contained() {
    for place in ["built", "declare", "start", "work", "stop"] {
        let started = Arc::new(AtomicUsize::new(0));
        let stopped = Arc::new(AtomicUsize::new(0));
        let faulty = Faulty { place, started: started.clone() };
        let other = Example { stopped: stopped.clone(), ..Example::default() };
        let server = Server::builder("t", "1").extension(faulty).extension(other).build();
        for _ in 0..3 {
            let mut connection = Connection::connect(&server);
            for request in [initialize("2025-11-25"), modern(2, "server/discover", json!({}))] {
                let response = connection.exchange(request).await;
                assert_eq!(code(&response), (place == "declare").then_some(-32603), "{place} {response}");
                assert!(!response.to_string().contains("secret"), "{response}");
                let declared = &response["result"]["capabilities"]["extensions"]["example/faulty"];
                assert_eq!(declared.is_object(), !["built", "declare"].contains(&place), "{response}");
            }
        }
        assert_eq!(started.load(Ordering::SeqCst), usize::from(place != "built"), "{place}");
        server.shutdown();
        assert_eq!(stopped.load(Ordering::SeqCst), 1, "{place}");
    }
}
