//! Subscriptions that receive the changes of resources, while other subscriptions begin and end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_client::{Client, Error, Update, protocol::ProtocolVersion, transport::BoxFuture};
use mcp_server::prelude::*;
use mcp_test::schedule::{Schedule, explore};
use tokio::time::timeout;

use crate::{ERAS, SEEDS, cutting, is_of_cut};

/// The changes of each resource.
const CHANGES: usize = 6;
const RESOURCES: [&str; 3] = ["x://0", "x://1", "x://2"];

/// The number of changes of each resource.
type Values = Arc<[AtomicUsize; 3]>;

/// The parts that the futures of a schedule share.
struct Load<'a> {
    client: &'a Client,
    schedule: &'a Schedule,
    server: &'a Server,
    values: &'a Values,
    cuts: usize,
}

impl Load<'_> {
    /// Repeats a request until no cut disturbs it.
    async fn until_done<T, F: Future<Output = Result<T, Error>>>(&self, request: impl Fn() -> F) -> T {
        for _ in 0..=self.cuts {
            match request().await {
                Ok(done) => return done,
                Err(error) => assert!(self.cuts > 0 && is_of_cut(&error), "{error:?}"),
            }
        }
        panic!("each cut ends a request once")
    }
}

/// Changes a resource, and reads it after each update until it has the last value. Equal updates that wait are one update. A cut can lose
/// updates, and the client reports the loss.
async fn follow(load: &Load<'_>, index: usize) {
    let Load { client, schedule, server, values, cuts } = load;
    let uri = RESOURCES[index];
    let mut subscription = load.until_done(|| client.subscribe([uri]).into_future()).await;
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
            match update {
                Update::Missed if *cuts > 0 => {}
                update => {
                    assert_eq!(update, Update::ResourceUpdated { uri: uri.to_owned() });
                    count += 1;
                }
            }
            assert!(count <= CHANGES, "{uri}: {count} updates for {CHANGES} changes");
            schedule.pause().await;
            let read = load.until_done(|| client.read_resource(uri).fresh().into_future()).await;
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

pub(crate) async fn subscriptions(schedule: Schedule, version: ProtocolVersion, cuts: usize) {
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
    let (connector, connections) = schedule.connector(server.clone());
    let client = Client::connect(connector).await.unwrap();
    let load = Load { client: &client, schedule: &schedule, server: &server, values: &values, cuts };
    let following = (0..RESOURCES.len()).map(|index| {
        let load = &load;
        Box::pin(async move {
            follow(load, index).await;
            None
        }) as BoxFuture<'_, Option<()>>
    });
    let disturbing = (0..4).map(|_| {
        let (client, schedule) = (&client, &schedule);
        Box::pin(async move {
            disturb(client, schedule).await;
            None
        }) as BoxFuture<'_, Option<()>>
    });
    let cutting = cutting(&schedule, &connections, cuts);
    schedule.run_all(following.chain(disturbing).chain(cutting)).await;
    client.close().await;
    assert!(connections.opened() <= 1 + cuts, "{connections:?}");
}

#[test]
fn a_subscription_receives_each_change_of_its_resource() {
    for version in ERAS {
        explore(SEEDS, async |schedule: Schedule| subscriptions(schedule, version, 0).await);
    }
}

#[test]
fn a_subscription_receives_each_change_or_the_loss_while_connections_are_cut() {
    for version in ERAS {
        explore(SEEDS, async |schedule: Schedule| {
            let cuts = 1 + schedule.below(3);
            subscriptions(schedule, version, cuts).await;
        });
    }
}
