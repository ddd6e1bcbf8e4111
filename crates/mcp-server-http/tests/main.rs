//! The integration tests of this crate, in one program: one module per topic.

mod accept;
mod attacks;
mod authentication;
mod batches;
mod bind;
mod broken_streams;
mod common;
mod concurrent_calls;
mod concurrent_streams;
mod disconnect;
mod headers;
mod health;
mod http1;
mod http2;
mod limits;
mod list_changes;
mod log_layer;
mod malformed_messages;
mod missing_features;
mod origins;
mod principals;
mod rejections;
mod resume;
mod router;
mod sessionless;
mod sessions;
mod shutdown;
mod sse;
mod stateless;
mod stateless_only;
mod streams;
mod subscriptions;
mod tasks;
mod telemetry;
#[cfg(feature = "tls")]
mod tls;
