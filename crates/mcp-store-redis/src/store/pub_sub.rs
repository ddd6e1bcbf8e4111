//! [`PubSub`] on channels.

use std::sync::Arc;

use mcp_store::{PubSub, StoreFuture, Subscription, limits};
use redis::cmd;

use super::RedisStore;
use crate::link::Effect;

impl PubSub for RedisStore {
    fn publish<'a>(&'a self, topic: &'a str, message: Arc<[u8]>) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            limits::name(topic)?;
            limits::message(&message)?;
            let mut publish = cmd("PUBLISH");
            publish.arg(self.names().channel(topic)).arg(&*message);
            self.command(Effect::Write, publish).await
        })
    }

    fn subscribe<'a>(&'a self, topic: &'a str, capacity: usize) -> StoreFuture<'a, Subscription> {
        Box::pin(async move {
            limits::name(topic)?;
            self.shared.topics.subscribe(topic, capacity).await
        })
    }
}
