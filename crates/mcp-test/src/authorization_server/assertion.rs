//! Signed assertions: their claims, their keys and their single use (RFC 7523 §3).

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    Inner, clock,
    fault::Fault,
    state::{ClientRecord, Record},
};

/// The largest difference between the clocks of an issuer and this server, in seconds.
pub(super) const CLOCK_SKEW: u64 = 60;
/// The longest time for which an assertion may be valid, in seconds.
const MAX_LIFETIME: u64 = 24 * 3_600;

/// A used assertion or proof.
#[derive(Serialize, Deserialize)]
pub(super) struct UsedRecord {}

impl Record for UsedRecord {
    const KIND: &'static str = "used";
}

/// Returns a claim that is a text.
pub(super) fn text<'c>(claims: &'c Map<String, Value>, name: &str) -> Option<&'c str> {
    claims.get(name).and_then(Value::as_str)
}

/// Whether an audience is one of the allowed ones. It is a text or a list.
pub(super) fn has_audience(claims: &Map<String, Value>, allowed: &[&str]) -> bool {
    match claims.get("aud") {
        Some(Value::String(audience)) => allowed.contains(&audience.as_str()),
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).any(|audience| allowed.contains(&audience)),
        _ => false,
    }
}

/// Checks `exp`, `nbf` and `iat`. Returns the time for which the assertion is still valid.
pub(super) fn remaining(claims: &Map<String, Value>, now: SystemTime) -> Result<Duration, &'static str> {
    let now = clock::seconds(now);
    let time = |name: &str| match claims.get(name) {
        None => Ok(None),
        Some(value) => value.as_f64().map(|time| Some(time as u64)).ok_or("a time of the assertion is not a number"),
    };
    let expires_at = time("exp")?.ok_or("the assertion has no expiry time")?;
    if now >= expires_at.saturating_add(CLOCK_SKEW) {
        return Err("the assertion is expired");
    }
    if expires_at > now.saturating_add(MAX_LIFETIME) {
        return Err("the assertion is valid for more than a day");
    }
    let latest = now.saturating_add(CLOCK_SKEW);
    if time("nbf")?.is_some_and(|time| time > latest) || time("iat")?.is_some_and(|time| time > latest) {
        return Err("the assertion is not valid yet");
    }
    Ok(Duration::from_secs((expires_at + CLOCK_SKEW).saturating_sub(now)))
}

impl Inner {
    /// Marks an id as used. `false` if it was used before.
    pub(super) async fn use_once(&self, kind: &str, issuer: &str, id: &str, ttl: Duration) -> Result<bool, Fault> {
        Ok(self.state.create(&format!("{kind}\n{issuer}\n{id}"), &UsedRecord {}, ttl).await?)
    }

    /// Checks the assertion with which a client authenticates (RFC 7523 §2.2). The error is the reason.
    pub(super) async fn check_client_assertion(
        &self,
        client: &ClientRecord,
        assertion: &str,
        now: SystemTime,
    ) -> Result<Result<(), &'static str>, Fault> {
        let keys = match self.client_keys(client).await? {
            Ok(keys) => keys,
            Err(reason) => return Ok(Err(reason)),
        };
        let checked = mcp_auth::jose::verify(&keys, assertion, None).and_then(|claims| {
            if text(&claims, "iss") != Some(client.id()) || text(&claims, "sub") != Some(client.id()) {
                return Err("the issuer or the subject of the assertion is not the client");
            }
            let endpoint = self.url_of(super::metadata::path::TOKEN);
            if !has_audience(&claims, &[&self.config.issuer, &endpoint]) {
                return Err("the assertion is for another server");
            }
            let ttl = remaining(&claims, now)?;
            let id = text(&claims, "jti").ok_or("the assertion has no id")?;
            Ok((id.to_owned(), ttl))
        });
        let (id, ttl) = match checked {
            Ok(checked) => checked,
            Err(reason) => return Ok(Err(reason)),
        };
        let is_new = self.use_once("client assertion", client.id(), &id, ttl).await?;
        Ok(if is_new { Ok(()) } else { Err("the assertion was used before") })
    }
}
