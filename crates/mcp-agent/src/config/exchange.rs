//! The token exchange of a server: how a gateway gets a token of each caller for the server (RFC 8693).

use mcp_protocol::auth::{Secret, token_type};
use url::{Host, Url};

use super::{
    code::Code,
    error::Fault,
    expand::{Expander, Place},
    node::Node,
};

/// The token exchange of a server at a URL: the member `tokenExchange` of `x-mcp`.
///
/// A gateway exchanges the token of each caller for a token of the server, and sends only that token to the server.
///
/// ```
/// use mcp_agent::config::{Endpoint, ServerDefinition, TokenExchange};
///
/// let mut exchange = TokenExchange::new("https://idp.example.com", "gateway", "hunter2");
/// exchange.scopes = vec!["search".to_owned()];
/// let mut definition = ServerDefinition::http("search", "https://search.example.com/mcp");
/// if let Endpoint::Http(http) = &mut definition.endpoint {
///     http.token_exchange = Some(exchange.into());
/// }
/// assert!(!format!("{definition:?}").contains("hunter2"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenExchange {
    /// The issuer of the tokens of the callers. Tokens of other issuers are not sent to the token endpoint.
    pub issuer: String,
    /// The URL of the token endpoint. `None`: the URL in the metadata of the issuer.
    pub token_endpoint: Option<String>,
    /// The client id of the gateway at the token endpoint.
    pub client_id: String,
    /// The secret of the client.
    pub client_secret: Secret,
    /// The URL of the server for the token endpoint. Without a resource and an audience, it is the URL of the server.
    pub resource: Option<String>,
    /// The name of the server at the authorization server.
    pub audience: Option<String>,
    /// The scopes of the tokens. Empty lets the authorization server choose them.
    pub scopes: Vec<String>,
    /// The type of the tokens: an access token (the default) or a JWT.
    pub requested_token_type: String,
    /// Further hosts in private networks to which the requests may go. The host of the token endpoint, or of the issuer without a
    /// token endpoint, needs no entry.
    pub allowed_hosts: Vec<String>,
}

impl TokenExchange {
    /// Returns an exchange with its required settings.
    ///
    /// See the example of the [type](Self).
    pub fn new(issuer: impl Into<String>, client_id: impl Into<String>, client_secret: impl Into<Secret>) -> Self {
        Self {
            issuer: issuer.into(),
            token_endpoint: None,
            client_id: client_id.into(),
            client_secret: client_secret.into(),
            resource: None,
            audience: None,
            scopes: Vec::new(),
            requested_token_type: token_type::ACCESS_TOKEN.to_owned(),
            allowed_hosts: Vec::new(),
        }
    }
}

/// Reads the member `tokenExchange`. The texts of a disabled entry are not checked, because its variables are not expanded.
pub(super) fn read(node: &Node<'_>, expander: &Expander<'_>, is_enabled: bool) -> Result<TokenExchange, Fault> {
    let text = |node: &Node<'_>| expander.expand(node, Place::Other);
    let required = |name: &str| {
        let missing = || {
            let message = format!("the token exchange has no `{name}`");
            node.fault(Code::MissingKey, message, format!("add the member `{name}`"))
        };
        text(&node.get(name).ok_or_else(missing)?)
    };
    node.object()?;
    let mut exchange = TokenExchange::new(required("issuer")?, required("clientId")?, required("clientSecret")?);
    for (name, member) in node.members()? {
        if member.value.is_null() {
            continue;
        }
        match name {
            "issuer" | "clientId" | "clientSecret" => {}
            "tokenEndpoint" => {
                let url = text(&member)?;
                if is_enabled {
                    check_url(&member, &url)?;
                }
                exchange.token_endpoint = Some(url);
            }
            "resource" => exchange.resource = Some(text(&member)?),
            "audience" => exchange.audience = Some(text(&member)?),
            "scope" => exchange.scopes = text(&member)?.split_whitespace().map(ToOwned::to_owned).collect(),
            "requestedTokenType" => exchange.requested_token_type = requested_type(&member)?.to_owned(),
            "allowHosts" => exchange.allowed_hosts = member.texts()?,
            _ => {
                let message = "the token exchange has no such member";
                let remedy = "write `issuer`, `tokenEndpoint`, `clientId`, `clientSecret`, `resource`, `audience`, `scope`, \
                              `requestedTokenType` or `allowHosts`";
                return Err(member.fault(Code::MisspelledMember, message, remedy));
            }
        }
    }
    // The metadata of the issuer names the receiver of the tokens and of the secret.
    if exchange.token_endpoint.is_none()
        && is_enabled
        && let Some(issuer) = node.get("issuer")
    {
        check_url(&issuer, &exchange.issuer)?;
    }
    Ok(exchange)
}

fn requested_type(node: &Node<'_>) -> Result<&'static str, Fault> {
    match node.text()? {
        "access_token" | token_type::ACCESS_TOKEN => Ok(token_type::ACCESS_TOKEN),
        "jwt" | token_type::JWT => Ok(token_type::JWT),
        _ => {
            let message = "a server does not accept this type of token";
            Err(node.fault(Code::WrongType, message, "write `access_token` or `jwt`, or remove the member"))
        }
    }
}

/// The token endpoint receives the tokens of all callers.
fn check_url(node: &Node<'_>, text: &str) -> Result<(), Fault> {
    let is_loopback = |url: &Url| match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    let is_safe = |url: &Url| url.scheme() == "https" || url.scheme() == "http" && is_loopback(url);
    if Url::parse(text).is_ok_and(|url| is_safe(&url) && url.username().is_empty() && url.password().is_none()) {
        return Ok(());
    }
    let message = "the value is not the URL of an authorization server";
    Err(node.fault(Code::InvalidUrl, message, "write a URL that begins with `https://`, without a user name"))
}
