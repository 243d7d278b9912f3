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
        IpAddr::V6(address) => {
            address.is_unicast_link_local() || address == AWS_METADATA || carried(address).is_some_and(|inner| is_forbidden(inner.into()))
        }
    }
}

/// The address of version 4 that one of version 6 leads on to, by a translator or a tunnel on the way.
fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        // The prefix of translators, addresses that are compatible in the old way, and tunnels.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0, 0, 0, 0, 0, 0, high @ 1..=0xffff, low] | [0x2002, high, low, ..] => {
            Some(joined(high, low))
        }
        _ => None,
    }
}

fn joined(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
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
            // The same in the disguises of version 6.
            ("::169.254.169.254", true),
            ("64:ff9b::a9fe:a9fe", true),
            ("64:ff9b::808:808", false),
            ("2002:a9fe:a9fe::1", true),
            ("2002:808:808::1", false),
            ("::ffff:100.100.100.200", true),
        ] {
            assert_eq!(is_forbidden(address.parse().unwrap()), forbidden, "{address}");
        }
    }

    /// The system's resolver reads such names itself, as it does what a name server answers.
    #[tokio::test]
    async fn s22_a_name_that_leads_to_a_forbidden_address_leads_nowhere() {
        let resolve = async |name: &str| CarefulResolver.resolve(name.parse().unwrap()).await.map(Iterator::collect::<Vec<_>>);
        for name in ["169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518"] {
            let answer = resolve(name).await;
            assert!(answer.is_err(), "{name}: {answer:?}");
        }
        let found = resolve("127.0.0.1").await.unwrap();
        assert!(found.iter().all(|address| address.ip().is_loopback()) && !found.is_empty(), "{found:?}");
    }
}
