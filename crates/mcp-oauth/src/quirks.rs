//! Authorization servers that differ from the rules of the specification. The table is data: each entry has its source.
//!
//! A server without an entry gets the rules of the specification. Only hosts are listed, because a path or a document that an
//! authorization server chooses itself must not select a weaker rule. So Keycloak and authentik, which operators host
//! themselves, have no entry.

use std::fmt;

use url::Url;

/// The kind of a [`Quirk`].
///
/// ```
/// use mcp_oauth::QuirkKind;
///
/// for kind in QuirkKind::ALL {
///     println!("{}: {}", kind.name(), kind.explanation());
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QuirkKind {
    /// The server accepts PKCE with `S256` and does not declare it.
    AssumesS256,
    /// The metadata of MCP servers and of the issuer differ by one slash at the end.
    IgnoresFinalSlash,
    /// The server rejects the parameter `resource` (RFC 8707).
    OmitsResource,
    /// The server reads the resource of a token from the parameter `audience`.
    SendsAudience,
}

impl QuirkKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::AssumesS256, Self::IgnoresFinalSlash, Self::OmitsResource, Self::SendsAudience];

    /// Returns the name, such as `assumes-s256`. It does not change.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AssumesS256 => "assumes-s256",
            Self::IgnoresFinalSlash => "ignores-final-slash",
            Self::OmitsResource => "omits-resource",
            Self::SendsAudience => "sends-audience",
        }
    }

    /// Returns one sentence for people: the rule that the client changes.
    #[must_use]
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::AssumesS256 => "The client uses PKCE with S256, although the metadata does not declare it.",
            Self::IgnoresFinalSlash => "The names of the issuer may differ by one slash at the end.",
            Self::OmitsResource => "The client omits the parameter `resource`, so the scopes select the resource.",
            Self::SendsAudience => "The client also sends the resource as the parameter `audience`.",
        }
    }
}

impl fmt::Display for QuirkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A known difference of an authorization server from the specification, to which the client adapts its requests.
///
/// [`OAuthBuilder::without_quirks`](crate::OAuthBuilder::without_quirks) turns the adaptations off.
///
/// ```
/// use mcp_oauth::{Quirk, QuirkKind};
///
/// let quirks = Quirk::of_issuer("https://example.eu.auth0.com/");
/// assert!(quirks.iter().any(|quirk| quirk.kind == QuirkKind::SendsAudience && quirk.provider == "Auth0"));
/// assert!(Quirk::of_issuer("https://as.example.com").is_empty());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quirk {
    /// The difference.
    pub kind: QuirkKind,
    /// The product.
    pub provider: &'static str,
    /// The URL of a page that shows the difference.
    pub source: &'static str,
}

impl Quirk {
    /// Returns the known differences of an issuer. The list has no entry for an unknown issuer.
    #[must_use]
    pub fn of_issuer(issuer: &str) -> Vec<Self> {
        let Some(url) = Url::parse(issuer).ok().filter(|url| url.scheme() == "https" && url.port().is_none()) else {
            return Vec::new();
        };
        let host = url.host_str().unwrap_or_default();
        let provider = TABLE.iter().find(|provider| provider.hosts.iter().any(|pattern| matches(host, pattern)));
        provider.map(Provider::quirks).unwrap_or_default()
    }
}

impl fmt::Display for Quirk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.kind, self.provider)
    }
}

/// A row of the table.
struct Provider {
    name: &'static str,
    /// Hosts of issuers. The character `*` matches one label of letters, digits and `-`.
    hosts: &'static [&'static str],
    /// The differences, each with its source.
    quirks: &'static [(QuirkKind, &'static str)],
}

impl Provider {
    fn quirks(&self) -> Vec<Quirk> {
        self.quirks.iter().map(|&(kind, source)| Quirk { kind, provider: self.name, source }).collect()
    }
}

