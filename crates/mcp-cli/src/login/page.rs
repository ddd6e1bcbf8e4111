//! The page of a login: in the browser, as a URL at the terminal, or with a code for a browser of another machine.

use std::{error::Error as _, time::Duration};

use mcp_client::oauth::{Answer, Browser, DeviceLogin, Error, ErrorKind, Login, UserAgent};
use mcp_transport::BoxFuture;
use tokio::time::{Instant, sleep};
use url::{Url, form_urlencoded};

use super::{
    logins::Logins,
    waiting::{self, ShownPage},
};
use crate::{
    progress::Progress,
    question,
    screen::note,
    style::{self, Style},
    text::line,
};

/// How the user reaches the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Browser,
    /// The user opens the URL.
    Url,
    /// The user enters a code in the browser of any machine.
    Device,
    /// The command does not log in.
    Refused,
}

/// Shows the page of a login.
pub(super) struct Page {
    pub(super) logins: Logins,
    pub(super) way: Way,
}

impl UserAgent for Page {
    fn open<'a>(&'a self, login: &'a Login) -> BoxFuture<'a, Result<Answer, Error>> {
        Box::pin(async move {
            if self.way == Way::Refused {
                return Err(refusal(&login.issuer, login.server.as_str(), &login.scopes));
            }
            self.logins.remember(&login.server).await?;
            let page = ShownPage { url: login.url.as_str(), code: None, limit: login.limit };
            waiting::store(&self.logins.index, &login.server, &page).await;
            if self.way == Way::Browser {
                let is_available = Browser::is_available();
                if is_available {
                    note(format!("mcp: opening the login page of {} in the browser", line(&login.issuer)));
                }
                match Browser::new().open(login).await {
                    Ok(answer) => {
                        let limit = time_left(login.limit);
                        note(format!("mcp: if the browser shows no page, open this URL within {limit}:"));
                        note(style::err(Style::Name, login.url.as_str()));
                        return Ok(answer);
                    }
                    // A program that ran and failed may have shown the page.
                    Err(error) if !question::is_possible() && (!is_available || error.source().is_some()) => {
                        let text = format!("{error}: set BROWSER, or add --no-browser or --device");
                        return Err(Error::new(ErrorKind::LoginRequired, text));
                    }
                    Err(error) => {
                        note(format!("mcp: {}", line(&error.to_string())));
                        note("mcp: `mcp login --device` shows a code instead of this URL, if the server supports it");
                    }
                }
            }
            Ok(show(login).await)
        })
    }

    fn show_code<'a>(&'a self, login: &'a DeviceLogin) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            if self.way == Way::Refused {
                return Err(refusal(&login.issuer, login.server.as_str(), &login.scopes));
            }
            self.logins.remember(&login.server).await?;
            let url = login.verification_uri_complete.as_ref().unwrap_or(&login.verification_uri);
            let page = ShownPage { url: url.as_str(), code: Some(&login.user_code), limit: login.limit };
            waiting::store(&self.logins.index, &login.server, &page).await;
            show_code(login).await;
            Ok(())
        })
    }
}

/// Shows the code, and the time that is left. The end of the login drops the future.
async fn show_code(login: &DeviceLogin) {
    let end = Instant::now() + login.limit;
    note(format!("mcp: open this page on any machine to log in at {}:", line(&login.issuer)));
    note(style::err(Style::Name, login.verification_uri.as_str()));
    note(format!("mcp: and enter the code {}", style::err(Style::Strong, &line(&login.user_code))));
    if let Some(url) = &login.verification_uri_complete {
        note(format!("mcp: or open the page with the code, and compare the code: {url}"));
    }
    note(format!("mcp: the code is valid for {}; Ctrl-C ends the wait", time_left(login.limit)));
    let progress = Progress::new("waiting for the login");
    let mut next_note = NOTE_INTERVAL;
    loop {
        sleep(TICK).await;
        let left = end.saturating_duration_since(Instant::now());
        progress.set_message(&format!("waiting for the login, {} left", time_left(left)));
        next_note = next_note.saturating_sub(TICK);
        if next_note.is_zero() {
            next_note = NOTE_INTERVAL;
            if !question::is_possible() {
                note(format!("mcp: waiting for the login, {} left", time_left(left)));
            }
        }
    }
}

/// The time between two changes of the shown time.
const TICK: Duration = Duration::from_secs(1);
/// The time between two notes without a terminal.
const NOTE_INTERVAL: Duration = Duration::from_secs(60);

/// Returns a time in words.
pub(super) fn time_left(left: Duration) -> String {
    match left.as_secs() {
        seconds @ ..60 => format!("{seconds} s"),
        seconds if seconds % 60 == 0 => format!("{} min", seconds / 60),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

/// Shows the URL. At a terminal, the user can paste the response.
async fn show(login: &Login) -> Answer {
    note(format!("mcp: open this page to log in at {}:", line(&login.issuer)));
    note(style::err(Style::Name, login.url.as_str()));
    note(format!("mcp: the time limit is {}; Ctrl-C ends the wait", time_left(login.limit)));
    if !question::is_possible() {
        return Answer::Redirect;
    }
    note("mcp: if the browser is on another machine, it ends at a page that it cannot open");
    for attempt in 1..=MAX_PASTES {
        let typed = question::ask(async |turn| question::read(turn, "Paste the URL of that page here: ").await).await;
        match typed.flatten() {
            Some(text) if text.trim().is_empty() => return Answer::Redirect,
            Some(text) if attempt == MAX_PASTES || is_response(login, &text) => return Answer::Pasted(text),
            Some(_) => note(
                "mcp: this is not the URL at which the browser ended after this login: its `state` is missing or different",
            ),
            None => return Answer::Redirect,
        }
    }
    Answer::Redirect
}

/// The number of texts that the user can paste. The last one ends the login if it is wrong too.
const MAX_PASTES: usize = 5;

/// Returns whether a pasted URL or its query has the state of a login. The login checks the response itself.
fn is_response(login: &Login, pasted: &str) -> bool {
    let state = |query: &str| {
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        pairs.find(|(name, _)| name == "state").map(|(_, state)| state.into_owned())
    };
    let pasted = pasted.trim();
    let found = match Url::parse(pasted) {
        Ok(url) => state(url.query().unwrap_or_default()),
        Err(_) => state(pasted.trim_start_matches('?')),
    };
    found.is_some() && found == state(login.url.query().unwrap_or_default())
}

/// Returns the error of a command that may not ask the user.
fn refusal(issuer: &str, server: &str, scopes: &[String]) -> Error {
    let text = format!("a user must log in at {issuer}: run `mcp login {server}{}`", scope_options(scopes));
    Error::new(ErrorKind::LoginRequired, text)
}

/// Returns the options of `mcp login` for scopes. A scope that a shell could change is omitted.
fn scope_options(scopes: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ":/._-".contains(c);
    let plain = scopes.iter().filter(|scope| scope.chars().all(is_plain));
    plain.map(|scope| format!(" --scope {scope}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_is_left_has_minutes_and_seconds() {
        for (seconds, expected) in [(0, "0 s"), (59, "59 s"), (60, "1 min"), (61, "1 min 1 s"), (600, "10 min")] {
            assert_eq!(time_left(Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn scope_options_contain_no_shell_syntax() {
        let scopes = ["notes:read", "a'b", "$(x)", "https://a.example/.default", "a;b"].map(str::to_owned);
        assert_eq!(scope_options(&scopes), " --scope notes:read --scope https://a.example/.default");
        assert_eq!(scope_options(&[]), "");
    }
}
