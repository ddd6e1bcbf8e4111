//! The integration tests of this crate, in one program: one module per topic.

mod common;
mod serve;
#[cfg(feature = "tls")]
mod tls;
