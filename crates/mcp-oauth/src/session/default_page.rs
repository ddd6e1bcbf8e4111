//! The page of a login at the default endpoint of 2025-03-26, which no document names.

use http::StatusCode;

use super::{Session, refusal::Found};
use crate::{
    error::Error,
    trail::{DiscoveryRule, DiscoveryStep, StepKind, Trail},
};

impl Session {
    /// Requests the page at the default endpoint. A server without the page has no logins. An outage shows nothing.
    ///
    /// A dynamic registration at the default endpoint shows the same, so only a client with an id needs the request.
    ///
    /// # Errors
    /// [`ErrorKind::NoLogin`](crate::ErrorKind::NoLogin) if the server has no such page.
    pub(super) async fn check_default_page(&self, found: &Found, trail: &Trail) -> Result<(), Error> {
        let Ok(page) = found.server.page_url() else { return Ok(()) };
        let response = self.fetch().get(page.as_str()).await;
        let mut step = DiscoveryStep::new(StepKind::DefaultPage, Some(page.as_str()));
        let (exists, reason) = match &response {
            Ok(response) => {
                step.status = Some(response.status());
                (!is_missing(response.status()), "no document names the page, which the server has nevertheless")
            }
            Err(error) => {
                step.absence = Some(error.to_string());
                (true, "no document names the page, and it cannot be checked")
            }
        };
        let checked = exists.then_some(()).ok_or_else(|| {
            let status = step.status.map(|status| status.to_string()).unwrap_or_default();
            let text = format!(
                "the server has no OAuth metadata, and the default page of a login has the status {status}: the server \
                 expects other credentials than the tokens of a login"
            );
            Error::no_login(text, found.credentials_header.clone())
        });
        trail.add(|| step);
        trail.check_or_assume(DiscoveryRule::OffersLogin, checked, Some(reason.to_owned()))
    }
}

/// Whether a status shows that there is no such page.
fn is_missing(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::GONE | StatusCode::NOT_IMPLEMENTED
    )
}
