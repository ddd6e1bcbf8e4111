//! Tokens of an application on GitHub.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use http::{HeaderMap, HeaderValue, StatusCode, header};
use mcp_fetch::Fetch;
use mcp_protocol::{Challenge, Principal, auth::Secret};
use serde::Deserialize;
use serde_json::json;

use crate::{
    authenticator::{AuthRequest, Authenticated, Authenticator, BoxFuture, Rejection},
    crypto,
    error::ConfigError,
    issuer_request::{self, IssuerRequests},
    issuer_url::{check_issuer, check_url, fetch_for},
    token_verifier::{self, TokenVerifier},
    verified::{Verified, invalid},
};

/// The authorization server of GitHub, whose metadata is at
/// `https://github.com/.well-known/oauth-authorization-server/login/oauth`.
const ISSUER: &str = "https://github.com/login/oauth";
const API: &str = "https://api.github.com";

/// Authenticates users of GitHub by the tokens of one application on GitHub. Needs the feature `oauth`.
///
/// GitHub issues tokens without an audience, and each token is valid at GitHub itself. A server that asks GitHub for the user
/// of a token would accept tokens of any other application. This provider therefore uses the endpoint that checks a token of
/// one application (`POST /applications/{client_id}/token`). The result is remembered for a minute.
///
/// The subject is the number of the user, and the scopes are those of the token. The claim `login` has the name of the user.
/// Restrict the users with [`Policy::allow_principals`](crate::Policy::allow_principals), because each user of GitHub can log
/// in. A user can change the name, and another user can take it then, so a rule should use the number
/// (`https://api.github.com/users/octocat`).
///
/// ```
/// use mcp_auth::{GitHub, Policy};
///
/// let github = GitHub::new("Iv1.0123456789abcdef", "hunter2")?;
/// let auth = Policy::new(github).allow_principals("https://github.com/login/oauth", ["583231"]);
/// # let _ = auth;
/// # Ok::<_, mcp_auth::ConfigError>(())
/// ```
pub struct GitHub {
    settings: Arc<Settings>,
    verified: Verified,
}

/// The settings that a check on a task of its own shares.
#[derive(Clone)]
struct Settings {
    issuer: String,
    api: String,
    client_id: String,
    requests: IssuerRequests,
    fetch: Fetch,
}

/// The answer of GitHub about a token.
#[derive(Deserialize)]
struct Checked {
    app: App,
    user: Option<User>,
    #[serde(default)]
    scopes: Option<Vec<String>>,
    #[serde(default)]
    expires_at: Option<String>,
}

#[derive(Deserialize)]
struct App {
    client_id: String,
}

#[derive(Deserialize)]
struct User {
    id: u64,
    login: String,
}

impl GitHub {
    /// Accepts tokens of the application with this client id, which the secret of the application checks.
    ///
    /// # Errors
    /// If the client id or the secret cannot be sent in a header.
    pub fn new(client_id: impl Into<String>, client_secret: impl Into<Secret>) -> Result<Self, ConfigError> {
        let client_id = client_id.into();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        if client_id.is_empty() || !client_id.bytes().all(is_plain) {
            return Err(ConfigError::new("the client id contains an invalid character"));
        }
        let requests = IssuerRequests::new(&client_id, client_secret.into().expose())?;
        let settings =
            Settings { issuer: ISSUER.to_owned(), api: API.to_owned(), client_id, requests, fetch: Fetch::new() };
        Ok(Self { settings: Arc::new(settings), verified: Verified::new() })
    }

    /// Uses a GitHub Enterprise Server: the URL of its authorization server and the URL of its API.
    ///
    /// # Errors
    /// If a URL does not begin with `https://`, or with `http://` for this machine.
    ///
    /// ```
    /// use mcp_auth::GitHub;
    ///
    /// let auth = GitHub::new("Iv1.0123456789abcdef", "hunter2")?
    ///     .enterprise("https://git.example/login/oauth", "https://git.example/api/v3")?;
    /// # let _ = auth;
    /// # Ok::<_, mcp_auth::ConfigError>(())
    /// ```
    pub fn enterprise(mut self, issuer: impl Into<String>, api: impl Into<String>) -> Result<Self, ConfigError> {
        let settings = Arc::make_mut(&mut self.settings);
        (settings.issuer, settings.api) = (issuer.into(), api.into().trim_end_matches('/').to_owned());
        check_issuer(&settings.issuer)?;
        check_url(&settings.api)?;
        settings.fetch = fetch_for(&settings.api)?;
        Ok(self)
    }

    /// Sends the requests to GitHub with these settings, for example through a proxy.
    #[must_use]
    pub fn fetch(mut self, fetch: Fetch) -> Self {
        Arc::make_mut(&mut self.settings).fetch = fetch;
        self
    }

    /// Sets the longest time for which the result for a valid token is remembered, at most an hour. The default is a minute.
    /// With zero, each request asks GitHub.
    #[must_use]
    pub fn remember_for(mut self, time: Duration) -> Self {
        self.verified.remember_for(time);
        self
    }
}

