//! Proofs of the possession of a key at the token endpoint (RFC 9449 §5, §8).

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use mcp_auth::jose;

use super::{Inner, Misbehavior, clock, fault::Fault, metadata::path, state::ClientRecord};

const DPOP: HeaderName = HeaderName::from_static("dpop");
pub(super) const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");
/// The largest difference between the time of a proof and the clock of this server.
const WINDOW: Duration = Duration::from_secs(300);
/// The seconds for which the server issues one nonce. It accepts the nonce for as long again.
const NONCE_PERIOD: u64 = 120;

impl Inner {
    /// Checks the proof of a token request and returns the thumbprint of its key. `None` if the client needs no proof.
    pub(super) async fn check_proof(
        &self,
        headers: &HeaderMap,
        client: Option<&ClientRecord>,
        now: SystemTime,
    ) -> Result<Option<String>, Fault> {
        let invalid = |reason: &'static str| Fault::new("invalid_dpop_proof", reason);
        let mut proofs = headers.get_all(DPOP).iter();
        let Some(proof) = proofs.next() else {
            let is_required = client.is_some_and(|client| client.metadata.dpop_bound_access_tokens == Some(true));
            if is_required || self.config.requires_dpop {
                return Err(invalid("the request needs a DPoP proof"));
            }
            return Ok(None);
        };
        if proofs.next().is_some() {
            return Err(invalid("the request has two DPoP proofs"));
        }
        let proof = proof.to_str().map_err(|_| invalid("the DPoP proof is not a text"))?;
        let target = self.url_of(path::TOKEN);
        let proof = jose::check_proof(proof, &Method::POST, &target, WINDOW, now).map_err(invalid)?;
        if self.misbehaviors.occurs(&Misbehavior::NonceLoop) {
            return Err(needs_nonce(&jose::random_text()?));
        }
        if self.config.requires_nonces && !self.is_nonce(proof.nonce.as_deref().unwrap_or_default(), now) {
            return Err(needs_nonce(&self.nonce(now)));
        }
        if !self.use_once("dpop", &proof.thumbprint, &proof.id, WINDOW * 2).await? {
            return Err(invalid("the DPoP proof was used before"));
        }
        Ok(Some(proof.thumbprint))
    }

    /// Returns the nonce that the server issues now. It needs no record, because it is a keyed digest of the time.
    pub(super) fn nonce(&self, now: SystemTime) -> String {
        self.nonce_of(clock::seconds(now) / NONCE_PERIOD)
    }

    fn nonce_of(&self, period: u64) -> String {
        jose::hmac_sha256(self.nonce_key.as_bytes(), &[b"dpop nonce", &period.to_be_bytes()])
    }

    fn is_nonce(&self, nonce: &str, now: SystemTime) -> bool {
        let period = clock::seconds(now) / NONCE_PERIOD;
        [period, period.saturating_sub(1)].iter().any(|period| jose::is_equal(nonce, &self.nonce_of(*period)))
    }
}

fn needs_nonce(nonce: &str) -> Fault {
    let fault = Fault::new("use_dpop_nonce", "the DPoP proof needs the nonce of the header `DPoP-Nonce`");
    match HeaderValue::try_from(nonce) {
        Ok(nonce) => fault.with_header(DPOP_NONCE, nonce),
        Err(_) => fault,
    }
}
