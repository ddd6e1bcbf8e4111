//! The tokens of a stored login for the requests of all commands.

use http::{HeaderMap, StatusCode, header::AUTHORIZATION};
use mcp_client::{
    http::{Authorizer, AuthorizerError, Refusal, Target, Verdict, mcp_fetch::Fetch},
    oauth::OAuth,
};
use mcp_transport::BoxFuture;
use url::Url;

/// Sends the tokens of a stored login.
///
/// A request without tokens leads to a login only if the user is at a terminal and the server names its metadata document. A
/// server with other credentials therefore receives no further requests.
pub(super) struct StoredTokens {
    pub(super) auth: OAuth,
    pub(super) can_ask: bool,
}

impl Authorizer for StoredTokens {
    fn attach(&self, endpoint: &Url, fetch: &Fetch) {
        self.auth.attach(endpoint, fetch);
    }

    fn authorize<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Result<HeaderMap, AuthorizerError>> {
        self.auth.authorize(target)
    }

    fn refused<'a>(&'a self, refusal: &'a Refusal) -> BoxFuture<'a, Result<Verdict, AuthorizerError>> {
        let had_tokens = refusal.sent.contains_key(AUTHORIZATION);
        let names_metadata = refusal.challenges.iter().any(|challenge| challenge.resource_metadata.is_some());
        if had_tokens || self.can_ask && names_metadata {
            return self.auth.refused(refusal);
        }
        Box::pin(std::future::ready(Ok(Verdict::GiveUp)))
    }

    fn answered(&self, target: &Target, sent: &HeaderMap, status: StatusCode, headers: &HeaderMap) {
        self.auth.answered(target, sent, status, headers);
    }
}
