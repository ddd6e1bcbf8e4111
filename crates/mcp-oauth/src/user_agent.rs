//! How a user reaches the page of a login.

use std::fmt;

use mcp_transport::BoxFuture;
use url::Url;

use crate::error::Error;

/// Shows a user the page of a login. An application with its own interface implements it.
///
/// The future may run as long as the interface is open: the login ends at the first response. If the response arrives by the
/// redirect URI, or the time limit of the login ends, the future is dropped.
///
/// ```
/// use mcp_oauth::{Answer, Error, Login, UserAgent};
/// use mcp_transport::BoxFuture;
///
/// /// Prints the URL, for users without a browser on this machine.
/// struct Terminal;
///
/// impl UserAgent for Terminal {
///     fn open<'a>(&'a self, login: &'a Login) -> BoxFuture<'a, Result<Answer, Error>> {
///         println!("Open this page to log in to {}: {}", login.issuer, login.url);
///         Box::pin(std::future::ready(Ok(Answer::Redirect)))
///     }
/// }
/// # let _ = Terminal;
/// ```
pub trait UserAgent: Send + Sync + 'static {
    /// Shows the page.
    ///
    /// # Errors
    /// If the page cannot be shown, or the user declined. The login fails with this error.
    fn open<'a>(&'a self, login: &'a Login) -> BoxFuture<'a, Result<Answer, Error>>;
}

/// The way in which the response of a login arrives.
///
/// ```
/// use mcp_oauth::Answer;
///
/// let answer = Answer::Pasted("http://127.0.0.1:8000/callback?code=hunter2&state=s".into());
/// assert_eq!(format!("{answer:?}"), "Pasted(…)");
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// The browser opens the redirect URI, where the client waits.
    Redirect,
    /// The user copied this URL from the browser. It begins with the redirect URI.
    Pasted(String),
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Redirect => "Redirect",
            Self::Pasted(_) => "Pasted(…)",
        })
    }
}

/// A login that a user must perform. `Debug` omits the query of the URL.
#[derive(Clone)]
#[non_exhaustive]
pub struct Login {
    /// The page. Its scheme is `https`, or `http` on this machine.
    pub url: Url,
    /// The issuer that shows the page.
    pub issuer: String,
    /// The MCP server for which the tokens are.
    pub server: Url,
    /// The requested scopes. Empty: the authorization server chooses.
    pub scopes: Vec<String>,
    /// The URL to which the browser returns.
    pub redirect_uri: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("issuer", &self.issuer)
            .field("scopes", &self.scopes)
            .field("redirect_uri", &self.redirect_uri)
            .finish_non_exhaustive()
    }
}
