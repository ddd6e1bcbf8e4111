//! The URL of a page that a server wants the user to open, with its risks.

use std::net::IpAddr;

use url::{Host, Position, Url};

/// An HTTP URL, parsed as a browser parses it.
pub(super) struct Page {
    url: Url,
}

impl Page {
    /// Parses the URL. The error text contains the reason if `mcp` does not show the page.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| format!("the URL of the page is invalid: {error}"))?;
        match url.scheme() {
            "http" | "https" if url.has_host() => Ok(Self { url }),
            scheme => Err(format!("only pages with http and https are allowed, not `{scheme}`")),
        }
    }

    /// Returns the host. Letters beyond ASCII are in punycode, so that two hosts never look alike.
    pub(super) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Returns the whole URL with `mark` applied to the host.
    pub(super) fn with_marked_host(&self, mark: impl FnOnce(&str) -> String) -> String {
        let url = &self.url;
        let host = mark(&url[Position::BeforeHost..Position::AfterHost]);
        format!("{}{host}{}", &url[..Position::BeforeHost], &url[Position::AfterHost..])
    }

    /// Returns the risks that the user must know before opening the page.
    pub(super) fn warnings(&self) -> Vec<&'static str> {
        let mut warnings = Vec::new();
        if self.url.scheme() == "http" && !self.is_local() {
            warnings.push("http is not encrypted: other people in the network can read and change the page");
        }
        if !self.url.username().is_empty() || self.url.password().is_some() {
            warnings.push("the text before the @ is not the host, even if it looks like a host");
        }
        if self.host().split('.').any(|label| label.starts_with("xn--")) {
            warnings.push("the host has letters of other scripts (`xn--…`), which can look like another host");
        }
        warnings
    }

    fn is_local(&self) -> bool {
        match self.url.host() {
            Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            Some(Host::Ipv4(address)) => IpAddr::V4(address).is_loopback(),
            Some(Host::Ipv6(address)) => IpAddr::V6(address).is_loopback(),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, shown: &str, warnings: &[&str]) {
        let page = Page::parse(text).unwrap();
        assert_eq!(page.with_marked_host(|host| format!("<{host}>")), shown, "{text}");
        let shown = page.warnings();
        assert_eq!(shown.len(), warnings.len(), "{text}: {shown:?}");
        assert!(shown.iter().zip(warnings).all(|(shown, part)| shown.contains(part)), "{text}: {shown:?}");
    }

    #[test]
    fn shows_the_host_that_a_browser_connects_to() {
        check("https://example.com/sign-in?x=1", "https://<example.com>/sign-in?x=1", &[]);
        check("http://localhost:8080/x", "http://<localhost>:8080/x", &[]);
        check("http://127.0.0.1/", "http://<127.0.0.1>/", &[]);
        check("http://[::1]/", "http://<[::1]>/", &[]);
        check("http://example.com/", "http://<example.com>/", &["not encrypted"]);
        check("https://bank.com@evil.example/", "https://bank.com@<evil.example>/", &["before the @"]);
        check("https://ex\u{430}mple.com/", "https://<xn--exmple-4nf.com>/", &["other scripts"]);
        check("https://evil.example\\@bank.com/", "https://<evil.example>/@bank.com/", &[]);
        check("https://example.com/\u{1b}[2J\u{202e}", "https://<example.com>/%1B[2J%E2%80%AE", &[]);
    }

    #[test]
    fn rejects_urls_that_are_not_http() {
        for text in
            ["javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "app://x", "nonsense", "https://", ""]
        {
            assert!(Page::parse(text).is_err(), "{text}");
        }
    }
}
