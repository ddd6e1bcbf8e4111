//! The first request of an explanation, with the redirects that the client follows.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use mcp_fetch::{FetchError, FetchErrorKind, Response};
use mcp_protocol::{Challenge, ErrorCode, ProtocolVersion};
use serde_json::{Value, json};
use url::Url;

use crate::{
    error::{Error, ErrorKind},
    session::{Refused, Session},
    trail::{self, DiscoveryRule, DiscoveryStep, StepKind, Trail},
};

/// The largest number of redirects, which is that of the HTTP client.
const MAX_REDIRECTS: usize = 3;

/// The answer to a request without authorization.
pub(super) struct Asked {
    pub(super) refused: Refused,
    /// The status of the last response.
    pub(super) status: Option<StatusCode>,
    /// The outage of the server, with which a login would fail.
    pub(super) outage: Option<Error>,
}

impl Session {
    /// Sends a request without authorization, follows redirects like the HTTP client, and returns the refusal of the server.
    ///
    /// # Errors
    /// If the URL is not that of an MCP endpoint.
    pub(super) async fn challenge(&self, trail: &Trail) -> Result<Asked, Error> {
        let (headers, body) = request();
        let mut url = self.endpoint.clone();
        let mut redirects = 0;
        loop {
            let response = self.fetch().post_json_once(url.as_str(), &body, headers.clone()).await;
            let mut step = DiscoveryStep::new(StepKind::Challenge, Some(url.as_str()));
            let Some(target) = response.as_ref().ok().and_then(|response| redirect(response, &url)) else {
                return self.judge(response, step, &url, trail).await;
            };
            let keeps_request =
                |status| matches!(status, Some(StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT));
            step.status = response.ok().map(|response| response.status());
            let status = step.status.map(|status| status.as_u16()).unwrap_or_default();
            let reason = match &target {
                Some(target) if target.origin() != self.endpoint.origin() => Some(format!(
                    "the server redirects to {}, and the client stays in the origin of the URL",
                    target.origin().ascii_serialization()
                )),
                Some(_) if !keeps_request(step.status) => {
                    Some(format!("the redirect with the status {status} changes the method of the request"))
                }
                Some(_) if redirects == MAX_REDIRECTS => Some("there are too many redirects".to_owned()),
                Some(_) => None,
                None => Some(format!("the redirect with the status {status} has no target")),
            };
            if let Some(reason) = reason {
                step.absence = Some(reason.clone());
                trail.add(|| step);
                return trail.check(DiscoveryRule::Endpoint, Err(self.not_an_endpoint(&reason)));
            }
            redirects += 1;
            url = target.unwrap_or(url);
            step.redirect = Some(trail::shown(url.as_str()));
            trail.add(|| step);
        }
    }

    /// Judges the answer that is not a redirect.
    async fn judge(
        &self,
        response: Result<Response, FetchError>,
        mut step: DiscoveryStep,
        url: &Url,
        trail: &Trail,
    ) -> Result<Asked, Error> {
        let none = || Refused { status: StatusCode::UNAUTHORIZED, challenges: Vec::new(), token: None };
        let response = match response {
            Ok(response) => response,
            Err(error) => {
                step.absence = Some(error.to_string());
                trail.add(|| step);
                // The next request reports the fault.
                return Ok(Asked { refused: none(), status: None, outage: None });
            }
        };
        let fault = fault(&response);
        let refused = describe(&mut step, &response);
        trail.add(|| step);
        let (refused, status) = match fault {
            None => (refused, response.status()),
            // A server with HTTP+SSE has no POST at this URL.
            Some(reason) => match self.stream(url, response.status(), trail).await {
                Some(found) => found,
                None => return trail.check(DiscoveryRule::Endpoint, Err(self.not_an_endpoint(&reason))),
            },
        };
        let is_outage = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
        let outage = is_outage.then(|| {
            let text = format!("{} answered with the status {status}", trail::shown(url.as_str()));
            Error::new(ErrorKind::Unavailable, text)
        });
        if outage.is_none() {
            trail.check(DiscoveryRule::Endpoint, Ok::<_, Error>(()))?;
        }
        Ok(Asked { refused, status: Some(status), outage })
    }

