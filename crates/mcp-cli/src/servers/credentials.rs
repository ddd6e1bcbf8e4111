//! The remedy for a server that refused the credentials of its entry.

use mcp_agent::config::{Endpoint, ServerDefinition};

use crate::failure::{accepts_login, key_headers};

/// Returns the change of the entry, or the login, after which the server can accept the client. `login` is the command that logs in, as a
/// quotation.
pub(crate) fn remedy(server: &ServerDefinition, error: &mcp_client::Error, login: &str) -> String {
    let Endpoint::Http(http) = &server.endpoint else { return "correct the credentials in the entry".to_owned() };
    let sent = |name: &str| http.headers.iter().any(|(sent, _)| sent.eq_ignore_ascii_case(name));
    let has_login = accepts_login(error);
    let login = format!("run {login}");
    if let Some(header) = key_headers(error).first() {
        let is_sent = sent(header);
        let change = if is_sent {
            format!("correct the value of the header `{header}` in `headers` of the entry")
        } else {
            format!("add the header `{header}` to `headers` of the entry")
        };
        return if has_login && !is_sent { format!("{change}, or {login}") } else { change };
    }
    let own: Vec<String> = http.headers.iter().map(|(name, _)| format!("`{name}`")).collect();
    let others = own.join(", ");
    match (own.as_slice(), has_login) {
        ([], true) => format!("{login}, or add a header `Authorization` to the entry"),
        ([], false) => format!("add the credentials to `headers` of the entry: {}", schemes(error)),
        (_, true) if sent("authorization") => {
            format!("correct the header `Authorization` of the entry, or remove it and {login}")
        }
        (_, false) if sent("authorization") => {
            format!("correct the header `Authorization` of the entry: {}", schemes(error))
        }
        (_, true) => format!("{login}, or correct the headers of the entry: {others}"),
        (_, false) => format!("correct the headers of the entry: {others}"),
    }
}

/// Returns the schemes that the challenges of the server name.
fn schemes(error: &mcp_client::Error) -> String {
    let names: Vec<String> = error.challenges().iter().map(|challenge| format!("`{}`", challenge.scheme)).collect();
    format!("the server requires the scheme {}", names.join(" or "))
}
