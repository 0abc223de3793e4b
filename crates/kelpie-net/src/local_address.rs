//! Addresses that no server of another owner has: those of this host, of its link and of the
//! metadata services of clouds, which hand out credentials to every client on the host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Metadata services and host agents outside of the link-local ranges: Alibaba Cloud, Azure, Oracle
/// Cloud (classic), and AWS and Google Cloud over IPv6.
const METADATA: [IpAddr; 5] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
];

/// Returns whether connections to this address are refused where
/// [`Network::refusing_local_addresses`](crate::Network::refusing_local_addresses) applies.
pub(crate) fn is_local(address: IpAddr) -> bool {
    if METADATA.contains(&address) {
        return true;
    }
    match address {
        IpAddr::V4(address) => {
            // The kernel takes all of 0.0.0.0/8 for this host, or refuses it.
            address.octets()[0] == 0
                || address.is_loopback()
                || address.is_link_local()
                || address.is_multicast()
                || address.is_broadcast()
        }
        IpAddr::V6(address) => {
            address.is_unspecified()
                || address.is_loopback()
                || address.is_unicast_link_local()
                || address.is_multicast()
                || embedded_ipv4(address).is_some_and(|inner| is_local(inner.into()))
        }
    }
}

/// Returns the IPv4 address that packets to this address reach: of mapped and compatible addresses,
/// and of those that NAT64 and 6to4 translate.
fn embedded_ipv4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let octets = address.octets();
    let at = |index: usize| {
        let [a, b, c, d] = [0, 1, 2, 3].map(|offset| octets[index + offset]);
        Ipv4Addr::new(a, b, c, d)
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, _, _] | [0x64, 0xff9b, 0, 0, 0, 0, _, _] => Some(at(12)),
        [0x2002, ..] => Some(at(2)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_and_metadata_addresses_are_recognized() {
        for (address, expected) in [
            ("127.0.0.1", true),
            ("127.8.9.10", true),
            ("0.0.0.0", true),
            ("0.1.2.3", true),
            ("169.254.169.254", true),
            ("169.254.1.1", true),
            ("100.100.100.200", true),
            ("168.63.129.16", true),
            ("224.0.0.1", true),
            ("255.255.255.255", true),
            ("::", true),
            ("::1", true),
            ("fe80::1", true),
            ("ff02::1", true),
            ("fd00:ec2::254", true),
            ("::ffff:127.0.0.1", true),
            ("::ffff:169.254.169.254", true),
            ("::127.0.0.1", true),
            ("64:ff9b::a9fe:a9fe", true),
            ("2002:7f00:1::1", true),
            ("10.0.0.1", false),
            ("100.64.0.1", false),
            ("172.16.0.1", false),
            ("192.168.0.1", false),
            ("203.0.113.7", false),
            ("fd00::1", false),
            ("2001:db8::1", false),
            ("::ffff:10.0.0.1", false),
        ] {
            assert_eq!(is_local(address.parse().unwrap()), expected, "{address}");
        }
    }
}
