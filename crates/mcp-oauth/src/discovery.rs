//! Discovery of the authorization server of an MCP server: the protected resource metadata (RFC 9728), then the metadata of
//! the authorization server (RFC 8414, OpenID Connect Discovery).

mod resource;
mod server;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use mcp_fetch::{Fetch, FetchErrorKind};
use mcp_protocol::{
    ProtocolVersion,
    auth::{AuthorizationServerMetadata, ProtectedResourceMetadata},
};
use serde_json::Value;
use url::Url;

pub(crate) use self::{
    resource::covers,
    server::{Server, is_safe, is_same_issuer, judge},
};
use crate::{
    error::{Error, ErrorKind},
    quirks::Quirk,
    trail::{DiscoveryRule, DiscoveryStep, Reader, StepKind, Trail, shown},
};

/// The metadata document of an MCP server.
pub(crate) struct Resource {
    /// The identifier of the server, as the document has it.
    pub(crate) identifier: String,
    /// The issuers of tokens, in the order of the document.
    pub(crate) issuers: Vec<String>,
    /// The scopes that a client may request.
    pub(crate) scopes: Vec<String>,
    /// Whether the document declares that the server accepts tokens that are bound to a key (RFC 9449).
    pub(crate) accepts_dpop: bool,
}

/// Returns the metadata of an MCP server. `None` if the server has no document, as servers of 2025-03-26 have none.
///
/// # Errors
/// If the document belongs to another server, names no issuer, or cannot be read because of an outage. Also if the client must
/// not read the only document, such as at a private address.
pub(crate) async fn resource(
    reader: Reader<'_>,
    endpoint: &Url,
    challenge: Option<&str>,
) -> Result<Option<Resource>, Error> {
    let mut forbidden = None;
    for url in resource::places(endpoint, challenge) {
        let document = match read(reader, StepKind::ResourceMetadata, &url, HeaderMap::new()).await? {
            Answer::Document(document) => document,
            Answer::Forbidden(error) => {
                forbidden = Some(error);
                continue;
            }
            Answer::Missing(reason) => {
                tracing::debug!(url = shown(&url), reason, "the server has no protected resource metadata here");
                continue;
            }
        };
        let metadata = serde_json::from_value::<ProtectedResourceMetadata>(document).map_err(|_| {
            let text = format!("the protected resource metadata at {} has no member `resource`", shown(&url));
            Error::new(ErrorKind::Discovery, text)
        });
        let metadata = reader.trail.check(DiscoveryRule::ResourceDocument, metadata)?;
        return resource::judge(metadata, endpoint, &shown(&url), reader.trail).map(Some);
    }
    // A document that the client must not read may exist.
    forbidden.map_or(Ok(None), Err)
}

/// Returns the metadata of an authorization server. `quirks` are those of the issuer.
///
/// # Errors
/// If no document belongs to the issuer, or an outage prevents the search.
pub(crate) async fn server(reader: Reader<'_>, issuer: &str, quirks: &[Quirk]) -> Result<Server, Error> {
    let urls = AuthorizationServerMetadata::well_known_urls(issuer).ok_or_else(|| {
        let text = format!("the issuer {issuer:?} is not a URL of an authorization server");
        Error::new(ErrorKind::Discovery, text)
    });
    let urls = reader.trail.check(DiscoveryRule::IssuerUrl, urls)?;
    let mut reasons = Vec::new();
    for url in urls {
        let reason = match read(reader, StepKind::ServerMetadata, &url, HeaderMap::new()).await? {
            Answer::Missing(reason) => reason,
            Answer::Forbidden(error) => error.to_string(),
            Answer::Document(document) => match noted(reader.trail, judge(document, issuer, quirks)) {
                Ok(server) => return Ok(server),
                Err(reason) => reason,
            },
        };
        tracing::debug!(url = shown(&url), reason, "the authorization server has no valid metadata here");
        reasons.push(format!("{}: {reason}", shown(&url)));
    }
    let text = format!("the issuer {issuer} has no valid metadata ({})", reasons.join("; "));
    Err(Error::new(ErrorKind::Discovery, text))
}

