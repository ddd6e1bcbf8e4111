//! Helpers of the tests.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use mcp_store_redis::{Protocol, RedisOptions, RedisStore};

/// Returns the options of an empty namespace.
pub(crate) fn options(address: SocketAddr) -> RedisOptions {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let namespace = format!("test/{}", LAST.fetch_add(1, Ordering::Relaxed));
    RedisOptions::tcp(address.ip().to_string(), address.port()).namespace(namespace)
}

/// Connects to an empty namespace.
pub(crate) async fn connect(address: SocketAddr, protocol: Protocol) -> RedisStore {
    RedisStore::connect(options(address).protocol(protocol)).await.unwrap()
}

/// Connects to an empty namespace, with a short time limit of calls.
pub(crate) async fn hasty(address: SocketAddr) -> RedisStore {
    RedisStore::connect(options(address).call_time_limit(Duration::from_millis(500))).await.unwrap()
}
