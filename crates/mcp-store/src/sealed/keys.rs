//! The keys of a sealed store: keyed hashes of names, and authenticated encryption of values.

use std::{fmt, sync::Arc};

use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305,
    aead::{Aead, Payload},
};
use ring::{
    hmac,
    rand::{SecureRandom, SystemRandom},
};

use crate::StoreError;

/// The bytes that the encryption adds: the version, the nonce and the tag.
pub(super) const OVERHEAD: usize = 1 + NONCE + 16;

const VERSION: u8 = 1;
const NONCE: usize = 24;
/// The bytes of a hash of a name. Its text has twice as many characters.
const HASH: usize = 16;
/// The number of parents of a key that have a hash of their own. A deeper key has one hash for its rest.
const PARENTS: usize = 7;
/// The prefixes of hashed names. Other keys do not begin with a control character.
const KEY: &str = "\u{1}k/";
const LOG: &str = "\u{1}l/";
const TOPIC: &str = "\u{1}t/";

/// The keys of a [`SealedStore`](super::SealedStore): a key for names, and keys for values with the newest first.
///
/// The first key encrypts values, and all keys decrypt them. To rotate the key of one process, put a new key first. Processes
/// with a common store need two steps, because each of them must decrypt the values of the others. First add the new key as the
/// last one to all processes, and then put it first. Remove an old key when its records have expired or were written again. The key for names does not rotate, because it determines where a record is.
/// It does not decrypt values.
///
/// ```
/// use mcp_store::SealKeys;
///
/// let keys = SealKeys::new([1; 32], [[2; 32]]);
/// let rotated = SealKeys::new([1; 32], [[3; 32], [2; 32]]);
/// // The debug text has no key.
/// assert_eq!(format!("{rotated:?}"), "SealKeys(2 keys)");
/// # let _ = keys;
/// ```
#[derive(Clone)]
pub struct SealKeys {
    names: hmac::Key,
    values: Arc<[XChaCha20Poly1305]>,
}

impl SealKeys {
    /// Returns keys from secrets of 32 random bytes each: one for names, and those for values with the newest first.
    ///
    /// # Panics
    /// Panics when there is no key for values.
    #[track_caller]
    pub fn new(names: [u8; 32], values: impl IntoIterator<Item = [u8; 32]>) -> Self {
        let values: Arc<[_]> = values.into_iter().map(|key| XChaCha20Poly1305::new(&key.into())).collect();
        assert!(!values.is_empty(), "there must be a key to seal with");
        Self { names: hmac::Key::new(hmac::HMAC_SHA256, &names), values }
    }

    /// The name of a key: the hashes of its parents, and of the key.
    pub(super) fn key(&self, key: &str) -> String {
        let mut name = self.parents(key);
        name.push_str(&self.hash("key", key));
        name
    }

    /// The prefix of the names of all keys that begin with `prefix`, and of the other keys below its last `/`.
    pub(super) fn parent(&self, prefix: &str) -> String {
        self.parents(prefix)
    }

    /// The name at which a listing continues: a key, or the cursor of a page.
    pub(super) fn position(&self, after: &str) -> String {
        if after.starts_with(KEY) { after.to_owned() } else { self.key(after) }
    }

    /// The name of a log.
    pub(super) fn log(&self, log: &str) -> String {
        [LOG, &self.hash("log", log)].concat()
    }

    /// The name of a topic.
    pub(super) fn topic(&self, topic: &str) -> String {
        [TOPIC, &self.hash("topic", topic)].concat()
    }

    /// Encrypts the value of a record, with its key for listings.
    pub(super) fn seal_value(&self, key: &str, value: &[u8]) -> Result<Arc<[u8]>, StoreError> {
        let len = u16::try_from(key.len()).map_err(|_| StoreError::invalid("the key is too long"))?;
        self.seal(&self.key(key), &[&len.to_be_bytes(), key.as_bytes(), value].concat())
    }

    /// Decrypts the value of a record.
    pub(super) fn open_value(&self, key: &str, sealed: &[u8]) -> Result<Arc<[u8]>, StoreError> {
        Ok(self.open_entry(&self.key(key), sealed)?.1)
    }

    /// Decrypts the key and the value of a record.
    pub(super) fn open_entry(&self, name: &str, sealed: &[u8]) -> Result<(String, Arc<[u8]>), StoreError> {
        let plain = self.open(name, sealed)?;
        let entry = plain.split_first_chunk().and_then(|(len, rest)| {
            let (key, value) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
            Some((String::from_utf8(key.to_vec()).ok()?, Arc::from(value)))
        });
        entry.ok_or_else(unopened)
    }

    /// Encrypts `plain`, bound to a name.
    pub(super) fn seal(&self, name: &str, plain: &[u8]) -> Result<Arc<[u8]>, StoreError> {
        let mut nonce = [0; NONCE];
        let failed = || StoreError::unavailable("the system has no random numbers");
        SystemRandom::new().fill(&mut nonce).map_err(|_| failed())?;
        let key = self.values.first().ok_or_else(unopened)?;
        let payload = Payload { msg: plain, aad: name.as_bytes() };
        let sealed = key
            .encrypt(&nonce.into(), payload)
            .map_err(|_| StoreError::invalid("a value is too large for its encryption"))?;
        Ok([&[VERSION][..], &nonce, &sealed].concat().into())
    }

    /// Decrypts a text of [`seal`](Self::seal) with the same name.
    pub(super) fn open(&self, name: &str, sealed: &[u8]) -> Result<Vec<u8>, StoreError> {
        let Some((&[VERSION], rest)) = sealed.split_first_chunk() else { return Err(unopened()) };
        let Some((nonce, sealed)) = rest.split_first_chunk::<NONCE>() else { return Err(unopened()) };
        let payload = || Payload { msg: sealed, aad: name.as_bytes() };
        self.values.iter().find_map(|key| key.decrypt(nonce.into(), payload()).ok()).ok_or_else(unopened)
    }

    fn parents(&self, text: &str) -> String {
        let mut name = KEY.to_owned();
        for (end, _) in text.match_indices('/').take(PARENTS) {
            name.push_str(&self.hash("parent", text.get(..=end).unwrap_or_default()));
            name.push('/');
        }
        name
    }

    /// Returns the hash of a text of a kind, in hexadecimal digits.
    fn hash(&self, kind: &str, text: &str) -> String {
        let tag = hmac::sign(&self.names, &[kind.as_bytes(), b"\0", text.as_bytes()].concat());
        tag.as_ref().iter().take(HASH).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for SealKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealKeys({} keys)", self.values.len())
    }
}

/// The error of a value that was changed, or whose key was removed.
fn unopened() -> StoreError {
    StoreError::invalid("a value of the store cannot be opened with the keys of this process")
}
