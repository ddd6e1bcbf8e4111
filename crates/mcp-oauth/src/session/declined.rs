//! The login that a user declined. Other processes that wait for the login read it, so that each of them does not show the page
//! again.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::Session;
use crate::error::{Error, ErrorKind};

#[derive(Serialize, Deserialize)]
struct Declined {
    /// In milliseconds since 1970.
    at: u128,
}

/// A moment at which a session began to wait for a login.
pub(super) struct Start(u128);

impl Start {
    pub(super) fn now() -> Self {
        Self(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis()))
    }
}

impl Session {
    /// Checks that the user declined no login since a moment.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] if the user declined the login of another process. Also if the store cannot be read.
    pub(super) async fn check_declined(&self, start: &Start) -> Result<(), Error> {
        match self.read::<Declined>(&self.declined_key()).await? {
            Some(declined) if declined.at >= start.0 => {
                Err(Error::new(ErrorKind::Denied, "the user declined the login, which another process started"))
            }
            _ => Ok(()),
        }
    }

    /// Stores that the user declined a login.
    pub(super) async fn note_declined(&self) {
        if let Err(error) = self.write(&self.declined_key(), &Declined { at: Start::now().0 }).await {
            tracing::debug!(%error, "other processes will ask the user again");
        }
    }

    fn declined_key(&self) -> String {
        format!("declined/{}", self.endpoint)
    }
}
