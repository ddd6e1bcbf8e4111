//! The scopes of a login: their union, their limits, and the scopes that a server may choose.

use url::Url;

use crate::{
    discovery,
    error::{Error, ErrorKind},
};

/// The largest number of scopes of one login.
const MAX_SCOPES: usize = 200;
/// The largest size of the scopes of one login, in bytes. The scopes are a part of the URL of the page.
const MAX_BYTES: usize = 8 << 10;

/// Returns the scopes of all lists, in their order.
///
/// # Errors
/// If the scopes exceed the limits.
pub(super) fn union<const N: usize>(lists: [&[String]; N]) -> Result<Vec<String>, Error> {
    let mut all: Vec<String> = Vec::new();
    let mut bytes = 0;
    for scope in lists.into_iter().flatten() {
        if all.contains(scope) {
            continue;
        }
        bytes += scope.len() + 1;
        if all.len() == MAX_SCOPES || bytes > MAX_BYTES {
            let text =
                format!("a login has at most {MAX_SCOPES} scopes of {MAX_BYTES} bytes, and the server requires more");
            return Err(Error::new(ErrorKind::InsufficientScope, text));
        }
        all.push(scope.clone());
    }
    Ok(all)
}

/// Checks the scopes of a login without the parameter `resource`. Then the scopes select the resource of the token. So a server
/// may choose only the scopes of its own resource, and the application may configure others.
///
/// # Errors
/// If a scope is neither configured nor begins with a URL that covers the endpoint.
pub(super) fn check_resource(scopes: &[String], configured: &[String], endpoint: &Url) -> Result<(), Error> {
    let is_allowed = |scope: &&String| configured.contains(scope) || is_of_resource(scope, endpoint);
    let Some(scope) = scopes.iter().find(|scope| !is_allowed(scope)) else { return Ok(()) };
    let shown: String = scope.chars().take(MAX_SHOWN).collect();
    let text = format!(
        "the server requires the scope {shown:?}, which may belong to another resource: the authorization server gets no \
         parameter `resource`, so the application must configure this scope"
    );
    Err(Error::insufficient_scope(text, vec![scope.clone()]))
}

/// The longest part of a scope in a text, in characters.
const MAX_SHOWN: usize = 200;

/// Whether a scope such as `https://server.example/mcp/read` begins with a URL that covers the endpoint.
fn is_of_resource(scope: &str, endpoint: &Url) -> bool {
    let origin = format!("{}/", endpoint.origin().ascii_serialization());
    let Some((resource, _)) = scope.rsplit_once('/') else { return false };
    scope.starts_with(&origin) && !scope.contains(['?', '#', '\\', '%']) && discovery::covers(resource, endpoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scopes(number: usize, len: usize) -> Vec<String> {
        (0..number).map(|index| format!("{index:0len$}")).collect()
    }

    #[test]
    fn a_union_has_no_duplicates_and_a_limit() {
        let list = |scopes: &[&str]| -> Vec<String> { scopes.iter().map(|scope| (*scope).to_owned()).collect() };
        assert_eq!(union([&list(&["a", "b"]), &list(&["b", "c", "c"])]).unwrap(), ["a", "b", "c"]);
        for (one, other, is_allowed) in [
            (scopes(200, 4), scopes(200, 4), true),
            (scopes(200, 4), scopes(1, 5), false),
            (scopes(201, 4), Vec::new(), false),
            (scopes(8, 1023), Vec::new(), true),
            (scopes(8, 1024), Vec::new(), false),
            (scopes(100_000, 6), Vec::new(), false),
        ] {
            match union([&one, &other]) {
                Ok(all) => assert!(is_allowed && all.len() <= 200),
                Err(error) => assert!(!is_allowed && error.kind() == ErrorKind::InsufficientScope, "{error}"),
            }
        }
    }

    #[test]
    fn a_server_chooses_scopes_of_its_own_resource_alone() {
        let endpoint = Url::parse("https://a.example/mcp").unwrap();
        let configured = ["api://app/read".to_owned()];
        for (scope, is_allowed) in [
            ("https://a.example/mcp/read", true),
            ("https://a.example/.default", true),
            ("https://a.example/mcp/.default", true),
            ("https://a.example//.default", true),
            ("api://app/read", true),
            ("api://app/write", false),
            ("https://graph.microsoft.com/.default", false),
            ("https://a.example.evil.example/read", false),
            ("https://a.example@graph.microsoft.com/read", false),
            ("https://a.example/other/read", false),
            ("https://a.example/mcp/../other/read", false),
            ("https://a.example/mcp?x=https://graph.microsoft.com/read", false),
            ("https://a.example/%2e%2e/read", false),
            ("http://a.example/read", false),
            ("https://a.example:8443/read", false),
            ("https://a.example", false),
            ("User.Read", false),
            ("openid", false),
            ("offline_access", false),
            ("", false),
        ] {
            match check_resource(&[scope.to_owned()], &configured, &endpoint) {
                Ok(()) => assert!(is_allowed, "{scope}"),
                Err(error) => {
                    assert!(!is_allowed && error.to_string().contains(&format!("{scope:?}")), "{error}");
                    assert_eq!(
                        (error.kind(), error.required_scopes()),
                        (ErrorKind::InsufficientScope, &[scope.to_owned()][..])
                    );
                }
            }
        }
    }
}
