//! The store of `mcp-store` on Redis 7 or Valkey, for fleets of servers.
//!
//! [`RedisStore`] implements all three traits:
//!
//! - Records are strings with a time to live. A sorted set of all keys gives listings in byte order.
//! - Logs are streams, with sequences of the store.
//! - Topics are channels. The readers of a process share one subscription for each topic. Each reader receives
//!   [`Delivery::Lagged`](mcp_store::Delivery::Lagged) when a connection is lost, and again when it is replaced.
//!
//! Each write is one Lua script, so it is atomic. All keys of a namespace begin with `{namespace}:`, so they are in one
//! slot of a cluster. Channels begin with it too, because the databases of a server share their channels.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use mcp_store::Store;
//! use mcp_store_redis::{RedisOptions, RedisStore};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), mcp_store::StoreError> {
//! let options = RedisOptions::from_url("rediss://fleet:secret@redis.internal")?.namespace("mcp/notes");
//! let store: Arc<dyn Store> = Arc::new(RedisStore::connect(options).await?);
//! # let _ = store;
//! # Ok(())
//! # }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod activity;
mod dial;
mod error;
mod link;
mod meter;
mod names;
mod options;
mod script;
mod settings;
mod store;
mod topics;

pub use crate::{
    options::{Protocol, RedisOptions},
    store::RedisStore,
};