impl Settings {
    async fn check(&self, token: &str) -> Result<Principal, Rejection> {
        let _running = self.requests.begin().await?;
        let url = format!("{}/applications/{}/token", self.api, self.client_id);
        let headers = HeaderMap::from_iter([
            (header::AUTHORIZATION, self.requests.authorization.clone()),
            (header::ACCEPT, HeaderValue::from_static("application/vnd.github+json")),
        ]);
        let response = self.fetch.post_json(&url, &json!({"access_token": token}), headers).await;
        let response = response.map_err(|error| issuer_request::no_response(&self.issuer, &error))?;
        match response.status() {
            StatusCode::OK => {}
            // 404 is the answer to a token that is unknown, revoked, or of another application.
            StatusCode::NOT_FOUND => return Err(invalid("GitHub does not know the token for this application")),
            // 422 is also the answer to too many requests, so it shows nothing about the token.
            _ => return Err(issuer_request::unexpected(&self.issuer, &response)),
        }
        let checked: Checked = response.json().map_err(|_| issuer_request::malformed(&self.issuer))?;
        let user = checked.user.filter(|_| checked.app.client_id == self.client_id);
        let user = user.ok_or_else(|| invalid("the token belongs to another application, or to no user"))?;
        let mut principal = Principal::new(user.id.to_string())
            .with_issuer(&*self.issuer)
            .with_client_id(&*self.client_id)
            .with_scopes(checked.scopes.unwrap_or_default())
            .with_scheme("Bearer")
            .with_claim("login", user.login);
        if let Some(text) = checked.expires_at {
            principal.expires_at = Some(time(&text).ok_or_else(|| issuer_request::malformed(&self.issuer))?);
        }
        Ok(principal)
    }
}

/// Returns the time of `2026-07-28T12:00:00Z` (RFC 3339 in UTC). GitHub sends no other form.
fn time(text: &str) -> Option<SystemTime> {
    let (date, clock) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers = |text: &str, separator: char, lengths: [usize; 3]| -> Option<[u64; 3]> {
        let mut parts = text.split(separator);
        let mut numbers = [0; 3];
        for (number, length) in numbers.iter_mut().zip(lengths) {
            let part = parts.next().filter(|part| part.len() == length && part.bytes().all(|b| b.is_ascii_digit()))?;
            *number = part.parse().ok()?;
        }
        parts.next().is_none().then_some(numbers)
    };
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(clock.split('.').next()?, ':', [2, 2, 2])?;
    let is_valid = year >= 1970 && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_valid || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Days since 1970-01-01 in the calendar that begins with March, where the leap day is the last day of a year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    let seconds = days.checked_sub(719_468)? * 86_400 + hour * 3600 + minute * 60 + second;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

impl TokenVerifier for GitHub {
    fn verify_token<'a>(&'a self, token: &'a str, _: &'a str) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
        Box::pin(async move {
            let digest = crypto::sha256(token.as_bytes());
            let (settings, secret) = (Arc::clone(&self.settings), Secret::from(token));
            let check = async move { settings.check(secret.expose()).await };
            Ok(Authenticated::new(self.verified.check(digest, || check).await?))
        })
    }
}

impl Authenticator for GitHub {
    fn authenticate<'a>(&'a self, request: &'a AuthRequest<'a>) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
        Box::pin(token_verifier::bearer(self, request))
    }

    fn authenticate_now(&self, request: &AuthRequest<'_>) -> Option<Result<Authenticated, Rejection>> {
        token_verifier::bearer_now(request, |token| {
            Some(self.verified.known(&crypto::sha256(token.as_bytes()))?.map(Authenticated::new))
        })
    }

    fn challenges(&self) -> Vec<Challenge> {
        vec![Challenge::bearer()]
    }

    fn authorization_servers(&self) -> Vec<String> {
        vec![self.settings.issuer.clone()]
    }
}

impl fmt::Debug for GitHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitHub")
            .field("issuer", &self.settings.issuer)
            .field("api", &self.settings.api)
            .field("client_id", &self.settings.client_id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_rfc_3339_are_read() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T12:30:45Z", Some(951_827_445)),
            ("2024-12-31T23:59:60Z", Some(1_735_689_600)),
            ("2026-07-28T00:00:00.123Z", Some(1_785_196_800)),
            ("2026-07-28T00:00:00+02:00", None),
            ("2026-7-28T00:00:00Z", None),
            ("2026-13-28T00:00:00Z", None),
            ("1969-12-31T00:00:00Z", None),
            ("2026-07-28T24:00:00Z", None),
            ("2026-07-28T00:60:00Z", None),
            ("2026-07-28T00:00:61Z", None),
            ("soon", None),
        ] {
            let expected = expected.map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds));
            assert_eq!(time(text), expected, "{text}");
        }
    }
}
