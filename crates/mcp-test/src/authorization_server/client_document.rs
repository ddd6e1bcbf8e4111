//! Clients whose id is the URL of their metadata document, and key sets of clients. Both are fetched under the rules of
//! [`Fetch`](mcp_fetch::Fetch).

use std::time::{Duration, SystemTime};

use http::{HeaderMap, header};
use mcp_fetch::FetchError;
use mcp_protocol::auth::{ClientMetadata, grant_type};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::{Host, Url};

use super::{
    Inner, clock,
    fault::Fault,
    redirect_uri,
    state::{ClientRecord, Record},
};

/// The lifetime of a cached document whose server sends no lifetime.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(60);
/// The longest lifetime of a cached document.
const MAX_LIFETIME: Duration = Duration::from_secs(24 * 3_600);
/// The methods of authentication without a shared secret.
const METHODS: [&str; 2] = ["none", "private_key_jwt"];

/// A cached metadata document.
#[derive(Clone, Serialize, Deserialize)]
struct DocumentRecord {
    metadata: ClientMetadata,
    expires_at: u64,
}

impl Record for DocumentRecord {
    const KIND: &'static str = "document";
}

/// Whether a client id is the URL of a metadata document: it has `https`, a path, and no user, fragment or dot segment. A URL
/// with `http` must lead to this machine.
pub(super) fn is_document(id: &str) -> bool {
    let Ok(url) = Url::parse(id) else { return false };
    let is_allowed = match (url.scheme(), url.host()) {
        ("https", Some(_)) => true,
        ("http", Some(Host::Ipv4(address))) => address.is_loopback(),
        ("http", Some(Host::Ipv6(address))) => address.is_loopback(),
        ("http", Some(Host::Domain(name))) => name == "localhost",
        _ => false,
    };
    // The parser removes dot segments and changes the case of hosts. Such a text is not its own URL.
    is_allowed
        && url.as_str() == id
        && url.path() != "/"
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none()
}

impl Inner {
    /// Returns a client from its metadata document.
    pub(super) async fn client_of_document(&self, id: &str, now: SystemTime) -> Result<ClientRecord, Fault> {
        if let Some(cached) = self.state.get::<DocumentRecord>(id).await?
            && clock::seconds(now) < cached.record.expires_at
        {
            return Ok(ClientRecord { metadata: cached.record.metadata, secret: None });
        }
        let response = self.config.fetch.get(id).await.map_err(|error| unavailable(&error))?;
        if !response.status().is_success() {
            return Err(invalid("the server of the client's metadata document has no such document"));
        }
        let metadata: ClientMetadata =
            response.json().map_err(|_| invalid("the client's metadata document is not a valid metadata object"))?;
        let metadata = check(id, metadata)?;
        if let Some(lifetime) = lifetime(response.headers()) {
            let record = DocumentRecord { metadata: metadata.clone(), expires_at: clock::after(now, lifetime) };
            self.state.put(id, &record, lifetime).await?;
        }
        Ok(ClientRecord { metadata, secret: None })
    }

    /// Returns the key set of a client, or the reason for its absence.
    pub(super) async fn client_keys(&self, client: &ClientRecord) -> Result<Result<Value, &'static str>, Fault> {
        if let Some(keys) = &client.metadata.jwks {
            return Ok(Ok(keys.clone()));
        }
        let Some(url) = &client.metadata.jwks_uri else { return Ok(Err("the client has no keys")) };
        let response = self.config.fetch.get(url).await.map_err(|error| unavailable(&error))?;
        Ok(response.json().map_err(|_| "the key set of the client is not valid JSON"))
    }
}

/// Checks a document, and limits it to members without a shared secret.
fn check(id: &str, mut metadata: ClientMetadata) -> Result<ClientMetadata, Fault> {
    if metadata.client_id.as_deref() != Some(id) {
        return Err(invalid("the `client_id` of the client's metadata document is not its URL"));
    }
    if metadata.extra.keys().any(|name| name.starts_with("client_secret")) {
        return Err(invalid("the client's metadata document has a secret"));
    }
    metadata.extra.clear();
    let method = metadata.token_endpoint_auth_method.get_or_insert_with(|| "none".to_owned());
    if !METHODS.contains(&method.as_str()) {
        return Err(invalid("the client's metadata document has a method of authentication with a shared secret"));
    }
    if metadata.redirect_uris.is_empty() {
        return Err(invalid("the client's metadata document has no redirect URIs"));
    }
    for uri in &metadata.redirect_uris {
        redirect_uri::check(uri, false).map_err(invalid)?;
    }
    metadata.grant_types.get_or_insert_with(|| vec![grant_type::AUTHORIZATION_CODE.to_owned()]);
    Ok(metadata)
}

