//! A login with the device flow (RFC 8628): the user enters a code in any browser, and the client polls for the tokens.

use std::time::Duration;

use mcp_protocol::auth::{Secret, TokenResponse};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{sleep, timeout};
use url::Url;

use crate::{
    caught::caught,
    discovery::{Server, is_safe},
    error::{Error, ErrorKind},
    token_endpoint::TokenEndpoint,
    user_agent::{DeviceLogin, UserAgent},
};

/// The time between two polls, if the authorization server names none (RFC 8628 §3.2).
const INTERVAL: Duration = Duration::from_secs(5);
/// The shortest time between two polls.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);
/// The time by which `slow_down` extends the interval (RFC 8628 §3.5).
const SLOWER: Duration = Duration::from_secs(5);
/// The longest pause during an outage, unless the interval is longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The longest code of a user, in bytes.
const MAX_USER_CODE: usize = 64;

/// The parts of one login.
pub(crate) struct DeviceAttempt<'a> {
    pub(crate) agent: &'a dyn UserAgent,
    pub(crate) endpoint: &'a Url,
    pub(crate) server: &'a Server,
    pub(crate) token_endpoint: TokenEndpoint<'a>,
    pub(crate) scopes: &'a [String],
    /// Parameters of the application for the first request.
    pub(crate) params: &'a [(String, String)],
    pub(crate) limit: Duration,
}

/// The answer of the device authorization endpoint (RFC 8628 §3.2).
#[derive(Deserialize)]
struct Started {
    device_code: Secret,
    user_code: String,
    verification_uri: Option<String>,
    /// The name of the member in drafts of the RFC, which Google still uses.
    verification_url: Option<String>,
    verification_uri_complete: Option<String>,
    expires_in: Option<Value>,
    interval: Option<Value>,
}

impl Started {
    /// Returns the code of the user. A terminal can print it as it is.
    fn user_code(&self) -> Result<&str, Error> {
        let code = self.user_code.trim();
        if code.is_empty() || code.len() > MAX_USER_CODE || !code.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            let text = "the code for the user is empty, too long or has characters that a user cannot enter";
            return Err(Error::new(ErrorKind::Token, text));
        }
        Ok(code)
    }

    fn page(&self) -> Result<Url, Error> {
        let page = self.verification_uri.as_deref().or(self.verification_url.as_deref());
        page.and_then(safe)
            .ok_or_else(|| Error::new(ErrorKind::Token, "the page of the device flow is not an `https` URL"))
    }
}

/// Returns a URL that a browser may open.
fn safe(text: &str) -> Option<Url> {
    Url::parse(text).ok().filter(is_safe)
}

impl DeviceAttempt<'_> {
    /// Runs the login until the tokens are there.
    pub(crate) async fn run(&self) -> Result<TokenResponse, Error> {
        let started = self.start().await?;
        let interval = seconds(started.interval.as_ref()).unwrap_or(INTERVAL).max(SHORTEST_INTERVAL);
        let login = self.login(&started)?;
        tracing::info!(issuer = ?login.issuer, scopes = ?login.scopes, "a user must log in with the code of a device");
        let ended = timeout(login.limit, self.wait(&login, &started.device_code, interval)).await;
        ended.unwrap_or_else(|_| Err(Error::login_timeout(login.limit)))
    }

    /// Requests the codes.
    async fn start(&self) -> Result<Started, Error> {
        let scope = self.scopes.join(" ");
        let mut params: Vec<(&str, &str)> =
            self.params.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        if !scope.is_empty() {
            params.push(("scope", &scope));
        }
        if let Some(audience) = self.server.audience(self.token_endpoint.resource, self.params) {
            params.push(("audience", audience));
        }
        self.token_endpoint.beside(self.server.device_url()?, "device authorization endpoint").post(&params).await
    }

    /// Checks the answer and returns the texts for the user.
    fn login(&self, started: &Started) -> Result<DeviceLogin, Error> {
        let lifetime = seconds(started.expires_in.as_ref()).unwrap_or(self.limit);
        Ok(DeviceLogin {
            user_code: started.user_code()?.to_owned(),
            verification_uri: started.page()?,
            verification_uri_complete: started.verification_uri_complete.as_deref().and_then(safe),
            issuer: self.server.metadata.issuer.clone(),
            server: self.endpoint.clone(),
            scopes: self.scopes.to_vec(),
            limit: lifetime.min(self.limit),
        })
    }

    /// Shows the code and polls until the user decided.
    async fn wait(&self, login: &DeviceLogin, code: &Secret, interval: Duration) -> Result<TokenResponse, Error> {
        let polled = self.poll(code, interval);
        tokio::pin!(polled);
        tokio::select! {
            answer = &mut polled => answer,
            shown = caught("the user agent", async { self.agent.show_code(login).await }) => {
                shown?;
                polled.await
            }
        }
    }

    async fn poll(&self, code: &Secret, interval: Duration) -> Result<TokenResponse, Error> {
        let mut pace = Pace { interval, pause: interval };
        loop {
            sleep(pace.pause).await;
            match self.token_endpoint.redeem_device_code(code).await {
                Ok(answer) => return Ok(answer),
                Err(error) => pace = pace.after(error)?,
            }
        }
    }
}