/// The known differences. These providers were examined too, and the client needs no difference for them:
///
/// - Atlassian: the names of the issuer of `https://mcp.atlassian.com/v2/mcp` are equal. In 2026 those of `v1` differed in host
///   or path, which a client must not ignore (RFC 8414 §3.3): <https://github.com/atlassian/atlassian-mcp-server/issues/205>
/// - authentik: the issuer of an application ends with a slash, and MCP servers must name it so:
///   <https://github.com/goauthentik/authentik/pull/22556>
/// - Keycloak: it does not recognize `resource`, and a mapper adds the audience:
///   <https://www.keycloak.org/securing-apps/mcp-authz-server>
/// - Okta: it does not read `resource`, and each authorization server has one audience:
///   <https://support.okta.com/help/s/article/oidc-does-okta-support-the-resource-parameter-and-audience-switching>
const TABLE: &[Provider] = &[
    Provider {
        name: "Microsoft Entra ID",
        // https://learn.microsoft.com/en-us/entra/identity-platform/authentication-national-cloud
        hosts: &["login.microsoftonline.com", "login.microsoftonline.us", "login.partner.microsoftonline.cn"],
        quirks: &[
            // The documents at `/.well-known/openid-configuration` have no `code_challenge_methods_supported`. The page shows
            // `code_challenge_method=S256`.
            (
                QuirkKind::AssumesS256,
                "https://learn.microsoft.com/en-us/entra/identity-platform/v2-oauth2-auth-code-flow",
            ),
            // The error AADSTS9010010, since March 2026.
            (QuirkKind::OmitsResource, "https://github.com/microsoft/powerbi-modeling-mcp/issues/68"),
        ],
    },
    Provider {
        name: "Google",
        hosts: &["accounts.google.com"],
        // The MCP servers of Google name `https://accounts.google.com/`, and the document has no slash.
        quirks: &[(QuirkKind::IgnoresFinalSlash, "https://github.com/modelcontextprotocol/python-sdk/issues/1919")],
    },
    Provider {
        name: "Auth0",
        // Tenants of the first region have one label, and those of other regions have two.
        hosts: &["*.auth0.com", "*.*.auth0.com"],
        quirks: &[
            // The issuer of each tenant ends with a slash, which MCP servers often omit.
            (QuirkKind::IgnoresFinalSlash, "https://github.com/mcp-use/mcp-use/pull/1300"),
            // By default Auth0 reads `audience` alone. With its compatibility profile `audience` has precedence.
            (QuirkKind::SendsAudience, "https://auth0.com/ai/docs/mcp/guides/resource-param-compatibility-profile"),
        ],
    },
    Provider {
        name: "Amazon Cognito",
        hosts: &["cognito-idp.*.amazonaws.com"],
        // The documents have no `code_challenge_methods_supported`. The page shows the hash of S256.
        quirks: &[(
            QuirkKind::AssumesS256,
            "https://docs.aws.amazon.com/cognito/latest/developerguide/using-pkce-in-authorization-code.html",
        )],
    },
];

/// Whether a host has the labels of a pattern.
fn matches(host: &str, pattern: &str) -> bool {
    let is_label =
        |label: &str| !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let (mut labels, mut patterns) = (host.split('.'), pattern.split('.'));
    loop {
        match (labels.next(), patterns.next()) {
            (None, None) => return true,
            (Some(label), Some(pattern)) if label == pattern || pattern == "*" && is_label(label) => {}
            _ => return false,
        }
    }
}

