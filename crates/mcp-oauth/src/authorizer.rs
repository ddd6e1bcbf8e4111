//! The hook of the HTTP client.

use http::{HeaderMap, StatusCode};
use mcp_client_http::{Authorizer, AuthorizerError, Refusal, Target, Verdict};
use mcp_fetch::Fetch;
use mcp_transport::BoxFuture;
use tokio::sync::watch;
use url::Url;

use crate::{
    dpop,
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
            let asking = self.asking(&target.endpoint)?;
            Ok(while_asking(|| target.asking_user(), asking, self.headers(target)).await?)
        })
    }

    fn refused<'a>(&'a self, refusal: &'a Refusal) -> BoxFuture<'a, Result<Verdict, AuthorizerError>> {
        Box::pin(async move {
            let Refusal { target, status, challenges, headers, sent, can_retry, .. } = refusal;
            // The proof lacked the current nonce, which `answered` stored. The token itself is not refused.
            let lacks_nonce = challenges.iter().any(|challenge| challenge.error.as_deref() == Some(dpop::USE_NONCE));
            if lacks_nonce && sent.contains_key(dpop::DPOP) && dpop::has_nonce(headers) {
                return Ok(Verdict::RetryFresh);
            }
            if !can_retry {
                return Ok(Verdict::GiveUp);
            }
            let asking = self.asking(&target.endpoint)?;
            let refused = Refused { status: *status, challenges: challenges.clone(), token: None };
            let handling = self.handle_refusal(&target.endpoint, &target.method, sent, refused);
            let is_repeated = while_asking(|| target.asking_user(), asking, handling).await?;
            Ok(if is_repeated { Verdict::Retry } else { Verdict::GiveUp })
        })
    }

    fn answered(&self, target: &Target, sent: &HeaderMap, status: StatusCode, headers: &HeaderMap) {
        self.note_nonce(target, headers);
        if status.is_success() {
            self.accept(&target.endpoint, sent);
        }
    }
}

/// Waits for work, and pauses the time limits of the request exactly while a user is asked to log in.
async fn while_asking<T, G>(
    pause: impl Fn() -> G,
    mut asking: watch::Receiver<bool>,
    work: impl Future<Output = T>,
) -> T {
    tokio::pin!(work);
    let mut _guard = asking.borrow_and_update().then(&pause);
    loop {
        tokio::select! {
            biased;
            result = &mut work => return result,
            Ok(()) = asking.changed() => _guard = asking.borrow_and_update().then(&pause),
        }
    }
}

impl From<Error> for AuthorizerError {
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::Unavailable => {
                let retry_after = error.retry_after();
                Self::unavailable(error, retry_after)
            }
            ErrorKind::LoginRequired => Self::login_required(error),
            ErrorKind::Denied | ErrorKind::Callback | ErrorKind::InsufficientScope => Self::denied(error),
            _ => Self::other(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use tokio::{sync::oneshot, time::timeout};

    use super::*;

    #[tokio::test]
    async fn a_request_pauses_exactly_while_a_user_is_asked() {
        let (asking, pause) = (watch::Sender::new(false), Arc::new(()));
        let (end, work) = oneshot::channel::<()>();
        let held = Arc::clone(&pause);
        let waiting = tokio::spawn(while_asking(move || Arc::clone(&held), asking.subscribe(), work));
        for is_asking in [false, true, false, true] {
            asking.send_replace(is_asking);
            let reached = async {
                // The test and the request hold the value too.
                while Arc::strong_count(&pause) != 2 + usize::from(is_asking) {
                    tokio::task::yield_now().await;
                }
            };
            timeout(Duration::from_secs(10), reached).await.expect("the pause follows the login");
        }
        end.send(()).expect("the request waits");
        waiting.await.expect("the request ends").expect("the work has a result");
        assert_eq!(Arc::strong_count(&pause), 1);
    }
}
