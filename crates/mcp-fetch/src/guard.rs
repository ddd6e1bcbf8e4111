//! The checks of URLs, hosts and addresses.

use std::net::IpAddr;

use url::{Host, Url};

use crate::{
    address::{self, METADATA, Network, unwrap_v4},
    error::{FetchError, FetchErrorKind},
};

/// The rules of one [`Fetch`](crate::Fetch).
#[derive(Debug, Clone, Default)]
pub(crate) struct Guard {
    pub(crate) allows_loopback: bool,
    pub(crate) networks: Vec<Network>,
    pub(crate) hosts: Vec<String>,
    /// The host of the proxy, if there is one.
    pub(crate) proxy: Option<String>,
}

/// The zones of private names, which a proxy may resolve to private addresses.
const PRIVATE_ZONES: [&str; 12] = [
    "internal",
    "local",
    "localdomain",
    "home.arpa",
    "lan",
    "intranet",
    "corp",
    "svc",
    "cluster",
    "private",
    "home",
    "consul",
];

impl Guard {
    /// Checks everything about a URL that is known without a lookup.
    pub(crate) fn check_url(&self, url: &Url) -> Result<(), FetchError> {
        let insecure = |text| Err(FetchError::new(FetchErrorKind::Url, text));
        let host = match url.host() {
            Some(Host::Domain(name)) => normalized(name),
            Some(Host::Ipv4(address)) => IpAddr::V4(address).to_string(),
            Some(Host::Ipv6(address)) => IpAddr::V6(address).to_string(),
            None => return insecure("the URL has no host"),
        };
        let literal: Option<IpAddr> = host.parse().ok();
        let is_loopback = literal.is_some_and(address::is_loopback) || is_localhost(&host);
        match url.scheme() {
            "https" => {}
            "http" if is_loopback && self.allows_loopback => {}
            "http" => return insecure("the URL must begin with `https://`"),
            _ => return insecure("the scheme of the URL must be `https`"),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return insecure("the URL contains a user");
        }
        if self.is_allowed_host(&host) {
            return Ok(());
        }
        if let Some(address) = literal {
            return self.check_address(&host, address);
        }
        if is_localhost(&host) && !self.allows_loopback {
            return Err(blocked("the host is this machine"));
        }
        let is_private = !host.contains('.') || PRIVATE_ZONES.iter().any(|zone| is_below(&host, zone));
        if self.proxy.is_some() && is_private && !is_localhost(&host) {
            return Err(blocked("the host has a private name, and the address behind a proxy cannot be checked"));
        }
        Ok(())
    }

    /// Checks an address of a host to which a connection is about to be made.
    pub(crate) fn check_address(&self, host: &str, address: IpAddr) -> Result<(), FetchError> {
        let host = normalized(host);
        let is_loopback = address::is_loopback(address);
        // Requests to names of this machine may have no TLS, so they must not leave it.
        if is_localhost(&host) && !is_loopback {
            return Err(blocked("the name of this machine has the address of another machine"));
        }
        let Some(purpose) = address::forbidden(address) else { return Ok(()) };
        let unwrapped = unwrap_v4(address);
        // A wide network does not open the service that issues the credentials of this machine.
        let mut networks = self.networks.iter().filter(|network| purpose != METADATA || network.is_single());
        let is_allowed = self.is_allowed_host(&host)
            || self.proxy.as_ref() == Some(&host)
            || networks.any(|network| network.contains(unwrapped) || network.contains(address))
            || self.allows_loopback && is_loopback;
        if is_allowed { Ok(()) } else { Err(blocked(format!("the address of the host is forbidden: {purpose}"))) }
    }

    fn is_allowed_host(&self, host: &str) -> bool {
        self.hosts.iter().any(|allowed| allowed == host)
    }
}

fn blocked(text: impl Into<std::borrow::Cow<'static, str>>) -> FetchError {
    FetchError::new(FetchErrorKind::Blocked, text)
}

/// Returns a host in the form in which the guard compares it: lower case, without brackets and final dot.
pub(crate) fn normalized(host: &str) -> String {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

fn is_localhost(host: &str) -> bool {
    is_below(host, "localhost")
}

fn is_below(host: &str, zone: &str) -> bool {
    host.strip_suffix(zone).is_some_and(|start| start.is_empty() || start.ends_with('.'))
}

/// Whether a URL leads to this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => is_localhost(&normalized(name)),
        Some(Host::Ipv4(address)) => address::is_loopback(IpAddr::V4(address)),
        Some(Host::Ipv6(address)) => address::is_loopback(IpAddr::V6(address)),
        None => false,
    }
}

