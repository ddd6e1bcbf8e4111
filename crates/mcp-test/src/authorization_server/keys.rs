//! The keys that sign tokens.

use std::sync::Arc;

use mcp_auth::{ConfigError, jose::SigningKey};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// The size of a huge key set.
const HUGE: usize = 10_000;

/// The current key. Tokens of earlier keys are no longer valid.
#[derive(Debug)]
pub(super) struct Keys(Mutex<Arc<SigningKey>>);

impl Keys {
    pub(super) fn generate() -> Result<Self, ConfigError> {
        Ok(Self(Mutex::new(Arc::new(SigningKey::generate()?))))
    }

    pub(super) fn rotate(&self) -> Result<(), ConfigError> {
        let key = Arc::new(SigningKey::generate()?);
        *self.0.lock() = key;
        Ok(())
    }

    pub(super) fn current(&self) -> Arc<SigningKey> {
        Arc::clone(&self.0.lock())
    }

    /// Returns the JWK set with the public key.
    pub(super) fn key_set(&self) -> Value {
        json!({"keys": [self.current().jwk()]})
    }

    /// Returns a JWK set that is too large for clients. Its keys differ in their ids only.
    pub(super) fn huge_key_set(&self) -> Value {
        let key = self.current();
        let with_id = |index: usize| {
            let mut jwk = key.jwk().clone();
            jwk["kid"] = format!("key-{index}").into();
            jwk
        };
        json!({"keys": (0..HUGE).map(with_id).collect::<Vec<_>>()})
    }
}
