//! Refresh tokens: rotation with a grace time, and families (RFC 9700 §4.14).
//!
//! A refresh token becomes invalid when a client uses it, and the response contains its successor. A client that lost the
//! response can use the old token again for a short time, and receives the same successor. A later use of the old token, or
//! a use after the successor was used, revokes the family.

use std::time::SystemTime;

use mcp_auth::jose;
use mcp_protocol::auth::{TokenResponse, grant_type};

use super::{
    Inner, Misbehavior,
    authorize::OFFLINE_ACCESS,
    clock,
    fault::Fault,
    issue::Issue,
    message::{self, Parameters},
    state::{ClientRecord, GrantRecord, RefreshRecord, Update},
};

impl Inner {
    /// Creates the first refresh token of a family, if the client and the scopes allow it.
    pub(super) async fn refresh_token_for(
        &self,
        client: &ClientRecord,
        grant: &str,
        scopes: &[String],
        now: SystemTime,
    ) -> Result<Option<String>, Fault> {
        let needs_scope = self.config.scopes.iter().any(|scope| scope == OFFLINE_ACCESS);
        let is_offline = !needs_scope || scopes.iter().any(|scope| scope == OFFLINE_ACCESS);
        if !is_offline || !client.may_use(grant_type::REFRESH_TOKEN) {
            return Ok(None);
        }
        let token = jose::random_text()?;
        self.create_refresh_token(&token, grant, now).await?;
        Ok(Some(token))
    }

    async fn create_refresh_token(&self, token: &str, grant: &str, now: SystemTime) -> Result<(), Fault> {
        let lifetime = self.config.refresh_token_lifetime;
        let record = RefreshRecord {
            grant: grant.to_owned(),
            expires_at: clock::after(now, lifetime),
            salt: jose::random_text()?,
            rotated_at: None,
        };
        // Another request with the same predecessor may have created the same token.
        self.state.create(token, &record, lifetime).await?;
        Ok(())
    }

    pub(super) async fn refresh(
        &self,
        client: &ClientRecord,
        parameters: &Parameters,
        jkt: Option<String>,
        now: SystemTime,
    ) -> Result<TokenResponse, Fault> {
        let token = parameters.require("refresh_token")?;
        if self.misbehaviors.occurs(&Misbehavior::RefreshRejected) {
            return Err(Fault::invalid_grant("a deliberate rejection"));
        }
        let unknown = || Fault::invalid_grant("the refresh token is unknown, expired or revoked");
        let record = self.state.get::<RefreshRecord>(token).await?.ok_or_else(unknown)?.record;
        let grant = self.state.get::<GrantRecord>(&record.grant).await?.ok_or_else(unknown)?.record;
        if grant.client_id != client.id() {
            return Err(Fault::invalid_grant("the refresh token belongs to another client"));
        }
        if grant.is_revoked || clock::seconds(now) >= record.expires_at {
            return Err(unknown());
        }
        if grant.jkt.is_some() && grant.jkt != jkt {
            return Err(Fault::invalid_grant("the refresh token is bound to another key"));
        }
        // Invalid parameters must not use up the token.
        let audience = self.narrow_audience(&grant.audience, parameters)?;
        let scopes = match parameters.get("scope").map(message::scopes) {
            Some(scopes) if scopes.iter().all(|scope| grant.scopes.contains(scope)) => scopes,
            Some(_) => return Err(Fault::new("invalid_scope", "a requested scope was not granted")),
            None => grant.scopes.clone(),
        };
        let successor = self.rotate(token, now).await?;
        let issue = Issue { audience, scopes, jkt, ..Issue::of_grant(record.grant, grant) };
        self.tokens(issue, Some(successor), now).await
    }

    /// Replaces a refresh token and returns its successor.
    async fn rotate(&self, token: &str, now: SystemTime) -> Result<String, Fault> {
        let time = clock::seconds(now);
        let rotated = self
            .state
            .update::<RefreshRecord>(token, self.config.refresh_token_lifetime, |record| {
                record.rotated_at.is_none().then(|| RefreshRecord { rotated_at: Some(time), ..record.clone() })
            })
            .await?;
        let (record, is_first) = match rotated {
            Update::Changed(record) => (record, true),
            Update::Kept(record) => (record, false),
            Update::Absent => return Err(Fault::invalid_grant("the refresh token is unknown, expired or revoked")),
        };
        let successor = jose::hmac_sha256(record.salt.as_bytes(), &[b"refresh token", token.as_bytes()]);
        if !is_first && !self.is_repeatable(&record, &successor, time).await? {
            self.revoke_grant(&record.grant).await?;
            return Err(Fault::invalid_grant("the refresh token was used twice, so its family is revoked"));
        }
        self.create_refresh_token(&successor, &record.grant, now).await?;
        Ok(successor)
    }

    /// Whether a used token can be used again: the time is short, and its successor was not used.
    async fn is_repeatable(&self, record: &RefreshRecord, successor: &str, time: u64) -> Result<bool, Fault> {
        let age = time.saturating_sub(record.rotated_at.unwrap_or_default());
        if age >= self.config.refresh_grace.as_secs() || self.misbehaviors.occurs(&Misbehavior::NoRefreshGrace) {
            return Ok(false);
        }
        let successor = self.state.get::<RefreshRecord>(successor).await?;
        Ok(successor.is_none_or(|successor| successor.record.rotated_at.is_none()))
    }

    /// Revokes the tokens of a family.
    pub(super) async fn revoke_grant(&self, id: &str) -> Result<(), Fault> {
        let revoke =
            |grant: &GrantRecord| (!grant.is_revoked).then(|| GrantRecord { is_revoked: true, ..grant.clone() });
        self.state.update(id, self.config.refresh_token_lifetime, revoke).await?;
        Ok(())
    }
}
