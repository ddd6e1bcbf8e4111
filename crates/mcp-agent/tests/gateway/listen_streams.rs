//! The acknowledgement of a `subscriptions/listen` stream with resources of several servers. The clock of these tests is paused.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use mcp_agent::{
    Gateway, Host, ServerOptions,
    policy::{Effect, PendingApproval, Rule},
};
use mcp_client::transport::{Connect, Transport, TransportError};
use mcp_protocol::{ProtocolVersion, RpcError, SubscriptionFilter};
use mcp_server::{
    Server,
    source::{Source, SourceCall, SourceFeatures, SourceSubscription},
};
use mcp_transport::BoxFuture;
use tokio::time::{Instant, sleep, timeout};

use crate::common::{Pipe, REVISIONS, SOON, client};

/// A server that accepts a subscription after this time.
#[derive(Clone, Copy)]
struct Watched(Duration);

impl Watched {
    fn pipe(self, version: ProtocolVersion) -> Pipe {
        Pipe::new(Server::builder::<()>("s", "1").versions([version]).source(self).build())
    }
}

impl Source for Watched {
    fn features(&self) -> SourceFeatures {
        SourceFeatures::NONE.with_resources()
    }

    fn subscribe(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceSubscription, RpcError>> {
        Box::pin(async {
            sleep(self.0).await;
            Ok(SourceSubscription::default())
        })
    }
}

/// Connects to a server. After the test sets the flag, a connection needs 5 seconds.
struct Restarting(Pipe, Arc<AtomicBool>);

impl Connect for Restarting {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        Box::pin(async {
            if self.1.load(Ordering::SeqCst) {
                sleep(Duration::from_secs(5)).await;
            }
            self.0.connect().await
        })
    }

    fn describe(&self) -> String {
        "a server that starts again".to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_does_not_wait_for_a_silent_server_and_waits_for_healthy_ones() {
    const SILENT: Duration = Duration::from_secs(1 << 30);
    const SLOW: Duration = Duration::from_millis(1500);
    // Each case has a server and the number of its resources, the server's time for an answer, and the bounds of the acknowledgement.
    for (server, resources, answer, is_accepted, least, most) in [
        ("other", 20, SILENT, false, 4, 5),
        ("other", 20, SLOW, true, 4, 7),
        // The time limit of the server counts from each turn.
        ("limited", 40, SLOW, true, 7, 9),
        // More approvals would be pending than a principal may have.
        ("asks", 20, Duration::ZERO, true, 15, 18),
        ("starts", 2, Duration::ZERO, true, 5, 12),
    ] {
        for version in REVISIONS {
            let case = format!("{server} {answer:?} {version}");
            let (starts, is_starting) = (Watched(Duration::ZERO).pipe(version), Arc::<AtomicBool>::default());
            let ask = ServerOptions::new().rule(Rule::new(Effect::Ask));
            let limited = ServerOptions::new().call_timeout(Duration::from_secs(5));
            let restarting = Restarting(starts.clone(), Arc::clone(&is_starting));
            let approve = |_: PendingApproval| async {
                sleep(Duration::from_secs(5)).await;
                true
            };
            let host = Host::builder("gateway", "1")
                .server("healthy", Watched(Duration::ZERO).pipe(version))
                .server("other", Watched(answer).pipe(version))
                .server_with("limited", Watched(answer).pipe(version), limited)
                .server("starts", restarting)
                .server_with("asks", Watched(Duration::ZERO).pipe(version), ask)
                .approver(approve);
            let gateway = Gateway::builder(host.start().await.unwrap()).build().unwrap().versions([REVISIONS[1]]);
            let user = client().connect(&gateway.build()).await.unwrap();
            is_starting.store(true, Ordering::SeqCst);
            starts.kill();
            let healthy = "mcp://healthy/x:1".to_owned();
            let mut uris: Vec<String> = (0..resources).map(|number| format!("mcp://{server}/x:{number}")).collect();
            uris.push(healthy.clone());
            let began = Instant::now();
            let listening = user.listen(SubscriptionFilter::new().with_resources(uris.clone()));
            let stream = timeout(SOON, listening).await.unwrap().unwrap();
            let accepted = if is_accepted { uris } else { vec![healthy] };
            assert_eq!(stream.honoured().resource_subscriptions, accepted, "{case}");
            let elapsed = began.elapsed();
            let bounds = Duration::from_secs(least)..Duration::from_secs(most);
            assert!(bounds.contains(&elapsed), "{case}: {elapsed:?}");
        }
    }
}

/// A server that accepts a subscription after this number of milliseconds.
#[derive(Clone, Default)]
struct Delayed(Arc<AtomicU64>);

impl Source for Delayed {
    fn features(&self) -> SourceFeatures {
        SourceFeatures::NONE.with_resources()
    }

    fn subscribe(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceSubscription, RpcError>> {
        Box::pin(async {
            sleep(Duration::from_millis(self.0.load(Ordering::SeqCst))).await;
            Ok(SourceSubscription::default())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_of_another_client_needs_no_request_of_the_stream() {
    // Each case has the number of resources without an answer, the delay of the server in milliseconds, whether its connection is lost,
    // and the bounds of the acknowledgement in seconds.
    for (silent, delay, is_lost, least, most) in [(16, 1 << 40, false, 4, 5), (0, 5000, true, 4, 12)] {
        for version in REVISIONS {
            let delayed = Delayed::default();
            let server = Pipe::new(Server::builder::<()>("s", "1").versions([version]).source(delayed.clone()).build());
            let host = Host::builder("gateway", "1")
                .server("s", server.clone())
                .server("healthy", Watched(Duration::ZERO).pipe(version));
            let gateway =
                Gateway::builder(host.start().await.unwrap()).build().unwrap().versions([REVISIONS[1]]).build();
            let (first, second) =
                (client().connect(&gateway).await.unwrap(), client().connect(&gateway).await.unwrap());
            let shared = ["mcp://s/x:0".to_owned(), "mcp://healthy/x:1".to_owned()];
            let _open = first.listen(SubscriptionFilter::new().with_resources(shared[..1].to_vec())).await.unwrap();
            delayed.0.store(delay, Ordering::SeqCst);
            if is_lost {
                server.kill();
                sleep(Duration::from_millis(500)).await;
            }
            let uris = (1..=silent).map(|number| format!("mcp://s/x:{number}")).chain(shared.clone());
            let began = Instant::now();
            let stream = timeout(SOON, second.listen(SubscriptionFilter::new().with_resources(uris))).await.unwrap();
            assert_eq!(stream.unwrap().honoured().resource_subscriptions, shared, "{silent} {version}");
            let bounds = Duration::from_secs(least)..Duration::from_secs(most);
            assert!(bounds.contains(&began.elapsed()), "{silent} {version}: {:?}", began.elapsed());
        }
    }
}
