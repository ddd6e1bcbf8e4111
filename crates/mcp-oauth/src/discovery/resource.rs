//! The protected resource metadata of an MCP server (RFC 9728): its places and its check.

use mcp_protocol::auth::ProtectedResourceMetadata;
use url::Url;

use super::Resource;
use crate::{
    dpop,
    error::{Error, ErrorKind},
    trail::{DiscoveryRule, Trail},
};

/// Returns the URLs of the document, in the order of the specification: the URL of the challenge, the well-known path of the
/// endpoint, the well-known path of the origin.
pub(super) fn places(endpoint: &Url, challenge: Option<&str>) -> Vec<String> {
    let origin = endpoint.origin().ascii_serialization();
    let mut urls: Vec<String> = challenge.map(str::to_owned).into_iter().collect();
    for path in [endpoint.path(), ""] {
        let url = format!("{origin}{}", ProtectedResourceMetadata::path_for(path));
        if !urls.contains(&url) {
            urls.push(url);
        }
    }
    urls
}

/// Checks that the document belongs to the server and names an issuer.
pub(super) fn judge(
    metadata: ProtectedResourceMetadata,
    endpoint: &Url,
    url: &str,
    trail: &Trail,
) -> Result<Resource, Error> {
    let is_own = covers(&metadata.resource, endpoint).then_some(()).ok_or_else(|| {
        let text = format!(
            "the protected resource metadata at {url} belongs to another server: its resource is {:?}",
            metadata.resource
        );
        Error::new(ErrorKind::Discovery, text)
    });
    trail.check(DiscoveryRule::ResourceCoversServer, is_own)?;
    let names_issuer = (!metadata.authorization_servers.is_empty()).then_some(()).ok_or_else(|| {
        let text = format!("the protected resource metadata at {url} names no authorization server");
        Error::new(ErrorKind::Discovery, text)
    });
    trail.check(DiscoveryRule::NamesIssuer, names_issuer)?;
    let declares_algorithm = dpop::is_declared(metadata.dpop_signing_alg_values_supported.as_deref());
    Ok(Resource {
        accepts_dpop: declares_algorithm || metadata.dpop_bound_access_tokens_required == Some(true),
        identifier: metadata.resource,
        issuers: metadata.authorization_servers,
        scopes: metadata.scopes_supported.unwrap_or_default(),
    })
}

/// Whether a resource identifier covers an endpoint: the origin is equal, and the path of the resource is equal to the path
/// of the endpoint or to its first segments. The query does not count.
pub(crate) fn covers(resource: &str, endpoint: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    let is_plain = resource.fragment().is_none() && resource.username().is_empty() && resource.password().is_none();
    let prefix = resource.path().trim_end_matches('/');
    let rest = endpoint.path().strip_prefix(prefix);
    is_plain
        && resource.origin() == endpoint.origin()
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_urls_follow_the_order_of_the_specification() {
        for (endpoint, challenge, expected) in [
            (
                "https://a.example/mcp",
                None,
                &[
                    "https://a.example/.well-known/oauth-protected-resource/mcp",
                    "https://a.example/.well-known/oauth-protected-resource",
                ][..],
            ),
            (
                "https://a.example/mcp",
                Some("https://a.example/custom"),
                &[
                    "https://a.example/custom",
                    "https://a.example/.well-known/oauth-protected-resource/mcp",
                    "https://a.example/.well-known/oauth-protected-resource",
                ],
            ),
            (
                "https://a.example:8443/a/b/?key=1#x",
                None,
                &[
                    "https://a.example:8443/.well-known/oauth-protected-resource/a/b",
                    "https://a.example:8443/.well-known/oauth-protected-resource",
                ],
            ),
            ("https://a.example", None, &["https://a.example/.well-known/oauth-protected-resource"]),
            (
                "https://a.example/",
                Some("https://a.example/.well-known/oauth-protected-resource"),
                &["https://a.example/.well-known/oauth-protected-resource"],
            ),
        ] {
            assert_eq!(places(&Url::parse(endpoint).unwrap(), challenge), expected, "{endpoint}");
        }
    }

    #[test]
    fn resources_cover_their_origin_and_the_paths_below() {
        for (resource, endpoint, expected) in [
            ("https://a.example/mcp", "https://a.example/mcp", true),
            ("https://a.example/mcp/", "https://a.example/mcp", true),
            ("https://a.example/mcp", "https://a.example/mcp/", true),
            ("https://a.example", "https://a.example/mcp", true),
            ("https://a.example/", "https://a.example/mcp", true),
            ("https://A.example:443", "https://a.example/mcp", true),
            ("https://a.example/mcp", "https://a.example/mcp?key=1", true),
            ("https://a.example/a", "https://a.example/a/b", true),
            ("https://a.example/mcp", "https://a.example/mcp2", false),
            ("https://a.example/mcp/b", "https://a.example/mcp", false),
            ("https://a.example/MCP", "https://a.example/mcp", false),
            ("https://b.example/mcp", "https://a.example/mcp", false),
            ("https://b.a.example", "https://a.example/mcp", false),
            ("http://a.example/mcp", "https://a.example/mcp", false),
            ("https://a.example:8443/mcp", "https://a.example/mcp", false),
            ("https://a.example@b.example/mcp", "https://a.example/mcp", false),
            ("https://user@a.example/mcp", "https://a.example/mcp", false),
            ("https://a.example/mcp#f", "https://a.example/mcp", false),
            ("a.example/mcp", "https://a.example/mcp", false),
            ("", "https://a.example/mcp", false),
        ] {
            assert_eq!(covers(resource, &Url::parse(endpoint).unwrap()), expected, "{resource} {endpoint}");
        }
    }

    #[test]
    fn documents_of_other_servers_and_without_issuers_are_rejected() {
        let endpoint = Url::parse("https://a.example/mcp").unwrap();
        for (resource, issuers, expected) in [
            ("https://a.example/mcp", &["https://as.example"][..], None),
            ("https://b.example/mcp", &["https://as.example"], Some("its resource is \"https://b.example/mcp\"")),
            ("https://a.example/mcp", &[], Some("names no authorization server")),
        ] {
            let document = ProtectedResourceMetadata::new(resource, issuers.iter().copied()).with_scopes(["a"]);
            let result = judge(document, &endpoint, "https://a.example/prm", &Trail::off());
            match expected {
                None => {
                    let Resource { identifier, issuers: named, scopes, .. } = result.unwrap();
                    assert_eq!(
                        (identifier.as_str(), named.as_slice()),
                        (resource, &issuers.iter().map(|issuer| (*issuer).to_owned()).collect::<Vec<_>>()[..])
                    );
                    assert_eq!(scopes, ["a"]);
                }
                Some(text) => assert!(result.err().unwrap().to_string().contains(text), "{resource}"),
            }
        }
    }
}
