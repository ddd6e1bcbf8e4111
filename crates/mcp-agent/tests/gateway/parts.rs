//! Updates of parts of resources behind a gateway.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    future::pending,
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_agent::{
    Gateway, Host, Names, ServerOptions, Sharing,
    policy::{Effect, Policy, Rule},
};
use mcp_client::{Client, Subscription, Update};
use mcp_protocol::{ProtocolVersion, RpcError};
use mcp_server::{
    Server,
    source::{Source, SourceCall, SourceList, SourceOutcome, SourcePage, SourceSubscription, UpdateNotifier},
};
use mcp_transport::BoxFuture;
use serde_json::{Value, json};
use tokio::{
    sync::Notify,
    task::yield_now,
    time::{sleep, timeout},
};

use crate::common::{REVISIONS, SOON, cells, client, complete, connect_client_as, page};

/// A resource whose subscription the server does not answer.
const UNANSWERED: &str = "x:abc";

/// A server that reports parts of its resources. It notifies the test of the end of a subscription.
#[derive(Default, Clone)]
struct Reporting(Arc<Mutex<Vec<(String, UpdateNotifier)>>>, Arc<Notify>);

/// An open subscription.
struct Open(Arc<Notify>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Reporting {
    fn serve(&self, version: ProtocolVersion) -> Server {
        Server::builder::<()>("s", "1").versions([version]).source(self.clone()).build()
    }

    /// Notifies the subscribers of a resource of a changed part.
    fn report(&self, resource: &str, part: &str) {
        let subscribers = self.0.lock().unwrap();
        let mut of_resource = subscribers.iter().filter(|(subscribed, _)| subscribed == resource).peekable();
        assert!(of_resource.peek().is_some(), "{resource}");
        of_resource.for_each(|(_, notifier)| match part == resource {
            true => notifier.updated(),
            false => notifier.part_updated(part),
        });
    }
}

impl Source for Reporting {
    fn list(&self, list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        let resources = [
            r#"{"name":"docs","uri":"file:///docs/"}"#,
            r#"{"name":"a","uri":"x:a"}"#,
            r#"{"name":"ab","uri":"x:ab"}"#,
        ];
        page(resources.into_iter().filter(|_| list == SourceList::Resources))
    }

    fn read_resource(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        let result = json!({ "contents": [{ "uri": call.name(), "text": "read" }] });
        complete(result.to_string(), call.context().version())
    }

    fn subscribe(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceSubscription, RpcError>> {
        self.0.lock().unwrap().push((call.name().to_owned(), call.update_notifier()));
        if call.name() == UNANSWERED {
            return Box::pin(pending());
        }
        Box::pin(std::future::ready(Ok(SourceSubscription::new(Open(Arc::clone(&self.1))))))
    }
}

async fn subscribe(gateway: &Server, uri: &str) -> (Client, Subscription) {
    let client = client().no_cache().connect(gateway).await.unwrap();
    let subscription = timeout(SOON, client.subscribe([uri])).await.unwrap().unwrap();
    (client, subscription)
}

async fn next(subscription: &mut Subscription) -> String {
    match timeout(SOON, subscription.next()).await.unwrap().unwrap().unwrap() {
        Update::ResourceUpdated { uri } => uri,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_update_names_the_part_of_the_resource() {
    for ((down, up), names) in cells().flat_map(|cell| [(cell, Names::Provider), (cell, Names::Raw)]) {
        let (source, other) = (Reporting::default(), Reporting::default());
        let host = Host::builder("gateway", "1").server("s", &source.serve(up)).server("t", &other.serve(up));
        let host = host.start().await.unwrap();
        let gateway = Gateway::builder(host).names(names).build().unwrap().versions([down]).build();
        let prefix = if names == Names::Raw { "" } else { "mcp://s/" };
        let uri = |uri: &str| format!("{prefix}{uri}");
        let (client, mut updates) = subscribe(&gateway, &uri("file:///docs/")).await;
        for part in ["file:///docs/a.md", "file:///docs/"] {
            source.report("file:///docs/", part);
            assert_eq!(next(&mut updates).await, uri(part), "{down} {up} {names:?}");
        }
        // The client can read the part, also if raw names do not name its server.
        let read = timeout(SOON, client.read_resource(uri("file:///docs/a.md"))).await.unwrap();
        assert!(read.is_ok(), "{down} {up} {names:?} {read:?}");
    }
}

#[tokio::test]
async fn an_update_of_another_resource_with_the_same_prefix_is_not_a_part() {
    for (down, up) in cells() {
        let source = Reporting::default();
        let host = Host::builder("gateway", "1").server("s", &source.serve(up)).start().await.unwrap();
        let gateway = Gateway::builder(host).build().unwrap().versions([down]).build();
        let (_ada, mut of_short) = subscribe(&gateway, "mcp://s/x:a").await;
        let (_grace, mut of_long) = subscribe(&gateway, "mcp://s/x:ab").await;
        source.report("x:ab", "x:ab");
        source.report("x:a", "x:a/b");
        assert_eq!(next(&mut of_long).await, "mcp://s/x:ab", "{down} {up}");
        // The update of the other resource would be first.
        assert_eq!(next(&mut of_short).await, "mcp://s/x:a/b", "{down} {up}");
    }
}

#[tokio::test]
async fn a_subscription_that_is_not_open_receives_no_update_of_a_part() {
    let source = Reporting::default();
    let host = Host::builder("gateway", "1").server("s", &source.serve(REVISIONS[0])).start().await.unwrap();
    let gateway = Gateway::builder(host).build().unwrap().build();
    let (_ada, mut updates) = subscribe(&gateway, "mcp://s/x:ab").await;
    let grace = client().connect(&gateway).await.unwrap();
    let opening = tokio::spawn(async move { grace.subscribe([format!("mcp://s/{UNANSWERED}")]).await.map(drop) });
    let arrived = async {
        while !source.0.lock().unwrap().iter().any(|(uri, _)| uri == UNANSWERED) {
            yield_now().await;
        }
    };
    timeout(SOON, arrived).await.unwrap();
    source.report("x:ab", UNANSWERED);
    assert_eq!(next(&mut updates).await, format!("mcp://s/{UNANSWERED}"));
    opening.abort();
}

/// Returns a gateway whose users share the connection to the server `s`.
async fn shared(source: &Reporting, down: ProtocolVersion) -> Server {
    let options = ServerOptions::new().sharing(Sharing::All);
    let host = Host::builder("gateway", "1").server_with("s", &source.serve(REVISIONS[0]), options);
    Gateway::builder(host.start().await.unwrap()).build().unwrap().versions([down]).build()
}

/// Subscribes a user to a resource of the server `s`.
async fn subscriber(gateway: &Server, name: &str, uri: &str) -> (Client, Subscription) {
    let client = connect_client_as(client().no_cache(), gateway, name).await;
    let subscription = timeout(SOON, client.subscribe([format!("mcp://s/{uri}")])).await.unwrap().unwrap();
    (client, subscription)
}

#[tokio::test]
async fn the_closer_subscription_of_another_user_does_not_reveal_a_uri() {
    for down in REVISIONS {
        let (source, private) = (Reporting::default(), "file:///docs/private.md");
        let gateway = shared(&source, down).await;
        let user = async |name: &str, uri: &str| subscriber(&gateway, name, uri).await;
        let (_ada, mut of_ada) = user("ada", "file:///docs/").await;
        let (_grace, mut of_grace) = user("grace", private).await;
        source.report(private, private);
        assert_eq!(next(&mut of_grace).await, format!("mcp://s/{private}"), "{down}");
        assert_eq!(next(&mut of_ada).await, "mcp://s/file:///docs/", "{down}");
        source.report("file:///docs/", "file:///docs/a.md");
        assert_eq!(next(&mut of_ada).await, "mcp://s/file:///docs/a.md", "{down}");
        let (directory, plan) = ("file:///docs/secret/", "file:///docs/secret/plan.md");
        let (_grace, mut of_directory) = user("grace", directory).await;
        source.report(directory, plan);
        assert_eq!(next(&mut of_directory).await, format!("mcp://s/{plan}"), "{down}");
        assert_eq!(next(&mut of_ada).await, "mcp://s/file:///docs/", "{down}");
    }
}

// The clock is paused. It advances only while each task waits for a time.
#[tokio::test(start_paused = true)]
async fn the_ended_subscription_of_another_user_does_not_reveal_a_uri() {
    for down in REVISIONS {
        let (source, private) = (Reporting::default(), "file:///docs/private.md");
        let gateway = shared(&source, down).await;
        let user = async |name: &str, uri: &str| subscriber(&gateway, name, uri).await;
        let (_ada, mut of_ada) = user("ada", "file:///docs/").await;
        let (_grace, of_grace) = user("grace", private).await;
        drop(of_grace);
        timeout(SOON, source.1.notified()).await.unwrap();
        source.report("file:///docs/", private);
        assert_eq!(next(&mut of_ada).await, "mcp://s/file:///docs/", "{down}");
        // A later report is about the subscription of the user.
        sleep(Duration::from_secs(30)).await;
        source.report("file:///docs/", private);
        assert_eq!(next(&mut of_ada).await, format!("mcp://s/{private}"), "{down}");
    }
}

#[tokio::test]
async fn a_session_with_a_resource_and_its_part_receives_one_notification() {
    let source = Reporting::default();
    let host = Host::builder("gateway", "1").server("s", &source.serve(REVISIONS[0])).start().await.unwrap();
    let gateway = Gateway::builder(host).build().unwrap().versions([REVISIONS[0]]).build();
    let (client, _of_directory) = subscribe(&gateway, "mcp://s/file:///docs/").await;
    let _of_file = timeout(SOON, client.subscribe(["mcp://s/file:///docs/a.md"])).await.unwrap().unwrap();
    let mut notifications = client.notifications();
    for (resource, part) in [("file:///docs/a.md", "file:///docs/a.md"), ("file:///docs/", "file:///docs/b.md")] {
        source.report(resource, part);
        let notification = timeout(SOON, notifications.next()).await.unwrap().unwrap();
        assert_eq!(notification.decode::<Value>().unwrap()["uri"], format!("mcp://s/{part}"));
    }
}

#[tokio::test]
async fn an_update_of_a_denied_part_does_not_reach_the_client() {
    for (down, up) in cells() {
        let source = Reporting::default();
        let deny = Rule::new(Effect::Deny).resource("file:///docs/secret*".parse().unwrap());
        let host = Host::builder("gateway", "1").server("s", &source.serve(up)).policy(Policy::new().rule(deny));
        let gateway = Gateway::builder(host.start().await.unwrap()).build().unwrap().versions([down]).build();
        let (_client, mut updates) = subscribe(&gateway, "mcp://s/file:///docs/").await;
        for part in ["file:///docs/secret.md", "file:///docs/public.md"] {
            source.report("file:///docs/", part);
        }
        assert_eq!(next(&mut updates).await, "mcp://s/file:///docs/public.md", "{down} {up}");
    }
}
