//! The hook that authorizes requests and hears when one was refused.

use std::{error::Error, fmt};

use http::{HeaderMap, Method, StatusCode};
use mcp_transport::BoxFuture;
use reqwest::Url;

use crate::config;

/// Gives requests their authorization, and decides what becomes of one that was refused.
///
/// One authorizer serves every request of its [`Http`](crate::Http), in parallel. How long it takes is its own to bound:
/// a person may have to log in. A request that is given up meanwhile drops the future.
pub trait Authorizer: Send + Sync + 'static {
    /// The headers that authorize a request: `Authorization`, and what belongs to it.
    ///
    /// # Errors
    /// Why there is no authorization to be had; the request fails with it.
    fn authorize<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Result<HeaderMap, AuthorizerError>>;

    /// The server answered 401 or 403. A request is repeated twice at most, however often this says so.
    ///
    /// # Errors
    /// Why there is no better authorization to be had; the request fails with it.
    fn refused<'a>(&'a self, refusal: &'a Refusal) -> BoxFuture<'a, Result<Verdict, AuthorizerError>>;
}

/// Why an [`Authorizer`] has no authorization: the error that the failing request shows.
pub type AuthorizerError = Box<dyn Error + Send + Sync>;

/// The request that is to be authorized.
#[derive(Clone)]
#[non_exhaustive]
pub struct Target {
    /// The method of HTTP.
    pub method: Method,
    /// The URL in full.
    pub url: String,
}

impl Target {
    /// A request of this method to this URL.
    pub fn new(method: Method, url: impl Into<String>) -> Self {
        Self { method, url: url.into() }
    }
}

/// A request that was refused, and how.
#[derive(Clone)]
#[non_exhaustive]
pub struct Refusal {
    /// The request.
    pub target: Target,
    /// 401 or 403.
    pub status: StatusCode,
    /// The values of `WWW-Authenticate`, in order.
    pub challenges: Vec<String>,
    /// The headers that [`Authorizer::authorize`] gave it: another request may have brought better ones since.
    pub sent: HeaderMap,
}

impl Refusal {
    /// A refusal without challenges, of a request that was sent without authorization.
    pub fn new(target: Target, status: StatusCode) -> Self {
        Self { target, status, challenges: Vec::new(), sent: HeaderMap::new() }
    }
}

/// What becomes of a request that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a request is repeated or not")]
pub enum Verdict {
    /// It is authorized again and repeated.
    Retry,
    /// It fails with the status that the server answered.
    GiveUp,
}

impl fmt::Debug for Target {
    /// Leaves out what may be a secret: user, query, long parts of the path.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = Url::parse(&self.url).map(|url| config::shown(&url)).unwrap_or_default();
        f.debug_struct("Target").field("method", &self.method).field("url", &shown).finish()
    }
}

impl fmt::Debug for Refusal {
    /// Leaves out the authorization, and what the server said about it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusal").field("target", &self.target).field("status", &self.status).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_secrets() {
        for (url, shown) in [
            ("https://u:hunter2@a.example/mcp?key=hunter2#hunter2", "https://a.example/mcp"),
            ("https://a.example?key=hunter2", "https://a.example/"),
            ("hunter2", ""),
        ] {
            let target = Target::new(Method::GET, url);
            assert_eq!(format!("{target:?}"), format!("Target {{ method: GET, url: {shown:?} }}"));
            let mut sent = HeaderMap::new();
            sent.insert("authorization", "Bearer hunter2".parse().unwrap());
            let mut refusal = Refusal::new(target, StatusCode::UNAUTHORIZED);
            refusal.challenges.push("hunter2".to_owned());
            refusal.sent = sent;
            assert!(!format!("{refusal:?}").contains("hunter2"));
        }
    }
}
