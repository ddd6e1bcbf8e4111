//! The connections of the gateway to servers that run once for each connection.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_agent::{
    Gateway, Host, HostBuilder, ServerOptions, ServerState, Sharing,
    pins::{Drift, PinRules, Pins},
    policy::{Effect, PendingApproval},
};
use mcp_client::{Client, ClientBuilder, OpenTransport, Reconnect, Subscription, Update, transport::Connect};
use mcp_protocol::{ElicitResult, ProtocolVersion, RpcError, SubscriptionFilter};
use mcp_server::{
    Caller, Server, resource,
    source::{
        Source, SourceCall, SourceDefinition, SourceList, SourceOutcome, SourcePage, SourceResult, SourceSubscription,
    },
    tool,
};
use mcp_transport::{BoxFuture, memory::duplex};
use serde_json::json;
use tokio::{sync::Notify, time::timeout};

use crate::common::{Processes, REVISIONS, SOON, cells, client, connect_client_as, over_http};

const LEGACY: ProtocolVersion = REVISIONS[0];

/// Returns a client that servers can ask.
fn askable() -> ClientBuilder {
    client().no_cache().on_elicit(async |_form| Ok(ElicitResult::decline()))
}

/// Returns the builder of a host with the settings of `mcp gateway`: limits of clients, and no answers.
fn host() -> HostBuilder {
    Host::builder("gateway", "1").clients(|_, client| client.idle_timeout(SOON))
}

fn connector(processes: &Processes) -> Arc<dyn Connect> {
    Arc::new(processes.clone())
}

/// A server whose tool returns the number of its process.
fn numbered(version: ProtocolVersion) -> Processes {
    Processes::new(move |number| {
        let number = tool("number", move || std::future::ready(number.to_string()));
        Server::builder("s", "1").versions([version]).tool(number).build()
    })
}

async fn number(client: &Client) -> String {
    timeout(SOON, client.call_tool("s__number", ()).into_future()).await.unwrap().unwrap().text()
}

async fn next(subscription: &mut Subscription) -> Update {
    timeout(SOON, subscription.next()).await.unwrap().unwrap().unwrap()
}

#[tokio::test]
async fn clients_without_capabilities_share_the_process_that_lists_the_items() {
    for (down, up) in cells() {
        let processes = numbered(up);
        let host = host().server("s", connector(&processes)).start().await.unwrap();
        let server = Gateway::builder(host).build().unwrap().versions([down]).build();
        for _ in 0..3 {
            assert_eq!(number(&client().connect(&server).await.unwrap()).await, "0", "{down} {up}");
        }
        assert_eq!(processes.started(), 1, "{down} {up}");
        // A stateless server receives the capabilities with each request.
        let expected = if up == LEGACY { "1" } else { "0" };
        assert_eq!(number(&askable().connect(&server).await.unwrap()).await, expected, "{down} {up}");
    }
}

/// A server whose list grows, and whose first tool changes, for all processes. Only the process that received the call reports it.
struct Growing {
    has_grown: Arc<AtomicBool>,
    server: Arc<OnceLock<Server>>,
}

impl Growing {
    fn server(has_grown: &Arc<AtomicBool>) -> Server {
        let own = Arc::<OnceLock<Server>>::default();
        let source = Self { has_grown: Arc::clone(has_grown), server: Arc::clone(&own) };
        let server = Server::builder::<()>("s", "1").versions([LEGACY]).source(source).build();
        own.get_or_init(|| server).clone()
    }
}

impl Source for Growing {
    fn list(&self, list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        let tools = [
            r#"{"name":"grow","inputSchema":{"type":"object"}}"#,
            r#"{"name":"grow","description":"grown","inputSchema":{"type":"object"}}"#,
            r#"{"name":"new","inputSchema":{"type":"object"}}"#,
        ];
        let listed = match list {
            SourceList::Tools if self.has_grown.load(Ordering::SeqCst) => &tools[1..],
            SourceList::Tools => &tools[..1],
            _ => &[],
        };
        let listed: Vec<_> = listed.iter().map(|json| SourceDefinition::new(*json).unwrap()).collect();
        Box::pin(std::future::ready(Ok(SourcePage::new(listed))))
    }

