//! The request state that travels through a client between two rounds: sealed by the fleet, and bound to the caller and
//! its request (2026-07-28, patterns/mrtr).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305,
    aead::{Aead, Payload},
};
use mcp_protocol::RpcError;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::{json, random};

/// The state of one flow.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Flow {
    /// The id of the flow. Records of its side effects use it as a prefix.
    #[serde(rename = "f")]
    pub(crate) id: String,
    /// The answers of earlier rounds, by key.
    #[serde(rename = "a", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) answers: BTreeMap<String, Value>,
    /// The values that the handler remembered, by key.
    #[serde(rename = "r", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) remembered: BTreeMap<String, Value>,
    /// The results of side effects, by key.
    #[serde(rename = "o", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) done: BTreeMap<String, Value>,
    /// The number of invalid answers, by key.
    #[serde(rename = "n", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) failures: BTreeMap<String, u8>,
    /// The keys of the input requests that this state was sent with. Only they can have answers in the next round.
    #[serde(rename = "q", default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) asked: BTreeSet<String>,
    /// A side effect has begun, successful or not.
    #[serde(rename = "e", default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) has_begun: bool,
}

impl Flow {
    /// Returns whether the flow may have had a side effect.
    pub(crate) fn effects(&self) -> Effects {
        if self.has_begun || !self.done.is_empty() { Effects::Possible } else { Effects::None }
    }
}

/// Whether a side effect of `once` may have run in a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effects {
    None,
    Possible,
}

/// The place of a flow, which is a [`Flow`] or its JSON text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum StoredFlow<F = Flow> {
    /// In the sealed text.
    #[serde(rename = "i")]
    Inline(F),
    /// In the store, under this key.
    #[serde(rename = "h")]
    Handle(String),
}

/// The keys that seal request states. The first key seals, and all keys open.
///
/// To rotate, put a new key first. Remove an old key when its states have expired. All nodes of a fleet need the same
/// keys; a single process uses a random one.
///
/// # Example
/// ```
/// use mcp_server_core::{Server, StateKeys};
///
/// let (new, old) = ([7; 32], [6; 32]); // secrets of the fleet
/// let server = Server::builder("fleet", "1.0").state_keys(StateKeys::new([new, old])).build();
/// let single = StateKeys::random()?;
/// # let _: Server = server;
/// # let _ = single;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct StateKeys {
    pub(super) keys: Vec<Key>,
}

/// One key.
#[derive(Clone)]
pub(super) struct Key {
    pub(super) cipher: XChaCha20Poly1305,
    /// The secret of the nonces of sealed ids.
    pub(super) nonces: [u8; 32],
}

impl StateKeys {
    /// Creates keys of 32 bytes each, the newest first.
    ///
    /// See the [example](Self#example).
    ///
    /// # Panics
    /// Panics when there is no key.
    #[track_caller]
    #[must_use]
    pub fn new(keys: impl IntoIterator<Item = [u8; 32]>) -> Self {
        let keys: Vec<_> = keys.into_iter().map(Key::new).collect();
        assert!(!keys.is_empty(), "there must be a key to seal with");
        Self { keys }
    }

    /// Creates one random key, which lives as long as the process.
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// Fails when the system has no random numbers.
    pub fn random() -> std::io::Result<Self> {
        Ok(Self::new([random::bytes().map_err(std::io::Error::other)?]))
    }

    /// Returns an id of each key for a purpose, in their order. Processes with a common key have a common id. The id is public,
    /// and reveals neither the key nor the id for another purpose.
    ///
    /// ```
    /// use mcp_server_core::StateKeys;
    ///
    /// let (new, old) = ([7; 32], [6; 32]);
    /// let (rotated, former) = (StateKeys::new([new, old]), StateKeys::new([old]));
    /// assert_eq!(rotated.ids("node")[1..], former.ids("node")[..]);
    /// assert_ne!(former.ids("node"), former.ids("list"));
    /// ```
    #[must_use]
    pub fn ids(&self, purpose: &str) -> Vec<String> {
        let id = |key: &Key| {
            Sha256::new().chain_update(b"mcp id of a key").chain_update(key.nonces).chain_update(purpose).finalize()
        };
        let hex = |key: &Key| id(key).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        self.keys.iter().map(hex).collect()
    }

    /// Seals a state. It opens with the same `binding` only.
    ///
    /// # Errors
    /// `-32603` when the state cannot be serialized, or when the system has no random numbers.
    pub(crate) fn seal(
        &self,
        state: &StoredFlow<impl Serialize>,
        effects: Effects,
        ttl: Duration,
        binding: &[u8],
    ) -> Result<String, RpcError> {
        self.seal_value(state, effects, ttl, binding)
    }