/// The times between polls.
#[derive(Clone, Copy)]
struct Pace {
    /// The interval of the authorization server, with the extensions of `slow_down`.
    interval: Duration,
    /// The time before the next poll. It is longer than the interval during an outage.
    pause: Duration,
}

impl Pace {
    /// Returns the times after a poll that leaves the login open.
    ///
    /// # Errors
    /// If the poll ended the login.
    fn after(self, error: Error) -> Result<Self, Error> {
        let steady = |interval| Self { interval, pause: interval };
        let refusal = error.oauth_error();
        match refusal.map(|refusal| refusal.error.as_str()) {
            Some("authorization_pending") => Ok(steady(self.interval)),
            Some("slow_down") => Ok(steady(self.interval.saturating_add(SLOWER))),
            Some("expired_token") => {
                let text = "the user did not complete the login before its code expired";
                Err(refusal.map_or_else(
                    || Error::new(ErrorKind::LoginRequired, text),
                    |refusal| Error::with_source(ErrorKind::LoginRequired, text, refusal.clone()),
                ))
            }
            // The client polls less often during an outage (RFC 8628 §3.5).
            _ if error.is_temporary() => {
                tracing::debug!(%error, "a poll of the device flow failed");
                let pause = self.pause.saturating_mul(2).max(error.retry_after().unwrap_or_default());
                Ok(Self { pause: pause.min(LONGEST_PAUSE).max(self.interval), ..self })
            }
            _ => Err(error),
        }
    }
}

