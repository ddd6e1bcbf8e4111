//! OAuth for clients of Model Context Protocol servers.
//!
//! | part | rules |
//! |---|---|
//! | discovery | the metadata of the server and of its authorization server, in the order of the specification |
//!
//! No text of an error, of `Debug` or of a log record contains a token, a code or a secret.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg_attr(not(test), expect(dead_code, reason = "the login uses it"))]
mod discovery;
mod error;

pub use self::error::{Error, ErrorKind};