/// Records the check of a document, and the quirks that the client applies.
fn noted(trail: &Trail, judged: Result<Server, String>) -> Result<Server, String> {
    if let Ok(server) = &judged {
        trail.edit(|step| step.quirks.clone_from(&server.quirks));
    }
    trail.check(DiscoveryRule::IssuerEqual, judged)
}

/// Returns the authorization server of an MCP server of 2025-03-26, which is the server itself.
///
/// # Errors
/// If an outage prevents the search.
pub(crate) async fn legacy(reader: Reader<'_>, endpoint: &Url) -> Result<Server, Error> {
    let origin = endpoint.origin().ascii_serialization();
    let url = format!("{origin}{}", AuthorizationServerMetadata::WELL_KNOWN);
    let version = ProtocolVersion::V2025_03_26.as_str();
    let version = (HeaderName::from_static("mcp-protocol-version"), HeaderValue::from_static(version));
    let headers = HeaderMap::from_iter([version]);
    let reason = match read(reader, StepKind::LegacyMetadata, &url, headers).await? {
        Answer::Document(document) => match server::judge_legacy(document, &origin) {
            Ok(server) => return Ok(server),
            Err(reason) => reason,
        },
        Answer::Missing(reason) => reason,
        Answer::Forbidden(error) => return Err(error),
    };
    tracing::debug!(%url, reason, "the server has no metadata, so its default endpoints are used");
    Ok(server::default_endpoints(&origin))
}

enum Answer {
    Document(Value),
    /// There is no document at this URL. The text has the reason.
    Missing(String),
    /// The client must not send the request: the host or the scheme is not allowed.
    Forbidden(Error),
}

/// Reads a document, and records the step.
async fn read(reader: Reader<'_>, kind: StepKind, url: &str, headers: HeaderMap) -> Result<Answer, Error> {
    let mut status = None;
    let answer = answer(reader.fetch, url, headers, &mut status).await;
    reader.trail.add(|| {
        let mut step = DiscoveryStep::new(kind, Some(url));
        step.status = status;
        match &answer {
            Ok(Answer::Document(document)) => step.document = Some(document.clone()),
            Ok(Answer::Missing(reason)) => step.absence = Some(reason.clone()),
            Ok(Answer::Forbidden(error)) | Err(error) => step.absence = Some(error.to_string()),
        }
        step
    });
    answer
}

/// Requests a document. An outage is an error, because the next URL would then give a different result than without it.
async fn answer(fetch: &Fetch, url: &str, headers: HeaderMap, noted: &mut Option<StatusCode>) -> Result<Answer, Error> {
    let response = match fetch.get_with(url, headers).await {
        Ok(response) => response,
        Err(error) if error.is_temporary() => {
            return Err(Error::fetch(ErrorKind::Discovery, &format!("cannot read {}", shown(url)), error));
        }
        Err(error) if matches!(error.kind(), FetchErrorKind::Blocked | FetchErrorKind::Url) => {
            let error = Error::fetch(ErrorKind::Discovery, &format!("cannot read {}", shown(url)), error);
            return Ok(Answer::Forbidden(error));
        }
        Err(error) => return Ok(Answer::Missing(error.to_string())),
    };
    let status = response.status();
    *noted = Some(status);
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        let text = format!("cannot read {}: the status is {status}", shown(url));
        return Err(Error::new(ErrorKind::Unavailable, text));
    }
    if !status.is_success() {
        return Ok(Answer::Missing(format!("the status is {status}")));
    }
    match response.json::<Value>() {
        Ok(document @ Value::Object(_)) => Ok(Answer::Document(document)),
        Ok(_) => Ok(Answer::Missing("the document is not a JSON object".into())),
        Err(error) => Ok(Answer::Missing(error.to_string())),
    }
}

#[cfg(test)]
mod tests;