/// Reads a number of seconds. Some authorization servers send a text.
fn seconds(value: Option<&Value>) -> Option<Duration> {
    let value = value?;
    value.as_u64().or_else(|| value.as_str()?.trim().parse().ok()).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use mcp_protocol::auth::OAuthError;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_poll_waits_longer_or_ends_the_login() {
        let refusal = |code: &str, kind| Error::with_source(kind, "refused", OAuthError::new(code));
        let outage = |wait| Error::outage("down", wait);
        for (error, expected) in [
            (refusal("authorization_pending", ErrorKind::Token), Ok(5)),
            (refusal("slow_down", ErrorKind::Unavailable), Ok(10)),
            (outage(None), Ok(10)),
            (outage(Some(Duration::from_secs(60))), Ok(60)),
            (outage(Some(Duration::from_secs(3_600))), Ok(60)),
            (refusal("expired_token", ErrorKind::Token), Err(ErrorKind::LoginRequired)),
            (refusal("access_denied", ErrorKind::Denied), Err(ErrorKind::Denied)),
            (refusal("invalid_grant", ErrorKind::Token), Err(ErrorKind::Token)),
        ] {
            let text = format!("{error:?}");
            let next = Pace { interval: INTERVAL, pause: INTERVAL }.after(error);
            let next = next.map(|next| next.pause.as_secs()).map_err(|error| error.kind());
            assert_eq!(next, expected, "{text}");
        }
        let longest = Pace { interval: Duration::MAX, pause: Duration::MAX };
        let longest = longest.after(refusal("slow_down", ErrorKind::Unavailable)).unwrap();
        assert_eq!(longest.pause, Duration::MAX);
    }

    #[test]
    fn the_interval_returns_after_an_outage() {
        let refusal = |code: &str, kind| Error::with_source(kind, "refused", OAuthError::new(code));
        let mut pace = Pace { interval: INTERVAL, pause: INTERVAL };
        for (error, expected) in [
            (Error::outage("down", None), 10),
            (Error::outage("down", None), 20),
            (Error::outage("down", None), 40),
            (Error::outage("down", None), 60),
            (Error::outage("down", None), 60),
            (refusal("authorization_pending", ErrorKind::Token), 5),
            (refusal("slow_down", ErrorKind::Unavailable), 10),
            (Error::outage("down", None), 20),
            (refusal("authorization_pending", ErrorKind::Token), 10),
        ] {
            let text = format!("{error:?}");
            pace = pace.after(error).unwrap();
            assert_eq!(pace.pause.as_secs(), expected, "{text}");
        }
        // The interval of the server is the shortest pause.
        let pace = Pace { interval: Duration::from_secs(90), pause: Duration::from_secs(90) };
        assert_eq!(pace.after(Error::outage("down", None)).unwrap().pause.as_secs(), 90);
    }

    #[test]
    fn users_receive_readable_codes_and_safe_pages() {
        let long = "A".repeat(MAX_USER_CODE + 1);
        for (code, page, expected) in [
            ("WDJB-MJHT", json!({"verification_uri": "https://as.example/device"}), Ok("https://as.example/device")),
            (" 1 2 3\n", json!({"verification_url": "https://as.example/device"}), Ok("https://as.example/device")),
            ("A", json!({"verification_uri": "http://127.0.0.1:1/device"}), Ok("http://127.0.0.1:1/device")),
            ("A", json!({"verification_uri": "http://as.example/device"}), Err("not an `https` URL")),
            ("A", json!({"verification_uri": "javascript:alert(1)"}), Err("not an `https` URL")),
            ("A", json!({"verification_uri": "https://user@as.example/"}), Err("not an `https` URL")),
            ("A", json!({}), Err("not an `https` URL")),
            ("", json!({"verification_uri": "https://as.example/device"}), Err("the code for the user")),
            ("A\u{1b}[2J", json!({"verification_uri": "https://as.example/device"}), Err("the code for the user")),
            ("\u{202e}A", json!({"verification_uri": "https://as.example/device"}), Err("the code for the user")),
            (long.as_str(), json!({"verification_uri": "https://as.example/device"}), Err("the code for the user")),
        ] {
            let mut answer = page.clone();
            answer["device_code"] = "hunter2".into();
            answer["user_code"] = code.into();
            let started: Started = serde_json::from_value(answer).unwrap();
            let found = started.user_code().and_then(|_| started.page());
            let found = found.map(String::from).map_err(|error| error.to_string());
            match expected {
                Ok(url) => assert_eq!(found.as_deref(), Ok(url), "{code:?} {page}"),
                Err(text) => assert!(found.as_ref().is_err_and(|error| error.contains(text)), "{code:?} {page}"),
            }
        }
    }

    #[test]
    fn numbers_of_seconds_may_be_texts() {
        for (value, expected) in [
            (json!(7), Some(7)),
            (json!("7"), Some(7)),
            (json!(u64::MAX), Some(u64::MAX)),
            (json!(-1), None),
            (json!("soon"), None),
            (json!(null), None),
        ] {
            assert_eq!(seconds(Some(&value)).map(|time| time.as_secs()), expected, "{value}");
        }
    }
}
