//! Sealed records: their key, and their text.
//!
//! A sealed record is the text `mcp-sealed-1 KEY_ID BOX`. The box is the nonce and the ciphertext in base64url. The name of
//! the record is authenticated with it, so a record cannot take the place of another.

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use mcp_protocol::auth::Secret;
use ring::{
    aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    rand::{SecureRandom as _, SystemRandom},
};
use sha2::{Digest as _, Sha256};

use crate::{
    error::{Error, ErrorKind},
    signed::no_random,
};

/// The start of each sealed record, of each version.
const PREFIX: &str = "mcp-sealed-";
/// The start of a sealed record of this version.
const HEAD: &str = "mcp-sealed-1 ";
const KEY_LEN: usize = 32;
/// The number of bytes of the id of a key.
const ID_LEN: usize = 8;

/// Whether a record is sealed.
pub(crate) fn is_sealed(record: &Secret) -> bool {
    record.expose().starts_with(PREFIX)
}

/// A key of ChaCha20-Poly1305 (RFC 8439).
pub(super) struct SealingKey {
    key: LessSafeKey,
    text: Secret,
    /// Part of each sealed record, and not secret.
    id: String,
}

impl SealingKey {
    pub(super) fn generate() -> Result<Self, Error> {
        let mut bytes = [0; KEY_LEN];
        SystemRandom::new().fill(&mut bytes).map_err(|_| no_random())?;
        Self::from_text(&Secret::new(BASE64_URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// Reads a key: 32 bytes in base64url.
    pub(super) fn from_text(text: &Secret) -> Result<Self, Error> {
        let invalid = || Error::new(ErrorKind::Store, "the entry of the keyring is not a key of 32 bytes in base64url");
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text.expose().trim()).map_err(|_| invalid())?;
        let key = UnboundKey::new(&CHACHA20_POLY1305, &bytes).map_err(|_| invalid())?;
        let hash = Sha256::new().chain_update("mcp-oauth key id\0").chain_update(&bytes).finalize();
        let id = hash.iter().take(ID_LEN).map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { key: LessSafeKey::new(key), text: text.clone(), id })
    }

    pub(super) fn to_text(&self) -> Secret {
        self.text.clone()
    }

    /// Seals the record of a name.
    pub(super) fn seal(&self, name: &str, record: &Secret) -> Result<Secret, Error> {
        // 2^32 records of one key have a repeated nonce with a probability of 2^-33.
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| no_random())?;
        let mut text = record.expose().as_bytes().to_vec();
        let sealed =
            self.key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad(&self.id, name), &mut text);
        sealed.map_err(|_| Error::new(ErrorKind::Store, "a record is too long for its seal"))?;
        let sealed = BASE64_URL_SAFE_NO_PAD.encode([&nonce, &text[..]].concat());
        Ok(Secret::new(format!("{HEAD}{} {sealed}", self.id)))
    }

    /// Opens the record of a name.
    ///
    /// # Errors
    /// [`ErrorKind::LoginRequired`] if the record has another version, another key or another name, or if it was changed.
    pub(super) fn open(&self, name: &str, record: &Secret) -> Result<Secret, Error> {
        let Some(rest) = record.expose().strip_prefix(HEAD) else {
            return Err(Error::unreadable_record("the stored login has a seal of another version"));
        };
        let changed = || Error::unreadable_record("the stored login was changed or is damaged");
        let (id, sealed) = rest.split_once(' ').ok_or_else(changed)?;
        if id != self.id {
            return Err(Error::unreadable_record(
                "the stored login is sealed with a key that the keyring does not have",
            ));
        }
        let mut bytes = BASE64_URL_SAFE_NO_PAD.decode(sealed).map_err(|_| changed())?;
        let Some((nonce, text)) = bytes.split_first_chunk_mut::<NONCE_LEN>() else { return Err(changed()) };
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let text = self.key.open_in_place(nonce, aad(&self.id, name), text).map_err(|_| changed())?;
        std::str::from_utf8(text).map(Secret::new).map_err(|_| changed())
    }
}

/// Returns the data that the seal authenticates and does not contain.
fn aad(id: &str, name: &str) -> Aad<String> {
    Aad::from(format!("{HEAD}{id} {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_key_and_name_open_a_record() {
        let [one, other] = [(); 2].map(|()| SealingKey::generate().unwrap());
        let same = SealingKey::from_text(&one.to_text()).unwrap();
        let record = Secret::new("{\"access_token\":\"hunter2\"}");
        let sealed = one.seal("tokens/a", &record).unwrap();
        assert!(is_sealed(&sealed) && !is_sealed(&record));
        assert!(!sealed.expose().contains("hunter2"));
        assert!(one.seal("tokens/a", &record).unwrap() != sealed, "each seal has a nonce of its own");
        assert!(same.open("tokens/a", &sealed).unwrap() == record);
        for (key, name, part) in
            [(&one, "tokens/b", "was changed"), (&other, "tokens/a", "a key that the keyring does not have")]
        {
            let error = key.open(name, &sealed).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::LoginRequired);
            assert!(error.to_string().contains(part) && error.to_string().contains("mcp login"), "{error}");
        }
    }

    #[test]
    fn a_record_with_one_changed_character_is_not_opened() {
        let key = SealingKey::generate().unwrap();
        let sealed = key.seal("n", &"text".into()).unwrap();
        let sealed = sealed.expose();
        for at in 0..sealed.len() {
            let replacement = if sealed.as_bytes()[at] == b'A' { "B" } else { "A" };
            let changed = Secret::new(format!("{}{replacement}{}", &sealed[..at], &sealed[at + 1..]));
            let error = key.open("n", &changed).unwrap_err();
            assert!(error.is_unreadable_record(), "{at}");
        }
        for length in 0..sealed.len() {
            assert!(key.open("n", &Secret::new(&sealed[..length])).is_err(), "{length}");
        }
    }

    #[test]
    fn only_32_bytes_are_a_key() {
        for text in ["", "hunter2", &"A".repeat(42), &"A".repeat(44), &format!("{}=", "A".repeat(43))] {
            let error = SealingKey::from_text(&Secret::new(text)).err().expect("the text is not a key");
            assert!(text.is_empty() || !error.to_string().contains(text));
        }
        assert!(SealingKey::from_text(&Secret::new(format!("{}\n", "A".repeat(43)))).is_ok());
    }
}
