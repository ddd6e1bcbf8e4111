//! Authentication of the clients of a Model Context Protocol server.
//!
//! An [`Authenticator`] reads the credentials of a request and returns the [`Principal`](mcp_protocol::Principal), or a
//! [`Rejection`]. An outage of an issuer is 503 and never 401, because a 401 makes each client log in again.
//!
//! | provider | credentials |
//! |---|---|
//! | [`Jwt`] | tokens that an issuer signed |
//! | [`Introspection`] | opaque tokens that an issuer checks |
//! | [`GitHub`] | tokens of a GitHub application |
//! | [`Dpop`] | tokens of another provider that are bound to a key of the client |
//! | [`ApiKeys`] | keys in a header of their own, plain or hashed |
//! | [`BearerTokens`] | fixed tokens |
//! | [`Basic`] | user names and passwords |
//! | [`Custom`] | a [`Scheme`] of the application |
//! | [`Chain`] | those of several providers, and requests without credentials |
//! | [`Policy`] | those of another provider, with rules for the callers |
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

mod api_key;
mod authenticator;
mod basic;
mod cache;
mod chain;
mod clock;
mod credentials;
mod crypto;
mod dpop;
mod error;
mod github;
mod introspection;
mod issuer_request;
mod json;
mod jwt;
mod password;
mod policy;
mod token_verifier;
mod verified;

pub use self::{
    api_key::{ApiKeys, BearerTokens, hash_api_key},
    authenticator::{AuthRequest, Authenticated, Authenticator, BoxFuture, Rejection, SubjectToken},
    basic::Basic,
    chain::{Chain, Custom, Scheme},
    dpop::Dpop,
    error::ConfigError,
    github::GitHub,
    introspection::Introspection,
    jwt::Jwt,
    password::hash_password,
    policy::Policy,
    token_verifier::TokenVerifier,
};
