//! Access tokens: JWTs (RFC 9068) or opaque texts.

use std::time::{Duration, SystemTime};

use mcp_auth::jose;
use serde_json::{Map, Value, json};

use super::{
    Inner, Misbehavior, clock,
    fault::Fault,
    state::{GrantRecord, TokenRecord},
};

/// The content of an access token.
#[derive(Debug, Clone)]
pub(super) struct Issue {
    /// The family of the token.
    pub(super) grant: Option<String>,
    pub(super) client_id: String,
    pub(super) subject: String,
    pub(super) scopes: Vec<String>,
    pub(super) audience: Vec<String>,
    /// The thumbprint of the key to which the token is bound.
    pub(super) jkt: Option<String>,
}

impl Issue {
    /// Returns the content of a token of a family.
    pub(super) fn of_grant(id: String, grant: GrantRecord) -> Self {
        Self {
            grant: Some(id),
            client_id: grant.client_id,
            subject: grant.subject,
            scopes: grant.scopes,
            audience: grant.audience,
            jkt: grant.jkt,
        }
    }
}

/// An issued access token.
pub(super) struct Issued {
    pub(super) token: String,
    pub(super) lifetime: Duration,
}

impl Inner {
    pub(super) async fn issue(&self, mut issue: Issue, now: SystemTime) -> Result<Issued, Fault> {
        if self.misbehaviors.occurs(&Misbehavior::WrongAudience) {
            issue.audience = vec!["https://wrong.example/".to_owned()];
        }
        let is_expired = self.misbehaviors.occurs(&Misbehavior::ExpiredTokens);
        let lifetime = if is_expired { Duration::ZERO } else { self.config.access_token_lifetime };
        let record = TokenRecord {
            grant: issue.grant,
            client_id: issue.client_id,
            subject: issue.subject,
            scopes: issue.scopes,
            audience: issue.audience,
            jkt: issue.jkt,
            issued_at: clock::seconds(now),
            expires_at: clock::after(now, lifetime),
            is_revoked: false,
        };
        let id = jose::random_text()?;
        let token = if self.config.has_opaque_tokens { id.clone() } else { self.sign(&id, &record)? };
        self.state.create(&id, &record, lifetime).await?;
        Ok(Issued { token, lifetime })
    }

    fn sign(&self, id: &str, record: &TokenRecord) -> Result<String, Fault> {
        let audience = match record.audience.as_slice() {
            [only] => json!(only),
            all => json!(all),
        };
        let mut claims = object(json!({
            "iss": self.config.issuer,
            "sub": record.subject,
            "aud": audience,
            "client_id": record.client_id,
            "iat": record.issued_at,
            "exp": record.expires_at,
            "jti": id,
        }));
        if !record.scopes.is_empty() {
            claims.insert("scope".to_owned(), record.scopes.join(" ").into());
        }
        if let Some(jkt) = &record.jkt {
            claims.insert("cnf".to_owned(), json!({"jkt": jkt}));
        }
        self.sign_claims("at+jwt", &claims)
    }

    /// Signs the claims of a token of a type.
    pub(super) fn sign_claims(&self, typ: &str, claims: &Map<String, Value>) -> Result<String, Fault> {
        if self.misbehaviors.occurs(&Misbehavior::RotatesKeys) {
            self.keys.rotate()?;
        }
        let key = self.keys.current();
        let is_unknown = self.misbehaviors.occurs(&Misbehavior::UnknownKeyId);
        let key_id = if is_unknown { "unknown" } else { key.thumbprint() };
        let header = object(json!({"typ": typ, "kid": key_id}));
        Ok(key.sign(&header, claims)?)
    }

    /// Issues an id token (OpenID Connect Core §2).
    pub(super) fn id_token(&self, subject: &str, client_id: &str, now: SystemTime) -> Result<String, Fault> {
        let claims = object(json!({
            "iss": self.config.issuer,
            "sub": subject,
            "aud": client_id,
            "iat": clock::seconds(now),
            "exp": clock::after(now, self.config.access_token_lifetime),
        }));
        self.sign_claims("JWT", &claims)
    }
}

/// Returns the members of an object. Another value has none.
pub(super) fn object(value: Value) -> Map<String, Value> {
    if let Value::Object(object) = value { object } else { Map::new() }
}
