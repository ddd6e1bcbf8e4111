//! The stored records of a session: its tokens, and the registration at an issuer.

use std::sync::{Arc, atomic::Ordering};

use mcp_protocol::auth::Secret;
use serde::{Serialize, de::DeserializeOwned};

use super::{REFRESH_LOCK, Session};
use crate::{
    discovery::Server,
    error::{Error, ErrorKind},
    registration::Registration,
    store::{self, StoreLock},
    tokens::Tokens,
};

impl Session {
    pub(crate) async fn stored(&self) -> Result<Option<Tokens>, Error> {
        self.read(&self.key).await
    }

    /// Lets a login replace records that the store cannot open.
    pub(crate) fn replace_unreadable(&self) {
        self.replaces_unreadable.store(true, Ordering::Release);
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

    /// Returns the registration for the next login at an issuer.
    pub(super) async fn registration(&self, server: &Server) -> Result<Option<Registration>, Error> {
        self.read(&self.issuer_key(server)).await
    }

    /// Returns the registration of one client. Tokens need it also after a later registration at the same issuer.
    pub(super) async fn registration_of(&self, server: &Server, id: &str) -> Result<Option<Registration>, Error> {
        let registration = match self.read(&client_key(server, id)).await? {
            None => self.registration(server).await?,
            registration => registration,
        };
        Ok(registration.filter(|registration| registration.client_id == id))
    }

    pub(super) async fn keep_registration(&self, server: &Server, registration: &Registration) -> Result<(), Error> {
        self.write(&client_key(server, &registration.client_id), registration).await?;
        self.write(&self.issuer_key(server), registration).await
    }

    /// Removes the registration of one client. A later registration at the same issuer stays.
    pub(super) async fn forget_registration(&self, server: &Server, id: &str) -> Result<(), Error> {
        let key = self.issuer_key(server);
        let _lock = self.settings.store.lock(&key, REFRESH_LOCK).await?;
        if self.registration(server).await?.is_some_and(|registration| registration.client_id == id) {
            self.settings.store.remove(&key).await?;
        }
        self.settings.store.remove(&client_key(server, id)).await
    }

    /// Waits until no other session registers the client at the issuer.
    pub(super) async fn registering(&self, server: &Server) -> Result<StoreLock, Error> {
        self.settings.store.lock(&self.issuer_key(server), REFRESH_LOCK).await
    }

    /// Returns the key of the registration for the next login. Each issuer has its own, so no credentials reach another one.
    /// A registration for the device flow has another key. An issuer contains no space, so the keys differ.
    fn issuer_key(&self, server: &Server) -> String {
        let flow = if self.settings.uses_device_flow { "device " } else { "" };
        format!("client/{flow}{}", server.identity)
    }

    /// Returns the stored tokens.
    ///
    /// # Errors
    /// If there is a record that cannot be read.
    pub(super) async fn stored_strictly(&self) -> Result<Option<Tokens>, Error> {
        let Some(record) = self.load(&self.key).await? else { return Ok(None) };
        serde_json::from_str(record.expose())
            .map(Some)
            .map_err(|_| Error::new(ErrorKind::Store, "the stored tokens are invalid or of another version"))
    }

    /// Returns a record as it is.
    async fn load(&self, key: &str) -> Result<Option<Secret>, Error> {
        match self.settings.store.load(key).await {
            Ok(Some(record)) if store::is_sealed(&record) => {
                Err(Error::unreadable_record("the stored login is sealed, and the store has no key"))
            }
            record => record,
        }
    }

    /// Reads a record. A record that another version wrote counts as missing. So does a record that the store cannot open,
    /// once the user asked for a login.
    pub(super) async fn read<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, Error> {
        let record = match self.load(key).await {
            Err(error) if error.is_unreadable_record() && self.replaces_unreadable.load(Ordering::Acquire) => {
                tracing::debug!(%error, "a login replaces a record");
                return Ok(None);
            }
            record => record?,
        };
        let Some(record) = record else { return Ok(None) };
        let read = serde_json::from_str(record.expose());
        if read.is_err() {
            tracing::warn!("a record of the token store is invalid and is ignored");
        }
        Ok(read.ok())
    }

    pub(super) async fn write(&self, key: &str, record: &impl Serialize) -> Result<(), Error> {
        let json = serde_json::to_string(record);
        let json = json.map_err(|_| Error::new(ErrorKind::Store, "a record cannot be written as JSON"))?;
        self.settings.store.save(key, &Secret::new(json)).await
    }
}

/// Returns the key of the registration of one client. An issuer contains no space, so the key differs from those of issuers.
fn client_key(server: &Server, id: &str) -> String {
    format!("client/{} {id}", server.identity)
}
