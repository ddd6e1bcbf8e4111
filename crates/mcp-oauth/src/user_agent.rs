//! How a user reaches the page of a login.

use std::{fmt, time::Duration};

use mcp_transport::BoxFuture;
use url::Url;

use crate::error::{Error, ErrorKind};

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

    /// Shows the code and the page of the device flow (RFC 8628 §3.3), which
    /// [`OAuthBuilder::device_flow`](crate::OAuthBuilder::device_flow) selects.
    ///
    /// The client polls for the tokens from the call on. The future may run as long as the interface is open: it is dropped
    /// when the login ends. If it returns `Ok` earlier, the client continues to poll.
    ///
    /// The default is an error of the kind [`ErrorKind::Configuration`].
    ///
    /// ```
    /// use mcp_oauth::{Answer, DeviceLogin, Error, ErrorKind, Login, UserAgent};
    /// use mcp_transport::BoxFuture;
    ///
    /// /// Prints the code, for users of a machine without a browser.
    /// struct Terminal;
    ///
    /// impl UserAgent for Terminal {
    ///     fn open<'a>(&'a self, _: &'a Login) -> BoxFuture<'a, Result<Answer, Error>> {
    ///         let error = Error::new(ErrorKind::LoginRequired, "this machine has no browser");
    ///         Box::pin(std::future::ready(Err(error)))
    ///     }
    ///
    ///     fn show_code<'a>(&'a self, login: &'a DeviceLogin) -> BoxFuture<'a, Result<(), Error>> {
    ///         println!("Open {} and enter the code {}", login.verification_uri, login.user_code);
    ///         if let Some(url) = &login.verification_uri_complete {
    ///             println!("Or open {url} and compare the code");
    ///         }
    ///         Box::pin(std::future::ready(Ok(())))
    ///     }
    /// }
    /// # let _ = Terminal;
    /// ```
    ///
    /// # Errors
    /// If the code cannot be shown, or the user declined. The login fails with this error.
    fn show_code<'a>(&'a self, login: &'a DeviceLogin) -> BoxFuture<'a, Result<(), Error>> {
        let text = format!("the user agent cannot show the code of the device flow of {}", login.issuer);
        Box::pin(std::future::ready(Err(Error::new(ErrorKind::Configuration, text))))
    }
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
    /// The time after which the login fails.
    pub limit: Duration,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("issuer", &self.issuer)
            .field("scopes", &self.scopes)
            .field("redirect_uri", &self.redirect_uri)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// A login with the device flow (RFC 8628 §3.2), which a user must perform in any browser. `Debug` omits the code.
#[derive(Clone)]
#[non_exhaustive]
pub struct DeviceLogin {
    /// The code that the user enters at the page. It has visible ASCII characters and spaces only.
    pub user_code: String,
    /// The page. Its scheme is `https`, or `http` on this machine.
    pub verification_uri: Url,
    /// The page with the code inside of its URL, for example for a QR code. The user still compares the code
    /// (RFC 8628 §3.3.1).
    pub verification_uri_complete: Option<Url>,
    /// The issuer that shows the page.
    pub issuer: String,
    /// The MCP server for which the tokens are.
    pub server: Url,
    /// The requested scopes. Empty: the authorization server chooses.
    pub scopes: Vec<String>,
    /// The time after which the login fails.
    pub limit: Duration,
}

impl fmt::Debug for DeviceLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceLogin")
            .field("issuer", &self.issuer)
            .field("scopes", &self.scopes)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}
