//! Faults of servers in errors and log records: each of them names its server.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    fmt::Debug,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mcp_agent::{Gateway, Host, ItemKind, Names};
use mcp_client::transport::Connect;
use mcp_protocol::{ElicitResult, ProtocolVersion, RpcError};
use mcp_server::{
    Server,
    source::{Source, SourceCall, SourceList, SourceOutcome, SourcePage, SourceResult, SourceSubscription},
    tool,
};
use mcp_transport::BoxFuture;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tracing::{Dispatch, Event, Subscriber, field::Field};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt as _},
};

use crate::common::{Pipe, Processes, REVISIONS, SOON, client, complete, gateway, page};

const LATEST: ProtocolVersion = REVISIONS[1];

/// A server of 2026-07-28 whose tool returns this input request.
struct Asking(Value);

impl Source for Asking {
    fn list(&self, list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        page((list == SourceList::Tools).then_some(r#"{"name":"ask","inputSchema":{"type":"object"}}"#))
    }

    fn call_tool(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        let requests = json!({ "q": self.0 });
        let result = json!({ "resultType": "input_required", "requestState": "x", "inputRequests": requests });
        let result = SourceResult::new(result.to_string(), LATEST);
        Box::pin(std::future::ready(Ok(SourceOutcome::InputRequired(result))))
    }
}

#[tokio::test]
async fn the_error_of_a_question_that_a_client_cannot_receive_names_the_server() {
    let form = json!({ "requestedSchema": { "type": "object", "properties": {} } });
    let page = json!({ "mode": "url", "message": "?", "url": "https://a.example/", "elicitationId": "1" });
    let warnings = Warnings::default();
    let _default = tracing::dispatcher::set_default(&warnings.dispatch());
    let undeclared = "the server \"s\" sent an input request that the client did not declare";
    for (params, down, expected) in [
        (&page, REVISIONS[0], undeclared),
        (&page, REVISIONS[1], undeclared),
        (&form, REVISIONS[0], "the input request \"q\" of the server \"s\" is not valid: `message` must be a string"),
    ] {
        let source = Asking(json!({ "method": "elicitation/create", "params": params }));
        let server = Server::builder::<()>("s", "1").versions([LATEST]).source(source).build();
        let gateway = gateway(&[("s", &server)]).await.build().unwrap().versions([down]).build();
        let user = client().on_elicit(async |_form| Ok(ElicitResult::decline())).connect(&gateway).await.unwrap();
        let called = timeout(SOON, user.call_tool("s__ask", ()).into_future()).await.unwrap();
        let error = called.unwrap_err().rpc().unwrap().clone();
        let data = json!({ "server": "s", "retryable": false });
        assert_eq!((&*error.message, error.data), (expected, Some(data)), "{down}");
        let record = warnings.0.lock().unwrap().pop().unwrap();
        // The client declared forms.
        assert_eq!(record.contains("elicitation/create in URL mode"), expected == undeclared, "{down}: {record}");
        assert!(record.contains("server=\"s\""), "{down}: {record}");
    }
}

/// The texts and the fields of the warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() == tracing::Level::WARN {
            let mut fields = Vec::new();
            event.record(&mut |field: &Field, value: &dyn Debug| fields.push(format!("{field}={value:?}")));
            self.0.lock().unwrap().push(fields.join(" "));
        }
    }
}

impl Warnings {
    fn dispatch(&self) -> Dispatch {
        Dispatch::new(tracing_subscriber::registry().with(self.clone()))
    }
}

/// A server with invalid resources, and a valid one.
struct Twice(usize);

