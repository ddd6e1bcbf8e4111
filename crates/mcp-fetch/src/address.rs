//! The table of addresses that a peer must not make this machine connect to.

use std::{
    error::Error,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// A range of addresses, such as `10.0.0.0/8`.
///
/// ```
/// use mcp_fetch::Network;
///
/// let network: Network = "10.1.0.0/16".parse()?;
/// assert!(network.contains("10.1.2.3".parse()?) && !network.contains("10.2.0.0".parse()?));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u32,
}

impl Network {
    const fn v4([a, b, c, d]: [u8; 4], prefix: u32) -> Self {
        Self { address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix }
    }

    const fn v6([a, b, c, d, e, f, g, h]: [u16; 8], prefix: u32) -> Self {
        Self { address: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)), prefix }
    }

    /// Whether the network is one address.
    pub(crate) fn is_single(&self) -> bool {
        self.prefix == if self.address.is_ipv4() { 32 } else { 128 }
    }

    /// Whether the network contains an address. An IPv4 network does not contain IPv6 addresses.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                (network.to_bits() ^ address.to_bits()).checked_shr(32 - self.prefix).unwrap_or(0) == 0
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                (network.to_bits() ^ address.to_bits()).checked_shr(128 - self.prefix).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = InvalidNetwork;

    /// Parses `address/prefix`, or an address alone.
    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().map_err(|_| InvalidNetwork)?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(bits), |prefix| prefix.parse().map_err(|_| InvalidNetwork))?;
        if prefix > bits { Err(InvalidNetwork) } else { Ok(Self { address, prefix }) }
    }
}

/// The error of a text that is not a [`Network`].
///
/// ```
/// assert!("10.0.0.0/33".parse::<mcp_fetch::Network>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidNetwork;

impl fmt::Display for InvalidNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a network is an address and a prefix length, such as `10.0.0.0/8`")
    }
}

impl Error for InvalidNetwork {}

/// The global unicast addresses of IPv6. All other addresses have a special purpose.
const GLOBAL_V6: Network = Network::v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);
/// IPv4 addresses inside of IPv6 addresses: mapped, and translated by NAT64 (RFC 6052).
const EMBEDDED_V4: [Network; 2] =
    [Network::v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96), Network::v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96)];

/// The purpose of the addresses from which a machine in a cloud receives its credentials.
pub(crate) const METADATA: &str = "the metadata service of a cloud";

/// The special-purpose addresses of IANA (RFC 6890 and its successors), and the metadata services of cloud providers.
const TABLE: &[(Network, &str)] = &[
    (Network::v4([169, 254, 169, 254], 32), METADATA),
    (Network::v4([169, 254, 170, 2], 32), METADATA),
    (Network::v4([168, 63, 129, 16], 32), METADATA),
    (Network::v4([100, 100, 100, 200], 32), METADATA),
    (Network::v4([192, 0, 0, 192], 32), METADATA),
    (Network::v4([0, 0, 0, 0], 8), "this network"),
    (Network::v4([10, 0, 0, 0], 8), "a private network"),
    (Network::v4([100, 64, 0, 0], 10), "a shared network of a provider"),
    (Network::v4([127, 0, 0, 0], 8), "loopback"),
    (Network::v4([169, 254, 0, 0], 16), "link-local"),
    (Network::v4([172, 16, 0, 0], 12), "a private network"),
    (Network::v4([192, 0, 0, 0], 24), "reserved for protocols"),
    (Network::v4([192, 0, 2, 0], 24), "reserved for documentation"),
    (Network::v4([192, 31, 196, 0], 24), "an anycast service"),
    (Network::v4([192, 52, 193, 0], 24), "an anycast service"),
    (Network::v4([192, 88, 99, 0], 24), "a relay of 6to4"),
    (Network::v4([192, 168, 0, 0], 16), "a private network"),
    (Network::v4([192, 175, 48, 0], 24), "an anycast service"),
    (Network::v4([198, 18, 0, 0], 15), "reserved for benchmarks"),
    (Network::v4([198, 51, 100, 0], 24), "reserved for documentation"),
    (Network::v4([203, 0, 113, 0], 24), "reserved for documentation"),
    (Network::v4([224, 0, 0, 0], 4), "multicast"),
    (Network::v4([240, 0, 0, 0], 4), "reserved"),
    (Network::v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128), METADATA),
    (Network::v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128), METADATA),
    (Network::v6([0, 0, 0, 0, 0, 0, 0, 1], 128), "loopback"),
    (Network::v6([0, 0, 0, 0, 0, 0, 0, 0], 96), "an address of IPv4 in a form without use"),
    (Network::v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96), "an address of IPv4 behind a translator"),
    (Network::v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), "an address of IPv4 behind a local translator"),
    (Network::v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), "reserved for protocols"),
    (Network::v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), "reserved for documentation"),
    (Network::v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), "an address of IPv4 behind 6to4"),
    (Network::v6([0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0], 48), "an anycast service"),
    (Network::v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), "reserved for documentation"),
    (Network::v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), "a private network"),
    (Network::v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), "link-local"),
    (Network::v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), "a private network"),
    (Network::v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), "multicast"),
];