fn invalid(description: &'static str) -> Fault {
    Fault::invalid_client(description)
}

fn unavailable(error: &FetchError) -> Fault {
    tracing::debug!(%error, "could not fetch a document of a client");
    if error.is_temporary() {
        Fault::unavailable("a document of the client is not available")
    } else {
        invalid("a document of the client cannot be fetched")
    }
}

/// Returns the time for which a document may be cached. `None` if it must not be cached.
fn lifetime(headers: &HeaderMap) -> Option<Duration> {
    let values = headers.get_all(header::CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    let mut lifetime = DEFAULT_LIFETIME;
    for directive in values.flat_map(|value| value.split(',')).map(str::trim) {
        if directive.eq_ignore_ascii_case("no-store") || directive.eq_ignore_ascii_case("no-cache") {
            return None;
        }
        if let Some((name, seconds)) = directive.split_once('=')
            && name.trim().eq_ignore_ascii_case("max-age")
            && let Ok(seconds) = seconds.trim().parse()
        {
            lifetime = Duration::from_secs(seconds);
        }
    }
    (!lifetime.is_zero()).then_some(lifetime.min(MAX_LIFETIME))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use serde_json::json;

    use super::*;

    #[test]
    fn urls_of_documents_are_recognized() {
        for (id, expected) in [
            ("https://app.example/client.json", true),
            ("https://app.example/client.json?x=1", true),
            ("http://127.0.0.1:8080/client.json", true),
            ("http://localhost/client.json", true),
            ("http://app.example/client.json", false),
            ("https://app.example/", false),
            ("https://app.example", false),
            ("https://app.example/a/../client.json", false),
            ("https://app.example/client.json#x", false),
            ("https://user@app.example/client.json", false),
            ("HTTPS://app.example/client.json", false),
            ("app", false),
        ] {
            assert_eq!(is_document(id), expected, "{id}");
        }
    }

    #[test]
    fn documents_are_checked() {
        let id = "https://app.example/client.json";
        let uri = "http://127.0.0.1/callback";
        for (document, expected) in [
            (json!({"client_id": id, "redirect_uris": [uri]}), true),
            (json!({"client_id": id, "redirect_uris": [uri], "token_endpoint_auth_method": "private_key_jwt"}), true),
            (json!({"client_id": "https://other.example/c", "redirect_uris": [uri]}), false),
            (json!({"redirect_uris": [uri]}), false),
            (json!({"client_id": id}), false),
            (json!({"client_id": id, "redirect_uris": ["javascript:alert(1)"]}), false),
            (json!({"client_id": id, "redirect_uris": [uri], "client_secret": "hunter2"}), false),
            (
                json!({"client_id": id, "redirect_uris": [uri], "token_endpoint_auth_method": "client_secret_post"}),
                false,
            ),
        ] {
            let metadata = serde_json::from_value(document.clone()).unwrap();
            assert_eq!(check(id, metadata).is_ok(), expected, "{document}");
        }
    }

    #[test]
    fn documents_are_cached_as_their_server_allows() {
        for (value, expected) in [
            ("", Some(60)),
            ("max-age=10", Some(10)),
            ("public, Max-Age = 5", Some(5)),
            ("max-age=0", None),
            ("no-store", None),
            ("max-age=10, no-cache", None),
            ("max-age=99999999", Some(86_400)),
            ("max-age=x", Some(60)),
        ] {
            let headers = HeaderMap::from_iter([(header::CACHE_CONTROL, HeaderValue::from_static(value))]);
            assert_eq!(lifetime(&headers), expected.map(Duration::from_secs), "{value}");
        }
    }
}