/// Returns a configured host in the form in which the guard compares it. `None` for a text that is not one host, such as a
/// host with a port, a URL or a pattern.
pub(crate) fn configured(text: &str) -> Option<String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_string());
    }
    if text.contains(['*', '%', '@']) {
        return None;
    }
    let host = match Host::parse(text).ok()? {
        Host::Domain(name) => normalized(&name),
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_string(),
    };
    (!host.is_empty()).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_checked_before_a_lookup() {
        use FetchErrorKind::{Blocked, Url as Invalid};
        let public = Guard::default();
        let local = Guard { allows_loopback: true, ..Guard::default() };
        let internal = crate::Fetch::builder().for_server("https://10.0.0.7/mcp").guard;
        let proxied = Guard { proxy: Some("proxy.corp".into()), ..Guard::default() };
        let enterprise = Guard {
            hosts: vec!["login.corp".into(), "10.0.0.7".into()],
            networks: vec!["10.1.0.0/16".parse().unwrap()],
            ..proxied.clone()
        };
        for (guard, url, expected) in [
            (&public, "https://as.example/jwks", None),
            (&internal, "https://10.0.0.7:8443/metadata", None),
            (&internal, "http://10.0.0.7/metadata", Some(Invalid)),
            (&internal, "https://10.0.0.8/", Some(Blocked)),
            (&public, "https://as.example:8443/jwks", None),
            (&public, "https://9.9.9.9/", None),
            (&public, "https://as.internal/", None),
            (&public, "http://as.example/", Some(Invalid)),
            (&public, "http://127.0.0.1/", Some(Invalid)),
            (&public, "ftp://as.example/", Some(Invalid)),
            (&public, "file:///etc/passwd", Some(Invalid)),
            (&public, "data:text/plain,a", Some(Invalid)),
            (&public, "https://user@as.example/", Some(Invalid)),
            (&public, "https://:p@as.example/", Some(Invalid)),
            (&public, "https://127.0.0.1/", Some(Blocked)),
            (&public, "https://2130706433/", Some(Blocked)),
            (&public, "https://0x7f.1/", Some(Blocked)),
            (&public, "https://0177.0.0.1/", Some(Blocked)),
            (&public, "https://127.1/", Some(Blocked)),
            (&public, "https://[::1]/", Some(Blocked)),
            (&public, "https://[::ffff:7f00:1]/", Some(Blocked)),
            (&public, "https://[64:ff9b::a9fe:a9fe]/", Some(Blocked)),
            (&public, "https://169.254.169.254/", Some(Blocked)),
            (&public, "https://localhost/", Some(Blocked)),
            (&public, "https://LOCALHOST./", Some(Blocked)),
            (&public, "https://a.localhost/", Some(Blocked)),
            (&local, "http://127.0.0.1:8080/", None),
            (&local, "http://[::1]:8080/", None),
            (&local, "http://localhost:8080/", None),
            (&local, "https://localhost/", None),
            (&local, "http://as.example/", Some(Invalid)),
            (&local, "http://10.0.0.1/", Some(Invalid)),
            // A translator could send the request to another machine.
            (&local, "http://[64:ff9b::7f00:1]/", Some(Invalid)),
            (&local, "https://[64:ff9b::7f00:1]/", Some(Blocked)),
            (&local, "http://[::ffff:7f00:1]/", None),
            (&local, "https://10.0.0.1/", Some(Blocked)),
            (&local, "http://notlocalhost/", Some(Invalid)),
            (&proxied, "https://as.example/", None),
            (&proxied, "https://keycloak/", Some(Blocked)),
            (&proxied, "https://metadata.google.internal/", Some(Blocked)),
            (&proxied, "https://a.corp./", Some(Blocked)),
            (&proxied, "https://keycloak.auth.svc/", Some(Blocked)),
            (&proxied, "https://keycloak.auth.svc.cluster/", Some(Blocked)),
            (&proxied, "https://vault.service.consul/", Some(Blocked)),
            (&proxied, "https://router.home/", Some(Blocked)),
            (&proxied, "https://db.private/", Some(Blocked)),
            (&proxied, "https://10.0.0.1/", Some(Blocked)),
            (&proxied, "https://localhost/", Some(Blocked)),
            (&enterprise, "https://login.corp/", None),
            (&enterprise, "https://other.corp/", Some(Blocked)),
            (&enterprise, "https://10.0.0.7/", None),
            (&enterprise, "https://10.1.2.3/", None),
            (&enterprise, "https://10.2.0.1/", Some(Blocked)),
        ] {
            let result = guard.check_url(&Url::parse(url).unwrap());
            assert_eq!(result.as_ref().err().map(FetchError::kind), expected, "{url}: {result:?}");
        }
    }

    #[test]
    fn addresses_of_names_are_checked() {
        let enterprise = Guard {
            hosts: vec!["login.corp".into()],
            networks: vec!["10.1.0.0/16".parse().unwrap()],
            proxy: Some("proxy.corp".into()),
            ..Guard::default()
        };
        for (host, address, expected) in [
            ("as.example", "9.9.9.9", true),
            ("as.example", "10.0.0.1", false),
            ("as.example", "10.1.0.1", true),
            ("as.example", "::ffff:10.1.0.1", true),
            ("as.example", "127.0.0.1", false),
            ("login.corp", "10.0.0.1", true),
            ("LOGIN.corp.", "10.0.0.1", true),
            ("proxy.corp", "10.0.0.1", true),
            ("a.login.corp", "10.0.0.1", false),
        ] {
            let result = enterprise.check_address(host, address.parse().unwrap());
            assert_eq!(result.is_ok(), expected, "{host} {address}");
        }
    }

    #[test]
    fn names_of_this_machine_have_loopback_addresses_only() {
        let local = Guard { allows_loopback: true, ..Guard::default() };
        let allowed = Guard { hosts: vec!["app.localhost".into()], ..local.clone() };
        for guard in [&local, &allowed] {
            for (host, address, expected) in [
                ("app.localhost", "127.0.0.1", true),
                ("app.localhost", "::1", true),
                ("localhost", "::ffff:127.0.0.1", true),
                ("app.localhost", "9.9.9.9", false),
                ("APP.localhost.", "10.0.0.1", false),
                ("app.localhost", "64:ff9b::127.0.0.1", false),
                ("as.example", "64:ff9b::127.0.0.1", false),
                ("as.example", "9.9.9.9", true),
            ] {
                let result = guard.check_address(host, address.parse().unwrap());
                assert_eq!(result.is_ok(), expected, "{host} {address}");
            }
        }
    }

    #[test]
    fn wide_networks_do_not_open_metadata_services() {
        let networks = |networks: &[&str]| Guard {
            networks: networks.iter().map(|network| network.parse().unwrap()).collect(),
            hosts: vec!["metadata.example".into()],
            ..Guard::default()
        };
        let wide = networks(&["fd00::/8", "100.64.0.0/10", "169.254.0.0/16", "::ffff:0:0/96"]);
        let exact = networks(&["fd00:ec2::254", "169.254.169.254/32"]);
        for (guard, host, address, expected) in [
            (&wide, "as.example", "fd00::1", true),
            (&wide, "as.example", "fd00:ec2::254", false),
            (&wide, "as.example", "100.64.0.1", true),
            (&wide, "as.example", "100.100.100.200", false),
            (&wide, "as.example", "169.254.169.254", false),
            (&wide, "as.example", "::ffff:169.254.169.254", false),
            (&wide, "metadata.example", "169.254.169.254", true),
            (&exact, "as.example", "fd00:ec2::254", true),
            (&exact, "as.example", "169.254.169.254", true),
            (&exact, "as.example", "169.254.170.2", false),
        ] {
            let result = guard.check_address(host, address.parse().unwrap());
            assert_eq!(result.is_ok(), expected, "{host} {address}");
        }
    }

    #[test]
    fn configured_hosts_are_one_host() {
        for (text, expected) in [
            ("login.corp", Some("login.corp")),
            ("LOGIN.Corp.", Some("login.corp")),
            ("b\u{fc}cher.example", Some("xn--bcher-kva.example")),
            ("10.0.0.7", Some("10.0.0.7")),
            ("[::1]", Some("::1")),
            ("fd00::7", Some("fd00::7")),
            ("login.corp:8443", None),
            ("https://login.corp", None),
            ("login.corp/keys", None),
            ("user@login.corp", None),
            ("*.corp", None),
            ("login corp", None),
            ("", None),
            (".", None),
        ] {
            assert_eq!(configured(text).as_deref(), expected, "{text}");
        }
    }
}