/// Returns the purpose of an address that a peer must not make this machine connect to. `None` for a public address.
///
/// The table has the special-purpose addresses of IANA and the metadata services of cloud providers. An IPv4 address in a
/// mapped IPv6 address, or behind NAT64, counts as the IPv4 address.
///
/// ```
/// use mcp_fetch::forbidden;
///
/// assert_eq!(forbidden("::ffff:127.0.0.1".parse()?), Some("loopback"));
/// assert_eq!(forbidden("9.9.9.9".parse()?), None);
/// # Ok::<_, std::net::AddrParseError>(())
/// ```
#[must_use]
pub fn forbidden(address: IpAddr) -> Option<&'static str> {
    let address = unwrap_v4(address);
    if let Some((_, purpose)) = TABLE.iter().find(|(network, _)| network.contains(address)) {
        return Some(purpose);
    }
    (address.is_ipv6() && !GLOBAL_V6.contains(address)).then_some("reserved")
}

/// Whether packets to an address do not leave this machine. A translator would send packets to `64:ff9b::127.0.0.1` on.
pub(crate) fn is_loopback(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_loopback(),
        IpAddr::V6(address) => address.is_loopback() || address.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback()),
    }
}

/// Returns the IPv4 address that a mapped or translated IPv6 address contains.
pub(crate) fn unwrap_v4(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) if EMBEDDED_V4.iter().any(|network| network.contains(address)) => {
            let [.., a, b, c, d] = v6.octets();
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_addresses_are_forbidden() {
        for (address, purpose) in [
            ("0.0.0.0", "this network"),
            ("0.1.2.3", "this network"),
            ("10.0.0.0", "a private network"),
            ("10.255.255.255", "a private network"),
            ("100.64.0.1", "a shared network of a provider"),
            ("100.100.100.200", "the metadata service of a cloud"),
            ("100.127.255.255", "a shared network of a provider"),
            ("127.0.0.1", "loopback"),
            ("127.8.9.1", "loopback"),
            ("168.63.129.16", "the metadata service of a cloud"),
            ("169.254.0.1", "link-local"),
            ("169.254.169.254", "the metadata service of a cloud"),
            ("169.254.170.2", "the metadata service of a cloud"),
            ("172.16.0.1", "a private network"),
            ("172.31.255.255", "a private network"),
            ("192.0.0.1", "reserved for protocols"),
            ("192.0.0.192", "the metadata service of a cloud"),
            ("192.0.2.1", "reserved for documentation"),
            ("192.31.196.1", "an anycast service"),
            ("192.52.193.1", "an anycast service"),
            ("192.88.99.1", "a relay of 6to4"),
            ("192.168.1.1", "a private network"),
            ("192.175.48.1", "an anycast service"),
            ("198.18.0.1", "reserved for benchmarks"),
            ("198.19.255.255", "reserved for benchmarks"),
            ("198.51.100.7", "reserved for documentation"),
            ("203.0.113.7", "reserved for documentation"),
            ("224.0.0.1", "multicast"),
            ("239.255.255.255", "multicast"),
            ("240.0.0.1", "reserved"),
            ("255.255.255.255", "reserved"),
            ("::", "an address of IPv4 in a form without use"),
            ("::1", "loopback"),
            ("::127.0.0.1", "an address of IPv4 in a form without use"),
            ("::8.8.8.8", "an address of IPv4 in a form without use"),
            ("::ffff:0.0.0.0", "this network"),
            ("::ffff:10.0.0.1", "a private network"),
            ("::ffff:127.0.0.1", "loopback"),
            ("::ffff:169.254.169.254", "the metadata service of a cloud"),
            ("::ffff:0:10.0.0.1", "an address of IPv4 behind a translator"),
            ("64:ff9b::10.0.0.1", "a private network"),
            ("64:ff9b::127.0.0.1", "loopback"),
            ("64:ff9b::169.254.169.254", "the metadata service of a cloud"),
            ("64:ff9b:1::10.0.0.1", "an address of IPv4 behind a local translator"),
            ("100::1", "reserved"),
            ("2001::1", "reserved for protocols"),
            ("2001:10::1", "reserved for protocols"),
            ("2001:db8::1", "reserved for documentation"),
            ("2002:7f00:1::", "an address of IPv4 behind 6to4"),
            ("2002:0808:0808::", "an address of IPv4 behind 6to4"),
            ("2620:4f:8000::1", "an anycast service"),
            ("3fff::1", "reserved for documentation"),
            ("4000::1", "reserved"),
            ("5f00::1", "reserved"),
            ("fc00::1", "a private network"),
            ("fd00:ec2::254", "the metadata service of a cloud"),
            ("fd20:ce::254", "the metadata service of a cloud"),
            ("fdff::1", "a private network"),
            ("fe80::1", "link-local"),
            ("febf::1", "link-local"),
            ("fec0::1", "a private network"),
            ("ff02::1", "multicast"),
        ] {
            assert_eq!(forbidden(address.parse().unwrap()), Some(purpose), "{address}");
        }
    }

    #[test]
    fn loopback_addresses_stay_on_this_machine() {
        for (address, expected) in [
            ("127.0.0.1", true),
            ("127.255.0.1", true),
            ("128.0.0.1", false),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("::ffff:128.0.0.1", false),
            ("64:ff9b::127.0.0.1", false),
            ("::127.0.0.1", false),
            ("::", false),
        ] {
            assert_eq!(is_loopback(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn public_addresses_are_allowed() {
        for address in [
            "1.1.1.1",
            "9.9.9.9",
            "11.0.0.1",
            "100.63.255.255",
            "100.128.0.1",
            "126.255.255.255",
            "128.0.0.1",
            "168.63.129.17",
            "169.253.255.255",
            "172.15.255.255",
            "172.32.0.1",
            "192.0.1.1",
            "192.167.255.255",
            "192.169.0.1",
            "198.17.255.255",
            "198.20.0.1",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2606:4700:4700::1111",
        ] {
            assert_eq!(forbidden(address.parse().unwrap()), None, "{address}");
        }
    }

    #[test]
    fn networks_are_parsed_and_compared() {
        for (network, address, expected) in [
            ("0.0.0.0/0", "255.255.255.255", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "ff00::", true),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.2", false),
            ("10.1.2.3/31", "10.1.2.2", true),
            ("fd00::/8", "fdff::1", true),
            ("fd00::/8", "fe00::1", false),
        ] {
            let network: Network = network.parse().unwrap();
            assert_eq!(network.contains(address.parse().unwrap()), expected, "{network:?} {address}");
        }
        for invalid in ["", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/-1", "10.0.0/8", "a/8"] {
            assert_eq!(invalid.parse::<Network>(), Err(InvalidNetwork), "{invalid}");
        }
    }
}