    /// Seals a value of any type. A value of another type does not open as this type.
    pub(super) fn seal_value(
        &self,
        state: &impl Serialize,
        effects: Effects,
        ttl: Duration,
        binding: &[u8],
    ) -> Result<String, RpcError> {
        let expires = millis_now().saturating_add(millis(ttl));
        let plain = serde_json::to_vec(&(expires, state)).map_err(|error| not_sealed(&error))?;
        let nonce: [u8; NONCE] = random::bytes()?;
        let payload = Payload { msg: &plain, aad: binding };
        let key = self.keys.first().ok_or_else(|| not_sealed(&"there is no key"))?;
        let sealed = key.cipher.encrypt(&nonce.into(), payload).map_err(|error| not_sealed(&error))?;
        let mut out = Vec::with_capacity(1 + NONCE + sealed.len());
        out.push(match effects {
            Effects::None => FORM,
            Effects::Possible => FORM_WITH_EFFECTS,
        });
        out.extend_from_slice(&nonce);
        out.extend_from_slice(&sealed);
        Ok(BASE64_URL_SAFE_NO_PAD.encode(out))
    }

    /// Opens a state. Returns `None` for every fault: a foreign key, another binding, or an expired state.
    pub(crate) fn open(&self, text: &str, binding: &[u8], max_len: usize) -> Option<StoredFlow> {
        self.open_at(text, binding, max_len, millis_now())
    }

    /// Opens a value of [`StateKeys::seal_value`] as [`StateKeys::open`] opens a state.
    pub(super) fn open_value<T: DeserializeOwned>(&self, text: &str, binding: &[u8]) -> Option<T> {
        self.open_at(text, binding, usize::MAX, millis_now())
    }

    /// Opens a value at a time in milliseconds since the Unix epoch.
    fn open_at<T: DeserializeOwned>(&self, text: &str, binding: &[u8], max_len: usize, now: u64) -> Option<T> {
        if text.len() > max_len {
            return None;
        }
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
        let (form, rest) = bytes.split_first()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE>()?;
        if !matches!(*form, FORM | FORM_WITH_EFFECTS | FORM_WITHOUT_RECORD) {
            return None;
        }
        let open = |key: &Key| key.cipher.decrypt(nonce.into(), Payload { msg: sealed, aad: binding }).ok();
        let plain = self.keys.iter().find_map(open)?;
        let (expires, state): (u64, T) = json::from_slice(&plain).ok()?;
        (expires > now).then_some(state)
    }

    /// Returns whether a side effect may have run before a state was sealed.
    ///
    /// This part of the state is readable without a key, so it outlives the keys of a process. A text of another form
    /// may have had one. A client that changes this part harms only itself, because it can call again at any time.
    pub(crate) fn effects(text: &str) -> Effects {
        let form = text.get(..4).and_then(|start| BASE64_URL_SAFE_NO_PAD.decode(start).ok());
        if form.is_some_and(|form| form.first() == Some(&FORM)) { Effects::None } else { Effects::Possible }
    }
}

impl Key {
    fn new(key: [u8; 32]) -> Self {
        let nonces = Sha256::new().chain_update(b"mcp nonces of ids").chain_update(key).finalize().into();
        Self { cipher: XChaCha20Poly1305::new(&key.into()), nonces }
    }
}

impl fmt::Debug for StateKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateKeys").field("len", &self.keys.len()).finish_non_exhaustive()
    }
}

/// The sealed form of a flow in which no side effect can have run. Version 1 had times in seconds and is not accepted.
const FORM: u8 = 3;
/// The same form, of a flow in which a side effect may have run.
const FORM_WITH_EFFECTS: u8 = 4;
/// The same form of an earlier version, which did not record side effects.
const FORM_WITHOUT_RECORD: u8 = 2;
pub(super) const NONCE: usize = 24;

/// The error of a state that cannot be sealed. The client does not receive the reason.
fn not_sealed(reason: &dyn fmt::Display) -> RpcError {
    tracing::debug!(%reason, "a request state cannot be sealed");
    RpcError::internal("the state of the call cannot be sealed")
}

fn millis_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the binding of a state: the principal, the method, and the parameters that each round repeats.
///
/// # Errors
/// Fails when the parameters cannot be written.
pub(crate) fn binding(
    principal: Option<&str>,
    method: &str,
    params: Map<String, Value>,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut params = Value::Object(params);
    sort(&mut params);
    serde_json::to_vec(&(principal, method, params))
}

