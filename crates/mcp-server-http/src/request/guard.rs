//! The check of `Host` and `Origin` on every request. It prevents calls from web pages by DNS rebinding and cross-site
//! requests.

use std::{borrow::Cow, net::IpAddr};

use http::{HeaderMap, Request, header, uri::Authority};

/// The header that is not allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blocked {
    Host,
    Origin,
}

impl Blocked {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Host => "the Host header does not name this server: see `allowed_hosts`",
            Self::Origin => "this Origin may not call the server: see `allowed_origins`",
        }
    }
}

/// The allowed hosts and origins, parsed once.
#[derive(Debug)]
pub(crate) struct Guard {
    hosts: Vec<HostPort<'static>>,
    origins: Vec<Origin<'static>>,
    any_host: bool,
    any_origin: bool,
}

/// A host with a port, or with any port.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HostPort<'a> {
    host: Cow<'a, str>,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin<'a> {
    Null,
    /// The origin of a request always has a port. A configured origin without a port matches any port.
    Tuple {
        scheme: String,
        at: HostPort<'a>,
    },
}

impl Guard {
    /// Allows these hosts and origins beside the loopback ones. The guard ignores a text that is invalid.
    pub(crate) fn new(hosts: &[String], origins: &[String]) -> Self {
        Self {
            hosts: hosts.iter().filter_map(|host| parse_host(host)).map(HostPort::into_owned).collect(),
            origins: origins.iter().filter_map(|origin| parse_allowed_origin(origin)).map(Origin::into_owned).collect(),
            any_host: false,
            any_origin: false,
        }
    }

    /// Allows every host.
    pub(crate) fn any_host(self) -> Self {
        Self { any_host: true, ..self }
    }

    /// Allows every origin.
    pub(crate) fn any_origin(self) -> Self {
        Self { any_origin: true, ..self }
    }

    /// Checks the host of a request only.
    pub(crate) fn check_host<B>(&self, request: &Request<B>) -> Result<(), Blocked> {
        self.host(request).map(drop)
    }

    /// Checks the host and the origin of a request.
    pub(crate) fn check<B>(&self, request: &Request<B>) -> Result<(), Blocked> {
        let headers = request.headers();
        let host = self.host(request)?;
        if self.any_origin {
            return Ok(());
        }
        let mut origins = headers.get_all(header::ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => {
                // Browsers omit `Origin` from some requests. They always send `Sec-Fetch-Site`.
                let is_cross_site = headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site");
                if is_cross_site { Err(Blocked::Origin) } else { Ok(()) }
            }
            (Some(origin), None) => {
                let origin = origin.to_str().ok().and_then(parse_origin).ok_or(Blocked::Origin)?;
                if self.allows_origin(&origin, host.as_ref()) { Ok(()) } else { Err(Blocked::Origin) }
            }
            (Some(_), Some(_)) => Err(Blocked::Origin),
        }
    }

    /// Returns the host of a request. `None` if the host is unknown, and any host is allowed.
    fn host<'a, B>(&self, request: &'a Request<B>) -> Result<Option<HostPort<'a>>, Blocked> {
        let host = host_of(request);
        let is_allowed = self.any_host || host.as_ref().is_some_and(|host| self.allows_host(host));
        if is_allowed { Ok(host) } else { Err(Blocked::Host) }
    }

    fn allows_host(&self, host: &HostPort<'_>) -> bool {
        is_loopback(&host.host) || self.hosts.iter().any(|allowed| allowed.covers(host))
    }

    fn allows_origin(&self, origin: &Origin<'_>, host: Option<&HostPort<'_>>) -> bool {
        match origin {
            Origin::Null => self.origins.contains(&Origin::Null),
            Origin::Tuple { scheme, at } => {
                let is_web = scheme == "http" || scheme == "https";
                let is_same =
                    host.is_some_and(|host| host.host == at.host && host.port.or(default_port(scheme)) == at.port);
                // A local page may call a local server. A server under a public name is not local.
                let is_local = is_loopback(&at.host) && host.is_none_or(|host| is_loopback(&host.host));
                (is_web && (is_same || is_local))
                    || self.origins.iter().any(|allowed| match allowed {
                        Origin::Tuple { scheme: s, at: a } => s == scheme && a.covers(at),
                        Origin::Null => false,
                    })
            }
        }
    }
}

impl HostPort<'_> {
    fn covers(&self, other: &HostPort<'_>) -> bool {
        self.host == other.host && (self.port.is_none() || self.port == other.port)
    }

    fn into_owned(self) -> HostPort<'static> {
        HostPort { host: self.host.into_owned().into(), port: self.port }
    }
}

