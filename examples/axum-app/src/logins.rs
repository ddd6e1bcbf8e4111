//! The users of the application, and the tokens of their logins.

use std::{
    collections::HashMap,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::http::{HeaderMap, Method};
use mcp_server::{
    auth::{AuthRequest, Authenticator as _, Basic, BearerTokens, ConfigError, Rejection, hash_password},
    prelude::Principal,
};
use parking_lot::Mutex;

/// The time after which a user has to log in again.
const LIFETIME: Duration = Duration::from_secs(8 * 3600);
/// The largest number of logins. Above it, the login that ends first is removed.
const MAX_LOGINS: usize = 10_000;

/// A login of a user.
struct Login {
    user: String,
    end: SystemTime,
}

/// The users and their logins. An application with a database keeps both there.
#[derive(Clone)]
pub struct Logins {
    passwords: Arc<Basic>,
    tokens: Arc<Mutex<HashMap<String, Login>>>,
}

impl fmt::Debug for Logins {
    /// Omits the tokens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logins").field("logins", &self.tokens.lock().len()).finish_non_exhaustive()
    }
}

impl Logins {
    /// Returns the users with their passwords.
    ///
    /// # Errors
    /// If two users have one name, or a name contains a colon.
    pub fn new(users: &[(&str, &str)]) -> Result<Self, ConfigError> {
        let mut passwords = Basic::new("notes").remember_for(Duration::ZERO);
        for (name, password) in users {
            passwords = passwords.user(name, &hash_password(password)?, Principal::new(*name))?;
        }
        Ok(Self { passwords: Arc::new(passwords), tokens: Arc::default() })
    }

    /// Checks the password in `Authorization: Basic`, and returns the token of a new login.
    ///
    /// # Errors
    /// If the password is wrong, or cannot be checked now.
    pub async fn log_in(&self, headers: &HeaderMap) -> Result<String, Rejection> {
        let request = AuthRequest::new(&Method::POST, "/login", headers);
        let user = self.passwords.authenticate(&request).await?.principal.subject.clone();
        let unavailable = |_| Rejection::Unavailable { retry_after: Duration::from_secs(1) };
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(unavailable)?;
        let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut tokens = self.tokens.lock();
        tokens.retain(|_, login| login.end > SystemTime::now());
        if tokens.len() >= MAX_LOGINS
            && let Some(first) = tokens.iter().min_by_key(|(_, login)| login.end).map(|(token, _)| token.clone())
        {
            tokens.remove(&first);
        }
        tokens.insert(token.clone(), Login { user, end: SystemTime::now() + LIFETIME });
        Ok(token)
    }

    /// Ends the login of a token.
    pub fn log_out(&self, token: &str) {
        self.tokens.lock().remove(token);
    }

    /// Returns the user of a token. A random token of 32 bytes needs no comparison in constant time.
    #[must_use]
    pub fn user(&self, token: &str) -> Option<Principal> {
        let tokens = self.tokens.lock();
        let login = tokens.get(token).filter(|login| login.end > SystemTime::now())?;
        Some(Principal::new(&*login.user).with_expires_at(login.end))
    }

    /// Returns the authentication of the MCP endpoint by the tokens of the application. A logout has an immediate effect,
    /// because no result is remembered.
    #[must_use]
    pub fn authenticator(&self) -> BearerTokens {
        let logins = self.clone();
        BearerTokens::new().remember_for(Duration::ZERO).verify_with(move |token| {
            let user = logins.user(token.expose());
            async move { Ok(user) }
        })
    }
}
