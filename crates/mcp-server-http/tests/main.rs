//! The tests of this crate from the outside, in one program: one topic a module.

mod accept;
mod batches;
mod bind;
mod broken_streams;
mod common;
mod crowded;
mod disconnect;
mod headers;
mod health;
mod hostile;
mod http1;
mod http2;
mod inputs_over_http;
mod limits;
mod list_changes;
mod not_offered;
mod origins;
mod parallel;
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
#[cfg(feature = "tls")]
mod tls;
