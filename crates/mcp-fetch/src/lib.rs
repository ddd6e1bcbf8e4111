//! Guarded HTTP requests to URLs that a peer named, such as the URL of keys in a metadata document.
//!
//! An attacker who chooses the URL must not reach the services of a private network. [`Fetch`] therefore has these rules:
//!
//! - The scheme is `https`. [`FetchBuilder::allow_loopback`] also allows `http` to loopback hosts.
//! - The addresses of a host are checked when the connection is made. The check uses the addresses to which the
//!   connection goes, so an attacker gains nothing if a later lookup has another result. One forbidden address rejects
//!   the request. [`forbidden`] describes the table.
//! - A redirect of a GET is followed within the same origin, at most three times. A POST follows no redirect.
//! - A body has at most 1 MiB, and a request takes at most 10 seconds.
//!
//! ```no_run
//! # async fn example() -> Result<(), mcp_fetch::FetchError> {
//! use mcp_fetch::Fetch;
//!
//! let fetch = Fetch::new();
//! let response = fetch.get("https://as.example/.well-known/oauth-authorization-server").await?;
//! if response.status().is_success() {
//!     let metadata: serde_json::Value = response.json()?;
//!     println!("{}", metadata["issuer"]);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Proxies
//!
//! By default the crate uses no proxy, and it ignores the proxy of the environment. With [`FetchBuilder::proxy`] or
//! [`FetchBuilder::proxy_of_environment`], the proxy resolves the names of hosts, so this crate can check only hosts that are literal addresses. It then also rejects names
//! without a dot and names of private zones (`.internal`, `.local`, `.localdomain`, `.home.arpa`, `.lan`, `.intranet`,
//! `.corp`, `.svc`, `.cluster`, `.private`, `.home`, `.consul`). Requests to allowed loopback hosts do not use the proxy. The
//! administrator of the proxy must block private addresses there.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod address;
#[doc(hidden)]
pub mod answers;
mod client;
mod error;
mod fetch;
mod guard;
mod resolver;
mod response;

pub use self::{
    address::{InvalidNetwork, Network, forbidden},
    error::{FetchError, FetchErrorKind},
    fetch::{Fetch, FetchBuilder},
    resolver::{Resolver, Resolving},
    response::Response,
};
