//! The headers that mirror a message (2025-06-18 and 2026-07-28, transports), and the headers of a response.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, header};
use mcp_protocol::{Challenge, Excerpt, mirror};
use mcp_transport::{Hints, LONGEST_RETRY_AFTER};

use crate::fault::Fault;

pub(crate) const SESSION: HeaderName = HeaderName::from_static(mirror::SESSION_ID);
pub(crate) const VERSION: HeaderName = HeaderName::from_static(mirror::PROTOCOL_VERSION);
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static(mirror::LAST_EVENT_ID);
const METHOD: HeaderName = HeaderName::from_static(mirror::METHOD);
const NAME: HeaderName = HeaderName::from_static(mirror::NAME);

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
pub(crate) const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
pub(crate) const JSON_OR_EVENTS: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// Returns true if a message belongs to the stateless era. A message without a revision belongs to a session.
pub(crate) fn is_stateless(hints: &Hints) -> bool {
    hints.version.is_some_and(|version| version.is_stateless())
}

/// Adds the headers that mirror the hints of a message.
pub(crate) fn add_mirrored(hints: &Hints, headers: &mut HeaderMap) -> Result<(), Fault> {
    let Some(version) = hints.version else { return Ok(()) };
    // `initialize` negotiates the version, and servers that check the header may not know this one.
    if version.has_version_header() && hints.method.as_deref() != Some("initialize") {
        headers.insert(VERSION, HeaderValue::from_static(version.as_str()));
    }
    if version.has_mirrored_headers() {
        if let Some(method) = &hints.method {
            headers.insert(METHOD, HeaderValue::from_str(method).map_err(|_| unsendable("the method", method))?);
        }
        if let Some(name) = &hints.name {
            headers.insert(NAME, header_value(name)?);
        }
        for (name, value) in &hints.params {
            let param = HeaderName::try_from(format!("{}{name}", mirror::PARAM_PREFIX));
            headers.append(param.map_err(|_| unsendable("the parameter", name))?, header_value(value)?);
        }
    }
    Ok(())
}

fn header_value(value: &str) -> Result<HeaderValue, Fault> {
    HeaderValue::from_str(&mirror::encode(value)).map_err(|_| Fault::Unsendable("a value".to_owned()))
}

fn unsendable(what: &str, name: &str) -> Fault {
    Fault::Unsendable(format!("{what} {:?}", Excerpt::new(name)))
}

/// Returns the id of the session that a response opened. An id that is not visible ASCII is ignored.
pub(crate) fn session(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut id = headers.get(SESSION)?.clone();
    if id.is_empty() || !id.as_bytes().iter().all(u8::is_ascii_graphic) {
        tracing::warn!("the id of the session is not visible ASCII and is ignored");
        return None;
    }
    id.set_sensitive(true);
    Some(id)
}

/// Returns the content type in lower case, without parameters.
pub(crate) fn content_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Returns the challenges of a refused request.
pub(crate) fn challenges(headers: &HeaderMap) -> Vec<Challenge> {
    let values = headers.get_all(header::WWW_AUTHENTICATE).iter();
    let texts: Vec<_> = values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
    Challenge::parse(texts.iter().map(AsRef::as_ref))
}

/// Returns the wait that the server requested, in seconds or until a date.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match value.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(value).ok()?.duration_since(now).unwrap_or_default(),
    };
    Some(wait.min(LONGEST_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use mcp_protocol::ProtocolVersion;

    use super::*;

    fn hints(version: &str, method: &str) -> Hints {
        let mut hints = Hints::default();
        hints.version = ProtocolVersion::parse(version);
        hints.method = Some(method.into());
        hints.name = Some("ü".into());
        hints.params = vec![("Region".into(), "eu".into())];
        hints
    }

    #[track_caller]
    fn check(version: &str, method: &str, expected: &[(&str, &str)]) {
        let mut headers = HeaderMap::new();
        add_mirrored(&hints(version, method), &mut headers).unwrap();
        let got: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(got, expected, "{version} {method}");
    }

    #[test]
    fn each_revision_mirrors_the_headers_that_it_defines() {
        check("", "tools/call", &[]);
        check("2024-11-05", "tools/call", &[]);
        check("2025-03-26", "tools/call", &[]);
        check("2025-06-18", "tools/call", &[("mcp-protocol-version", "2025-06-18")]);
        check("2025-11-25", "tools/call", &[("mcp-protocol-version", "2025-11-25")]);
        check("2025-11-25", "initialize", &[]);
        check(
            "2026-07-28",
            "tools/call",
            &[
                ("mcp-protocol-version", "2026-07-28"),
                ("mcp-method", "tools/call"),
                ("mcp-name", "=?base64?w7w=?="),
                ("mcp-param-region", "eu"),
            ],
        );
    }

    #[test]
    fn invalid_header_values_are_rejected() {
        assert!(add_mirrored(&hints("2026-07-28", "a\nb"), &mut HeaderMap::new()).is_err());
        let mut with_param = hints("2026-07-28", "tools/call");
        with_param.params = vec![("a b".into(), "x".into())];
        assert!(add_mirrored(&with_param, &mut HeaderMap::new()).is_err());
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        for (value, expected) in [
            ("120", Some(120)),
            (" 0 ", Some(0)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sun, 06 Nov 1994 08:49:07 GMT", Some(0)),
            ("86401", Some(86_400)),
            ("18446744073709551615", Some(86_400)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(86_400)),
            ("-1", None),
            ("soon", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(value));
            assert_eq!(retry_after(&headers, now), expected.map(Duration::from_secs), "{value}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }

    #[test]
    fn session_ids_must_be_visible_ascii() {
        for (value, is_taken) in [(&b"s-1"[..], true), (b"", false), (b"a b", false), (b"\xff", false), (b"!~", true)] {
            let mut headers = HeaderMap::new();
            headers.insert(SESSION, HeaderValue::from_bytes(value).unwrap());
            assert_eq!(session(&headers).is_some(), is_taken, "{value:?}");
        }
    }

    #[test]
    fn content_types_are_compared_without_parameters() {
        let mut headers = HeaderMap::new();
        assert_eq!(content_type(&headers), "");
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("Text/Event-Stream ; charset=utf-8"));
        assert_eq!(content_type(&headers), "text/event-stream");
    }
}
