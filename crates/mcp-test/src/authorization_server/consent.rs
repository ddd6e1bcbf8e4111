//! The consent of the user: a page with a form that only the browser of the user can submit.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use mcp_auth::jose;

use super::{
    Inner,
    authorize::Refusal,
    clock,
    fault::Fault,
    message::{self, Parameters},
    metadata::path,
    page,
    state::{AuthorizationRequest, ClientRecord, PendingRecord},
};

/// The time in which the user can decide.
const DECISION_TIME: Duration = Duration::from_secs(600);
/// The cookie that names a browser.
const COOKIE: &str = "mcp_test_browser";
/// The length of the name of a browser.
const NAME_LENGTH: usize = 43;

impl Inner {
    /// Returns the page that asks the user. Its form has a random number, and the browser has a cookie. A decision needs both.
    pub(super) async fn ask(
        &self,
        headers: &HeaderMap,
        client: &ClientRecord,
        request: AuthorizationRequest,
        now: SystemTime,
    ) -> Result<Response<Bytes>, Refusal> {
        let id = jose::random_text().map_err(Fault::from)?;
        let (browser, cookie) = self.browser(headers)?;
        let html = page::consent(&page::Consent {
            action: &self.url_of(path::DECISION),
            id: &id,
            client: client.name(),
            client_id: client.id(),
            redirect_uri: &request.redirect_uri,
            subject: &self.config.subject,
            scopes: &request.scopes,
            resources: &request.resources,
        });
        let record = PendingRecord {
            request,
            browser: jose::sha256(browser.as_bytes()),
            expires_at: clock::after(now, DECISION_TIME),
        };
        self.state.create(&id, &record, DECISION_TIME).await.map_err(Fault::from)?;
        let mut response = message::page(StatusCode::OK, html);
        response.headers_mut().extend(cookie.map(|cookie| (header::SET_COOKIE, cookie)));
        Ok(response)
    }

    /// Returns the name of a browser, and the cookie with the name. A browser with several pages keeps its name, so that each
    /// of the forms stays valid.
    pub(super) fn browser(&self, headers: &HeaderMap) -> Result<(String, Option<HeaderValue>), Fault> {
        let name = match browser_of(headers) {
            Some(name) => name.to_owned(),
            None => jose::random_text()?,
        };
        let secure = if self.config.issuer.starts_with("https://") { "; Secure" } else { "" };
        let path = if self.config.base_path.is_empty() { "/" } else { &self.config.base_path };
        let cookie = format!("{COOKIE}={name}; Path={path}; HttpOnly; SameSite=Lax{secure}");
        Ok((name, HeaderValue::try_from(cookie).ok()))
    }

    /// Processes the form of the page.
    pub(super) async fn decide(&self, request: &Request<Bytes>, now: SystemTime) -> Response<Bytes> {
        self.read_decision(request, now).await.unwrap_or_else(|refusal| self.refuse(refusal))
    }

    async fn read_decision(&self, request: &Request<Bytes>, now: SystemTime) -> Result<Response<Bytes>, Refusal> {
        let parameters = Parameters::of_form(request)?;
        let id = parameters.require("request")?;
        let is_approved = match parameters.require("decision")? {
            "approve" => true,
            "deny" => false,
            _ => return Err(Fault::invalid_request("The decision is neither `approve` nor `deny`.").into()),
        };
        let gone = || Fault::invalid_request("The request expired, or the user already decided.");
        let stored = self.state.get::<PendingRecord>(id).await.map_err(Fault::from)?.ok_or_else(gone)?;
        let name = browser_of(request.headers()).unwrap_or_default();
        if !jose::is_equal(&jose::sha256(name.as_bytes()), &stored.record.browser) {
            let fault = Fault::new("access_denied", "The page belongs to another browser.");
            return Err(fault.with_status(StatusCode::FORBIDDEN).into());
        }
        if clock::seconds(now) >= stored.record.expires_at
            || !self.state.take(id, &stored).await.map_err(Fault::from)?
        {
            return Err(gone().into());
        }
        let PendingRecord { request, .. } = stored.record;
        if is_approved {
            return self.approve(request, now).await;
        }
        let fault = Fault::new("access_denied", "the user denied the request");
        Err(Refusal::Redirect { redirect_uri: request.redirect_uri, state: request.state, fault })
    }
}

/// Returns the name of the browser from its cookie, if it has the form of a name.
pub(super) fn browser_of(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let (_, name) = pairs.find(|(name, _)| *name == COOKIE)?;
    let is_base64url = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    (name.len() == NAME_LENGTH && is_base64url).then_some(name)
}