impl Origin<'_> {
    fn into_owned(self) -> Origin<'static> {
        match self {
            Self::Null => Origin::Null,
            Self::Tuple { scheme, at } => Origin::Tuple { scheme, at: at.into_owned() },
        }
    }
}

/// Whether a configured text is a host, with or without a port.
pub(crate) fn is_host(text: &str) -> bool {
    parse_host(text).is_some()
}

/// Whether a configured text is an origin.
pub(crate) fn is_origin(text: &str) -> bool {
    parse_allowed_origin(text).is_some()
}

/// Returns the host of a request: the authority of its target (HTTP/2, absolute form) or its only `Host` header.
fn host_of<B>(request: &Request<B>) -> Option<HostPort<'_>> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    match (request.uri().authority(), hosts.next(), hosts.next()) {
        (_, Some(_), Some(_)) => None,
        (Some(authority), None, _) => parse_host(authority.as_str()),
        (None, Some(host), None) => parse_host(host.to_str().ok()?),
        (Some(authority), Some(host), None) => {
            let host = parse_host(host.to_str().ok()?)?;
            (parse_host(authority.as_str())? == host).then_some(host)
        }
        (None, None, _) => None,
    }
}

/// Parses `host`, `host:port`, `[v6]` or `[v6]:port`. Rejects user information and other characters.
fn parse_host(text: &str) -> Option<HostPort<'_>> {
    parse_plain_host(text).or_else(|| parse_any_host(text))
}

/// Parses `host` or `host:port` of lower-case letters, digits, `-` and `.`. Nearly every request has such a host, which needs
/// no copy. Returns `None` for other texts, also for valid ones.
fn parse_plain_host(text: &str) -> Option<HostPort<'_>> {
    let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
    let is_plain = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
    if host.is_empty() || host.ends_with('.') || !host.bytes().all(is_plain) {
        return None;
    }
    let port = match port {
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => Some(port.parse().ok()?),
        Some(_) => return None,
        None => None,
    };
    Some(HostPort { host: host.into(), port })
}

fn parse_any_host(text: &str) -> Option<HostPort<'static>> {
    if text.is_empty() || text.contains(['@', '/', '?', '#', ' ', '\\', '%', '*']) {
        return None;
    }
    let authority: Authority = text.parse().ok()?;
    let host = authority.host();
    let rest = &authority.as_str()[host.len()..];
    let port = match rest.strip_prefix(':') {
        Some(port) => Some(port.parse().ok()?),
        None if rest.is_empty() => None,
        None => return None,
    };
    if host.is_empty() {
        return None;
    }
    Some(HostPort { host: normalize(host).into(), port })
}

fn normalize(host: &str) -> String {
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    // Two spellings of one address have to be equal.
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        // Only IPv6 addresses have more than one spelling.
        Ok(IpAddr::V4(_)) => bare.to_owned(),
        Ok(IpAddr::V6(address)) => address.to_string(),
        Err(_) => host,
    }
}

/// Parses a configured origin. `:*` means any port.
fn parse_allowed_origin(text: &str) -> Option<Origin<'_>> {
    let Some(text) = text.strip_suffix(":*") else { return parse_origin(text) };
    let (scheme, at) = parse_tuple(text)?;
    at.port.is_none().then_some(Origin::Tuple { scheme, at })
}

/// Parses the origin of a request. The default port is the port of the scheme (RFC 6454 §4).
fn parse_origin(text: &str) -> Option<Origin<'_>> {
    if text == "null" {
        return Some(Origin::Null);
    }
    let (scheme, mut at) = parse_tuple(text)?;
    at.port = at.port.or(default_port(&scheme));
    Some(Origin::Tuple { scheme, at })
}

fn parse_tuple(text: &str) -> Option<(String, HostPort<'_>)> {
    let (scheme, rest) = text.split_once("://")?;
    if scheme.is_empty() || !scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)) {
        return None;
    }
    let at = parse_host(rest.strip_suffix('/').unwrap_or(rest))?;
    Some((scheme.to_ascii_lowercase(), at))
}

fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

/// Whether a host is `localhost`, 127.0.0.0/8, `::1` or an IPv4-mapped loopback address.
pub(crate) fn is_loopback(host: &str) -> bool {
    if host == "localhost" || host.ends_with(".localhost") {
        return true;
    }
    match host.parse::<IpAddr>() {
        Ok(address) => is_loopback_address(address),
        Err(_) => false,
    }
}

pub(crate) fn is_loopback_address(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback()),
    }
}

