//! The hook of the HTTP client.

use http::{HeaderMap, StatusCode};
use mcp_client_http::{Authorizer, AuthorizerError, Refusal, Target, Verdict};
use mcp_fetch::Fetch;
use mcp_transport::BoxFuture;
use url::Url;

use crate::{
    error::{Error, ErrorKind},
    oauth::OAuth,
    session::Refused,
};

impl Authorizer for OAuth {
    fn attach(&self, endpoint: &Url, fetch: &Fetch) {
        self.attach_fetch(endpoint, fetch);
    }

    fn authorize<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Result<HeaderMap, AuthorizerError>> {
        Box::pin(async move {
            // The request waits for the login of another request.
            let _asking = self.is_asking(&target.endpoint).then(|| target.asking_user());
            Ok(self.headers(&target.endpoint).await?)
        })
    }

    fn refused<'a>(&'a self, refusal: &'a Refusal) -> BoxFuture<'a, Result<Verdict, AuthorizerError>> {
        Box::pin(async move {
            let Refusal { target, status, challenges, sent, can_retry, .. } = refusal;
            if !can_retry {
                return Ok(Verdict::GiveUp);
            }
            let _asking = target.asking_user();
            let refused = Refused { status: *status, challenges: challenges.clone(), token: None };
            let is_repeated = self.handle_refusal(&target.endpoint, &target.method, sent, refused).await?;
            Ok(if is_repeated { Verdict::Retry } else { Verdict::GiveUp })
        })
    }

    fn answered(&self, target: &Target, status: StatusCode, _: &HeaderMap) {
        if status.is_success() {
            self.accept(&target.endpoint);
        }
    }
}

impl From<Error> for AuthorizerError {
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::Unavailable => Self::unavailable(error, None),
            ErrorKind::LoginRequired => Self::login_required(error),
            ErrorKind::Denied | ErrorKind::Callback | ErrorKind::InsufficientScope => Self::denied(error),
            _ => Self::other(error),
        }
    }
}
