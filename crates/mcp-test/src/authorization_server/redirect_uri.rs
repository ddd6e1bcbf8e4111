//! Redirect URIs: the rules for their registration and their comparison (RFC 8252, RFC 9700 §2.1).

use url::{Host, Url};

/// Schemes that run code or read files in a browser.
const FORBIDDEN_SCHEMES: [&str; 9] = ["javascript", "data", "file", "vbscript", "blob", "about", "ftp", "ws", "wss"];
const MAX_LENGTH: usize = 2_048;

/// Checks a redirect URI of a registration: `https`, `http` to this machine, or a scheme of a native application.
pub(super) fn check(uri: &str, is_web: bool) -> Result<(), &'static str> {
    if uri.len() > MAX_LENGTH || uri.chars().any(|c| c.is_control() || c == ' ') {
        return Err("a redirect URI is too long or has an invalid character");
    }
    let url = Url::parse(uri).map_err(|_| "a redirect URI is not an absolute URL")?;
    if url.fragment().is_some() || !url.username().is_empty() || url.password().is_some() {
        return Err("a redirect URI has a fragment or a user");
    }
    match url.scheme() {
        "https" => Ok(()),
        "http" if is_web => Err("a web client needs a redirect URI with https"),
        "http" if is_loopback(&url) => Ok(()),
        "http" => Err("a redirect URI with http must lead to this machine"),
        scheme if FORBIDDEN_SCHEMES.contains(&scheme) || is_web => Err("the scheme of a redirect URI is not allowed"),
        _ => Ok(()),
    }
}

/// Whether a redirect URI of a request is registered. The texts must be identical, but the port of a URL to this machine may
/// differ (RFC 8252 §7.3).
pub(super) fn is_registered(uri: &str, registered: &[String]) -> bool {
    registered.iter().any(|other| other == uri || differs_in_port(uri, other))
}

fn differs_in_port(uri: &str, registered: &str) -> bool {
    let parse = |text: &str| {
        let mut url = Url::parse(text).ok()?;
        // The parser changes some texts, for example `/a/../b`. Such a text must be identical.
        (url.as_str() == text || url.as_str().strip_suffix('/') == Some(text)).then_some(())?;
        (url.scheme() == "http" && is_loopback(&url)).then_some(())?;
        url.set_port(None).ok()?;
        Some(url)
    };
    parse(uri).is_some_and(|uri| parse(registered) == Some(uri))
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirect_uris_are_checked() {
        for (uri, is_web, expected) in [
            ("https://app.example/callback", true, true),
            ("https://app.example/callback", false, true),
            ("http://127.0.0.1/callback", false, true),
            ("http://[::1]:7777/callback", false, true),
            ("http://localhost:1/callback", false, true),
            ("http://127.0.0.1/callback", true, false),
            ("http://app.example/callback", false, false),
            ("com.example.app:/callback", false, true),
            ("com.example.app:/callback", true, false),
            ("https://app.example/callback#x", false, false),
            ("https://user@app.example/callback", false, false),
            ("javascript:alert(1)", false, false),
            ("data:text/html,x", false, false),
            ("/callback", false, false),
            ("https://app.example/\n", false, false),
            ("", false, false),
        ] {
            assert_eq!(check(uri, is_web).is_ok(), expected, "{uri} {is_web}");
        }
        assert!(check(&format!("https://app.example/{}", "x".repeat(MAX_LENGTH)), false).is_err());
    }

    #[test]
    fn only_the_port_of_this_machine_may_differ() {
        for (uri, registered, expected) in [
            ("https://app.example/cb", "https://app.example/cb", true),
            ("https://app.example:8443/cb", "https://app.example/cb", false),
            ("https://app.example/cb/", "https://app.example/cb", false),
            ("https://APP.example/cb", "https://app.example/cb", false),
            ("http://127.0.0.1:1234/cb", "http://127.0.0.1/cb", true),
            ("http://127.0.0.1:1234/cb", "http://127.0.0.1:99/cb", true),
            ("http://127.0.0.1:1234", "http://127.0.0.1", true),
            ("http://[::1]:1234/cb", "http://[::1]/cb", true),
            ("http://localhost:1234/cb", "http://localhost/cb", true),
            ("http://localhost:1234/cb", "http://127.0.0.1/cb", false),
            ("http://127.0.0.1:1234/other", "http://127.0.0.1/cb", false),
            ("http://127.0.0.1:1234/cb?x=1", "http://127.0.0.1/cb", false),
            ("http://127.0.0.1:1234/a/../cb", "http://127.0.0.1/cb", false),
            ("http://127.0.0.1.evil.example:1/cb", "http://127.0.0.1/cb", false),
            ("http://user@127.0.0.1:1/cb", "http://127.0.0.1/cb", false),
            ("https://127.0.0.1:1/cb", "http://127.0.0.1/cb", false),
        ] {
            assert_eq!(is_registered(uri, &[registered.to_owned()]), expected, "{uri} {registered}");
        }
    }
}
