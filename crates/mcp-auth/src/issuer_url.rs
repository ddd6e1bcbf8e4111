//! The URLs of issuers in the configuration.

use mcp_fetch::Fetch;
use mcp_protocol::auth::AuthorizationServerMetadata;
use url::{Host, Url};

use crate::error::ConfigError;

/// Checks the URL of an issuer, from which the URLs of its metadata are derived.
pub(crate) fn check_issuer(text: &str) -> Result<(), ConfigError> {
    check_url(text)?;
    // A query is not part of an issuer (RFC 8414 §2).
    if AuthorizationServerMetadata::well_known_urls(text).is_none() {
        return Err(ConfigError::new("the URL of the issuer must not have a query or dot segments"));
    }
    Ok(())
}

/// Checks a URL at which the issuer serves documents.
pub(crate) fn check_url(text: &str) -> Result<(), ConfigError> {
    let url = Url::parse(text).map_err(|_| ConfigError::new("the URL of the issuer or its keys is invalid"))?;
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err(ConfigError::new("the URL of the issuer or its keys must not have a user or a fragment"));
    }
    let is_local = match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    match url.scheme() {
        "https" => Ok(()),
        "http" if is_local => Ok(()),
        _ => Err(ConfigError::new("the URL of the issuer or its keys must begin with `https://`")),
    }
}

/// Returns the settings for requests to a configured URL. Its host may be on this machine or in a private network, because
/// the operator has chosen it. Hosts that a document of the issuer names must be public.
pub(crate) fn fetch_for(url: &str) -> Result<Fetch, ConfigError> {
    let invalid = || ConfigError::new("the URL of the issuer or its keys is invalid");
    let parsed = Url::parse(url).map_err(|_| invalid())?;
    let host = parsed.host_str().ok_or_else(invalid)?;
    let builder = Fetch::builder().for_server(url).allow_host(host).map_err(|_| invalid())?;
    Ok(builder.build())
}
