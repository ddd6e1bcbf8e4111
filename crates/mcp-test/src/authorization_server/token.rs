//! The token endpoint (RFC 6749 §3.2).

use std::time::SystemTime;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use mcp_protocol::auth::{Secret, TokenResponse, grant_type};

use super::{Inner, Misbehavior, fault::Fault, issue::Issue, message, message::Parameters};

/// The type of access tokens that are not bound to a key.
const BEARER: &str = "Bearer";

impl Inner {
    pub(super) async fn token(&self, request: &Request<Bytes>, now: SystemTime) -> Result<Response<Bytes>, Fault> {
        let parameters = Parameters::of_form(request)?;
        let client = self.authenticate(request.headers(), &parameters, now).await?;
        let grant_type = parameters.require("grant_type")?;
        if !client.may_use(grant_type) {
            return Err(Fault::new("unauthorized_client", "the client did not register the grant type"));
        }
        let tokens = match grant_type {
            grant_type::AUTHORIZATION_CODE => self.redeem_code(&client, &parameters, now).await?,
            grant_type::REFRESH_TOKEN => self.refresh(&client, &parameters, now).await?,
            _ => return Err(Fault::new("unsupported_grant_type", "the grant type is not supported")),
        };
        Ok(message::json(StatusCode::OK, &tokens))
    }

    /// Issues an access token and returns the response.
    pub(super) async fn tokens(
        &self,
        mut issue: Issue,
        refresh_token: Option<String>,
        now: SystemTime,
    ) -> Result<TokenResponse, Fault> {
        if self.misbehaviors.occurs(&Misbehavior::NarrowScope) {
            issue.scopes.truncate(1);
        }
        let scope = issue.scopes.join(" ");
        let issued = self.issue(issue, now).await?;
        let is_wrong_type = self.misbehaviors.occurs(&Misbehavior::WrongTokenType);
        let mut response = TokenResponse::new(issued.token, if is_wrong_type { "mac" } else { BEARER });
        if !self.misbehaviors.occurs(&Misbehavior::NoExpiresIn) {
            response.expires_in = Some(issued.lifetime.as_secs());
        }
        response.refresh_token = refresh_token.map(Secret::new);
        response.scope = (!scope.is_empty()).then_some(scope);
        Ok(response)
    }
}