    /// Requests the stream of a server with HTTP+SSE (2024-11-05), which answers a POST with 404 or 405. Returns
    /// `None` if the server has no such stream.
    async fn stream(&self, url: &Url, status: StatusCode, trail: &Trail) -> Option<(Refused, StatusCode)> {
        if !matches!(status, StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED) {
            return None;
        }
        let accept = (header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        let response = self.fetch().get_with(url.as_str(), HeaderMap::from_iter([accept])).await;
        let mut step = DiscoveryStep::new(StepKind::Challenge, Some(url.as_str()));
        let found = match &response {
            Ok(response) => {
                let refused = describe(&mut step, response);
                let is_stream = response.status().is_success() && media_type(response) == "text/event-stream";
                let is_found = is_stream || response.status() == StatusCode::UNAUTHORIZED;
                is_found.then_some((refused, response.status()))
            }
            // The stream did not end within the limits of a document.
            Err(error) if matches!(error.kind(), FetchErrorKind::TimedOut | FetchErrorKind::TooLarge) => {
                step.absence = Some("the server sends a stream".to_owned());
                let refused = Refused { status: StatusCode::UNAUTHORIZED, challenges: Vec::new(), token: None };
                Some((refused, StatusCode::OK))
            }
            Err(_) => None,
        };
        if found.is_some() {
            trail.add(|| step);
        }
        found
    }

    fn not_an_endpoint(&self, reason: &str) -> Error {
        let text = format!("{} is not an MCP endpoint: {reason}", trail::shown(self.endpoint.as_str()));
        Error::new(ErrorKind::Discovery, text)
    }
}

/// Returns the headers and the body of the request.
fn request() -> (HeaderMap, Value) {
    let version = ProtocolVersion::LATEST.as_str();
    let headers = [
        (header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream")),
        (HeaderName::from_static("mcp-protocol-version"), HeaderValue::from_static(version)),
        (HeaderName::from_static("mcp-method"), HeaderValue::from_static("tools/list")),
    ];
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/list",
        "params": {"_meta": {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientInfo": {"name": "mcp-oauth", "version": env!("CARGO_PKG_VERSION")},
            "io.modelcontextprotocol/clientCapabilities": {},
        }},
    });
    (HeaderMap::from_iter(headers), body)
}

/// Returns the target of a redirect. The inner value is `None` if the redirect has no valid target.
fn redirect(response: &Response, url: &Url) -> Option<Option<Url>> {
    if !response.status().is_redirection() {
        return None;
    }
    let location = response.headers().get(header::LOCATION).and_then(|location| location.to_str().ok());
    Some(location.and_then(|location| url.join(location).ok()))
}

/// Writes the status and the challenges of a response into its step, and returns the refusal.
fn describe(step: &mut DiscoveryStep, response: &Response) -> Refused {
    let values = response.headers().get_all(header::WWW_AUTHENTICATE);
    let challenges = Challenge::parse(values.iter().filter_map(|value| value.to_str().ok()));
    let status = response.status();
    step.status = Some(status);
    if challenges.is_empty() {
        step.absence = Some(format!("the server answered with the status {status} and no challenge"));
    } else {
        step.document = Some(json!({"challenges": challenges.iter().map(shown).collect::<Vec<_>>()}));
    }
    Refused { status: StatusCode::UNAUTHORIZED, challenges, token: None }
}

/// Returns why a response cannot be that of an MCP endpoint.
fn fault(response: &Response) -> Option<String> {
    let status = response.status();
    match status {
        // An endpoint of 2026-07-28 without tools answers with 404 and the error of an unknown method.
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::GONE => {
            let unknown_method = ErrorCode::METHOD_NOT_FOUND.0;
            let is_endpoint =
                response.json::<Value>().is_ok_and(|message| message["error"]["code"].as_i64() == Some(unknown_method));
            (!is_endpoint).then(|| format!("the server answered with the status {status}"))
        }
        status if status.is_success() && media_type(response) == "text/html" => {
            Some("the server answered with an HTML page".to_owned())
        }
        _ => None,
    }
}

/// Returns the media type of a response, in lower case and without parameters.
fn media_type(response: &Response) -> String {
    let value = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Returns the parts of a challenge that are not secret.
fn shown(challenge: &Challenge) -> Value {
    let mut shown = json!({"scheme": challenge.scheme});
    // A URL may contain a key.
    let metadata = challenge.resource_metadata.as_deref().map(trail::shown);
    for (name, value) in [
        ("realm", &challenge.realm),
        ("error", &challenge.error),
        ("error_description", &challenge.error_description),
        ("scope", &challenge.scope),
        ("resource_metadata", &metadata),
        ("algs", &challenge.algs),
    ] {
        if let Some(value) = value {
            shown[name] = value.as_str().into();
        }
    }
    for (name, value) in challenge.params.iter().filter(|(name, _)| matches!(name.as_str(), "header" | "in" | "name")) {
        shown[name.as_str()] = value.as_str().into();
    }
    shown
}
