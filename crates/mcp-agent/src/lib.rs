//! A host for Model Context Protocol servers.
//!
//! An application that embeds a language model is a *host*: it connects to many servers, and offers their tools to the model.
//!
//! - [`Host`] connects to many servers, offers one [`Catalog`] of their tools, and sends each call to its server.
//! - [`characters`] finds and removes invisible characters in the texts of tools.
//! - [`config`] describes servers: [`ServerDefinition`](config::ServerDefinition) for each server, in a program or from the
//!   configuration file of any common client.
//! - [`filter`] selects the tools of a server, and changes their names and texts.
//! - [`pins`] detects definitions of tools that changed.
//! - [`policy`] decides which calls run, which need an approval, and which are denied.
//! - [`install`] adds servers to the configuration files of clients.
//! - [`record`] records the messages of all servers, and replays them without servers.
//! - [`search`] finds tools by words, and decides which tools a request contains.
//!
//! ```
//! # use mcp_server::{Server, tool};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let weather = Server::builder("weather", "1").tool(tool("forecast", async || "rain")).build();
//! use mcp_agent::Host;
//! use mcp_tool_format::{Options, Provider, render};
//!
//! // Servers are child processes, URLs, or servers in the same program.
//! let host = Host::builder("my-app", "1.0").server("weather", &weather).start().await?;
//! let rendered = render(host.catalog().definitions(), &Options::new(Provider::Anthropic));
//! assert_eq!(rendered.value[0]["name"], "weather__forecast");
//! // The model calls a tool by this name.
//! assert_eq!(host.call("weather__forecast", ()).await?.text(), "rain");
//! # Ok(())
//! # }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod bounded_file;
mod catalog;
pub mod characters;
pub mod config;
mod file_lock;
pub mod filter;
#[cfg(feature = "gateway")]
mod gateway;
mod glob;
mod host;
pub mod install;
pub mod pins;
pub mod policy;
pub mod record;
mod registry;
mod routing;
pub mod search;
mod sharing;

#[cfg(feature = "gateway")]
pub use self::gateway::{
    DroppedItem, Gateway, GatewayBuilder, GatewayError, InvalidItem, ItemKind, Names, UnknownNames,
};
#[cfg(feature = "oauth")]
pub use self::host::{connector_with_oauth, oauth_settings, token_exchange_authorizer};
#[cfg(feature = "oauth")]
pub use self::registry::CallerToken;
pub use self::{
    catalog::{Catalog, CatalogItem, CatalogTool, InvalidArguments, UnknownName},
    glob::{Glob, GlobError},
    host::{
        AcceptError, CatalogChanges, DefinitionError, FoundTool, Host, HostBuilder, ServerError, StartError, Toolset,
        connector,
    },
    registry::{Caller, Lists, ServerOptions, ServerState, ServerStatus, StatusEvents, TokenFault},
    routing::{CallError, HostCall, HostRequest, HostResult},
    sharing::{Sharing, UnknownSharing},
};
