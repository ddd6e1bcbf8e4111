//! Server definitions: the servers of a host, from a program or from configuration files.

mod definition;
mod endpoint;
mod origin;

pub use self::{
    definition::{MAX_NAME, ServerDefinition},
    endpoint::{Endpoint, HttpServer, HttpTransport, StdioServer},
    origin::{Format, Origin, Scope},
};
