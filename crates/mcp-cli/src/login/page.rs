//! The page of a login: in the browser, or as a URL at the terminal.

use mcp_client::oauth::{Answer, Browser, Error, ErrorKind, Login, UserAgent};
use mcp_transport::BoxFuture;

use super::logins::Logins;
use crate::{
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
                return Err(refusal(login));
            }
            self.logins.remember(&login.server).await?;
            if self.way == Way::Browser {
                if Browser::is_available() {
                    note(format!("mcp: opening the login page of {} in the browser", line(&login.issuer)));
                }
                match Browser::new().open(login).await {
                    Ok(answer) => return Ok(answer),
                    Err(error) if !question::is_possible() => {
                        let text = format!("{error}: set BROWSER, or add --no-browser");
                        return Err(Error::new(ErrorKind::LoginRequired, text));
                    }
                    Err(error) => note(format!("mcp: {}", line(&error.to_string()))),
                }
            }
            Ok(show(login).await)
        })
    }
}

/// Shows the URL. At a terminal, the user can paste the response.
async fn show(login: &Login) -> Answer {
    note(format!("mcp: open this page to log in at {}:", line(&login.issuer)));
    note(style::err(Style::Name, login.url.as_str()));
    if !question::is_possible() {
        return Answer::Redirect;
    }
    note("mcp: if the browser is on another machine, it ends at a page that it cannot open");
    let typed = question::ask(async |turn| question::read(turn, "Paste the URL of that page here: ").await).await;
    match typed.flatten() {
        Some(text) if !text.trim().is_empty() => Answer::Pasted(text),
        _ => Answer::Redirect,
    }
}

/// Returns the error of a command that may not ask the user.
fn refusal(login: &Login) -> Error {
    let text = format!(
        "a user must log in at {}: run `mcp login {}{}`",
        login.issuer,
        login.server,
        scope_options(&login.scopes)
    );
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
    fn scope_options_contain_no_shell_syntax() {
        let scopes = ["notes:read", "a'b", "$(x)", "https://a.example/.default", "a;b"].map(str::to_owned);
        assert_eq!(scope_options(&scopes), " --scope notes:read --scope https://a.example/.default");
        assert_eq!(scope_options(&[]), "");
    }
}
