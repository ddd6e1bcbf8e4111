//! The head of a request: media types, the guard of `Host` and `Origin`, and headers that mirror the body.

pub(crate) mod accept;
pub(crate) mod guard;
pub(crate) mod headers;