    fn call_tool(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        self.has_grown.store(true, Ordering::SeqCst);
        self.server.get().unwrap().notify().tools_changed();
        Box::pin(std::future::ready(Ok(SourceOutcome::Complete(SourceResult::new(r#"{"content":[]}"#, LEGACY)))))
    }
}

#[tokio::test]
async fn a_list_that_a_process_of_a_caller_reports_is_read_again() {
    for down in REVISIONS {
        let has_grown = Arc::<AtomicBool>::default();
        let processes = Processes::new(move |_| Growing::server(&has_grown));
        let host = host().server("s", connector(&processes)).start().await.unwrap();
        let server = Gateway::builder(host).build().unwrap().versions([down]).build();
        let client = askable().connect(&server).await.unwrap();
        let mut changes = client.listen(SubscriptionFilter::lists()).await.unwrap();
        timeout(SOON, client.call_tool("s__grow", ()).into_future()).await.unwrap().unwrap();
        assert_eq!(processes.started(), 2, "{down}");
        while next(&mut changes).await != Update::ToolsChanged {}
        let tools = client.list_tools().await.unwrap();
        assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["s__grow", "s__new"], "{down}");
        timeout(SOON, client.call_tool("s__new", ()).into_future()).await.unwrap().unwrap();
    }
}

/// The state of the other processes when the process of a caller ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Others {
    Run,
    /// No further process answers.
    Stick,
    /// No further process answers, and the process that lists the items has ended.
    End,
    /// The process that lists the items ends first, because it is idle.
    Idle,
}

#[tokio::test]
async fn a_tool_that_only_the_process_of_a_caller_has_is_in_the_lists_until_the_process_ends() {
    let cases = [Others::Run, Others::Stick, Others::End, Others::Idle];
    for (down, others) in REVISIONS.into_iter().flat_map(|down| cases.map(|others| (down, others))) {
        // Each process grows alone.
        let processes = Processes::new(|_| Growing::server(&Arc::default()));
        let options = match others {
            Others::Idle => ServerOptions::new().idle_stop(Duration::from_secs(2)),
            _ => ServerOptions::new(),
        };
        let host = host().server_with("s", connector(&processes), options).start().await.unwrap();
        let server = Gateway::builder(host.clone()).build().unwrap().versions([down]).build();
        let client = askable().connect(&server).await.unwrap();
        let mut changes = client.listen(SubscriptionFilter::lists()).await.unwrap();
        let names = async || -> Vec<String> {
            client.list_tools().await.unwrap().iter().map(|tool| tool.name.clone()).collect()
        };
        timeout(SOON, client.call_tool("s__grow", ()).into_future()).await.unwrap().unwrap();
        while next(&mut changes).await != Update::ToolsChanged {}
        assert_eq!(names().await, ["s__grow", "s__new"], "{down} {others:?}");
        timeout(SOON, client.call_tool("s__new", ()).into_future()).await.unwrap().unwrap();
        assert_eq!(processes.started(), 2, "{down} {others:?}");
        match others {
            Others::Run => processes.kill(1),
            Others::Stick => {
                processes.stick();
                processes.kill(1);
            }
            Others::End => {
                processes.stick();
                processes.kill(0);
                processes.until_running(1).await;
                processes.kill(1);
            }
            Others::Idle => processes.until_running(0).await,
        }
        let is_away = async {
            while names().await.len() > 1 {
                tokio::time::sleep(Duration::from_millis(10)).await
            }
        };
        timeout(SOON, is_away).await.unwrap_or_else(|_| panic!("{down} {others:?}"));
        assert_eq!(names().await, ["s__grow"], "{down} {others:?}");
        assert_eq!(host.status("s").unwrap().tools, 1, "{down} {others:?}");
    }
}

#[tokio::test]
async fn the_manifest_has_no_tool_of_the_process_of_a_caller() {
    let directory = tempfile::tempdir().unwrap();
    let manifest = directory.path().join("manifest.json");
    let processes = Processes::new(|_| Growing::server(&Arc::default()));
    let host = host().manifest(&manifest).server("s", connector(&processes)).start().await.unwrap();
    let server = Gateway::builder(host.clone()).build().unwrap().versions([REVISIONS[1]]).build();
    let client = askable().connect(&server).await.unwrap();
    let mut changes = client.listen(SubscriptionFilter::lists()).await.unwrap();
    timeout(SOON, client.call_tool("s__grow", ()).into_future()).await.unwrap().unwrap();
    while next(&mut changes).await != Update::ToolsChanged {}
    assert_eq!(client.list_tools().await.unwrap().len(), 2);
    timeout(SOON, host.shutdown()).await.unwrap();
    let stored = std::fs::read_to_string(&manifest).unwrap();
    assert!(stored.contains(r#""grow""#) && !stored.contains(r#""new""#), "{stored}");
}

#[tokio::test]
async fn only_the_process_of_the_only_client_replaces_a_definition() {
    let pins = || (Pins::default(), PinRules::new().drift(Drift::Block));
    for (down, has_pins, is_for_one_client) in
        REVISIONS.into_iter().flat_map(|down| [(down, false, false), (down, true, false), (down, false, true)])
    {
        let processes = Processes::new(|_| Growing::server(&Arc::default()));
        let builder = host().server("s", connector(&processes));
        let builder = if has_pins { builder.pins(pins().0, pins().1) } else { builder };
        let gateway = Gateway::builder(builder.start().await.unwrap());
        let gateway = if is_for_one_client { gateway.one_client() } else { gateway };
        let server = gateway.build().unwrap().versions([down]).build();
        let (ada, grace) =
            (askable().connect(&server).await.unwrap(), client().no_cache().connect(&server).await.unwrap());
        let mut changes = grace.listen(SubscriptionFilter::lists()).await.unwrap();
        timeout(SOON, ada.call_tool("s__grow", ()).into_future()).await.unwrap().unwrap();
        while next(&mut changes).await != Update::ToolsChanged {}
        let tools = grace.list_tools().await.unwrap();
        let definitions: Vec<_> = tools.iter().map(|tool| (&*tool.name, tool.description.as_deref())).collect();
        let expected = is_for_one_client.then_some("grown");
        assert_eq!(definitions, [("s__grow", expected), ("s__new", None)], "{down} {has_pins}");
        // The definition of the other process did not change.
        timeout(SOON, grace.call_tool("s__grow", ()).into_future()).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_tool_that_only_the_process_of_a_principal_or_a_session_has_is_not_in_the_lists_of_others() {
    // Columns: the revision of the clients, the sharing, and the users. Clients without a user have a session.
    for (down, sharing, users) in [
        (REVISIONS[0], Sharing::Principal, [Some("ada"), Some("grace")]),
        (REVISIONS[1], Sharing::Principal, [Some("ada"), Some("grace")]),
        (REVISIONS[0], Sharing::Session, [None, None]),
    ] {
        let processes = Processes::new(|_| Growing::server(&Arc::default()));
        let options = ServerOptions::new().sharing(sharing);
        let host = host().server_with("s", connector(&processes), options).start().await.unwrap();
        let server = Gateway::builder(host).build().unwrap().versions([down]).build();
        let url = over_http(server.clone()).await;
        let connect = async |user: Option<&str>| match user {
            Some(user) => connect_client_as(askable(), &server, user).await,
            None => askable().connect(url.as_str()).await.unwrap(),
        };
        let (ada, grace) = (connect(users[0]).await, connect(users[1]).await);
        let mut changes = grace.listen(SubscriptionFilter::lists()).await.unwrap();
        timeout(SOON, ada.call_tool("s__grow", ()).into_future()).await.unwrap().unwrap();
        assert_eq!(processes.started(), 2, "{down} {sharing:?}");
        // Longer than the reading of the lists after the change.
        let changed = timeout(Duration::from_millis(300), changes.next()).await;
        assert!(changed.is_err(), "{down} {sharing:?}: {changed:?}");
        let tools = grace.list_tools().await.unwrap();
        assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["s__grow"], "{down} {sharing:?}");
    }
}

#[tokio::test]
async fn a_subscription_runs_in_the_process_of_the_calls_of_its_client() {
    for (down, up) in cells() {
        for is_askable in [true, false] {
            let processes = Processes::new(move |_| {
                let own = Arc::<OnceLock<Server>>::default();
                let server = Arc::clone(&own);
                let write = tool("write", move || {
                    server.get().unwrap().notify().resource_updated("x:a");
                    std::future::ready("written")
                });
                let server =
                    Server::builder("s", "1").versions([up]).resource(resource("x:a", async || "a")).tool(write);
                own.get_or_init(|| server.build()).clone()
            });
            let host = host().server("s", connector(&processes)).start().await.unwrap();
            let server = Gateway::builder(host).build().unwrap().versions([down]).build();
            let client = if is_askable { askable() } else { client() };
            let client = client.connect(&server).await.unwrap();
            let mut updates = timeout(SOON, client.subscribe(["mcp://s/x:a"])).await.unwrap().unwrap();
            // The subscription does not keep the connection from the calls of the client.
            for _ in 0..2 {
                timeout(SOON, client.call_tool("s__write", ()).into_future()).await.unwrap().unwrap();
                let expected = Update::ResourceUpdated { uri: "mcp://s/x:a".to_owned() };
                assert_eq!(next(&mut updates).await, expected, "{down} {up} {is_askable}");
            }
            let expected = if up == LEGACY && is_askable { 2 } else { 1 };
            assert_eq!(processes.started(), expected, "{down} {up} {is_askable}");
        }
    }
}

/// Connects a client as one of many.
async fn connect_remote(server: &Server) -> Client {
    let (ours, theirs) = duplex(64);
    let server = server.clone();
    tokio::spawn(async move { server.serve_as(theirs, Caller::remote()).await });
    client().connect(OpenTransport::new(ours)).await.unwrap()
}

#[tokio::test]
async fn a_request_without_a_session_shares_no_process_of_a_session() {
    for up in REVISIONS {
        let processes = numbered(up);
        let options = ServerOptions::new().sharing(Sharing::Session);
        let host = host().server_with("s", connector(&processes), options).start().await.unwrap();
        let server = Gateway::builder(host).build().unwrap().versions([REVISIONS[1]]).build();
        let (ada, grace) = (connect_remote(&server).await, connect_remote(&server).await);
        for (client, expected) in [(&ada, "1"), (&grace, "2"), (&ada, "3")] {
            assert_eq!(number(client).await, expected, "{up}");
            // The process that lists the items remains.
            processes.until_running(1).await;
        }
        // The client of a gateway over stdio is the only one.
        let local = client().connect(&server).await.unwrap();
        assert_eq!((number(&local).await, number(&local).await), ("0".to_owned(), "0".to_owned()), "{up}");
    }
}

#[tokio::test]
async fn the_loss_of_the_listing_process_leaves_the_other_processes() {
    for down in REVISIONS {
        let processes = numbered(LEGACY);
        let host = host().reconnect(Reconnect::never()).call_wait(Duration::from_secs(1));
        let host = host.server("s", connector(&processes)).start().await.unwrap();
        let server = Gateway::builder(host.clone()).build().unwrap().versions([down]).build();
        let client = askable().connect(&server).await.unwrap();
        assert_eq!(number(&client).await, "1", "{down}");
        let mut events = host.status_events();
        processes.stick();
        processes.kill(0);
        let lost = async { while events.next().await.unwrap().state == ServerState::Ready {} };
        timeout(SOON, lost).await.unwrap();
        assert_eq!(number(&client).await, "1", "{down}");
    }
}

/// A server with a resource, which counts its subscriptions.
#[derive(Clone, Default)]
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn server(&self) -> Server {
        Server::builder::<()>("s", "1").versions([LEGACY]).source(self.clone()).build()
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Source for Counted {
    fn list(&self, list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        let listed = match list {
            SourceList::Resources => vec![SourceDefinition::new(r#"{"name":"a","uri":"x:a"}"#).unwrap()],
            _ => Vec::new(),
        };
        Box::pin(std::future::ready(Ok(SourcePage::new(listed))))
    }

    fn subscribe(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceSubscription, RpcError>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(Ok(SourceSubscription::default())))
    }
}

const URI: [&str; 1] = ["mcp://s/x:a"];

// The clock is paused. It advances only while each task waits for a time.
#[tokio::test(start_paused = true)]
async fn a_subscription_is_not_opened_at_another_server_with_the_name() {
    let (former, later) = (Counted::default(), Counted::default());
    let of = |counted: &Counted| {
        let counted = counted.clone();
        connector(&Processes::new(move |_| counted.server()))
    };
    let host = host().server("s", of(&former)).start().await.unwrap();
    let server = Gateway::builder(host.clone()).build().unwrap().versions([LEGACY]).build();
    let ada = client().connect(&server).await.unwrap();
    let mut updates = timeout(SOON, ada.subscribe(URI)).await.unwrap().unwrap();
    let options = ServerOptions::new().filter(mcp_agent::filter::ToolFilter::new().deny("x".parse().unwrap()));
    host.replace("s", of(&later), options).await.unwrap();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!((former.count(), later.count()), (1, 0));
    // A new subscription is for the new server.
    let grace = client().connect(&server).await.unwrap();
    let _subscribed = timeout(SOON, grace.subscribe(URI)).await.unwrap().unwrap();
    assert_eq!(later.count(), 1);
    let unchanged = timeout(Duration::from_secs(1), updates.next()).await;
    assert!(unchanged.is_err(), "{unchanged:?}");
}

#[tokio::test(start_paused = true)]
async fn the_approval_of_a_subscription_does_not_hold_for_another_server_with_the_name() {
    for has_same_options in [false, true] {
        let (former, later) = (Counted::default(), Counted::default());
        let of = |counted: &Counted| {
            let counted = counted.clone();
            connector(&Processes::new(move |_| counted.server()))
        };
        let (asked, approved) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let both = (Arc::clone(&asked), Arc::clone(&approved));
        let host = host().server("s", of(&former)).default_effect(Effect::Ask).approver(move |_: PendingApproval| {
            let (asked, approved) = both.clone();
            async move {
                asked.notify_one();
                approved.notified().await;
                true
            }
        });
        let host = host.start().await.unwrap();
        let server = Gateway::builder(host.clone()).build().unwrap().versions([LEGACY]).build();
        let ada = client().connect(&server).await.unwrap();
        let subscribing = tokio::spawn(async move { ada.subscribe(URI).await.map(drop) });
        timeout(SOON, asked.notified()).await.unwrap();
        let other = ServerOptions::new().filter(mcp_agent::filter::ToolFilter::new().deny("x".parse().unwrap()));
        let options = if has_same_options { ServerOptions::new() } else { other };
        host.replace("s", of(&later), options).await.unwrap();
        approved.notify_one();
        let refused = timeout(SOON, subscribing).await.unwrap().unwrap().unwrap_err();
        let data = refused.rpc().unwrap().data.clone().unwrap();
        assert_eq!((&data["server"], former.count(), later.count()), (&json!("s"), 0, 0), "{has_same_options}: {data}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_subscriber_of_a_lost_subscription_waits_for_it() {
    let counted = Counted::default();
    let source = counted.clone();
    let processes = Processes::new(move |_| source.server());
    let host = host().reconnect(Reconnect::never()).call_wait(Duration::from_secs(5));
    let host = host.server("s", connector(&processes)).start().await.unwrap();
    let server = Gateway::builder(host).build().unwrap().versions([LEGACY]).build();
    let ada = client().connect(&server).await.unwrap();
    let _subscribed = timeout(SOON, ada.subscribe(URI)).await.unwrap().unwrap();
    processes.stick();
    processes.kill(0);
    processes.until_running(0).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let grace = client().connect(&server).await.unwrap();
    let refused = timeout(Duration::from_secs(60), grace.subscribe(URI)).await.unwrap();
    let refused = refused.map(drop).expect_err("the subscription is lost");
    let refused = refused.rpc().unwrap();
    assert_eq!((refused.code.0, &*refused.message), (-32603, "the subscription at the server is lost"));
    assert_eq!(refused.data, Some(json!({ "server": "s", "retryable": true })));
    assert_eq!(counted.count(), 1);
}

#[tokio::test]
async fn the_nodes_of_a_fleet_do_not_serve_each_other() {
    let keys = |key: u8| mcp_server::inputs::StateKeys::new([[key; 32]]);
    let behind = async |key: u8| {
        let local = Server::builder("local", "1").tool(tool("t", async || "t")).build();
        let host = Host::builder("gateway", "1").server("local", &local).start().await.unwrap();
        Gateway::builder(host).state_keys(keys(key)).build().unwrap().build()
    };
    for (key, expected) in [(1, vec!["fleet"]), (2, Vec::new())] {
        let host = Host::builder("gateway", "1").server("fleet", &behind(key).await).start().await.unwrap();
        let gateway = Gateway::builder(host).state_keys(keys(1)).gateway();
        let circular = gateway.circular_servers();
        assert_eq!(circular.iter().map(|name| &**name).collect::<Vec<_>>(), expected);
    }
}
