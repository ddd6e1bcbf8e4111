//! Write Model Context Protocol clients: one handle for every server, every revision, that reconnects by itself.
//!
//! [`Client::builder`] says who the client is and what it can answer; [`ClientBuilder::connect`] takes whatever opens
//! transports ([`IntoConnector`]), finds out what the server speaks, and gives a [`Client`]. Its methods are calls that are
//! awaited ([`Call`]), each bounded in time and cancelled by being dropped.
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
//! What the server asks is answered by what was set on the builder ([`ClientBuilder::on_elicit`] and its neighbours); what
//! changes comes as a [`Subscription`]; calls that run for long are tasks ([`Call::as_task`]). A connection that is lost is opened
//! again, and what may be sent again is.
//!
//! A server is behind a URL (feature `http`, on by default; the module `http` has what can be set), in a [`ChildProcess`], or
//! in the same program: a server of `mcp-server` is something to connect to as it is.

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

/// Compiles the examples of the guides.
#[cfg(doctest)]
mod guides {
    #[cfg(feature = "http")]
    #[doc = include_str!("../../../docs/clients.md")]
    mod clients {}
    #[cfg(feature = "http")]
    #[doc = include_str!("../../../docs/migrating-from-rmcp.md")]
    mod migrating_from_rmcp {}
}

/// Marks that tell the implementations of [`IntoConnector`] apart; never written.
pub mod marker {
    #[cfg(feature = "http")]
    pub use crate::connection::connector::ByUrl;
    pub use crate::connection::connector::{ByArc, ByReference, ByValue};
}

#[cfg(feature = "http")]
pub use mcp_client_http as http;

pub use mcp_protocol as protocol;
pub use mcp_transport as transport;
pub use mcp_transport::child::ChildProcess;

#[cfg(feature = "skills")]
pub use self::skills::LoadedSkill;
pub use self::{
    call::{Call, Items, List, ListItem, ListWarning, Listing, Page, TaskCall, TaskHandle, TaskOrResult, ToolResult},
    client::{Client, ClientBuilder},
    config::{Limits, Reconnect},
    connection::{IntoConnector, Negotiated, Notification, OpenTransport},
    error::Error,
    inbound::{Handler, InputContext, Notifications, RawRequest, Roots, Update},
    slow_start::SlowStart,
    state::State,
    subscription::Subscription,
};
