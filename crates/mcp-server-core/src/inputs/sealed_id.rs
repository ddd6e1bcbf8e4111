//! Ids of another server that travel through the client, for example those of tasks behind a relay.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use chacha20poly1305::aead::{Aead, Payload};
use mcp_protocol::{Principal, RpcError};
use sha2::{Digest as _, Sha256};

use super::seal::{Key, NONCE, StateKeys};

/// The first byte of a sealed id, which differs from the forms of request states.
const FORM: u8 = 16;
/// The longest sealed id in bytes. A longer one is rejected without decoding.
const LONGEST: usize = 4096;

impl StateKeys {
    /// Seals an id for a caller. The same id has the same sealed form for the same caller, so that the caller can compare ids.
    ///
    /// The caller receives the id encrypted. All nodes of a fleet with the same keys can open it. It does not expire.
    ///
    /// ```
    /// use mcp_protocol::Principal;
    /// use mcp_server_core::StateKeys;
    ///
    /// let keys = StateKeys::random()?;
    /// let (ada, grace) = (Principal::new("ada"), Principal::new("grace"));
    /// let sealed = keys.seal_id("task", "builds/7", Some(&ada))?;
    /// assert_eq!(keys.open_id("task", &sealed, Some(&ada)).as_deref(), Some("builds/7"));
    /// assert_eq!(keys.open_id("task", &sealed, Some(&grace)), None);
    /// assert_eq!(keys.open_id("page", &sealed, Some(&ada)), None);
    /// assert_eq!(keys.seal_id("task", "builds/7", Some(&ada))?, sealed);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `-32603` when the id is longer than 2,048 bytes.
    pub fn seal_id(&self, kind: &str, id: &str, principal: Option<&Principal>) -> Result<String, RpcError> {
        let failed = || RpcError::internal("the id cannot be sealed");
        if id.len() > LONGEST / 2 {
            return Err(failed());
        }
        let binding = binding(kind, principal).ok_or_else(failed)?;
        let key = self.keys.first().ok_or_else(failed)?;
        let nonce = key.nonce(&binding, id);
        let payload = Payload { msg: id.as_bytes(), aad: &binding };
        let sealed = key.cipher.encrypt((&nonce).into(), payload).map_err(|_| failed())?;
        let mut out = Vec::with_capacity(1 + NONCE + sealed.len());
        out.push(FORM);
        out.extend_from_slice(&nonce);
        out.extend_from_slice(&sealed);
        Ok(BASE64_URL_SAFE_NO_PAD.encode(out))
    }

    /// Opens an id of [`StateKeys::seal_id`]. `None` for each fault: a foreign key, another caller, another kind, or a text of
    /// another form.
    ///
    /// See the example of [`StateKeys::seal_id`].
    #[must_use]
    pub fn open_id(&self, kind: &str, sealed: &str, principal: Option<&Principal>) -> Option<String> {
        if sealed.len() > LONGEST {
            return None;
        }
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (form, rest) = bytes.split_first()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE>()?;
        if *form != FORM {
            return None;
        }
        let binding = binding(kind, principal)?;
        let open = |key: &Key| key.cipher.decrypt(nonce.into(), Payload { msg: sealed, aad: &binding }).ok();
        String::from_utf8(self.keys.iter().find_map(open)?).ok()
    }
}

impl Key {
    /// Returns the nonce of an id. Different ids and bindings have different nonces, because they are the input of the hash.
    fn nonce(&self, binding: &[u8], id: &str) -> [u8; NONCE] {
        let hash = Sha256::new()
            .chain_update(self.nonces)
            .chain_update((binding.len() as u64).to_be_bytes())
            .chain_update(binding)
            .chain_update(id.as_bytes())
            .finalize();
        let mut nonce = [0; NONCE];
        nonce.copy_from_slice(&hash[..NONCE]);
        nonce
    }
}

/// Returns the kind and the caller of an id. The bindings of request states are arrays of three values.
fn binding(kind: &str, principal: Option<&Principal>) -> Option<Vec<u8>> {
    serde_json::to_vec(&(kind, principal.map(Principal::key))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_opens_only_for_its_caller_its_kind_and_a_known_key() {
        let old = StateKeys::new([[1; 32]]);
        let rotated = StateKeys::new([[2; 32], [1; 32]]);
        let ada = Principal::new("ada");
        let mut issued = Principal::new("ada");
        issued.issuer = Some("https://idp.example.com".into());
        for principal in [None, Some(&ada), Some(&issued)] {
            let sealed = old.seal_id("task", "a \u{1f600}", principal).unwrap();
            assert_eq!(old.seal_id("task", "a \u{1f600}", principal).unwrap(), sealed);
            assert_eq!(rotated.open_id("task", &sealed, principal).as_deref(), Some("a \u{1f600}"));
            for other in [None, Some(&ada), Some(&issued)] {
                let opened = old.open_id("task", &sealed, other);
                assert_eq!(opened.is_some(), other.map(Principal::key) == principal.map(Principal::key));
            }
            assert_eq!(old.open_id("tasks", &sealed, principal), None);
            assert_eq!(StateKeys::new([[2; 32]]).open_id("task", &sealed, principal), None);
        }
    }

    #[test]
    fn changed_long_and_foreign_texts_do_not_open() {
        let keys = StateKeys::new([[1; 32]]);
        let sealed = keys.seal_id("task", "id", None).unwrap();
        assert_ne!(sealed, keys.seal_id("task", "ie", None).unwrap());
        for at in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(keys.open_id("task", std::str::from_utf8(&changed).unwrap(), None), None, "{at}");
        }
        for bad in ["", "id", &sealed[1..], &"A".repeat(5000)] {
            assert_eq!(keys.open_id("task", bad, None), None);
        }
        assert!(keys.seal_id("task", &"a".repeat(2049), None).is_err());
    }
}
