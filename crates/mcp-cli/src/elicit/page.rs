//! A page that a server wants the user to visit: what it is, and what is to be watched out for.

use std::net::IpAddr;

use url::{Host, Position, Url};

/// An address of the web, as a browser would read it.
pub(super) struct Page {
    url: Url,
}

impl Page {
    /// Reads it, or says why nobody is asked to open it.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| format!("the page has no URL that can be opened: {error}"))?;
        match url.scheme() {
            "http" | "https" if url.has_host() => Ok(Self { url }),
            scheme => Err(format!("the user is sent to pages of http and https only, not of `{scheme}`")),
        }
    }

    /// Whose page it is; letters beyond ASCII are in the form that nothing can be mistaken in.
    pub(super) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// The whole address, with its host marked.
    pub(super) fn marked(&self, mark: impl FnOnce(&str) -> String) -> String {
        let url = &self.url;
        let host = mark(&url[Position::BeforeHost..Position::AfterHost]);
        format!("{}{host}{}", &url[..Position::BeforeHost], &url[Position::AfterHost..])
    }

    /// What a user should know before.
    pub(super) fn warnings(&self) -> Vec<&'static str> {
        let mut warnings = Vec::new();
        if self.url.scheme() == "http" && !self.is_local() {
            warnings
                .push("http is not encrypted, so others may read and change what goes to this page and comes from it");
        }
        if !self.url.username().is_empty() || self.url.password().is_some() {
            warnings.push("what stands before the @ is not the host, even if it looks like one");
        }
        if self.host().split('.').any(|label| label.starts_with("xn--")) {
            warnings
                .push("the name of the host has letters of other scripts (`xn--…`), which may look like another name");
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
        let page = Page::read(text).unwrap();
        assert_eq!(page.marked(|host| format!("<{host}>")), shown, "{text}");
        let said = page.warnings();
        assert_eq!(said.len(), warnings.len(), "{text}: {said:?}");
        assert!(said.iter().zip(warnings).all(|(said, part)| said.contains(part)), "{text}: {said:?}");
    }

    #[test]
    fn the_host_is_the_one_that_a_browser_goes_to() {
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
    fn only_pages_of_the_web_are_shown() {
        for text in
            ["javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "app://x", "nonsense", "https://", ""]
        {
            assert!(Page::read(text).is_err(), "{text}");
        }
    }
}
