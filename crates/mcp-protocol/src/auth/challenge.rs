//! The challenges of a `WWW-Authenticate` header (RFC 9110 §11.6.1, RFC 6750 §3, RFC 9449 §7.1).

mod parse;

use std::fmt;

/// The value of a `WWW-Authenticate` header: what was wrong, and how to do better. [`fmt::Display`] writes it.
///
/// [`Challenge::parse`] reads the header of another server.
///
/// ```
/// use mcp_protocol::Challenge;
///
/// let challenge = Challenge::insufficient_scope(["files:write"]).with_realm("files");
/// let header = challenge.to_string();
/// assert_eq!(header, r#"Bearer realm="files", error="insufficient_scope", scope="files:write""#);
/// assert_eq!(Challenge::parse([header.as_str()]), [challenge]);
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Challenge {
    /// The scheme, such as `Bearer`: a token (RFC 9110 §5.6.2).
    pub scheme: String,
    /// The realm.
    pub realm: Option<String>,
    /// `invalid_request`, `invalid_token` or `insufficient_scope` (RFC 6750 §3.1).
    pub error: Option<String>,
    /// A description of the status.
    pub error_description: Option<String>,
    /// The scopes that the operation needs, all of them.
    pub scope: Option<String>,
    /// The URL of the [`ProtectedResourceMetadata`](crate::ProtectedResourceMetadata).
    pub resource_metadata: Option<String>,
    /// The algorithms of DPoP proofs that the server accepts, separated by spaces (RFC 9449 §7.1).
    pub algs: Option<String>,
    /// The value of a scheme without parameters, such as `Negotiate`.
    pub token68: Option<String>,
    /// Parameters that are unknown to this library, in their order. Their names have lower case.
    pub params: Vec<(String, String)>,
}

impl Challenge {
    /// Returns a challenge of a scheme.
    pub fn new(scheme: impl Into<String>) -> Self {
        Self {
            scheme: scheme.into(),
            realm: None,
            error: None,
            error_description: None,
            scope: None,
            resource_metadata: None,
            algs: None,
            token68: None,
            params: Vec::new(),
        }
    }

    /// Returns a challenge for a bearer token.
    #[must_use]
    pub fn bearer() -> Self {
        Self::new("Bearer")
    }

    /// Returns the challenge for an invalid token (401).
    #[must_use]
    pub fn invalid_token() -> Self {
        Self { error: Some("invalid_token".into()), ..Self::bearer() }
    }

    /// Returns the challenge for a token without the required scopes (403).
    pub fn insufficient_scope<'s>(scopes: impl IntoIterator<Item = &'s str>) -> Self {
        Self { error: Some("insufficient_scope".into()), ..Self::bearer() }.with_scopes(scopes)
    }

    /// Sets the realm.
    #[must_use]
    pub fn with_realm(mut self, realm: impl Into<String>) -> Self {
        self.realm = Some(realm.into());
        self
    }

    /// Sets a description for people.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.error_description = Some(description.into());
        self
    }

    /// Sets the required scopes.
    #[must_use]
    pub fn with_scopes<'s>(mut self, scopes: impl IntoIterator<Item = &'s str>) -> Self {
        let scopes: Vec<&str> = scopes.into_iter().collect();
        self.scope = (!scopes.is_empty()).then(|| scopes.join(" "));
        self
    }

    /// Sets the URL of the metadata document.
    #[must_use]
    pub fn with_resource_metadata(mut self, url: impl Into<String>) -> Self {
        self.resource_metadata = Some(url.into());
        self
    }

    /// Sets the error code.
    #[must_use]
    pub fn with_error(mut self, error: impl Into<String>) -> Self {
        self.error = Some(error.into());
        self
    }

    /// Sets the algorithms of DPoP proofs that the server accepts.
    #[must_use]
    pub fn with_algs<'a>(mut self, algs: impl IntoIterator<Item = &'a str>) -> Self {
        let algs: Vec<&str> = algs.into_iter().collect();
        self.algs = (!algs.is_empty()).then(|| algs.join(" "));
        self
    }

    /// Adds a parameter. The name must be a token (RFC 9110 §5.6.2): [`fmt::Display`] omits any other.
    #[must_use]
    pub fn with_param(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.params.push((name.into(), value.into()));
        self
    }

    /// Whether the challenge has this scheme. Case does not count (RFC 9110 §11.1).
    #[must_use]
    pub fn is_scheme(&self, scheme: &str) -> bool {
        self.scheme.eq_ignore_ascii_case(scheme)
    }

    /// Returns the required scopes.
    ///
    /// ```
    /// use mcp_protocol::Challenge;
    ///
    /// assert!(Challenge::insufficient_scope(["a", "b"]).scopes().eq(["a", "b"]));
    /// ```
    pub fn scopes(&self) -> impl Iterator<Item = &str> {
        self.scope.as_deref().unwrap_or_default().split(' ').filter(|scope| !scope.is_empty())
    }
}

