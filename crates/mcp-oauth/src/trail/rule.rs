//! The rules of a discovery, with their texts for people.

use std::fmt;

/// A rule of a discovery, and of the preparation of a login.
///
/// ```
/// use mcp_oauth::DiscoveryRule;
///
/// for rule in DiscoveryRule::ALL {
///     println!("{}: {} Otherwise: {}", rule.name(), rule.requirement(), rule.remedy());
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DiscoveryRule {
    /// The credentials of the application have a client id and an issuer.
    Credentials,
    /// The configured client id has allowed characters.
    ClientId,
    /// The configured scopes have allowed characters.
    ScopeSyntax,
    /// The redirect URI is usable.
    RedirectUri,
    /// The URL belongs to an MCP endpoint.
    Endpoint,
    /// The protected resource metadata has the members of RFC 9728.
    ResourceDocument,
    /// The metadata belongs to the MCP server.
    ResourceCoversServer,
    /// The metadata names an authorization server.
    NamesIssuer,
    /// The issuer is a URL.
    IssuerUrl,
    /// The document belongs to the issuer.
    IssuerEqual,
    /// The MCP server accepts the tokens of a login.
    OffersLogin,
    /// The issuer is the configured one.
    IssuerConfigured,
    /// The authorization server has the scopes of the login.
    Scopes,
    /// The authorization server has a page for logins.
    LoginPage,
    /// The authorization server supports PKCE.
    Pkce,
    /// The authorization server has the device flow.
    DeviceFlow,
    /// The authorization server has a token endpoint.
    TokenEndpoint,
    /// The client has a registration, or can get one.
    Registration,
}

impl DiscoveryRule {
    /// All rules, in the order of their checks.
    pub const ALL: [Self; 18] = [
        Self::Credentials,
        Self::ClientId,
        Self::ScopeSyntax,
        Self::RedirectUri,
        Self::Endpoint,
        Self::ResourceDocument,
        Self::ResourceCoversServer,
        Self::NamesIssuer,
        Self::IssuerUrl,
        Self::IssuerEqual,
        Self::OffersLogin,
        Self::IssuerConfigured,
        Self::Scopes,
        Self::DeviceFlow,
        Self::Registration,
        Self::TokenEndpoint,
        Self::LoginPage,
        Self::Pkce,
    ];

