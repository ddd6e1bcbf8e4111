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

/// The largest number of attempts to replace a record that other processes change.
const ATTEMPTS: usize = 4;

/// A record as a process read it. A later write replaces only this record.
pub(super) enum Before {
    /// The record, or `None` if there was none.
    Record(Option<Secret>),
    /// A record that the store cannot open. A login replaces it.
    Unreadable,
}

/// The result of [`Session::keep`].
pub(super) enum Kept {
    /// The tokens are the current ones.
    Own(Arc<Tokens>),
    /// Another process wrote these tokens meanwhile, or removed the record. The current tokens are unchanged.
    Other(Option<Box<Tokens>>),
}

impl Session {
    pub(crate) async fn stored(&self) -> Result<Option<Tokens>, Error> {
        self.read(&self.key).await
    }

    /// Lets a login replace records that the store cannot open.
    pub(crate) fn replace_unreadable(&self) {
        self.replaces_unreadable.store(true, Ordering::Release);
    }

    /// Returns the stored tokens, and the record for [`keep`](Self::keep).
    pub(super) async fn stored_with_record(&self) -> Result<(Option<Tokens>, Before), Error> {
        match self.load(&self.key).await {
            Err(error) if self.replaces(&error) => Ok((None, Before::Unreadable)),
            record => {
                let record = record?;
                Ok((record.as_ref().and_then(parsed), Before::Record(record)))
            }
        }
    }

    /// Stores tokens before a request uses them. If the store fails, the tokens still count in this process: without them a
    /// rotated refresh token would be lost.
    ///
    /// Another process may have changed the record since `before`, although it needs the same lock: a process that is stopped
    /// for a time loses its lease. Then `replaces` decides whether these tokens replace those of the other process.
    pub(super) async fn keep(
        &self,
        tokens: Tokens,
        mut before: Before,
        replaces: impl Fn(Option<&Tokens>) -> bool,
    ) -> Kept {
        let mut failure = Error::new(ErrorKind::Unavailable, "other processes change the stored tokens all the time");
        for _ in 0..ATTEMPTS {
            match self.write_over(&before, &tokens).await {
                Ok(true) => {
                    *self.origin.write() = Some(tokens.access_token.clone());
                    return Kept::Own(self.set_current(tokens));
                }
                Ok(false) => match self.stored_with_record().await {
                    Ok((found, record)) if replaces(found.as_ref()) => before = record,
                    Ok((found, _)) => return Kept::Other(found.map(Box::new)),
                    Err(error) => {
                        failure = error;
                        break;
                    }
                },
                Err(error) => {
                    failure = error;
                    break;
                }
            }
        }
        let text = "the tokens are not stored, so the user must log in again after the end of the process";
        tracing::error!(error = %failure, "{text}");
        Kept::Own(self.set_current(tokens))
    }

    async fn write_over(&self, before: &Before, tokens: &Tokens) -> Result<bool, Error> {
        let (store, record) = (&self.settings.store, to_record(tokens)?);
        match before {
            Before::Record(before) => store.replace(&self.key, before.as_ref(), &record).await,
            Before::Unreadable => store.save(&self.key, &record).await.map(|()| true),
        }
    }

    fn set_current(&self, tokens: Tokens) -> Arc<Tokens> {
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
        match self.load(key).await {
            Err(error) if self.replaces(&error) => Ok(None),
            record => Ok(record?.as_ref().and_then(parsed)),
        }
    }

    /// Whether an error is that of a record that a login replaces.
    fn replaces(&self, error: &Error) -> bool {
        let replaces = error.is_unreadable_record() && self.replaces_unreadable.load(Ordering::Acquire);
        if replaces {
            tracing::debug!(%error, "a login replaces a record");
        }
        replaces
    }

    pub(super) async fn write(&self, key: &str, record: &impl Serialize) -> Result<(), Error> {
        self.settings.store.save(key, &to_record(record)?).await
    }
}

fn parsed<T: DeserializeOwned>(record: &Secret) -> Option<T> {
    let read = serde_json::from_str(record.expose());
    if read.is_err() {
        tracing::warn!("a record of the token store is invalid and is ignored");
    }
    read.ok()
}

fn to_record(value: &impl Serialize) -> Result<Secret, Error> {
    let json = serde_json::to_string(value);
    json.map(Secret::new).map_err(|_| Error::new(ErrorKind::Store, "a record cannot be written as JSON"))
}

/// Returns the key of the registration of one client. An issuer contains no space, so the key differs from those of issuers.
fn client_key(server: &Server, id: &str) -> String {
    format!("client/{} {id}", server.identity)
}
