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

#[cfg(test)]
mod tests {
    use mcp_fetch::FetchErrorKind;

    use super::*;

    #[test]
    fn only_hosts_of_this_machine_need_no_encryption() {
        for (url, is_accepted) in [
            ("https://as.example", true),
            ("http://as.example", false),
            ("http://localhost:8080/keys", true),
            ("http://as.localhost", true),
            ("http://notlocalhost", false),
            ("http://127.0.0.1", true),
            ("http://[::1]", true),
            ("http://10.0.0.1", false),
        ] {
            assert_eq!(check_url(url).is_ok(), is_accepted, "{url}");
        }
    }

    #[tokio::test]
    async fn private_addresses_are_refused_unless_the_operator_configured_them() {
        for private in [
            "https://10.0.0.1/keys",
            "https://192.168.1.1/keys",
            "https://172.16.0.1/keys",
            "https://169.254.169.254/latest/meta-data",
            "https://[fd00::1]/keys",
            "https://127.0.0.1/keys",
            "https://localhost/keys",
        ] {
            // A document of the issuer names the URL.
            for issuer in ["https://as.example", "https://10.0.0.2", "https://idp.internal"] {
                let error = fetch_for(issuer).unwrap().get(private).await.unwrap_err();
                assert_eq!(error.kind(), FetchErrorKind::Blocked, "{issuer} {private}");
            }
        }
        // Port 1 of this machine: the connection fails, because the address is allowed.
        let local = "https://127.0.0.1:1/keys";
        let error = fetch_for(local).unwrap().get(local).await.unwrap_err();
        assert_eq!(error.kind(), FetchErrorKind::Connection);
    }
}
