//! The state that nodes of a fleet share: sessions, event logs, tasks, notifications, tokens.
//!
//! Three traits define a shared store:
//!
//! - [`KeyValue`]: records with a time to live, compare-and-swap, a listing by prefix
//! - [`Log`]: append-only numbered records that can be trimmed
//! - [`PubSub`]: messages to the current subscribers of a topic
//!
//! [`Store`] combines them. [`MemoryStore`] implements them inside one process and is the default.
//!
//! `SealedStore` (feature `sealed`) encrypts the values of another store, for example tokens.
//!
//! Another implementation must keep the rules of the `suite` module (feature `suite`): call its functions from a
//! test.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use mcp_store::{KeyValue, MemoryStore, Store};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
//! store.put("session/1", Arc::from(*b"{}"), Some(Duration::from_secs(60))).await?;
//! assert_eq!(store.get("session/1").await?.as_deref(), Some(&b"{}"[..]));
//! # Ok::<(), mcp_store::StoreError>(()) }).unwrap();
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod error;
mod key_value;
pub mod limits;
mod log;
mod memory;
mod pub_sub;
#[cfg(feature = "sealed")]
mod sealed;
#[cfg(any(test, feature = "suite"))]
pub mod suite;

pub use crate::{
    error::StoreError,
    key_value::{KeyPage, KeyValue, Swap},
    log::{Log, LogPage, Record, Retain},
    memory::{MemoryLimits, MemoryStore},
    pub_sub::{Delivery, PubSub, Subscription, SubscriptionSender, subscription},
};

#[cfg(feature = "sealed")]
pub use crate::sealed::{SealKeys, SealedStore};

use std::pin::Pin;

/// The boxed future that the methods of a store return, so that the traits are object-safe.
///
/// The operation starts when the future is polled. Dropping the future stops the wait, but a write that was already
/// sent to a remote store may still take effect.
///
/// ```
/// use mcp_store::{StoreError, StoreFuture};
///
/// /// Returns the length of `key`, as a method of a store would.
/// fn length(key: &str) -> StoreFuture<'_, usize> {
///     Box::pin(async move {
///         mcp_store::limits::name(key)?;
///         Ok(key.len())
///     })
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), StoreError> {
/// assert_eq!(length("session/1").await?, 9);
/// assert!(length("").await.unwrap_err().is_invalid());
/// # Ok(())
/// # }
/// ```
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A store that implements all three traits. It is implemented for each such type.
///
/// ```
/// use std::sync::Arc;
///
/// use mcp_store::{MemoryStore, Store};
///
/// let stores: [Arc<dyn Store>; 2] = [Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new())];
/// assert_eq!(stores.len(), 2);
/// ```
pub trait Store: KeyValue + Log + PubSub {}

impl<T: KeyValue + Log + PubSub + ?Sized> Store for T {}
