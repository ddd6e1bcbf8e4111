//! Subscriptions that receive the changes of resources, while other subscriptions begin and end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_client::{Client, Update, protocol::ProtocolVersion, transport::BoxFuture};
use mcp_server::prelude::*;
use mcp_test::schedule::{Schedule, explore};

use tokio::time::timeout;

use crate::{ERAS, SEEDS};

/// The changes of each resource.
const CHANGES: usize = 6;
const RESOURCES: [&str; 3] = ["x://0", "x://1", "x://2"];

/// The number of changes of each resource.
type Values = Arc<[AtomicUsize; 3]>;

/// Changes a resource, and reads it after each update until it has the last value. Equal updates that wait are one update.
async fn follow(client: &Client, schedule: &Schedule, server: &Server, values: &Values, index: usize) {
    let uri = RESOURCES[index];
    let mut subscription = client.subscribe([uri]).await.unwrap();
    let changes = async {
        for _ in 0..CHANGES {
            schedule.pause().await;
            values[index].fetch_add(1, Ordering::Relaxed);
            server.notify().resource_updated(uri);
        }
    };
    let updates = async {
        let mut count = 0;
        loop {
            schedule.pause().await;
            let update = timeout(Duration::from_secs(60), subscription.next()).await;
            let update = update.unwrap_or_else(|_| panic!("{uri}: an update is lost after {count}")).unwrap().unwrap();
            assert_eq!(update, Update::ResourceUpdated { uri: uri.to_owned() });
            count += 1;
            assert!(count <= CHANGES, "{uri}: {count} updates for {CHANGES} changes");
            schedule.pause().await;
            let read = client.read_resource(uri).fresh().await.unwrap();
            if read.contents[0].as_text() == Some(&CHANGES.to_string()) {
                return;
            }
        }
    };
    tokio::join!(changes, updates);
}

/// Opens a subscription, and drops it at a random time.
async fn disturb(client: &Client, schedule: &Schedule) {
    let uri = RESOURCES[schedule.below(RESOURCES.len())];
    let subscription = schedule.run_or_drop(client.subscribe([uri])).await;
    schedule.pause().await;
    drop(subscription);
}

async fn subscriptions(schedule: Schedule, version: ProtocolVersion) {
    let values = Values::default();
    let resources = RESOURCES.iter().enumerate().map(|(index, uri)| {
        let values = values.clone();
        resource(*uri, move || {
            let value = values[index].load(Ordering::Relaxed);
            async move { value.to_string() }
        })
    });
    let builder = Server::builder("real", "1").versions([version]);
    let server = resources.fold(builder, |builder, resource| builder.resource(resource)).build();
    let (connector, _connections) = schedule.connector(server.clone());
    let client = Client::connect(connector).await.unwrap();
    let following = (0..RESOURCES.len()).map(|index| {
        let (client, schedule, server, values) = (&client, &schedule, &server, &values);
        Box::pin(async move { follow(client, schedule, server, values, index).await }) as BoxFuture<'_, _>
    });
    let disturbing = (0..4).map(|_| {
        let (client, schedule) = (&client, &schedule);
        Box::pin(async move { disturb(client, schedule).await }) as BoxFuture<'_, _>
    });
    schedule.run_all(following.chain(disturbing)).await;
    client.close().await;
}

#[test]
fn a_subscription_receives_each_change_of_its_resource() {
    for version in ERAS {
        explore(SEEDS, async |schedule: Schedule| subscriptions(schedule, version).await);
    }
}
