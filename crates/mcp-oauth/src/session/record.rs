//! The stored records of a session: its tokens, and the registration at an issuer.

use std::sync::Arc;

use mcp_protocol::auth::Secret;
use serde::{Serialize, de::DeserializeOwned};

use super::Session;
use crate::{
    discovery::Server,
    error::{Error, ErrorKind},
    registration::Registration,
    tokens::Tokens,
};

impl Session {
    pub(super) async fn stored(&self) -> Result<Option<Tokens>, Error> {
        self.read(&self.key).await
    }

    /// Stores tokens before a request uses them. If the store fails, the tokens still count in this process: without them a
    /// rotated refresh token would be lost.
    pub(super) async fn keep(&self, tokens: Tokens) -> Arc<Tokens> {
        match self.write(&self.key, &tokens).await {
            Ok(()) => *self.origin.write() = Some(tokens.access_token.clone()),
            Err(error) => {
                let text = "the tokens are not stored, so the user must log in again after the end of the process";
                tracing::error!(%error, "{text}");
            }
        }
        let tokens = Arc::new(tokens);
        *self.current.write() = Some(Arc::clone(&tokens));
        tokens
    }

    pub(super) async fn registration(&self, server: &Server) -> Result<Option<Registration>, Error> {
        self.read(&registration_key(server)).await
    }

    pub(super) async fn keep_registration(&self, server: &Server, registration: &Registration) -> Result<(), Error> {
        self.write(&registration_key(server), registration).await
    }

    pub(super) async fn forget_registration(&self, server: &Server) -> Result<(), Error> {
        self.settings.store.remove(&registration_key(server)).await
    }

    /// Reads a record. A record that another version wrote counts as missing.
    async fn read<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, Error> {
        let Some(record) = self.settings.store.load(key).await? else { return Ok(None) };
        let read = serde_json::from_str(record.expose());
        if read.is_err() {
            tracing::warn!("a record of the token store is invalid and is ignored");
        }
        Ok(read.ok())
    }

    async fn write(&self, key: &str, record: &impl Serialize) -> Result<(), Error> {
        let json = serde_json::to_string(record);
        let json = json.map_err(|_| Error::new(ErrorKind::Store, "a record cannot be written as JSON"))?;
        self.settings.store.save(key, &Secret::new(json)).await
    }
}

/// Returns the key of a registration. Each issuer has its own, so no credentials reach another one.
fn registration_key(server: &Server) -> String {
    format!("client/{}", server.identity)
}