/// Whether two names of an issuer without a path differ by one slash at the end.
pub(crate) fn differ_by_final_slash(one: &str, other: &str) -> bool {
    let shorter = if one.len() < other.len() { one } else { other };
    let longer = if one.len() < other.len() { other } else { one };
    let has_no_path = Url::parse(longer).is_ok_and(|url| url.path() == "/" && url.query().is_none());
    has_no_path && longer.strip_suffix('/') == Some(shorter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_hosts_have_quirks() {
        const ENTRA: &[&str] = &["assumes-s256", "omits-resource"];
        const AUTH0: &[&str] = &["ignores-final-slash", "sends-audience"];
        for (issuer, expected) in [
            ("https://login.microsoftonline.com/t/v2.0", ENTRA),
            ("https://login.microsoftonline.us/t/v2.0", ENTRA),
            ("https://login.partner.microsoftonline.cn/t/v2.0", ENTRA),
            ("https://LOGIN.microsoftonline.com:443/t/v2.0", ENTRA),
            ("https://login.microsoftonline.com.evil.example/t", &[]),
            ("https://login.microsoftonline.com:8443/t", &[]),
            ("https://login.microsoftonline.com@evil.example/t", &[]),
            ("https://evil.example/login.microsoftonline.com", &[]),
            ("https://evil.login.microsoftonline.com/t", &[]),
            ("http://login.microsoftonline.com/t", &[]),
            ("https://accounts.google.com", &["ignores-final-slash"]),
            ("https://accounts.google.com/", &["ignores-final-slash"]),
            ("https://example.auth0.com/", AUTH0),
            ("https://example.eu.auth0.com", AUTH0),
            ("https://auth0.com/", &[]),
            ("https://a.b.c.auth0.com/", &[]),
            ("https://example.auth0.com.evil.example/", &[]),
            ("https://evil-auth0.com/", &[]),
            ("https://evilauth0.com/", &[]),
            ("https://cognito-idp.us-east-1.amazonaws.com/p", &["assumes-s256"]),
            ("https://cognito-idp.evil.s3.amazonaws.com/p", &[]),
            ("https://cognito-idp.amazonaws.com/p", &[]),
            ("https://cognito-idp..amazonaws.com/p", &[]),
            ("https://s3.amazonaws.com/p", &[]),
            ("https://cognito-idp.us-east-1.amazonaws.com.evil.example/p", &[]),
            ("https://example.okta.com/oauth2/default", &[]),
            ("https://mcp.atlassian.com", &[]),
            ("https://as.example", &[]),
            ("as.example", &[]),
            ("", &[]),
        ] {
            let found: Vec<_> = Quirk::of_issuer(issuer).iter().map(|quirk| quirk.kind.name()).collect();
            assert_eq!(found, expected, "{issuer}");
        }
    }

    #[test]
    fn each_row_names_its_sources_and_no_difference_twice() {
        for provider in TABLE {
            assert!(!provider.quirks.is_empty() && !provider.hosts.is_empty(), "{}", provider.name);
            for (index, (kind, source)) in provider.quirks.iter().enumerate() {
                assert!(Url::parse(source).is_ok_and(|url| url.scheme() == "https"), "{}: {source}", provider.name);
                assert!(provider.quirks[..index].iter().all(|(other, _)| other != kind), "{}: {kind}", provider.name);
            }
        }
        for (index, kind) in QuirkKind::ALL.into_iter().enumerate() {
            assert!(TABLE.iter().any(|provider| provider.quirks.iter().any(|(known, _)| *known == kind)), "{kind}");
            assert!(kind.explanation().ends_with('.') && !kind.name().contains(' '), "{kind}");
            assert!(QuirkKind::ALL[..index].iter().all(|other| other.name() != kind.name()), "{kind}");
        }
    }

    #[test]
    fn a_final_slash_counts_only_without_a_path() {
        for (one, other, expected) in [
            ("https://as.example", "https://as.example/", true),
            ("https://as.example/", "https://as.example", true),
            ("https://as.example", "https://as.example", false),
            ("https://as.example/", "https://as.example//", false),
            ("https://as.example", "https://as.example//", false),
            ("https://as.example/t", "https://as.example/t/", false),
            ("https://as.example", "https://as.example/?", false),
            ("https://as.example?", "https://as.example?/", false),
            ("https://as.example", "https://as.example#/", false),
            ("https://as.exampl", "https://as.example", false),
            ("", "/", false),
        ] {
            assert_eq!(differ_by_final_slash(one, other), expected, "{one} {other}");
        }
    }
}