/// Returns the origin of a request that passed the guard, for CORS.
pub(crate) fn origin_of(headers: &HeaderMap) -> Option<&http::HeaderValue> {
    headers.get(header::ORIGIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Host headers, Origin headers, and the expected outcome.
    type Case = (&'static [&'static str], &'static [&'static str], Result<(), Blocked>);

    fn check(hosts: &[&str], origins: &[&str], cases: &[Case]) {
        let [hosts, origins] = [hosts, origins].map(|list| list.iter().map(ToString::to_string).collect::<Vec<_>>());
        let guard = Guard::new(&hosts, &origins);
        for (hosts, origins, expected) in cases {
            let mut request = Request::builder().uri("/mcp");
            for host in *hosts {
                request = request.header(header::HOST, *host);
            }
            for origin in *origins {
                request = request.header(header::ORIGIN, *origin);
            }
            assert_eq!(guard.check(&request.body(()).unwrap()), *expected, "{hosts:?} {origins:?}");
        }
    }

    #[test]
    fn only_loopback_names_are_allowed_by_default() {
        let (ok, host, origin) = (Ok(()), Err(Blocked::Host), Err(Blocked::Origin));
        check(
            &[],
            &[],
            &[
                (&["localhost:8080"], &[], ok),
                (&["LOCALHOST"], &[], ok),
                (&["localhost."], &[], ok),
                (&["127.0.0.1:1"], &[], ok),
                (&["127.0.0.2"], &[], ok),
                (&["[::1]:8080"], &[], ok),
                (&["[::ffff:127.0.0.1]"], &[], ok),
                (&[], &[], host),
                (&["evil.example"], &[], host),
                (&["localhost.evil.example"], &[], host),
                (&["localhost", "localhost"], &[], host),
                (&["user@localhost"], &[], host),
                (&["[::1]evil"], &[], host),
                (&["localhost:99999"], &[], host),
                (&["localhost:"], &[], host),
                (&["192.168.0.1"], &[], host),
                (&["0.0.0.0"], &[], host),
                (&["localhost"], &["http://localhost:5173"], ok),
                (&["localhost"], &["http://127.0.0.1"], ok),
                (&["localhost"], &["https://[::1]:3"], ok),
                (&["localhost"], &["https://attacker.example"], origin),
                (&["localhost"], &["null"], origin),
                (&["localhost"], &["file://"], origin),
                (&["localhost"], &["http://localhost", "http://localhost"], origin),
                (&["localhost"], &["http://localhost.evil.example"], origin),
                (&["localhost"], &["http://localhost@evil.example"], origin),
                (&["localhost"], &[""], origin),
            ],
        );
    }

    #[test]
    fn allowed_lists_extend_the_loopback_names() {
        let (ok, host, origin) = (Ok(()), Err(Blocked::Host), Err(Blocked::Origin));
        check(
            &["mcp.example.com", "other.example:8443"],
            &["https://app.example.com", "https://port.example:444", "http://any.example:*", "null"],
            &[
                (&["mcp.example.com"], &[], ok),
                (&["mcp.example.com:444"], &[], ok),
                (&["other.example:8443"], &[], ok),
                (&["other.example"], &[], host),
                (&["localhost"], &["http://localhost:1"], ok),
                (&["mcp.example.com"], &["https://app.example.com"], ok),
                (&["mcp.example.com"], &["https://app.example.com:443"], ok),
                (&["mcp.example.com"], &["https://app.example.com:9"], origin),
                (&["mcp.example.com"], &["http://app.example.com"], origin),
                (&["mcp.example.com"], &["http://app.example.com:443"], origin),
                (&["mcp.example.com"], &["http://any.example"], ok),
                (&["mcp.example.com"], &["http://any.example:9"], ok),
                (&["mcp.example.com"], &["https://any.example"], origin),
                (&["mcp.example.com"], &["http://any.example:*"], origin),
                (&["mcp.example.com"], &["https://port.example:444"], ok),
                (&["mcp.example.com"], &["https://port.example"], origin),
                (&["mcp.example.com"], &["https://mcp.example.com"], ok),
                (&["mcp.example.com:443"], &["https://mcp.example.com"], ok),
                (&["mcp.example.com"], &["http://mcp.example.com:80"], ok),
                (&["mcp.example.com:8000"], &["https://mcp.example.com"], origin),
                (&["mcp.example.com"], &["null"], ok),
                (&["mcp.example.com"], &["http://localhost:3000"], origin),
            ],
        );
    }

    #[test]
    fn the_host_of_the_target_must_equal_the_host_header() {
        let guard = Guard::new(&["mcp.example.com".to_owned()], &[]);
        let (ok, blocked) = (Ok(()), Err(Blocked::Host));
        for (target, host, expected) in [
            ("http://mcp.example.com/mcp", None, ok),
            ("http://evil.example/mcp", None, blocked),
            ("http://mcp.example.com/mcp", Some("mcp.example.com"), ok),
            ("http://mcp.example.com/mcp", Some("MCP.example.com."), ok),
            ("http://mcp.example.com/mcp", Some("localhost"), blocked),
            ("http://localhost/mcp", Some("mcp.example.com"), blocked),
            ("http://evil.example/mcp", Some("mcp.example.com"), blocked),
            ("http://mcp.example.com/mcp", Some("evil.example"), blocked),
            ("http://mcp.example.com:1/mcp", Some("mcp.example.com:2"), blocked),
        ] {
            let mut request = Request::builder().uri(target);
            if let Some(host) = host {
                request = request.header(header::HOST, host);
            }
            assert_eq!(guard.check(&request.body(()).unwrap()), expected, "{target} {host:?}");
        }
    }

    #[test]
    fn each_check_can_be_disabled_alone() {
        let guard = || Guard::new(&[], &[]);
        let (ok, host, origin) = (Ok(()), Err(Blocked::Host), Err(Blocked::Origin));
        // The outcomes for a foreign host, for a foreign origin, and for a foreign host if the origin is not checked.
        for (guard, expected) in [
            (guard(), [host, origin, host]),
            (guard().any_host(), [ok, origin, ok]),
            (guard().any_origin(), [host, ok, host]),
        ] {
            let foreign_host = Request::builder().header(header::HOST, "evil.example").body(()).unwrap();
            let mut foreign_origin = Request::builder().header(header::HOST, "localhost").body(()).unwrap();
            foreign_origin.headers_mut().insert(header::ORIGIN, "https://evil.example".parse().unwrap());
            let found = [guard.check(&foreign_host), guard.check(&foreign_origin), guard.check_host(&foreign_host)];
            assert_eq!(found, expected, "{guard:?}");
            assert_eq!(guard.check_host(&foreign_origin), ok, "{guard:?}");
        }
    }

    #[test]
    fn a_rejection_names_its_setting() {
        for (blocked, setting) in [(Blocked::Host, "`allowed_hosts`"), (Blocked::Origin, "`allowed_origins`")] {
            assert!(blocked.text().contains(setting), "{}", blocked.text());
        }
    }

    #[test]
    fn a_plain_host_is_parsed_like_any_host() {
        for (text, is_plain) in [
            ("localhost", true),
            ("localhost:8080", true),
            ("a-b.example:0", true),
            ("127.0.0.1:65535", true),
            ("127.0.0.1", true),
            ("1.2", true),
            ("0x7f.1", true),
            (".", false),
            ("localhost.", false),
            ("localhost:", false),
            ("localhost:65536", false),
            ("localhost:+80", false),
            ("localhost:80:80", false),
            ("LOCALHOST", false),
            ("[::1]:80", false),
            ("me@localhost", false),
            ("a_b", false),
            ("a b", false),
            ("", false),
        ] {
            let plain = parse_plain_host(text);
            assert_eq!(plain.is_some(), is_plain, "{text}");
            assert_eq!(parse_host(text), parse_any_host(text), "{text}");
        }
    }

    #[test]
    fn configured_hosts_are_validated() {
        for (text, ok) in [
            ("mcp.example.com", true),
            ("mcp.example.com:8443", true),
            ("[2001:db8::1]:8443", true),
            ("https://mcp.example.com", false),
            ("mcp.example.com/mcp", false),
            ("*.example.com", false),
            ("", false),
        ] {
            assert_eq!(is_host(text), ok, "{text}");
        }
    }

    #[test]
    fn configured_origins_are_validated() {
        for (text, ok) in [
            ("https://app.example.com", true),
            ("https://app.example.com:*", true),
            ("app://bundle", true),
            ("app.example.com", false),
            ("://app.example.com", false),
            ("my app://bundle", false),
            ("https://app.example.com:444:*", false),
            ("https://*.example.com", false),
            ("null:*", false),
            ("https://app.example.com/path", false),
        ] {
            assert_eq!(is_origin(text), ok, "{text}");
        }
    }

    #[test]
    fn cross_site_requests_without_an_origin_are_rejected() {
        let guard = Guard::new(&[], &[]);
        let request = |site: &str| {
            Request::builder().header(header::HOST, "localhost").header("sec-fetch-site", site).body(()).unwrap()
        };
        assert_eq!(guard.check(&request("cross-site")), Err(Blocked::Origin));
        assert_eq!(guard.check(&request("same-origin")), Ok(()));
    }
}
