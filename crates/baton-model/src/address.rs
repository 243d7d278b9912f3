//! Where a model may live. The user names the address, so loopback and private networks are allowed; addresses that only
//! a cloud machine's own metadata service has are not (S22), neither written out nor as the answer of a name server.

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether nobody serves a model there.
pub(crate) fn is_forbidden(address: IpAddr) -> bool {
    const ALIBABA_METADATA: Ipv4Addr = Ipv4Addr::new(100, 100, 100, 200);
    const AWS_METADATA: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
    match address.to_canonical() {
        IpAddr::V4(address) => address.is_link_local() || address == ALIBABA_METADATA,
        IpAddr::V6(address) => address.is_unicast_link_local() || address == AWS_METADATA,
    }
}

/// The system's name resolution without the forbidden addresses.
#[derive(Debug)]
pub(crate) struct CarefulResolver;

impl Resolve for CarefulResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed: Vec<_> = found.filter(|address| !is_forbidden(address.ip())).collect();
            if allowed.is_empty() {
                return Err("the name leads to no address that may be asked".into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        for (address, forbidden) in [
            ("127.0.0.1", false),
            ("192.168.1.4", false),
            ("10.0.0.1", false),
            ("::1", false),
            ("8.8.8.8", false),
            ("169.254.169.254", true),
            ("::ffff:169.254.169.254", true),
            ("fe80::1", true),
            ("fd00:ec2::254", true),
            ("fd00::1", false),
            ("100.100.100.200", true),
        ] {
            assert_eq!(is_forbidden(address.parse().unwrap()), forbidden, "{address}");
        }
    }
}
