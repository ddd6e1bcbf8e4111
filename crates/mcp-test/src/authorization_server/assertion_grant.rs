//! Grants without a user at this server: client credentials (RFC 6749 §4.4), and assertions of trusted issuers (RFC 7523
//! §2.1), among them identity assertion authorization grants (ID-JAG).

use std::time::SystemTime;

use mcp_auth::jose;
use mcp_protocol::auth::TokenResponse;
use serde_json::{Map, Value};

use super::{
    Inner,
    assertion::{has_audience, remaining, text},
    fault::Fault,
    issue::Issue,
    message::{self, Parameters},
    metadata::path,
    state::ClientRecord,
};

/// The type of an ID-JAG.
pub(super) const ID_JAG: &str = "oauth-id-jag+jwt";
/// The type of access tokens, which are not assertions.
const ACCESS_TOKEN: &str = "at+jwt";

impl Inner {
    /// Issues a token to a client for itself.
    pub(super) async fn client_credentials(
        &self,
        client: &ClientRecord,
        parameters: &Parameters,
        jkt: Option<String>,
        now: SystemTime,
    ) -> Result<TokenResponse, Fault> {
        if client.is_public() {
            return Err(Fault::new("unauthorized_client", "the client has neither a secret nor a key"));
        }
        let issue = Issue {
            grant: None,
            client_id: client.id().to_owned(),
            subject: client.id().to_owned(),
            scopes: self.granted_scopes(client, parameters.get("scope"))?,
            audience: self.audience(parameters)?,
            jkt,
        };
        self.tokens(issue, None, now).await
    }

    /// Issues a token for the subject of an assertion. A client without an id is its subject.
    pub(super) async fn redeem_assertion(
        &self,
        client: Option<&ClientRecord>,
        parameters: &Parameters,
        jkt: Option<String>,
        now: SystemTime,
    ) -> Result<TokenResponse, Fault> {
        let assertion = parameters.require("assertion")?;
        let (claims, is_id_jag) = self.verify_assertion(assertion).map_err(Fault::invalid_grant)?;
        let endpoint = self.url_of(path::TOKEN);
        let audiences: &[&str] = if is_id_jag { &[&self.config.issuer] } else { &[&self.config.issuer, &endpoint] };
        if !has_audience(&claims, audiences) {
            return Err(Fault::invalid_grant("the assertion is for another server"));
        }
        let ttl = remaining(&claims, now).map_err(Fault::invalid_grant)?;
        let missing = |name: &str| Fault::invalid_grant(format!("the claim `{name}` of the assertion is missing"));
        let subject = text(&claims, "sub").ok_or_else(|| missing("sub"))?;
        let id = text(&claims, "jti").ok_or_else(|| missing("jti"))?;
        let client_id = match client {
            Some(client) if is_id_jag && text(&claims, "client_id") != Some(client.id()) => {
                return Err(Fault::invalid_grant("the assertion belongs to another client"));
            }
            Some(client) => client.id(),
            None if is_id_jag => return Err(Fault::invalid_client("an ID-JAG needs a client")),
            None => subject,
        };
        let issue = Issue {
            grant: None,
            client_id: client_id.to_owned(),
            subject: subject.to_owned(),
            scopes: self.scopes_of_assertion(&claims, parameters)?,
            audience: self.audience_of_assertion(&claims, parameters)?,
            jkt,
        };
        let issuer = text(&claims, "iss").unwrap_or_default();
        if !self.use_once("assertion", issuer, id, ttl).await? {
            return Err(Fault::invalid_grant("the assertion was used before"));
        }
        self.tokens(issue, None, now).await
    }

    /// Checks the signature of a trusted issuer. Returns the claims, and whether the assertion is an ID-JAG.
    fn verify_assertion(&self, assertion: &str) -> Result<(Map<String, Value>, bool), &'static str> {
        let keys = self.keys_of_issuer(assertion)?;
        if jose::verify(&keys, assertion, Some(ACCESS_TOKEN)).is_ok() {
            return Err("an access token is not an assertion");
        }
        match jose::verify(&keys, assertion, Some(ID_JAG)) {
            Ok(claims) => Ok((claims, true)),
            Err(_) => Ok((jose::verify(&keys, assertion, None)?, false)),
        }
    }

    /// Returns the keys of the issuer that a token names. The token is not checked yet.
    pub(super) fn keys_of_issuer(&self, token: &str) -> Result<Value, &'static str> {
        let claims = jose::unverified_claims(token).ok_or("the token is not a JWT")?;
        match text(&claims, "iss") {
            Some(issuer) if issuer == self.config.issuer => Ok(self.keys.key_set()),
            Some(issuer) => self.config.trusted.get(issuer).cloned().ok_or("the issuer is not trusted"),
            None => Err("the token has no issuer"),
        }
    }

    /// Returns the scopes that the assertion, the request and this server have in common.
    fn scopes_of_assertion(&self, claims: &Map<String, Value>, parameters: &Parameters) -> Result<Vec<String>, Fault> {
        let requested = parameters.get("scope").map(message::scopes);
        if let Some(requested) = &requested {
            self.check_scopes(requested)?;
        }
        let Some(allowed) = text(claims, "scope").map(message::scopes) else {
            return Ok(requested.unwrap_or_else(|| self.config.scopes.clone()));
        };
        let is_common = |scope: &String| {
            let is_requested = requested.as_ref().is_none_or(|requested| requested.contains(scope));
            is_requested && self.check_scopes(std::slice::from_ref(scope)).is_ok()
        };
        Ok(allowed.into_iter().filter(is_common).collect())
    }

    fn audience_of_assertion(
        &self,
        claims: &Map<String, Value>,
        parameters: &Parameters,
    ) -> Result<Vec<String>, Fault> {
        let Some(resource) = text(claims, "resource") else { return self.audience(parameters) };
        let is_known = self.config.resources.is_empty() || self.config.resources.iter().any(|known| known == resource);
        if !is_known {
            return Err(Fault::invalid_grant("the resource of the assertion is unknown"));
        }
        self.narrow_audience(&[resource.to_owned()], parameters)
    }
}
