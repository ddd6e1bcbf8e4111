//! The check of the response of a login (RFC 6749 §4.1.2, RFC 9207).

use mcp_protocol::auth::{OAuthError, Secret};
use url::{Url, form_urlencoded};

use crate::error::{Error, ErrorKind};

/// The values that the response of one login must contain.
pub(crate) struct Expected {
    pub(crate) state: Secret,
    /// The issuer in the metadata of the authorization server.
    pub(crate) issuer: String,
    /// Whether the authorization server declared that it names itself.
    pub(crate) requires_issuer: bool,
}

/// The result of a response.
#[derive(Debug)]
pub(crate) enum Callback {
    /// The response does not belong to this login. The client continues to wait.
    Unrelated,
    Code(Secret),
    Failed(Error),
}

impl Expected {
    /// Reads the query of a response. The issuer is compared before an error or a code counts.
    pub(crate) fn judge(&self, query: &str) -> Callback {
        let pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
        let values =
            |name: &str| pairs.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_ref()).collect();
        let [states, issuers, errors, codes]: [Vec<&str>; 4] = ["state", "iss", "error", "code"].map(values);
        // The comparison of secrets takes the same time for each difference.
        if states.len() != 1 || Secret::new(states[0]) != self.state {
            return Callback::Unrelated;
        }
        let failed = |text: String| Callback::Failed(Error::new(ErrorKind::Callback, text));
        match issuers[..] {
            [] if self.requires_issuer => {
                return failed(format!("the response of the login lacks `iss`, which {} declares", self.issuer));
            }
            [issuer] if issuer != self.issuer => {
                return failed(format!("the response of the login has another issuer than {}", self.issuer));
            }
            [] | [_] => {}
            _ => return failed("the response of the login has more than one `iss`".into()),
        }
        match (&errors[..], &codes[..]) {
            ([error], []) => {
                let mut error = OAuthError::new(*error);
                let descriptions: Vec<&str> = values("error_description");
                if let [description] = descriptions[..] {
                    error = error.with_description(description);
                }
                let kind = match error.error.as_str() {
                    "server_error" | "temporarily_unavailable" => ErrorKind::Unavailable,
                    _ => ErrorKind::Denied,
                };
                Callback::Failed(Error::with_source(kind, format!("the login failed: {error}"), error))
            }
            ([], [code]) if !code.is_empty() => Callback::Code(Secret::new(*code)),
            _ => failed("the response of the login has neither one code nor one error".into()),
        }
    }

    /// Reads a URL that the user copied from the browser, or its query alone.
    pub(crate) fn judge_pasted(&self, text: &str) -> Callback {
        let text = text.trim();
        match Url::parse(text) {
            Ok(url) => self.judge(url.query().unwrap_or_default()),
            Err(_) => self.judge(text.trim_start_matches('?')),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(callback: &Callback) -> String {
        match callback {
            Callback::Unrelated => "unrelated".into(),
            Callback::Code(code) => code.expose().into(),
            Callback::Failed(error) => format!("{:?}: {error}", error.kind()),
        }
    }

    #[test]
    fn responses_are_judged_by_state_then_issuer_then_content() {
        const AS: &str = "https%3A%2F%2Fas.example";
        for (requires_issuer, query, expected) in [
            (false, "code=c&state=s".to_owned(), "c"),
            (false, format!("code=c&state=s&iss={AS}"), "c"),
            (true, format!("code=c&state=s&iss={AS}"), "c"),
            (true, "code=c&state=s".to_owned(), "Callback: the response of the login lacks `iss`"),
            (false, format!("code=c&state=s&iss={AS}%2F"), "Callback: the response of the login has another issuer"),
            (false, format!("code=c&state=s&iss={AS}:443"), "Callback: the response of the login has another issuer"),
            (
                false,
                format!("code=c&state=s&iss={AS}&iss={AS}"),
                "Callback: the response of the login has more than one",
            ),
            (false, "code=c&state=t".to_owned(), "unrelated"),
            (false, "code=c&state=".to_owned(), "unrelated"),
            (false, "code=c".to_owned(), "unrelated"),
            (false, "code=c&state=s&state=s".to_owned(), "unrelated"),
            (false, String::new(), "unrelated"),
            (false, "state=s&error=access_denied".to_owned(), "Denied: the login failed: access_denied"),
            (
                false,
                "state=s&error=access_denied&error_description=no+entry".to_owned(),
                "Denied: the login failed: access_denied: no entry",
            ),
            (false, "state=s&error=temporarily_unavailable".to_owned(), "Unavailable: the login failed"),
            // The text of an error from another issuer is not shown.
            (
                false,
                "state=s&error=hunter2&iss=https://b.example".to_owned(),
                "Callback: the response of the login has another",
            ),
            (false, "state=s&code=c&error=access_denied".to_owned(), "Callback: the response of the login has neither"),
            (false, "state=s&code=c&code=d".to_owned(), "Callback: the response of the login has neither"),
            (false, "state=s&code=".to_owned(), "Callback: the response of the login has neither"),
            (false, "state=s".to_owned(), "Callback: the response of the login has neither"),
        ] {
            let login = Expected { state: "s".into(), issuer: "https://as.example".into(), requires_issuer };
            let shown = shown(&login.judge(&query));
            assert!(shown.starts_with(expected), "{query}: {shown}");
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }

    #[test]
    fn users_may_paste_the_url_or_its_query() {
        let login = Expected { state: "s".into(), issuer: "https://as.example".into(), requires_issuer: false };
        for (text, expected) in [
            ("http://127.0.0.1:1/callback?code=c&state=s", "c"),
            (" http://127.0.0.1:1/callback?state=s&code=c#_\n", "c"),
            ("?code=c&state=s", "c"),
            ("code=c&state=s", "c"),
            ("c", "unrelated"),
            ("", "unrelated"),
        ] {
            assert_eq!(shown(&login.judge_pasted(text)), expected, "{text}");
        }
    }
}