    /// Returns the name, such as `issuer-equal`. It does not change.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Credentials => "credentials",
            Self::ClientId => "client-id",
            Self::ScopeSyntax => "scope-syntax",
            Self::RedirectUri => "redirect-uri",
            Self::Endpoint => "endpoint",
            Self::ResourceDocument => "resource-document",
            Self::ResourceCoversServer => "resource-covers-server",
            Self::NamesIssuer => "names-issuer",
            Self::IssuerUrl => "issuer-url",
            Self::IssuerEqual => "issuer-equal",
            Self::OffersLogin => "offers-login",
            Self::IssuerConfigured => "issuer-configured",
            Self::Scopes => "scopes",
            Self::LoginPage => "login-page",
            Self::Pkce => "pkce",
            Self::DeviceFlow => "device-flow",
            Self::TokenEndpoint => "token-endpoint",
            Self::Registration => "registration",
        }
    }

    /// Returns one sentence for people: the rule, with its source.
    #[must_use]
    pub const fn requirement(self) -> &'static str {
        match self {
            Self::Credentials => {
                "A client secret and a client key have a client id, and each credential has an issuer."
            }
            Self::ClientId => {
                "The configured client id has only visible ASCII characters and spaces, and at least one character \
                 (RFC 6749 §A.1)."
            }
            Self::ScopeSyntax => {
                "Each configured scope has only visible ASCII characters, without quotation marks and backslashes \
                 (RFC 6749 §3.3)."
            }
            Self::RedirectUri => {
                "The redirect URI is an `https` URL without fragment, or a URL of this machine whose port is free \
                 (RFC 8252 §7)."
            }
            Self::Endpoint => {
                "The URL belongs to an MCP endpoint, which redirects a POST only within its origin and with the status \
                 307 or 308."
            }
            Self::ResourceDocument => {
                "The metadata of the server is a JSON object with the member `resource` (RFC 9728 §2)."
            }
            Self::ResourceCoversServer => {
                "The `resource` of the metadata is the URL of the server, or its origin with the first segments of its path \
                 (RFC 9728 §3.3)."
            }
            Self::NamesIssuer => "The metadata names an authorization server in `authorization_servers` (RFC 9728 §2).",
            Self::IssuerUrl => {
                "The issuer is an `https` URL, or an `http` URL of this machine, without query and fragment (RFC 8414 §2)."
            }
            Self::IssuerEqual => "The `issuer` of the document equals the issuer that leads to it (RFC 8414 §3.3).",
            Self::OffersLogin => {
                "The server has OAuth metadata, or it accepts bearer tokens and has the endpoints of 2025-03-26."
            }
            Self::IssuerConfigured => "The server names the issuer that the application configured.",
            Self::Scopes => "The authorization server offers the scopes of the login (RFC 8414 §2).",
            Self::LoginPage => {
                "The `authorization_endpoint` is an `https` URL, or an `http` URL of this machine (RFC 8414 §2)."
            }
            Self::Pkce => "The authorization server declares PKCE with the method `S256` (RFC 7636 §4.2).",
            Self::DeviceFlow => "The authorization server has a `device_authorization_endpoint` (RFC 8628 §4).",
            Self::TokenEndpoint => "The authorization server has a `token_endpoint` (RFC 8414 §2).",
            Self::Registration => {
                "The client has an id, a client id metadata document that the authorization server reads, or a dynamic \
                 registration (RFC 7591)."
            }
        }
    }

    /// Returns one or two sentences for people: the change after which the rule holds.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Credentials => "The application configures the missing client id or issuer.",
            Self::ClientId => "The application configures the client id exactly as the authorization server shows it.",
            Self::ScopeSyntax => "The application corrects the scope.",
            Self::RedirectUri => "The application configures another redirect URI or another port.",
            Self::Endpoint => {
                "Check the URL, above all its path. If the URL is right, the operator of the MCP server corrects the \
                 routes or the redirects of the server."
            }
            Self::ResourceDocument => "The operator of the MCP server corrects its metadata document.",
            Self::ResourceCoversServer => {
                "Check the URL of the server. If the URL is right, the operator of the MCP server sets `resource` to the \
                 public URL of the server, for example behind a proxy."
            }
            Self::NamesIssuer => "The operator of the MCP server adds the issuer to `authorization_servers`.",
            Self::IssuerUrl => "The operator of the MCP server corrects the issuer in `authorization_servers`.",
            Self::IssuerEqual => {
                "The operator of the MCP server names the issuer exactly as its own document does, also with its final slash."
            }
            Self::OffersLogin => {
                "Send the credentials that the server expects in a header. For logins, the operator of the MCP server \
                 publishes a metadata document (RFC 9728)."
            }
            Self::IssuerConfigured => "The application configures the issuer that the server names, or no issuer.",
            Self::Scopes => {
                "The application configures the scopes that the login needs, and the administrator of the authorization \
                 server offers them."
            }
            Self::LoginPage => {
                "The administrator of the authorization server adds `authorization_endpoint` to its metadata."
            }
            Self::Pkce => {
                "The administrator of the authorization server enables PKCE and adds `S256` to \
                 `code_challenge_methods_supported`."
            }
            Self::DeviceFlow => {
                "The administrator of the authorization server enables the device flow, or the user logs in with a browser."
            }
            Self::TokenEndpoint => {
                "The administrator of the authorization server adds `token_endpoint` to its metadata."
            }
            Self::Registration => {
                "The administrator of the authorization server registers a client, and the application configures its id."
            }
        }
    }
}

impl fmt::Display for DiscoveryRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_of_rules_are_complete() {
        for (index, rule) in DiscoveryRule::ALL.into_iter().enumerate() {
            assert!(rule.requirement().ends_with('.') && rule.remedy().ends_with('.'), "{rule}");
            assert!(DiscoveryRule::ALL[..index].iter().all(|other| other.name() != rule.name()), "{rule}");
        }
    }
}
