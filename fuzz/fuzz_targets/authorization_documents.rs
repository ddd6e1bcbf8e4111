//! Reads any JSON as each document of an authorization: metadata, registrations, tokens and errors.
//!
//! A document has the same JSON after a round trip.

#![no_main]

use std::time::SystemTime;

use fuzz::{fuzz_target, round_trip};
use mcp_protocol::auth::{
    AuthorizationServerMetadata, ClientInformation, ClientMetadata, Confirmation, OAuthError,
    ProtectedResourceMetadata, TokenResponse,
};

fuzz_target!(|data: &[u8]| {
    if let Some(metadata) = round_trip::<ProtectedResourceMetadata>(data) {
        let _ = ProtectedResourceMetadata::path_for(&metadata.resource);
    }
    round_trip::<AuthorizationServerMetadata>(data);
    round_trip::<ClientMetadata>(data);
    round_trip::<ClientInformation>(data);
    round_trip::<Confirmation>(data);
    if let Some(error) = round_trip::<OAuthError>(data) {
        let _ = (error.is_definitive(), error.to_string());
    }
    if let Some(response) = round_trip::<TokenResponse>(data) {
        let _ = response.expires_at(SystemTime::now());
    }
});
