//! Random histories on a Redis server have the outcomes of the model of `mcp-store`. The rules of the suite check the expiry.

use std::time::Duration;

use mcp_store_redis::{Protocol, RedisStore};
use mcp_test::redis_server::RedisServer;
use tokio::runtime::Runtime;

use crate::{
    common::options,
    history::{check, histories, run},
};

/// A unit that no history lasts.
const UNIT: Duration = Duration::from_secs(3600);

#[test]
fn a_store_on_redis_has_the_outcomes_of_the_model() {
    let Some(server) = RedisServer::start_or_skip("a_store_on_redis_has_the_outcomes_of_the_model") else { return };
    let runtime = Runtime::new().unwrap();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        check(32, &histories(false), |history| {
            runtime.block_on(async {
                let options = options(server.address()).protocol(protocol);
                let first = RedisStore::connect(options.clone()).await.unwrap();
                let second = RedisStore::connect(options).await.unwrap();
                run(&[&first, &second], &history, UNIT).await
            })
        });
    }
}
