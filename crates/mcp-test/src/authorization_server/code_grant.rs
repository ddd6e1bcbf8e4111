//! The redemption of authorization codes (RFC 6749 §4.1.3, RFC 7636 §4.6).

use std::time::SystemTime;

use mcp_auth::jose;
use mcp_protocol::auth::TokenResponse;

use super::{
    Inner, clock,
    fault::Fault,
    issue::Issue,
    message::Parameters,
    state::{ClientRecord, CodeRecord, GrantRecord},
};

/// The lengths of a verifier of PKCE (RFC 7636 §4.1).
const VERIFIER_LENGTHS: std::ops::RangeInclusive<usize> = 43..=128;

impl Inner {
    pub(super) async fn redeem_code(
        &self,
        client: &ClientRecord,
        parameters: &Parameters,
        jkt: Option<String>,
        now: SystemTime,
    ) -> Result<TokenResponse, Fault> {
        let code = parameters.require("code")?;
        let verifier = parameters.require("code_verifier")?;
        let unknown = || Fault::invalid_grant("the code is unknown or expired");
        let stored = self.state.get::<CodeRecord>(code).await?.ok_or_else(unknown)?;
        let record = &stored.record;
        if record.request.client_id != client.id() {
            return Err(Fault::invalid_grant("the code belongs to another client"));
        }
        if record.is_used {
            return self.reject_used_code(&record.grant).await;
        }
        if clock::seconds(now) >= record.expires_at {
            return Err(unknown());
        }
        let redirect_uri = parameters.get("redirect_uri");
        let is_same = redirect_uri == Some(record.request.redirect_uri.as_str());
        if !is_same && (redirect_uri.is_some() || record.request.names_redirect_uri) {
            return Err(Fault::invalid_grant("the redirect URI is not that of the authorization request"));
        }
        let has_length = VERIFIER_LENGTHS.contains(&verifier.len());
        if !has_length || !jose::is_equal(&jose::sha256(verifier.as_bytes()), &record.request.challenge) {
            return Err(Fault::invalid_grant("the verifier does not belong to the challenge"));
        }
        if record.request.jkt.is_some() && record.request.jkt != jkt {
            return Err(Fault::invalid_grant("the code is bound to another key"));
        }
        let audience = self.narrow_audience(&record.request.resources, parameters)?;
        let grant = GrantRecord {
            client_id: record.request.client_id.clone(),
            subject: record.subject.clone(),
            scopes: record.request.scopes.clone(),
            audience: record.request.resources.clone(),
            // The refresh tokens of a client with credentials are bound by those (RFC 9449 §5).
            jkt: if client.is_public() { jkt.clone() } else { None },
            is_revoked: false,
        };
        // The grant exists before the code is used up, so that a second use of the code can revoke it.
        self.state.create(&record.grant, &grant, self.config.refresh_token_lifetime).await?;
        let used = CodeRecord { is_used: true, ..record.clone() };
        if !self.state.replace(code, &stored, &used, self.config.refresh_token_lifetime).await? {
            return self.reject_used_code(&record.grant).await;
        }
        let refresh_token = self.refresh_token_for(client, &used.grant, &grant.scopes, now).await?;
        let issue = Issue { audience, jkt, ..Issue::of_grant(used.grant, grant) };
        self.tokens(issue, refresh_token, now).await
    }

    /// Revokes the tokens that came from a code, because a thief may have used it (RFC 6749 §4.1.2).
    async fn reject_used_code(&self, grant: &str) -> Result<TokenResponse, Fault> {
        self.revoke_grant(grant).await?;
        Err(Fault::invalid_grant("the code was used twice"))
    }

    /// Returns the requested part of an audience (RFC 8707 §2.2).
    pub(super) fn narrow_audience(&self, granted: &[String], parameters: &Parameters) -> Result<Vec<String>, Fault> {
        if parameters.get("resource").is_none() {
            return Ok(granted.to_vec());
        }
        let requested = self.audience(parameters)?;
        if requested.iter().all(|resource| granted.contains(resource)) {
            Ok(requested)
        } else {
            Err(Fault::new("invalid_target", "the resource is not that of the authorization request"))
        }
    }
}
