//! The metadata of an authorization server: its check, and what a login requires of it.

use mcp_protocol::auth::AuthorizationServerMetadata;
use serde_json::Value;
use url::{Host, Url};

use crate::{
    dpop,
    error::{Error, ErrorKind},
    quirks::{Quirk, QuirkKind, differ_by_final_slash},
};

/// An authorization server whose metadata belongs to its issuer.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    /// The identifier to which registrations and tokens are bound. A document cannot choose it freely.
    pub(crate) identity: String,
    /// The document.
    pub(crate) metadata: AuthorizationServerMetadata,
    /// Whether the server is an MCP server of 2025-03-26 that is its own authorization server.
    pub(crate) is_legacy: bool,
    /// Whether no document exists, so that all endpoints are the defaults of 2025-03-26.
    pub(crate) has_default_endpoints: bool,
    /// The quirks that the client applies.
    pub(crate) quirks: Vec<Quirk>,
}

/// Checks that a document belongs to an issuer. The error is the reason against it. `quirks` are those of the issuer.
pub(crate) fn judge(document: Value, issuer: &str, quirks: &[Quirk]) -> Result<Server, String> {
    let metadata: AuthorizationServerMetadata =
        serde_json::from_value(document).map_err(|_| "a member of the document has a wrong type".to_owned())?;
    let is_equal = metadata.issuer == issuer;
    let ignores_slash = quirks.iter().any(|quirk| quirk.kind == QuirkKind::IgnoresFinalSlash);
    let is_accepted = is_equal || ignores_slash && differ_by_final_slash(&metadata.issuer, issuer);
    if !is_accepted {
        return Err(format!("the document has the issuer {:?} instead of {issuer:?}", metadata.issuer));
    }
    let is_applied = |quirk: &&Quirk| match quirk.kind {
        QuirkKind::AssumesS256 => metadata.code_challenge_methods_supported.is_none(),
        QuirkKind::IgnoresFinalSlash => !is_equal,
        QuirkKind::OmitsResource | QuirkKind::SendsAudience => true,
    };
    let quirks = quirks.iter().filter(is_applied).copied().collect();
    let identity = metadata.issuer.clone();
    Ok(Server { identity, metadata, is_legacy: false, has_default_endpoints: false, quirks })
}

/// Whether a name, such as that of an MCP server for its issuer, is the name of the issuer in its own document. The names of
/// an issuer with this quirk may differ by one slash. `quirks` are those of the name.
pub(crate) fn is_same_issuer(identity: &str, name: &str, quirks: &[Quirk]) -> bool {
    let ignores_slash = quirks.iter().any(|quirk| quirk.kind == QuirkKind::IgnoresFinalSlash);
    identity == name || ignores_slash && differ_by_final_slash(identity, name)
}

/// Checks the document of an MCP server of 2025-03-26. The origin of the server is the identity. An issuer of another origin is
/// replaced by the origin: otherwise a server could choose the audience of assertions, and the issuer that a login expects.
pub(super) fn judge_legacy(document: Value, origin: &str) -> Result<Server, String> {
    let mut metadata: AuthorizationServerMetadata =
        serde_json::from_value(document).map_err(|_| "a member of the document has a wrong type".to_owned())?;
    // A URL parser removes control characters, and a later text would contain them.
    let is_plain = !metadata.issuer.contains(|c: char| c.is_control() || c.is_whitespace());
    let issuer = Url::parse(&metadata.issuer).ok().filter(|_| is_plain);
    if issuer.is_none_or(|issuer| issuer.origin().ascii_serialization() != origin) {
        tracing::debug!(issuer = ?metadata.issuer, origin, "the server is its own issuer");
        metadata.issuer = origin.to_owned();
    }
    let identity = origin.to_owned();
    Ok(Server { identity, metadata, is_legacy: true, has_default_endpoints: false, quirks: Vec::new() })
}

