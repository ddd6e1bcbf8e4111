//! A namespace in a cluster of two nodes, reached through the node without its slot.

use std::{
    net::TcpListener,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use mcp_store::suite;
use mcp_store_redis::{Protocol, RedisOptions, RedisStore};
use mcp_test::redis_server::RedisServer;
use tokio::time::sleep;

use crate::common::connect;

/// The number of namespaces of the rules for two handles.
static LAST: AtomicU32 = AtomicU32::new(0);

/// Starts a node of a cluster.
fn node(name: &str) -> Option<(RedisServer, u16)> {
    let bus = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let bus_port = format!("--cluster-port {bus}");
    let server = RedisServer::start_with_or_skip(name, &["--cluster-enabled yes", &bus_port])?;
    Some((server, bus))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_follows_the_redirection_of_a_cluster() {
    let name = "the_store_follows_the_redirection_of_a_cluster";
    let (Some((asked, _)), Some((owner, bus))) = (node(name), node(name)) else { return };
    assert_eq!(owner.send("CLUSTER ADDSLOTSRANGE 0 16383").unwrap(), "+OK\r\n");
    let port = owner.address().port();
    assert_eq!(asked.send(&format!("CLUSTER MEET 127.0.0.1 {port} {bus}")).unwrap(), "+OK\r\n");
    let deadline = Instant::now() + Duration::from_secs(20);
    let knows = |server: &RedisServer| {
        let info = server.send("CLUSTER INFO").unwrap();
        info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:2")
    };
    while !(knows(&asked) && knows(&owner)) {
        assert!(Instant::now() < deadline, "{}", asked.send("CLUSTER NODES").unwrap());
        sleep(Duration::from_millis(20)).await;
    }
    assert!(asked.send("GET {x}:k:a").unwrap().starts_with("-MOVED"));
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        suite::key_value(async || connect(asked.address(), protocol).await).await.unwrap();
        suite::log(async || connect(asked.address(), protocol).await).await.unwrap();
    }
    let factory = async || {
        let namespace = format!("handles/{}", LAST.fetch_add(1, Ordering::Relaxed));
        let handle = async |server: &RedisServer| {
            let options = RedisOptions::from_url(&server.url()).unwrap().namespace(&namespace);
            RedisStore::connect(options).await.unwrap()
        };
        (handle(&asked).await, handle(&owner).await)
    };
    suite::handles(factory).await.unwrap();
    suite::pub_sub(async || connect(asked.address(), Protocol::Resp3).await).await.unwrap();
}
