//! The tests of this crate from the outside, in one program: one topic a module.

mod common;
mod serve;
#[cfg(feature = "tls")]
mod tls;