/// Returns the endpoints of a server of 2025-03-26 without a document.
pub(super) fn default_endpoints(origin: &str) -> Server {
    let mut metadata = AuthorizationServerMetadata::new(origin);
    metadata.authorization_endpoint = Some(format!("{origin}/authorize"));
    metadata.token_endpoint = Some(format!("{origin}/token"));
    metadata.registration_endpoint = Some(format!("{origin}/register"));
    metadata.token_endpoint_auth_methods_supported = Some(vec!["none".to_owned()]);
    let identity = origin.to_owned();
    Server { identity, metadata, is_legacy: true, has_default_endpoints: true, quirks: Vec::new() }
}

impl Server {
    /// Whether the client applies a quirk.
    pub(crate) fn has_quirk(&self, kind: QuirkKind) -> bool {
        self.quirks.iter().any(|quirk| quirk.kind == kind)
    }

    /// Returns the parameter `audience` of requests, if the server reads the resource there. `params` are those of the
    /// application, which has precedence.
    pub(crate) fn audience<'a>(&self, resource: Option<&'a str>, params: &[(String, String)]) -> Option<&'a str> {
        let is_configured = params.iter().any(|(name, _)| name == "audience");
        resource.filter(|_| self.has_quirk(QuirkKind::SendsAudience) && !is_configured)
    }

    /// Returns the URL at which a user logs in.
    ///
    /// # Errors
    /// If the document has no such URL, its scheme is not safe for a browser, or the server does not support PKCE with S256.
    pub(crate) fn login_url(&self) -> Result<Url, Error> {
        let url = self.page_url()?;
        self.check_pkce()?;
        Ok(url)
    }

    /// Returns the URL of the page of a login.
    ///
    /// # Errors
    /// If the document has no such URL, or its scheme is not safe for a browser.
    pub(crate) fn page_url(&self) -> Result<Url, Error> {
        let issuer = &self.identity;
        let failed = |text: String| Error::new(ErrorKind::Discovery, text);
        let declared = self.metadata.authorization_endpoint.as_deref();
        let text = declared.ok_or_else(|| failed(format!("the issuer {issuer} has no authorization endpoint")))?;
        let url = Url::parse(text).ok().filter(is_safe);
        url.ok_or_else(|| failed(format!("the authorization endpoint of {issuer} is not an `https` URL")))
    }

    /// Checks that the server supports PKCE with S256.
    ///
    /// # Errors
    /// If the document does not declare it, unless a quirk or the revision 2025-03-26 replaces the declaration.
    pub(crate) fn check_pkce(&self) -> Result<(), Error> {
        if self.metadata.supports_s256() || self.is_legacy || self.has_quirk(QuirkKind::AssumesS256) {
            return Ok(());
        }
        let issuer = &self.identity;
        let text = match self.metadata.code_challenge_methods_supported.as_deref() {
            None => format!(
                "the issuer {issuer} does not declare PKCE: `code_challenge_methods_supported` is missing and must contain \
                 \"S256\""
            ),
            Some(methods) => {
                format!("the issuer {issuer} declares the PKCE methods {methods:?} and must declare \"S256\"")
            }
        };
        Err(Error::new(ErrorKind::Discovery, text))
    }

    /// Whether the server issues tokens that are bound to a key of the client (RFC 9449 §5.1).
    pub(crate) fn issues_bound_tokens(&self) -> bool {
        dpop::is_declared(self.metadata.dpop_signing_alg_values_supported.as_deref())
    }

    /// Returns the URL that starts the device flow.
    ///
    /// # Errors
    /// If the document has none, or its scheme is not safe.
    pub(crate) fn device_url(&self) -> Result<&str, Error> {
        let url = self.metadata.device_authorization_endpoint.as_deref().ok_or_else(|| {
            let text = format!(
                "the issuer {} does not support the device flow: its metadata has no `device_authorization_endpoint`",
                self.identity
            );
            Error::new(ErrorKind::Unsupported, text)
        })?;
        self.check_url(url, "device authorization endpoint")
    }

    /// Returns the URL of the token endpoint.
    ///
    /// # Errors
    /// If the document has none, or its scheme is not safe.
    pub(crate) fn token_url(&self) -> Result<&str, Error> {
        let url = self.metadata.token_endpoint.as_deref().ok_or_else(|| {
            Error::new(ErrorKind::Discovery, format!("the issuer {} has no token endpoint", self.identity))
        })?;
        self.check_url(url, "token endpoint")
    }

    /// Returns the URL of the dynamic registration, if there is one.
    ///
    /// # Errors
    /// If its scheme is not safe.
    pub(crate) fn registration_url(&self) -> Result<Option<&str>, Error> {
        let url = self.metadata.registration_endpoint.as_deref();
        url.map(|url| self.check_url(url, "registration endpoint")).transpose()
    }

    /// Checks the URL of an endpoint before the user logs in. A request to an unsafe URL would fail later.
    fn check_url<'a>(&self, url: &'a str, name: &str) -> Result<&'a str, Error> {
        if Url::parse(url).is_ok_and(|url| is_safe(&url)) {
            return Ok(url);
        }
        let text = format!("the {name} of {} is not an `https` URL", self.identity);
        Err(Error::new(ErrorKind::Discovery, text))
    }
}

