//! Clients of a gateway do not receive the updates, the instructions or the connections of other clients.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_agent::{
    Gateway, Host, ServerOptions, Sharing,
    policy::{Effect, Policy, Rule},
};
use mcp_client::{Subscription, Update};
use mcp_protocol::{ProtocolVersion, RpcError, SubscriptionFilter};
use mcp_server::{
    Server, resource,
    source::{
        Source, SourceCall, SourceDefinition, SourceList, SourceOutcome, SourcePage, SourceResult, SourceSubscription,
        UpdateNotifier,
    },
    tool,
};
use mcp_transport::BoxFuture;
use tokio::{
    sync::{Notify, mpsc},
    time::timeout,
};

use crate::common::{REVISIONS, SOON, cells, client, connect_as, over_http};

async fn next(subscription: &mut Subscription) -> Update {
    timeout(SOON, subscription.next()).await.unwrap().unwrap().unwrap()
}

/// A server that notifies single subscribers, and reports the end of its sessions.
#[derive(Default, Clone)]
struct Notifying {
    subscribers: Arc<Mutex<Vec<(String, UpdateNotifier)>>>,
    ended: Arc<Notify>,
}

/// Reports the end of a session.
struct Session(Arc<Notify>);

impl Drop for Session {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Source for Notifying {
    fn list(&self, list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        let definitions = match list {
            SourceList::Tools => vec![r#"{"name":"t","inputSchema":{"type":"object"}}"#],
            SourceList::Resources => vec![r#"{"name":"a","uri":"x:a"}"#, r#"{"name":"b","uri":"x:b"}"#],
            _ => Vec::new(),
        };
        let definitions: Vec<_> = definitions.into_iter().map(|json| SourceDefinition::new(json).unwrap()).collect();
        Box::pin(std::future::ready(Ok(SourcePage::new(definitions))))
    }

    fn call_tool(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        call.keep_until_session_ends(Session(Arc::clone(&self.ended)));
        let result = SourceResult::new(r#"{"content":[]}"#, ProtocolVersion::V2025_11_25);
        Box::pin(std::future::ready(Ok(SourceOutcome::Complete(result))))
    }

    fn subscribe(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceSubscription, RpcError>> {
        self.subscribers.lock().unwrap().push((call.name().to_owned(), call.update_notifier()));
        Box::pin(std::future::ready(Ok(SourceSubscription::default())))
    }
}

#[tokio::test]
async fn an_update_reaches_only_the_callers_of_its_connection() {
    for (down, up) in cells() {
        let source = Notifying::default();
        let upstream = Server::builder::<()>("s", "1").versions([up]).source(source.clone()).build();
        let host = Host::builder("gateway", "1").server("s", &upstream).start().await.unwrap();
        let server = Gateway::builder(host).build().unwrap().versions([down]).build();
        let uris = ["mcp://s/x:a", "mcp://s/x:b"];
        let (ada, grace) = (connect_as(&server, "ada").await, connect_as(&server, "grace").await);
        let mut of_ada = timeout(SOON, ada.subscribe(uris)).await.unwrap().unwrap();
        let first = source.subscribers.lock().unwrap().len();
        let mut of_grace = timeout(SOON, grace.subscribe(uris)).await.unwrap().unwrap();
        let updated = |of_grace: bool, uri: &str| {
            let subscribers = source.subscribers.lock().unwrap();
            let (ada, grace) = subscribers.split_at(first);
            let found = if of_grace { grace } else { ada }.iter().find(|(subscribed, _)| subscribed == uri);
            found.unwrap().1.updated();
        };
        updated(false, "x:a");
        assert_eq!(next(&mut of_ada).await, Update::ResourceUpdated { uri: uris[0].to_owned() }, "{down} {up}");
        // An update for another caller would be first.
        updated(true, "x:b");
        assert_eq!(next(&mut of_grace).await, Update::ResourceUpdated { uri: uris[1].to_owned() }, "{down} {up}");
    }
}

#[tokio::test]
async fn an_update_does_not_reach_a_subscriber_that_a_new_policy_denies() {
    let directory = std::env::temp_dir().join(format!("mcp-gateway-updates-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("policy.toml");
    for (down, up) in cells() {
        std::fs::write(&path, "").unwrap();
        let source = Notifying::default();
        let upstream = Server::builder::<()>("s", "1").versions([up]).source(source.clone()).build();
        let host = Host::builder("gateway", "1").server("s", &upstream).policy_file(&path);
        let host = host.watch(Duration::from_millis(10)).start().await.unwrap();
        let server = Gateway::builder(host).build().unwrap().versions([down]).build();
        let client = client().no_cache().connect(&server).await.unwrap();
        let mut updates = timeout(SOON, client.subscribe(["mcp://s/x:a", "mcp://s/x:b"])).await.unwrap().unwrap();
        let mut changes = client.listen(SubscriptionFilter::lists()).await.unwrap();
        std::fs::write(&path, "[[rule]]\nresource = \"x:a\"\neffect = \"deny\"\n").unwrap();
        while next(&mut changes).await != Update::ResourcesChanged {}
        for uri in ["x:a", "x:b"] {
            let subscribers = source.subscribers.lock().unwrap();
            subscribers.iter().filter(|(subscribed, _)| subscribed == uri).for_each(|(_, to)| to.updated());
        }
        let expected = Update::ResourceUpdated { uri: "mcp://s/x:b".to_owned() };
        assert_eq!(next(&mut updates).await, expected, "{down} {up}");
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

#[tokio::test]
async fn the_connections_of_a_session_end_with_the_session() {
    let (source, up) = (Notifying::default(), ProtocolVersion::V2025_11_25);
    let upstream = Server::builder::<()>("s", "1").versions([up]).source(source.clone()).build();
    let options = ServerOptions::new().sharing(Sharing::Session);
    let host = Host::builder("gateway", "1").server_with("s", &upstream, options).start().await.unwrap();
    let server = Gateway::builder(host).build().unwrap().versions([up]).build();
    let http = mcp_client::http::Http::new(over_http(server).await).unwrap();
    let ada = timeout(SOON, client().connect(http)).await.unwrap().unwrap();
    timeout(SOON, ada.call_tool("s__t", ())).await.unwrap().unwrap();
    let ended = source.ended.notified();
    timeout(SOON, ada.close()).await.unwrap();
    timeout(SOON, ended).await.unwrap();
}

#[tokio::test]
async fn a_changed_policy_is_announced_to_the_clients() {
    let directory = std::env::temp_dir().join(format!("mcp-gateway-policy-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("policy.toml");
    let deny = |tool: &str| format!("[[rule]]\ntool = \"{tool}\"\neffect = \"deny\"\n");
    std::fs::write(&path, deny("a")).unwrap();
    let upstream = Server::builder("s", "1").tool(tool("a", async || "a")).tool(tool("b", async || "b")).build();
    for (version, denied, left) in [(REVISIONS[0], "b", "s__a"), (REVISIONS[1], "a", "s__b")] {
        let host = Host::builder("gateway", "1")
            .server("s", &upstream)
            .policy_file(&path)
            .watch(Duration::from_millis(10))
            .start()
            .await
            .unwrap();
        let server = Gateway::builder(host.clone()).build().unwrap().versions([version]).build();
        let client = client().no_cache().connect(&server).await.unwrap();
        let mut changes = client.listen(SubscriptionFilter::lists()).await.unwrap();
        // The host could read a file that is not complete.
        std::fs::write(directory.join("next"), deny(denied)).unwrap();
        std::fs::rename(directory.join("next"), &path).unwrap();
        while next(&mut changes).await != Update::ToolsChanged {}
        let tools = client.list_tools().await.unwrap();
        assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), [left], "{version}");
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

#[tokio::test]
async fn the_instructions_of_a_denied_server_do_not_reach_the_caller() {
    let of = |name: &str| {
        let text = format!("The text of {name}.\n# other");
        Server::builder(name, "1")
            .instructions(text)
            .tool(tool("t", async || "t"))
            .resource(resource("x:a", async || "a"))
            .build()
    };
    let deny = |rule: Rule| rule.server("two".parse().unwrap()).principal("guest".parse().unwrap());
    let policy = Policy::new().rule(deny(Rule::new(Effect::Deny)));
    let host = Host::builder("gateway", "1").server("one", &of("one")).server("two", &of("two")).policy(policy);
    let host = host.start().await.unwrap();
    for version in REVISIONS {
        let server = Gateway::builder(host.clone()).build().unwrap().versions([version]).build();
        for (user, sees_two) in [("ada", true), ("guest", false)] {
            let client = connect_as(&server, user).await;
            let text = client.negotiated().instructions.clone().unwrap();
            assert!(text.contains("> The text of one.\n> # other"), "{text}");
            assert_eq!(text.contains("two"), sees_two, "{user} {version} {text}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_subscription_does_not_end_the_other_ones_of_its_stream() {
    /// A source whose first resource never answers.
    struct Slow(mpsc::UnboundedSender<String>);

    impl Source for Slow {
        fn list(&self, _list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
            Box::pin(std::future::ready(Ok(SourcePage::new([]))))
        }

        fn subscribe(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceSubscription, RpcError>> {
            Box::pin(async move {
                if call.name() == "x:0" {
                    std::future::pending::<()>().await;
                }
                self.0.send(call.name().to_owned()).unwrap();
                Ok(SourceSubscription::default())
            })
        }
    }

    let (sender, mut begun) = mpsc::unbounded_channel();
    let server = Server::builder::<()>("s", "1").versions([REVISIONS[1]]).source(Slow(sender));
    let server = server.limits(|limits| limits.read_timeout = Duration::from_secs(5)).build();
    let client = client().connect(&server).await.unwrap();
    let uris: Vec<String> = (0..20).map(|number| format!("x:{number}")).collect();
    let subscription = client.subscribe(uris.clone()).await.unwrap();
    assert_eq!(subscription.honoured().resource_subscriptions, uris[1..]);
    assert_eq!(begun.recv().await.as_deref(), Some("x:1"));
}