/// Sorts members by name, so that their order does not matter.
fn sort(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.sort_keys();
            object.values_mut().for_each(sort);
        }
        Value::Array(items) => items.iter_mut().for_each(sort),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn flow() -> StoredFlow {
        let mut flow = Flow { id: "f".into(), ..Flow::default() };
        flow.answers.insert("a".into(), json!({ "x": [1, null] }));
        StoredFlow::Inline(flow)
    }

    const TTL: Duration = Duration::from_secs(60);

    #[test]
    fn opens_a_seal_only_with_its_binding_and_a_known_key() {
        let old = StateKeys::new([[1; 32]]);
        let rotated = StateKeys::new([[2; 32], [1; 32]]);
        let other = StateKeys::random().unwrap();
        let text = old.seal(&flow(), Effects::None, TTL, b"me").unwrap();
        assert_eq!(old.open(&text, b"me", 4096), Some(flow()));
        assert_eq!(rotated.open(&text, b"me", 4096), Some(flow()));
        assert_eq!(old.open(&rotated.seal(&flow(), Effects::None, TTL, b"me").unwrap(), b"me", 4096), None);
        assert_eq!(other.open(&text, b"me", 4096), None);
        assert_eq!(old.open(&text, b"you", 4096), None);
        assert_ne!(text, old.seal(&flow(), Effects::None, TTL, b"me").unwrap(), "a nonce is never used twice");
    }

    #[test]
    fn a_seal_of_an_earlier_version_may_have_had_effects() {
        let keys = StateKeys::new([[1; 32]]);
        for (form, effects) in
            [(FORM, Effects::None), (FORM_WITH_EFFECTS, Effects::Possible), (FORM_WITHOUT_RECORD, Effects::Possible)]
        {
            let text = keys.seal(&flow(), Effects::None, TTL, b"").unwrap();
            let mut bytes = BASE64_URL_SAFE_NO_PAD.decode(&text).unwrap();
            bytes[0] = form;
            let text = BASE64_URL_SAFE_NO_PAD.encode(bytes);
            assert_eq!(keys.open(&text, b"", 4096), Some(flow()), "{form}");
            assert_eq!(StateKeys::effects(&text), effects, "{form}");
        }
    }

    #[test]
    fn rejects_changed_and_expired_seals() {
        let keys = StateKeys::random().unwrap();
        let text = keys.seal(&flow(), Effects::None, TTL, b"").unwrap();
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(keys.open(std::str::from_utf8(&changed).unwrap(), b"", 4096), None, "{at}");
        }
        for bad in ["", "-TAMPERED", &format!("{text}-TAMPERED"), &text[..text.len() - 4], &"A".repeat(200_000)] {
            assert_eq!(keys.open(bad, b"", 4096), None);
        }
        assert_eq!(keys.open(&keys.seal(&flow(), Effects::None, Duration::ZERO, b"").unwrap(), b"", 4096), None);
    }

    #[test]
    fn rejects_a_seal_of_another_format() {
        let keys = StateKeys::random().unwrap();
        let text = keys.seal(&flow(), Effects::None, TTL, b"").unwrap();
        let mut bytes = BASE64_URL_SAFE_NO_PAD.decode(text).unwrap();
        bytes[0] = 1;
        assert_eq!(keys.open(&BASE64_URL_SAFE_NO_PAD.encode(&bytes), b"", 4096), None);
    }

    #[test]
    fn a_lifetime_has_a_resolution_of_milliseconds() {
        let keys = StateKeys::new([[7; 32]]);
        let state: StoredFlow = StoredFlow::Handle("h".into());
        for millis in [0, 1, 999, 1001] {
            let before = millis_now();
            let text = keys.seal(&state, Effects::None, Duration::from_millis(millis), b"b").unwrap();
            let after = millis_now();
            let is_open_at = |now| keys.open_at::<StoredFlow>(&text, b"b", 1000, now).is_some();
            assert!(millis == 0 || is_open_at(before + millis - 1), "{millis}");
            assert!(!is_open_at(after + millis), "{millis}");
        }
    }

    #[test]
    fn the_effects_of_a_flow_are_readable_without_a_key() {
        let keys = StateKeys::random().unwrap();
        for effects in [Effects::None, Effects::Possible] {
            let text = keys.seal(&flow(), effects, TTL, b"").unwrap();
            assert_eq!(StateKeys::effects(&text), effects);
            assert_eq!(keys.open(&text, b"", 4096), Some(flow()));
        }
        for foreign in ["", "A", "é", "AAAA", "state"] {
            assert_eq!(StateKeys::effects(foreign), Effects::Possible, "{foreign}");
        }
    }

    #[test]
    fn a_state_without_the_list_of_questions_opens_and_proves_none() {
        let old: Flow = serde_json::from_value(json!({ "f": "id", "o": { "buy": 1 } })).unwrap();
        assert!(old.asked.is_empty());
        assert_eq!(old.effects(), Effects::Possible);
    }
}
