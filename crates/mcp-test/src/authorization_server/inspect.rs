//! Introspection (RFC 7662) and revocation (RFC 7009) of tokens.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use mcp_auth::jose;
use serde_json::{Value, json};

use super::{
    Inner, clock,
    fault::Fault,
    message::{self, Parameters},
    state::{ClientRecord, GrantRecord, RefreshRecord, TokenRecord},
};

impl Inner {
    /// Describes an access token. The caller is a client with a secret or a key (RFC 7662 §2.1). A refresh token is not
    /// active, because a resource server must not accept it.
    pub(super) async fn introspect(&self, request: &Request<Bytes>, now: SystemTime) -> Result<Response<Bytes>, Fault> {
        let parameters = Parameters::of_form(request)?;
        let client = self.authenticate(request.headers(), &parameters, now).await?;
        if client.is_public() {
            return Err(Fault::invalid_client("the client has neither a secret nor a key"));
        }
        let Some((name, record)) = self.active_token(parameters.require("token")?, now).await? else {
            return Ok(message::json(StatusCode::OK, &json!({"active": false})));
        };
        let mut description = json!({
            "active": true,
            "iss": self.config.issuer,
            "sub": record.subject,
            "aud": record.audience,
            "client_id": record.client_id,
            "scope": record.scopes.join(" "),
            "token_type": if record.jkt.is_some() { "DPoP" } else { "Bearer" },
            "iat": record.issued_at,
            "exp": record.expires_at,
        });
        if !self.config.has_opaque_tokens {
            description["jti"] = name.into();
        }
        if let Some(jkt) = record.jkt {
            description["cnf"] = json!({"jkt": jkt});
        }
        Ok(message::json(StatusCode::OK, &description))
    }

    /// Returns a valid access token and the name of its record.
    pub(super) async fn active_token(
        &self,
        token: &str,
        now: SystemTime,
    ) -> Result<Option<(String, TokenRecord)>, Fault> {
        let Some(name) = self.token_name(token) else { return Ok(None) };
        let Some(stored) = self.state.get::<TokenRecord>(&name).await? else { return Ok(None) };
        let record = stored.record;
        if record.is_revoked || clock::seconds(now) >= record.expires_at {
            return Ok(None);
        }
        if let Some(grant) = &record.grant {
            let grant = self.state.get::<GrantRecord>(grant).await?;
            if grant.is_none_or(|grant| grant.record.is_revoked) {
                return Ok(None);
            }
        }
        Ok(Some((name, record)))
    }

    /// Returns the name of the record of an access token. A JWT must have a valid signature.
    fn token_name(&self, token: &str) -> Option<String> {
        if self.config.has_opaque_tokens {
            return Some(token.to_owned());
        }
        let claims = jose::verify(&self.keys.key_set(), token, Some("at+jwt")).ok()?;
        claims.get("jti").and_then(Value::as_str).map(str::to_owned)
    }

    /// Revokes an access token, or the family of a refresh token. An unknown token is not an error (RFC 7009 §2.2).
    pub(super) async fn revoke(&self, request: &Request<Bytes>, now: SystemTime) -> Result<Response<Bytes>, Fault> {
        let parameters = Parameters::of_form(request)?;
        let client = self.authenticate(request.headers(), &parameters, now).await?;
        let token = parameters.require("token")?;
        if let Some(refresh) = self.state.get::<RefreshRecord>(token).await? {
            if let Some(grant) = self.state.get::<GrantRecord>(&refresh.record.grant).await? {
                check_owner(&client, &grant.record.client_id)?;
            }
            self.revoke_grant(&refresh.record.grant).await?;
        } else if let Some((name, record)) = self.active_token(token, now).await? {
            check_owner(&client, &record.client_id)?;
            let remaining = Duration::from_secs(record.expires_at.saturating_sub(clock::seconds(now)));
            let revoke =
                |record: &TokenRecord| (!record.is_revoked).then(|| TokenRecord { is_revoked: true, ..record.clone() });
            self.state.update(&name, remaining, revoke).await?;
        }
        Ok(message::with_type(StatusCode::OK, "text/plain; charset=utf-8", Bytes::new()))
    }
}

fn check_owner(client: &ClientRecord, owner: &str) -> Result<(), Fault> {
    if client.id() == owner { Ok(()) } else { Err(Fault::invalid_grant("the token belongs to another client")) }
}
