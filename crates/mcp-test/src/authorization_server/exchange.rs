//! The exchange of a token for another token (RFC 8693).

use std::time::{Duration, SystemTime};

use mcp_auth::jose;
use mcp_protocol::auth::{TokenResponse, token_type};
use serde_json::json;

use super::{
    Inner,
    assertion::{has_audience, remaining, text},
    assertion_grant::ID_JAG,
    clock,
    fault::Fault,
    issue::{Issue, object},
    message::{self, Parameters},
    state::ClientRecord,
};

/// The lifetime of an ID-JAG.
const ID_JAG_LIFETIME: Duration = Duration::from_secs(300);

/// The subject of an exchange, and the scopes that it may have.
struct Subject {
    name: String,
    scopes: Option<Vec<String>>,
}

impl Inner {
    pub(super) async fn exchange(
        &self,
        client: &ClientRecord,
        parameters: &Parameters,
        jkt: Option<String>,
        now: SystemTime,
    ) -> Result<TokenResponse, Fault> {
        if parameters.get("actor_token").is_some() {
            return Err(Fault::invalid_request("the parameter `actor_token` is not supported"));
        }
        let subject = self.subject(client, parameters, jkt.as_deref(), now).await?;
        let scopes = match (parameters.get("scope").map(message::scopes), subject.scopes) {
            (Some(requested), Some(allowed)) if !requested.iter().all(|scope| allowed.contains(scope)) => {
                return Err(Fault::new("invalid_scope", "the subject token does not have a requested scope"));
            }
            (Some(requested), Some(_)) => requested,
            (Some(requested), None) => {
                self.check_scopes(&requested)?;
                requested
            }
            (None, allowed) => allowed.unwrap_or_default(),
        };
        match parameters.get("requested_token_type").unwrap_or(token_type::ACCESS_TOKEN) {
            kind @ (token_type::ACCESS_TOKEN | token_type::JWT) => {
                let issue = Issue {
                    grant: None,
                    client_id: client.id().to_owned(),
                    subject: subject.name,
                    scopes,
                    audience: self.audience_of_exchange(parameters)?,
                    jkt,
                };
                let mut response = self.tokens(issue, None, now).await?;
                response.issued_token_type = Some(kind.to_owned());
                Ok(response)
            }
            token_type::ID_JAG => self.issue_id_jag(client, &subject.name, &scopes, parameters, now),
            _ => Err(Fault::invalid_request("the requested type of token is not supported")),
        }
    }

    /// Checks the subject token: an access token of this server, or an id token of this server or a trusted issuer.
    async fn subject(
        &self,
        client: &ClientRecord,
        parameters: &Parameters,
        jkt: Option<&str>,
        now: SystemTime,
    ) -> Result<Subject, Fault> {
        let token = parameters.require("subject_token")?;
        let invalid = |reason: &'static str| Fault::invalid_request(reason);
        match parameters.require("subject_token_type")? {
            token_type::ACCESS_TOKEN | token_type::JWT => {
                if client.is_public() {
                    return Err(Fault::new("unauthorized_client", "the client has neither a secret nor a key"));
                }
                let active = self.active_token(token, now).await?;
                let (_, record) = active.ok_or_else(|| invalid("the subject token is not active"))?;
                if record.jkt.is_some() && record.jkt.as_deref() != jkt {
                    return Err(invalid("the subject token is bound to another key"));
                }
                Ok(Subject { name: record.subject, scopes: Some(record.scopes) })
            }
            token_type::ID_TOKEN => {
                let keys = self.keys_of_issuer(token).map_err(invalid)?;
                let claims = jose::verify(&keys, token, Some("JWT")).map_err(invalid)?;
                if !has_audience(&claims, &[client.id()]) {
                    return Err(invalid("the id token belongs to another client"));
                }
                remaining(&claims, now).map_err(invalid)?;
                let name = text(&claims, "sub").ok_or_else(|| invalid("the id token has no subject"))?;
                Ok(Subject { name: name.to_owned(), scopes: None })
            }
            _ => Err(invalid("the type of the subject token is not supported")),
        }
    }

    /// Returns the audience of a new access token: the parameters `resource` and `audience`.
    fn audience_of_exchange(&self, parameters: &Parameters) -> Result<Vec<String>, Fault> {
        let names: Vec<String> = parameters.all("audience").map(str::to_owned).collect();
        if names.is_empty() {
            return self.audience(parameters);
        }
        let is_known = |name: &String| self.config.resources.is_empty() || self.config.resources.contains(name);
        if !names.iter().all(is_known) {
            return Err(Fault::new("invalid_target", "the audience is unknown"));
        }
        let mut all = if parameters.get("resource").is_some() { self.audience(parameters)? } else { Vec::new() };
        all.extend(names);
        all.dedup();
        Ok(all)
    }

    /// Issues an ID-JAG for the authorization server of a resource.
    fn issue_id_jag(
        &self,
        client: &ClientRecord,
        subject: &str,
        scopes: &[String],
        parameters: &Parameters,
        now: SystemTime,
    ) -> Result<TokenResponse, Fault> {
        let mut claims = object(json!({
            "iss": self.config.issuer,
            "sub": subject,
            "aud": parameters.require("audience")?,
            "client_id": client.id(),
            "jti": jose::random_text()?,
            "iat": clock::seconds(now),
            "exp": clock::after(now, ID_JAG_LIFETIME),
        }));
        if let Some(resource) = parameters.get("resource") {
            claims.insert("resource".to_owned(), resource.into());
        }
        let scope = scopes.join(" ");
        if !scope.is_empty() {
            claims.insert("scope".to_owned(), scope.clone().into());
        }
        let mut response = TokenResponse::new(self.sign_claims(ID_JAG, &claims)?, "N_A");
        response.expires_in = Some(ID_JAG_LIFETIME.as_secs());
        response.issued_token_type = Some(token_type::ID_JAG.to_owned());
        response.scope = (!scope.is_empty()).then_some(scope);
        Ok(response)
    }
}
