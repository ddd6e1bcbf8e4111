//! OAuth for clients of Model Context Protocol servers.
//!
//! | part | rules |
//! |---|---|
//! | discovery | the metadata of the server and of its authorization server, in the order of the specification |
//! | registration | a registration of the application, a client id metadata document, a dynamic registration |
//! | login | the authorization code grant with PKCE and a listener on this machine, or the device flow, and a [`UserAgent`] |
//! | exchanges | the token of a caller for a token of another server ([`TokenExchange`]) |
//! | machines | the client credentials grant with a secret or a [`ClientKey`], or the [`Assertion`] of another issuer |
//! | tokens | renewed before their end, once at a time in all processes, in a [`TokenStore`] |
//! | differences | a [`Quirk`] for each known authorization server that differs from the specification |
//! | proofs | tokens bound to a key (DPoP), if the MCP server and its authorization server support them |
//!
//! No text of an error, of `Debug` or of a log record contains a token, a code or a secret.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod account;
mod assertion;
mod authorizer;
#[cfg(feature = "browser")]
mod browser;
mod caught;
mod client_key;
mod device;
mod discovery;
mod dpop;
mod error;
mod exchange;
mod login;
mod oauth;
mod quirks;
#[cfg(test)]
mod recorded;
mod registration;
mod revocation;
mod session;
mod settings;
mod signed;
mod store;
mod token_endpoint;
mod tokens;
mod trail;
mod user_agent;

pub use mcp_protocol::auth::Secret;

#[cfg(feature = "browser")]
pub use self::browser::Browser;
#[cfg(feature = "keyring")]
pub use self::store::SystemKeyring;
pub use self::{
    account::StoredLogin,
    assertion::{Assertion, AssertionRequest, IdentityProvider, SubjectTokenType},
    client_key::ClientKey,
    error::{Error, ErrorKind},
    exchange::{ExchangedToken, TokenExchange},
    oauth::{OAuth, OAuthBuilder},
    quirks::{Quirk, QuirkKind},
    revocation::Revocation,
    store::{FileStore, Keyring, MemoryStore, SealedStore, SharedStore, StoreLock, TokenStore},
    trail::{DiscoveryCheck, DiscoveryRule, DiscoveryStep, Explanation, StepKind},
    user_agent::{Answer, DeviceLogin, Login, UserAgent},
};
