//! Authenticated callers, and the documents of OAuth: the pure data that servers and clients share.
//!
//! | type | document |
//! |---|---|
//! | [`Principal`], [`Confirmation`] | the authenticated identity of a caller |
//! | [`Challenge`] | one challenge of `WWW-Authenticate` (RFC 9110, RFC 6750, RFC 9449) |
//! | [`ProtectedResourceMetadata`] | the issuers of tokens for a server (RFC 9728) |
//! | [`AuthorizationServerMetadata`] | an authorization server (RFC 8414, OpenID Connect Discovery) |
//! | [`ClientMetadata`], [`ClientInformation`] | a client (RFC 7591, client id metadata documents) |
//! | [`TokenResponse`], [`OAuthError`] | the answers of a token endpoint (RFC 6749 §5) |
//! | [`grant_type`], [`token_type`], [`client_assertion_type`], [`grant_profile`] | the registered URNs |

mod challenge;
mod client;
mod principal;
mod resource;
mod secret;
mod server;
mod token;

pub use self::{
    challenge::Challenge,
    client::{ClientInformation, ClientMetadata},
    principal::{Confirmation, Principal},
    resource::ProtectedResourceMetadata,
    secret::Secret,
    server::AuthorizationServerMetadata,
    token::{OAuthError, TokenResponse, client_assertion_type, grant_profile, grant_type, token_type},
};