impl Source for Twice {
    fn list(&self, list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        let long = "u".repeat(2000);
        let invalid = (0..self.0).map(|n| format!(r#"{{"uri":"x:{n}{long}","name":"n","later":1,"later":2}}"#));
        let all: Vec<String> = invalid.chain([r#"{"uri":"x:valid","name":"n"}"#.to_owned()]).collect();
        page(all.iter().map(String::as_str).filter(|_| list == SourceList::Resources))
    }
}

#[tokio::test]
async fn each_invalid_definition_is_logged_once() {
    const INVALID: usize = 110;
    let warnings = Warnings::default();
    let _default = tracing::dispatcher::set_default(&warnings.dispatch());
    let invalid = Server::builder::<()>("s", "1").versions([LATEST]).source(Twice(INVALID)).build();
    let healthy = Server::builder("t", "1").tool(tool("a", async || "a")).build();
    let host = Host::builder("gateway", "1").server("s", &invalid).server("t", &healthy).start().await.unwrap();
    let gateway = Gateway::builder(host.clone()).gateway();
    // Another server changes its list, so the gateway merges all lists again.
    for (name, count) in [("b", 2), ("c", 3)] {
        let items = gateway.invalid_items();
        let error = items[1].to_string();
        assert_eq!((items.len(), items[1].kind, &*items[1].server), (INVALID, ItemKind::Resource, "s"));
        assert!(items[1].name.starts_with("mcp://s/x:1uu") && items[1].name.len() == 1024, "{error}");
        assert!(error.contains("occurs twice"), "{error}");
        healthy.tools().add(tool(name, async || "x")).unwrap();
        let mut changes = host.catalog_changes();
        let changed = changes.wait_for(|catalog| catalog.tools().len() == count);
        timeout(SOON, changed).await.unwrap().unwrap();
    }
    assert_eq!(gateway.invalid_items().len(), INVALID);
    let warnings = warnings.0.lock().unwrap();
    let of_items: Vec<_> = warnings.iter().filter(|record| record.contains("does not serve")).collect();
    assert_eq!(of_items.len(), 101, "{of_items:?}");
    assert!(of_items.iter().all(|record| record.len() < 400), "{of_items:?}");
    assert!(of_items[100].contains("items=10"), "{}", of_items[100]);
}

/// A server with a name that occurs twice in an inner object of definitions.
struct TwiceInside;

impl Source for TwiceInside {
    fn list(&self, list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        let of_list: &[&str] = match list {
            SourceList::Tools => &[
                r#"{"name":"a","inputSchema":{"type":"object","properties":{"x":{"description":"1"},"x":{"description":"2"}}}}"#,
                r#"{"name":"b","inputSchema":{"type":"object"},"outputSchema":{"type":"object","x":{"y":1,"\u0079":2}}}"#,
                r#"{"name":"valid","inputSchema":{"type":"object"}}"#,
            ],
            SourceList::Resources => &[r#"{"uri":"x:1","name":"n","_meta":{"a":[{"b":1,"b":2}]}}"#],
            SourceList::Prompts => &[r#"{"name":"p","later":{"a":1,"a":1}}"#],
            SourceList::ResourceTemplates => &[r#"{"uriTemplate":"x:{a}","name":"n","later":1,"later":1}"#],
            _ => &[],
        };
        page(of_list.iter().copied())
    }
}

#[tokio::test]
async fn a_definition_with_a_name_twice_in_an_inner_object_is_not_served() {
    for names in [Names::Provider, Names::Raw] {
        let server = Server::builder::<()>("s", "1").versions([LATEST]).source(TwiceInside).build();
        let host = Host::builder("gateway", "1").server("s", &server).start().await.unwrap();
        let gateway = Gateway::builder(host).names(names).gateway();
        let invalid: Vec<_> = gateway.invalid_items().iter().map(|item| item.kind).collect();
        assert_eq!(
            invalid,
            [ItemKind::Tool, ItemKind::Tool, ItemKind::Resource, ItemKind::ResourceTemplate, ItemKind::Prompt],
            "{names:?}"
        );
    }
}

/// A server that cannot list its items.
struct Broken;

impl Source for Broken {
    fn list(&self, _list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        Box::pin(std::future::ready(Err(RpcError::internal("broken"))))
    }
}

// The clock is paused. It advances only while each task waits for a time.
#[tokio::test(start_paused = true)]
async fn the_record_of_an_incomplete_list_names_the_server_once() {
    let warnings = Warnings::default();
    let _default = tracing::dispatcher::set_default(&warnings.dispatch());
    let server = Server::builder::<()>("s", "1").versions([REVISIONS[0]]).source(Broken).build();
    let host = Host::builder("gateway", "1").server("files", Pipe::new(server)).start().await.unwrap();
    // The lists are read again meanwhile.
    sleep(Duration::from_secs(60)).await;
    let warnings = warnings.0.lock().unwrap();
    let records: Vec<_> = warnings.iter().filter(|record| record.contains("a list is incomplete")).collect();
    assert!(records.len() == 1 && records[0].contains("server=\"files\""), "{warnings:?}");
    assert!(records[0].contains("lists=\"tools, resources, resource templates, prompts\""), "{warnings:?}");
    drop(host);
}

/// A server whose lists fail after a call. Only the process of the call reports the change.
#[derive(Default)]
struct Breaking {
    is_broken: AtomicBool,
    server: Arc<OnceLock<Server>>,
}

impl Source for Breaking {
    fn list(&self, list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        if self.is_broken.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(RpcError::internal("broken"))));
        }
        page((list == SourceList::Tools).then_some(r#"{"name":"break","inputSchema":{"type":"object"}}"#))
    }

    fn call_tool(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        self.is_broken.store(true, Ordering::SeqCst);
        self.server.get().unwrap().notify().tools_changed();
        complete(r#"{"content":[]}"#, REVISIONS[0])
    }
}

// The clock is paused. It advances only while each task waits for a time.
#[tokio::test(start_paused = true)]
async fn the_record_of_an_incomplete_list_of_the_process_of_a_caller_names_the_server_once() {
    let warnings = Warnings::default();
    let _default = tracing::dispatcher::set_default(&warnings.dispatch());
    let processes = Processes::new(|_| {
        let own = Arc::<OnceLock<Server>>::default();
        let source = Breaking { server: Arc::clone(&own), ..Breaking::default() };
        let server = Server::builder::<()>("s", "1").versions([REVISIONS[0]]).source(source).build();
        own.get_or_init(|| server).clone()
    });
    let connector: Arc<dyn Connect> = Arc::new(processes.clone());
    let host = Host::builder("gateway", "1").server("files", connector).start().await.unwrap();
    let gateway = Gateway::builder(host).build().unwrap().build();
    let user = client().on_elicit(async |_form| Ok(ElicitResult::decline())).connect(&gateway).await.unwrap();
    timeout(SOON, user.call_tool("files__break", ()).into_future()).await.unwrap().unwrap();
    assert_eq!(processes.started(), 2);
    // The lists are read again meanwhile.
    sleep(Duration::from_secs(60)).await;
    let warnings = warnings.0.lock().unwrap();
    let records: Vec<_> = warnings.iter().filter(|record| record.contains("a list is incomplete")).collect();
    assert!(records.len() == 1 && records[0].contains("server=\"files\""), "{warnings:?}");
    drop(user);
}

/// A server that accepts one subscription and refuses each later one.
#[derive(Default, Clone)]
struct Subscribed(Arc<AtomicBool>);

impl Source for Subscribed {
    fn list(&self, list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        page((list == SourceList::Resources).then_some(r#"{"name":"a","uri":"x:a"}"#))
    }

    fn subscribe(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceSubscription, RpcError>> {
        let has_subscribed = self.0.swap(true, Ordering::SeqCst);
        let refused = || RpcError::internal("the server is busy");
        let subscribed = if has_subscribed { Err(refused()) } else { Ok(SourceSubscription::default()) };
        Box::pin(std::future::ready(subscribed))
    }
}

// The clock is paused. It advances only while each task waits for a time.
#[tokio::test(start_paused = true)]
async fn the_records_of_a_lost_subscription_name_the_server_and_the_uri() {
    let warnings = Warnings::default();
    let _default = tracing::dispatcher::set_default(&warnings.dispatch());
    let server = Server::builder::<()>("s", "1").versions([REVISIONS[0]]).source(Subscribed::default()).build();
    let pipe = Pipe::new(server);
    let connector: Arc<dyn Connect> = Arc::new(pipe.clone());
    let host = Host::builder("gateway", "1").server("files", connector).start().await.unwrap();
    let gateway = Gateway::builder(host).build().unwrap().build();
    let user = client().connect(&gateway).await.unwrap();
    let subscribed = timeout(SOON, user.subscribe(["mcp://files/x:a"])).await.unwrap().unwrap();
    pipe.kill();
    let records = || {
        let mut warnings = warnings.0.lock().unwrap().clone();
        warnings.retain(|record| record.contains("a lost subscription"));
        warnings
    };
    // The subscription is requested again meanwhile.
    sleep(Duration::from_secs(300)).await;
    assert_eq!(records().len(), 1, "{:?}", records());
    sleep(Duration::from_secs(600)).await;
    let records = records();
    assert_eq!(records.len(), 2, "{records:?}");
    for part in ["server=\"files\"", "uri=x:a", "the server is busy"] {
        assert!(records[0].contains(part), "{part}: {records:?}");
    }
    drop(subscribed);
}