/// Whether a browser may open a URL: `https`, or `http` to this machine.
pub(crate) fn is_safe(url: &Url) -> bool {
    let is_loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => return false,
    };
    let has_user = !url.username().is_empty() || url.password().is_some();
    !has_user && (url.scheme() == "https" || url.scheme() == "http" && is_loopback)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn endpoints_without_https_are_errors_before_the_login() {
        for (url, is_safe) in [
            ("https://as.example/x", true),
            ("http://127.0.0.1:1/x", true),
            ("http://as.example/x", false),
            ("ftp://as.example/x", false),
            ("/x", false),
        ] {
            let document = json!({
                "issuer": "https://as.example", "token_endpoint": url, "registration_endpoint": url,
                "device_authorization_endpoint": url,
            });
            let server = judge(document, "https://as.example", &[]).unwrap();
            let results = [
                ("token endpoint", server.token_url().map(drop)),
                ("registration endpoint", server.registration_url().map(drop)),
                ("device authorization endpoint", server.device_url().map(drop)),
            ];
            for (name, result) in results {
                let text = format!("the {name} of https://as.example is not an `https` URL");
                let expected = if is_safe { Ok(()) } else { Err((ErrorKind::Discovery, text)) };
                assert_eq!(result.map_err(|error| (error.kind(), error.to_string())), expected, "{url}");
            }
        }
    }

    #[test]
    fn documents_of_other_issuers_are_rejected() {
        for (issuer, document, expected) in [
            ("https://as.example", json!({"issuer": "https://as.example"}), None),
            (
                "https://as.example/",
                json!({"issuer": "https://as.example"}),
                Some("instead of \"https://as.example/\""),
            ),
            (
                "https://as.example",
                json!({"issuer": "https://as.example/"}),
                Some("the issuer \"https://as.example/\""),
            ),
            ("https://as.example", json!({}), Some("the issuer \"\"")),
            ("https://as.example", json!({"issuer": 1}), Some("wrong type")),
            ("https://accounts.google.com/", json!({"issuer": "https://accounts.google.com"}), None),
            ("https://accounts.google.com", json!({"issuer": "https://accounts.google.com/"}), None),
            (
                "https://accounts.google.com/",
                json!({"issuer": "https://accounts.google.com//"}),
                Some("instead of \"https://accounts.google.com/\""),
            ),
            (
                "https://accounts.google.com/t",
                json!({"issuer": "https://accounts.google.com/t/"}),
                Some("instead of \"https://accounts.google.com/t\""),
            ),
            ("https://example.auth0.com", json!({"issuer": "https://example.auth0.com/"}), None),
            (
                "https://example.auth0.com",
                json!({"issuer": "https://other.auth0.com/"}),
                Some("instead of \"https://example.auth0.com\""),
            ),
        ] {
            match (judge(document.clone(), issuer, &Quirk::of_issuer(issuer)), expected) {
                (Ok(server), None) => assert_eq!(server.identity, document["issuer"], "{issuer}"),
                (Err(reason), Some(text)) => assert!(reason.contains(text), "{issuer}: {reason}"),
                (result, _) => panic!("{issuer}: {result:?}"),
            }
        }
    }

    #[test]
    fn a_legacy_document_is_bound_to_the_origin_of_the_server() {
        for (issuer, expected) in [
            ("https://a.example", "https://a.example"),
            ("https://a.example/", "https://a.example/"),
            ("https://a.example/tenant", "https://a.example/tenant"),
            ("https://other.example", "https://a.example"),
            ("https://a.example@other.example", "https://a.example"),
            ("https://a.example.other.example", "https://a.example"),
            ("https://a.example:8443", "https://a.example"),
            ("http://a.example", "https://a.example"),
            ("a.example", "https://a.example"),
            ("null", "https://a.example"),
            ("https://a.example\n", "https://a.example"),
            ("https://a.ex\tample/tenant", "https://a.example"),
            ("https://a.example/\u{1b}[2J", "https://a.example"),
            ("https://a.example/ tenant", "https://a.example"),
            ("", "https://a.example"),
        ] {
            let server = judge_legacy(json!({"issuer": issuer}), "https://a.example").unwrap();
            let found = (server.identity.as_str(), server.metadata.issuer.as_str());
            assert_eq!(found, ("https://a.example", expected), "{issuer}");
        }
        let server = default_endpoints("https://a.example");
        assert_eq!(server.login_url().unwrap().as_str(), "https://a.example/authorize");
        assert_eq!(server.token_url().unwrap(), "https://a.example/token");
    }

    #[test]
    fn a_login_requires_s256_and_a_safe_url() {
        let metadata = |url: Option<&str>, methods: Option<&[&str]>| {
            let mut metadata = AuthorizationServerMetadata::new("https://as.example");
            metadata.authorization_endpoint = url.map(str::to_owned);
            metadata.code_challenge_methods_supported =
                methods.map(|methods| methods.iter().map(|method| (*method).to_owned()).collect());
            let identity = "https://as.example".into();
            Server { identity, metadata, is_legacy: false, has_default_endpoints: false, quirks: Vec::new() }
        };
        let s256: Option<&[&str]> = Some(&["S256"]);
        for (url, methods, expected) in [
            (Some("https://as.example/authorize"), s256, None),
            (Some("https://login.example/authorize"), s256, None),
            (Some("http://127.0.0.1:8080/authorize"), s256, None),
            (Some("http://localhost:8080/authorize"), s256, None),
            (Some("http://as.example/authorize"), s256, Some("is not an `https` URL")),
            (Some("http://localhost.example/authorize"), s256, Some("is not an `https` URL")),
            (Some("javascript:alert(1)"), s256, Some("is not an `https` URL")),
            (Some("file:///etc/passwd"), s256, Some("is not an `https` URL")),
            (Some("https://user@as.example/"), s256, Some("is not an `https` URL")),
            (Some("/authorize"), s256, Some("is not an `https` URL")),
            (None, s256, Some("has no authorization endpoint")),
            (Some("https://as.example/authorize"), None, Some("`code_challenge_methods_supported` is missing")),
            (Some("https://as.example/authorize"), Some(&["plain"]), Some("declares the PKCE methods [\"plain\"]")),
        ] {
            match (metadata(url, methods).login_url(), expected) {
                (Ok(_), None) => {}
                (Err(error), Some(text)) => assert!(error.to_string().contains(text), "{url:?}: {error}"),
                (result, _) => panic!("{url:?}: {result:?}"),
            }
        }
        let mut legacy = metadata(Some("https://as.example/authorize"), None);
        legacy.is_legacy = true;
        assert!(legacy.login_url().is_ok());
    }
}
