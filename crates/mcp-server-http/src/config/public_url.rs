//! The public URL of an endpoint: the identifier of the resource for which tokens are issued (RFC 8707, RFC 9728).

use http::Uri;

use super::path;
use crate::request::guard;

/// The public URL, byte for byte as it is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PublicUrl {
    text: String,
    /// The length of the scheme and the authority.
    origin: usize,
    /// The start of the authority.
    authority: usize,
}

impl PublicUrl {
    /// Parses the URL.
    ///
    /// # Errors
    /// The text does not begin with `https://`, or with `http://` for a loopback host, or it has user information, a query
    /// or a fragment. Also a path that cannot be a route.
    pub(crate) fn parse(text: String) -> Result<Self, String> {
        let uri: Uri = text.parse().map_err(|_| "it is not a URL")?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err("it does not begin with `https://`".to_owned());
        };
        if !guard::is_host(authority.as_str()) {
            return Err("its host is invalid".to_owned());
        }
        match scheme {
            "https" => {}
            "http" if guard::is_loopback(authority.host().trim_matches(['[', ']'])) => {}
            _ => return Err("it does not begin with `https://`, and its host is not this machine".to_owned()),
        }
        if text.contains(['?', '#']) {
            return Err("it has a query or a fragment".to_owned());
        }
        let start = scheme.len() + "://".len();
        let origin = start + authority.as_str().len();
        if text.len() < origin || text.get(start..origin) != Some(authority.as_str()) {
            return Err("it is not a URL".to_owned());
        }
        path::check(&text[origin..])?;
        Ok(Self { text, origin, authority: start })
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns `https://host:port`.
    pub(crate) fn origin(&self) -> &str {
        &self.text[..self.origin]
    }

    /// Returns the host with its port.
    pub(crate) fn host(&self) -> &str {
        &self.text[self.authority..self.origin]
    }

    /// Returns the path. It may be empty.
    pub(crate) fn path(&self) -> &str {
        &self.text[self.origin..]
    }

    /// Returns the public URL of a path beside the path `own` of the endpoint. `original` is the path before routers of the
    /// application removed a prefix.
    pub(crate) fn beside(&self, own: &str, original: &str, path: &str) -> String {
        let prefix = original.strip_suffix(path).unwrap_or_default();
        let is_at = |end: &str| self.path().trim_end_matches('/').strip_suffix(end.trim_end_matches('/'));
        // A nested router has the endpoint at its own path. A nested service is the endpoint at the prefix.
        let before = is_at(&format!("{prefix}{own}")).or_else(|| is_at(prefix).filter(|_| !prefix.is_empty()));
        // A proxy may have removed the rest from the path.
        format!("{}{}{prefix}{path}", self.origin(), before.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_urls_are_checked() {
        let not_https = Err("it does not begin with `https://`, and its host is not this machine");
        for (text, expected) in [
            ("https://mcp.example.com/mcp", Ok(("mcp.example.com", "/mcp"))),
            ("https://mcp.example.com", Ok(("mcp.example.com", ""))),
            ("https://mcp.example.com/", Ok(("mcp.example.com", "/"))),
            ("https://mcp.example.com:8443/a/b/", Ok(("mcp.example.com:8443", "/a/b/"))),
            ("http://127.0.0.1:8080/mcp", Ok(("127.0.0.1:8080", "/mcp"))),
            ("http://[::1]:8080/mcp", Ok(("[::1]:8080", "/mcp"))),
            ("http://localhost/mcp", Ok(("localhost", "/mcp"))),
            ("http://mcp.example.com/mcp", not_https),
            ("ftp://mcp.example.com/mcp", not_https),
            ("mcp.example.com/mcp", Err("it is not a URL")),
            ("/mcp", Err("it does not begin with `https://`")),
            ("", Err("it is not a URL")),
            ("https://user@mcp.example.com/mcp", Err("its host is invalid")),
            ("https://mcp.example.com/mcp?x=1", Err("it has a query or a fragment")),
            ("https://mcp.example.com/mcp#x", Err("it has a query or a fragment")),
            ("https://mcp.example.com/{id}", Err("a path cannot contain '{'")),
            ("https://mcp.example.com/a/../mcp", Err("clients remove the segment `..`")),
        ] {
            let parsed = PublicUrl::parse(text.to_owned());
            let got = parsed.as_ref().map(|url| (url.host(), url.path())).map_err(String::as_str);
            assert_eq!(got, expected, "{text}");
        }
    }

    #[test]
    fn urls_beside_the_endpoint_have_its_prefixes() {
        let behind = PublicUrl::parse("https://a.example/team/mcp".to_owned()).unwrap();
        let renamed = PublicUrl::parse("https://a.example/tools".to_owned()).unwrap();
        let slash = PublicUrl::parse("https://a.example/tools/".to_owned()).unwrap();
        let root = PublicUrl::parse("https://a.example".to_owned()).unwrap();
        for (url, own, original, path, expected) in [
            // A proxy removed `/team`.
            (&behind, "/mcp", "/sse", "/sse", "https://a.example/team/sse"),
            (&behind, "/mcp", "/messages", "/messages", "https://a.example/team/messages"),
            (&renamed, "/mcp", "/messages", "/messages", "https://a.example/messages"),
            // A router of the application removed `/team`.
            (&behind, "/mcp", "/team/sse", "/sse", "https://a.example/team/sse"),
            // A router of the application removed `/a`, and a proxy removed `/team`.
            (&behind, "", "/mcp/sse", "/sse", "https://a.example/team/mcp/sse"),
            // The service is mounted at a path, so all its paths are below this path.
            (&behind, "/mcp", "/team/mcp/sse", "/sse", "https://a.example/team/mcp/sse"),
            (&behind, "/mcp", "/mcp/sse", "/sse", "https://a.example/team/mcp/sse"),
            (&renamed, "/mcp", "/tools/messages", "/messages", "https://a.example/tools/messages"),
            (&slash, "/mcp", "/tools/messages", "/messages", "https://a.example/tools/messages"),
            // The public URL shows no prefix of the router.
            (&renamed, "/mcp", "/api/messages", "/messages", "https://a.example/api/messages"),
            (&root, "/", "/sse", "/sse", "https://a.example/sse"),
            (&root, "/mcp", "/sse", "/sse", "https://a.example/sse"),
        ] {
            assert_eq!(url.beside(own, original, path), expected, "{original} {own}");
        }
    }
}