impl fmt::Display for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.scheme)?;
        let mut separator = " ";
        for (name, value) in [
            ("realm", &self.realm),
            ("error", &self.error),
            ("error_description", &self.error_description),
            ("scope", &self.scope),
            ("resource_metadata", &self.resource_metadata),
            ("algs", &self.algs),
        ] {
            if let Some(value) = value {
                write!(f, "{separator}{name}=\"{}\"", Quoted(value))?;
                separator = ", ";
            }
        }
        for (name, value) in self.params.iter().filter(|(name, _)| parse::is_token(name)) {
            write!(f, "{separator}{name}=\"{}\"", Quoted(value))?;
            separator = ", ";
        }
        match &self.token68 {
            Some(token) if separator == " " && parse::is_token68(token) => write!(f, " {token}"),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Challenge {
    /// Shows only the names of unknown parameters, because their values may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.params.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Challenge")
            .field("scheme", &self.scheme)
            .field("realm", &self.realm)
            .field("error", &self.error)
            .field("error_description", &self.error_description)
            .field("scope", &self.scope)
            .field("resource_metadata", &self.resource_metadata)
            .field("algs", &self.algs)
            .field("has_token68", &self.token68.is_some())
            .field("params", &names)
            .finish()
    }
}

/// The inside of a quoted string, with the characters that RFC 6750 §3 allows there and `?` for any other.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        self.0.chars().try_for_each(|c| match c {
            '"' => f.write_char('\''),
            ' '..='[' | ']'..='~' => f.write_char(c),
            _ => f.write_char('?'),
        })
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn challenges_are_written_as_header_values() {
        for (challenge, expected) in [
            (Challenge::bearer(), "Bearer"),
            (
                Challenge::bearer().with_resource_metadata("https://a.example/.well-known/oauth-protected-resource"),
                "Bearer resource_metadata=\"https://a.example/.well-known/oauth-protected-resource\"",
            ),
            (
                Challenge::insufficient_scope(["a", "b"]).with_description("say \"b\"\r\nX: y\\é").with_realm("r"),
                "Bearer realm=\"r\", error=\"insufficient_scope\", error_description=\"say 'b'??X: y??\", scope=\"a b\"",
            ),
            (Challenge::invalid_token().with_scopes([]), "Bearer error=\"invalid_token\""),
            (
                Challenge::new("DPoP").with_error("use_dpop_nonce").with_algs(["ES256", "EdDSA"]),
                "DPoP error=\"use_dpop_nonce\", algs=\"ES256 EdDSA\"",
            ),
            (
                Challenge::new("Basic").with_realm("r").with_param("charset", "UTF-8").with_param("a b", "x"),
                "Basic realm=\"r\", charset=\"UTF-8\"",
            ),
            (Challenge { token68: Some("YWI=".into()), ..Challenge::new("Negotiate") }, "Negotiate YWI="),
            (Challenge { token68: Some("a\r\nb".into()), ..Challenge::new("Negotiate") }, "Negotiate"),
        ] {
            assert_eq!(challenge.to_string(), expected);
        }
    }

    #[test]
    fn debug_shows_no_unknown_values() {
        let challenge = Challenge::new("Custom").with_param("ticket", "hunter2");
        let shown = format!("{challenge:?}{:?}", Challenge { token68: Some("hunter2".into()), ..challenge.clone() });
        assert!(shown.contains("ticket") && !shown.contains("hunter2"), "{shown}");
    }
}
