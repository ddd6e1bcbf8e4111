//! A client library for the Model Context Protocol: one handle for servers of every revision, with automatic
//! reconnection.
//!
//! [`Client::builder`] configures a client: its name, its timeouts, and the requests of the server that it answers.
//! [`ClientBuilder::connect`] opens a connection to a target ([`IntoConnector`]), negotiates a revision, and returns a
//! [`Client`]. The methods of the client return calls ([`Call`]). A call is sent when it is awaited, has timeouts, and
//! is cancelled when its future is dropped.
//!
//! ```
//! use mcp_client::Client;
//! use mcp_server::{Server, tool};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), mcp_client::Error> {
//! let server = Server::builder("greeter", "1.0").tool(tool("greet", async || "Hello!")).build();
//! let client = Client::connect(&server).await?; // or a URL, or a child process
//! assert_eq!(client.call_tool("greet", ()).await?.text(), "Hello!");
//! # Ok(())
//! # }
//! ```
//!
//! Handlers of the builder answer requests of the server, such as [`ClientBuilder::on_elicit`]. A [`Subscription`]
//! delivers changes on the server. Long calls can run as tasks ([`Call::as_task`]). The client reopens a lost
//! connection, and repeats the requests that are safe to repeat.
//!
//! A target is a URL, a [`ChildProcess`], or a server in the same program. URLs need the feature `http`, which is on by
//! default; the module [`http`] has the options of HTTP connections. With the feature `oauth`, the module `oauth` logs in at
//! servers that require tokens. A server of `mcp-server` is a target without a
//! network.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod call;
mod client;
mod config;
mod connection;
mod error;
mod inbound;
mod retry;
#[cfg(feature = "skills")]
mod skills;
mod slow_start;
mod state;
mod subscription;
mod trace;

/// Markers that distinguish the implementations of [`IntoConnector`]. Programs do not name them.
pub mod marker {
    #[cfg(feature = "http")]
    pub use crate::connection::connector::ByUrl;
    pub use crate::connection::connector::{ByArc, ByReference, ByValue};
}

#[cfg(feature = "http")]
pub use mcp_client_http as http;
#[cfg(feature = "oauth")]
pub use mcp_oauth as oauth;

pub use mcp_protocol as protocol;
pub use mcp_schema as schema;
pub use mcp_transport as transport;
pub use mcp_transport::child::ChildProcess;
#[doc(no_inline)]
pub use tokio_util::sync::CancellationToken;

#[cfg(feature = "skills")]
pub use self::skills::LoadedSkill;
pub use self::{
    call::{
        Call, CreatedTask, InputRequired, Items, List, ListItem, ListWarning, Listing, OmittedItem, Page, RawInputs,
        RawItem, RawResult, Round, TaskCall, TaskHandle, TaskOrResult, TaskProgress, ToolResult,
    },
    client::{Client, ClientBuilder, QuestionState},
    config::{Limits, Reconnect},
    connection::{CallInfo, ConnectorSettings, IntoConnector, Negotiated, Notification, OpenTransport},
    error::Error,
    inbound::{Handler, InputContext, Notifications, RawRequest, Roots, Update},
    slow_start::SlowStart,
    state::{State, States},
    subscription::{OpenStates, Subscription},
    trace::Propagate,
};
