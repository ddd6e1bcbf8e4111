//! The token endpoint (RFC 6749 §3.2).

use std::time::SystemTime;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use mcp_protocol::auth::{Secret, TokenResponse, grant_type};

use super::{Inner, Misbehavior, dpop::DPOP_NONCE, fault::Fault, issue::Issue, message, message::Parameters};

/// The type of access tokens that are not bound to a key.
const BEARER: &str = "Bearer";
/// The type of access tokens that are bound to a key (RFC 9449 §5).
const DPOP: &str = "DPoP";

impl Inner {
    pub(super) async fn token(&self, request: &Request<Bytes>, now: SystemTime) -> Result<Response<Bytes>, Fault> {
        let parameters = Parameters::of_form(request)?;
        let grant_type = parameters.require("grant_type");
        // A workload with an assertion needs no client id.
        if grant_type.as_ref().is_ok_and(|grant_type| *grant_type == grant_type::JWT_BEARER)
            && !has_client(request.headers(), &parameters)
        {
            let jkt = self.check_proof(request.headers(), None, now).await?;
            let tokens = self.redeem_assertion(None, &parameters, jkt, now).await?;
            return Ok(self.token_response(&tokens, now));
        }
        let client = self.authenticate(request.headers(), &parameters, now).await?;
        let grant_type = grant_type?;
        if !client.may_use(grant_type) {
            return Err(Fault::new("unauthorized_client", "the client did not register the grant type"));
        }
        let jkt = self.check_proof(request.headers(), Some(&client), now).await?;
        let tokens = match grant_type {
            grant_type::AUTHORIZATION_CODE => self.redeem_code(&client, &parameters, jkt, now).await?,
            grant_type::REFRESH_TOKEN => self.refresh(&client, &parameters, jkt, now).await?,
            grant_type::CLIENT_CREDENTIALS => self.client_credentials(&client, &parameters, jkt, now).await?,
            grant_type::DEVICE_CODE => self.redeem_device_code(&client, &parameters, jkt, now).await?,
            grant_type::TOKEN_EXCHANGE => self.exchange(&client, &parameters, jkt, now).await?,
            grant_type::JWT_BEARER => self.redeem_assertion(Some(&client), &parameters, jkt, now).await?,
            _ => return Err(Fault::new("unsupported_grant_type", "the grant type is not supported")),
        };
        Ok(self.token_response(&tokens, now))
    }

    fn token_response(&self, tokens: &TokenResponse, now: SystemTime) -> Response<Bytes> {
        let mut response = message::json(StatusCode::OK, tokens);
        if self.config.requires_nonces
            && let Ok(nonce) = HeaderValue::try_from(self.nonce(now))
        {
            response.headers_mut().insert(DPOP_NONCE, nonce);
        }
        response
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
        let kind = if issue.jkt.is_some() { DPOP } else { BEARER };
        let issued = self.issue(issue, now).await?;
        let is_wrong_type = self.misbehaviors.occurs(&Misbehavior::WrongTokenType);
        let mut response = TokenResponse::new(issued.token, if is_wrong_type { "mac" } else { kind });
        if !self.misbehaviors.occurs(&Misbehavior::NoExpiresIn) {
            response.expires_in = Some(issued.lifetime.as_secs());
        }
        response.refresh_token = refresh_token.map(Secret::new);
        response.scope = (!scope.is_empty()).then_some(scope);
        Ok(response)
    }
}

/// Whether a request names a client.
fn has_client(headers: &HeaderMap, parameters: &Parameters) -> bool {
    let has_parameter = ["client_id", "client_assertion"].iter().any(|name| parameters.get(name).is_some());
    has_parameter || headers.contains_key(header::AUTHORIZATION)
}
