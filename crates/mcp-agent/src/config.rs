//! Server definitions: the servers of a host, from a program or from configuration files.
//!
//! [`ConfigFile::read`] reads the file of any common client. The path of a file decides its [`Format`], and each format has
//! its own rules for variables and units. The entry of a server may have a member `x-mcp` in each format:
//!
//! | member of `x-mcp` | meaning |
//! |---|---|
//! | `required` | the host fails to start without the server |
//! | `enabled` | replaces `enabled` and `disabled` of the format |
//! | `description` | the description for users |
//! | `startTimeoutSeconds`, `callTimeoutSeconds` | time limits |
//! | `toolTimeoutSeconds` | an object with the time limit of single tools |
//! | `allowTools`, `denyTools` | globs for the offered tools |
//! | `trustTools`, `askTools` | globs for the tools without and with an approval of each call |
//! | `tokenExchange` | the exchange of the tokens of callers ([`TokenExchange`]) |
//! | `pinTools` | globs for the tools that a host never defers |
//!
//! A host applies `trustTools`, `askTools` and the approval modes of Codex as [rules](crate::ServerOptions::rules) of the server.

mod approval;
mod code;
mod definition;
mod document;
mod endpoint;
mod entry;
mod environment;
mod error;
mod exchange;
mod expand;
mod file;
mod fingerprint;
mod location;
mod lock;
mod node;
mod origin;
mod own;
mod rules;
mod summary;
mod watch;
mod write;

pub use self::{
    approval::{Approval, Approvals},
    code::Code,
    definition::{MAX_NAME, ServerDefinition},
    endpoint::{Endpoint, HttpServer, HttpTransport, StdioServer},
    environment::Environment,
    error::ConfigError,
    exchange::TokenExchange,
    file::{ConfigFile, MAX_FILE},
    location::discover,
    origin::{Format, Origin, Scope},
    watch::{ConfigDiff, ConfigWatch},
};
pub(crate) use self::{
    document::{Syntax, json_options, parse_document},
    file::read_text,
    lock::lock as lock_file,
    summary::secrets as secrets_of_texts,
    write::replace as replace_file,
};
