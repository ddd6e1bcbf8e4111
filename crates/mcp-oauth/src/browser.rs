//! The browser of the user (feature `browser`).

#[cfg(unix)]
mod program;

use std::{ffi::OsString, path::Path, time::Duration};

use mcp_transport::BoxFuture;
use webbrowser::BrowserOptions;

use crate::{
    error::{Error, ErrorKind},
    user_agent::{Answer, Login, UserAgent},
};

/// The time for the start of the browser. A browser in a terminal runs on while the client waits for the response.
const START_LIMIT: Duration = Duration::from_secs(10);

/// Opens the page of a login in the default browser. On Unix the variable `BROWSER` selects another one.
///
/// In an SSH session, in a container, and without a display, there is no browser that the user sees. The login then fails with
/// [`ErrorKind::LoginRequired`], unless `BROWSER` is set. The login also fails if each program of `BROWSER` cannot be started or
/// ends with a failure within 10 seconds. The error names the programs. It has a source only if no program could be started.
/// An application can ask [`Browser::is_available`] first, and show the URL with its own [`UserAgent`].
///
/// ```
/// use mcp_oauth::{Browser, OAuth};
///
/// let auth = OAuth::builder().user_agent(Browser::new()).build();
/// # let _ = auth;
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Browser;

impl Browser {
    /// Returns the default browser.
    #[must_use]
    pub fn new() -> Self {
        Self
    }

    /// Whether a browser can be opened that the user sees.
    ///
    /// ```
    /// let shows_url = !mcp_oauth::Browser::is_available();
    /// # let _ = shows_url;
    /// ```
    #[must_use]
    pub fn is_available() -> bool {
        obstacle().is_none()
    }
}

impl UserAgent for Browser {
    fn open<'a>(&'a self, login: &'a Login) -> BoxFuture<'a, Result<Answer, Error>> {
        Box::pin(async move {
            if let Some(obstacle) = obstacle() {
                let text = format!("a user must log in at {}, and {obstacle}", login.issuer);
                return Err(Error::new(ErrorKind::LoginRequired, text));
            }
            let url = login.url.to_string();
            #[cfg(unix)]
            if let Some(programs) = std::env::var_os("BROWSER").filter(|programs| !programs.is_empty()) {
                program::open(&programs.to_string_lossy(), &url).await?;
                return Ok(Answer::Redirect);
            }
            let opened = tokio::task::spawn_blocking(move || {
                let mut options = BrowserOptions::new();
                options.with_suppress_output(true);
                webbrowser::open_browser_with_options(webbrowser::Browser::Default, &url, &options)
            });
            match tokio::time::timeout(START_LIMIT, opened).await {
                Ok(Ok(Err(error))) => {
                    let text = format!("the browser cannot be opened: {}", error.kind());
                    Err(Error::new(ErrorKind::LoginRequired, text))
                }
                _ => Ok(Answer::Redirect),
            }
        })
    }
}

/// Returns why there is no browser.
fn obstacle() -> Option<&'static str> {
    let is_container = Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists();
    let needs_display = cfg!(all(unix, not(target_os = "macos")));
    obstacle_in(|name| std::env::var_os(name).filter(|value| !value.is_empty()), is_container, needs_display)
}

fn obstacle_in(
    variable: impl Fn(&str) -> Option<OsString>,
    is_container: bool,
    needs_display: bool,
) -> Option<&'static str> {
    let has = |names: &[&str]| names.iter().any(|name| variable(name).is_some());
    if cfg!(unix) && has(&["BROWSER"]) {
        return None;
    }
    if has(&["SSH_CONNECTION", "SSH_TTY"]) {
        return Some("an SSH session has no browser of the user");
    }
    if is_container {
        return Some("a container has no browser");
    }
    // The Linux of Windows opens the browser of Windows.
    if needs_display && !has(&["DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"]) {
        return Some("there is no display for a browser");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_needs_a_display_on_this_machine() {
        for (variables, is_container, needs_display, expected) in [
            (&["DISPLAY"][..], false, true, None),
            (&["WAYLAND_DISPLAY"], false, true, None),
            (&["WSL_DISTRO_NAME"], false, true, None),
            (&[], false, false, None),
            (&[], false, true, Some("display")),
            (&["DISPLAY"], true, true, Some("container")),
            (&["DISPLAY", "SSH_CONNECTION"], false, true, Some("SSH")),
            (&["SSH_TTY"], false, false, Some("SSH")),
            #[cfg(unix)]
            (&["BROWSER", "SSH_CONNECTION"], true, true, None),
        ] {
            let variable = |name: &str| variables.contains(&name).then(|| OsString::from("x"));
            let obstacle = obstacle_in(variable, is_container, needs_display);
            match expected {
                None => assert_eq!(obstacle, None, "{variables:?}"),
                Some(word) => assert!(obstacle.is_some_and(|text| text.contains(word)), "{variables:?}: {obstacle:?}"),
            }
        }
    }
}
