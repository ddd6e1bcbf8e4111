//! Authentication of the clients of a Model Context Protocol server.
//!
//! An [`Authenticator`] reads the credentials of a request and returns the [`Principal`](mcp_protocol::Principal), or a
//! [`Rejection`]. An outage of an issuer is 503 and never 401, because a 401 makes each client log in again.
//!
//! The feature `oauth` (on by default) contains all providers. It adds an HTTP client for the requests to an authorization
//! server. The feature `providers` contains the providers that send no requests, and few dependencies.
//!
//! | provider | credentials | feature |
//! |---|---|---|
//! | [`Jwt`] | tokens that an issuer signed | `providers` for known keys, `oauth` for [`Jwt::issuer`] and [`Jwt::jwks`] |
//! | [`Introspection`] | opaque tokens that an issuer checks | `oauth` |
//! | [`GitHub`] | tokens of a GitHub application | `oauth` |
//! | [`Dpop`] | tokens of another provider that are bound to a key of the client | `oauth` |
//! | [`ApiKeys`] | keys in a header of their own, plain or hashed | `providers` |
//! | [`BearerTokens`] | fixed tokens | `providers` |
//! | [`Basic`] | user names and passwords | `providers` |
//! | [`Custom`] | a [`Scheme`] of the application | |
//! | [`Chain`] | those of several providers | |
//! | [`Policy`] | those of another provider, with rules for the callers | |
//!
//! The server does not pass credentials on to handlers. No text of an error, of `Debug` or of a log record contains them.
//!
//! ```
//! use mcp_auth::Jwt;
//!
//! let auth = Jwt::issuer("https://as.example")?.audience("https://mcp.example.com/mcp");
//! # let _ = auth;
//! # Ok::<_, mcp_auth::ConfigError>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "providers")]
mod api_key;
mod authenticator;
#[cfg(feature = "providers")]
mod basic;
#[cfg(feature = "providers")]
mod cache;
mod chain;
#[cfg(feature = "providers")]
mod clock;
mod credentials;
#[cfg(feature = "providers")]
mod crypto;
#[cfg(feature = "oauth")]
mod dpop;
mod error;
#[cfg(feature = "oauth")]
mod github;
#[cfg(feature = "oauth")]
mod introspection;
#[cfg(feature = "oauth")]
mod issuer_request;
#[cfg(feature = "oauth")]
mod issuer_url;
#[cfg(feature = "oauth")]
#[doc(hidden)]
pub mod jose;
#[cfg(feature = "providers")]
mod json;
#[cfg(feature = "providers")]
mod jwt;
mod limit;
#[cfg(feature = "providers")]
mod password;
mod policy;
#[cfg(feature = "providers")]
mod token_verifier;
#[cfg(feature = "providers")]
mod verified;

#[cfg(feature = "providers")]
pub use self::{
    api_key::{ApiKeys, BearerTokens, hash_api_key},
    basic::Basic,
    jwt::Jwt,
    password::hash_password,
    token_verifier::TokenVerifier,
};
pub use self::{
    authenticator::{AuthRequest, Authenticated, Authenticator, BoxFuture, IntoAuthenticator, Rejection, SubjectToken},
    chain::{Chain, Custom, Scheme},
    error::ConfigError,
    policy::Policy,
};
#[cfg(feature = "oauth")]
pub use self::{dpop::Dpop, github::GitHub, introspection::Introspection};
