//! Answers: bodies, event streams, status codes and CORS headers.

pub(crate) mod access;
pub(crate) mod body;
pub(crate) mod cors;
pub(crate) mod health;
pub(crate) mod message_queue;
pub(crate) mod respond;
pub(crate) mod stream;
pub(crate) mod vectored;
