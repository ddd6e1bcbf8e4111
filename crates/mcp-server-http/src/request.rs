//! The head of a request: media types, the principal, the guard of `Host` and `Origin`, and headers that mirror the body.

pub(crate) mod accept;
pub(crate) mod caller;
pub(crate) mod guard;
pub(crate) mod headers;
