//! The remedy for a server that refused the credentials of its entry.

use mcp_agent::config::{Endpoint, ServerDefinition};

use crate::failure::{API_KEY, key_headers};

/// Returns the change of the entry, or the login, after which the server can accept the client.
pub(super) fn remedy(server: &ServerDefinition, error: &mcp_client::Error) -> String {
    let Endpoint::Http(http) = &server.endpoint else { return "correct the credentials in the entry".to_owned() };
    let sent = |name: &str| http.headers.iter().any(|(sent, _)| sent.eq_ignore_ascii_case(name));
    let has_login = error.challenges().iter().any(|challenge| !challenge.is_scheme(API_KEY));
    if let Some(header) = key_headers(error).first() {
        let is_sent = sent(header);
        let change = if is_sent {
            format!("correct the value of the header `{header}` in `headers` of the entry")
        } else {
            format!("add the header `{header}` to `headers` of the entry")
        };
        return if has_login && !is_sent { format!("{change}, or run `mcp login URL`") } else { change };
    }
    let own: Vec<String> = http.headers.iter().map(|(name, _)| format!("`{name}`")).collect();
    match own.as_slice() {
        [] => "run `mcp login URL`, or add a header `Authorization` to the entry".to_owned(),
        _ if sent("authorization") => {
            "correct the header `Authorization` of the entry, or remove it and run `mcp login URL`".to_owned()
        }
        own if has_login => format!("run `mcp login URL`, or correct the headers of the entry: {}", own.join(", ")),
        own => format!("correct the headers of the entry: {}", own.join(", ")),
    }
}
