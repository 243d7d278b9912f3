//! What stands before the hub and may say who is calling (S3). From anybody else that is the caller's own word, and counts for nothing.

use axum::http::HeaderMap;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// An address, or a network such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

/// Why a text is no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{given}' is neither an address, such as 127.0.0.1, nor a network, such as 10.0.0.0/8")]
pub struct NoNetwork {
    given: String,
}

impl FromStr for Network {
    type Err = NoNetwork;

    fn from_str(given: &str) -> Result<Self, NoNetwork> {
        let no = || NoNetwork { given: given.to_owned() };
        let (address, prefix) = given.split_once('/').map_or((given, None), |(address, prefix)| (address, Some(prefix)));
        let written: IpAddr = address.parse().map_err(|_| no())?;
        let address = written.to_canonical();
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => bits,
            // The prefix of a mapped address counts from its version 6.
            Some(prefix) => {
                let prefix: u8 = prefix.parse().map_err(|_| no())?;
                if written.is_ipv6() && address.is_ipv4() { prefix.checked_sub(96).ok_or_else(no)? } else { prefix }
            }
        };
        if prefix > bits { Err(no()) } else { Ok(Self { address, prefix }) }
    }
}

impl Network {
    pub(crate) fn holds(&self, other: IpAddr) -> bool {
        match (self.address, other.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let rest = 32 - u32::from(self.prefix);
                own.to_bits().checked_shr(rest).unwrap_or(0) == other.to_bits().checked_shr(rest).unwrap_or(0)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let rest = 128 - u32::from(self.prefix);
                own.to_bits().checked_shr(rest).unwrap_or(0) == other.to_bits().checked_shr(rest).unwrap_or(0)
            }
            _ => false,
        }
    }
}

/// Who is calling: each trusted proxy appends who called it, so the last address that isn't a proxy's is the caller's.
pub(crate) fn caller(peer: IpAddr, headers: &HeaderMap, proxies: &[Network]) -> IpAddr {
    let trusted = |address: IpAddr| proxies.iter().any(|network| network.holds(address));
    let mut caller = peer;
    let lines: Vec<_> = headers.get_all("x-forwarded-for").into_iter().collect();
    let said = lines.into_iter().rev().flat_map(|line| line.to_str().unwrap_or("?").rsplit(','));
    for said in said {
        if !trusted(caller) {
            break;
        }
        // What can't be read was said by the one before it, and nothing before that can be believed.
        let Some(address) = address(said.trim()) else { break };
        caller = address;
    }
    caller
}

/// Some proxies write the port too.
fn address(said: &str) -> Option<IpAddr> {
    let bare = said.strip_prefix('[').and_then(|said| said.strip_suffix(']')).unwrap_or(said);
    let address = bare.parse::<IpAddr>().ok().or_else(|| said.parse::<SocketAddr>().ok().map(|address| address.ip()));
    address.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    #[test]
    fn networks_hold_what_begins_like_them() {
        for (own, inside, outside) in [
            ("127.0.0.1", "127.0.0.1", "127.0.0.2"),
            ("10.0.0.0/8", "10.255.1.2", "11.0.0.1"),
            ("10.1.2.3/8", "10.255.1.2", "11.0.0.1"),
            ("192.168.4.0/22", "192.168.7.255", "192.168.8.0"),
            ("0.0.0.0/0", "203.0.113.9", "::1"),
            ("fd00::/8", "fdff::1", "fe00::1"),
            ("::1", "::1", "::2"),
            ("::/0", "2001:db8::1", "10.0.0.1"),
            ("10.0.0.0/8", "::ffff:10.0.0.1", "::ffff:11.0.0.1"),
            ("::ffff:10.0.0.0/104", "10.0.0.1", "11.0.0.1"),
        ] {
            assert!(network(own).holds(inside.parse().unwrap()), "{own} holds {inside}");
            assert!(!network(own).holds(outside.parse().unwrap()), "{own} doesn't hold {outside}");
        }
        for given in ["", "proxy.lan", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/8/8", "::ffff:10.0.0.0/8", "10.0.0"] {
            assert!(given.parse::<Network>().is_err(), "{given}");
        }
    }

    #[test]
    fn s3_the_caller_is_the_last_address_that_is_no_proxys() {
        let proxies = [network("127.0.0.1"), network("10.0.0.0/8")];
        for (peer, lines, expected) in [
            // Without a proxy in between, the header is the caller's word.
            ("203.0.113.9", &["127.0.0.1"][..], "203.0.113.9"),
            ("203.0.113.9", &[], "203.0.113.9"),
            ("127.0.0.1", &[], "127.0.0.1"),
            ("127.0.0.1", &["203.0.113.9"], "203.0.113.9"),
            ("127.0.0.1", &["1.1.1.1, 203.0.113.9"], "203.0.113.9"),
            ("127.0.0.1", &["1.1.1.1, 203.0.113.9, 10.2.3.4"], "203.0.113.9"),
            // A caller who pretends to be a proxy stays who it is.
            ("127.0.0.1", &["1.1.1.1, 10.9.9.9, 203.0.113.9, 10.2.3.4"], "203.0.113.9"),
            ("127.0.0.1", &["1.1.1.1", "203.0.113.9", "10.2.3.4"], "203.0.113.9"),
            ("127.0.0.1", &["10.2.3.4"], "10.2.3.4"),
            ("127.0.0.1", &["203.0.113.9, nonsense"], "127.0.0.1"),
            ("127.0.0.1", &["203.0.113.9, , 10.2.3.4"], "10.2.3.4"),
            ("::ffff:127.0.0.1", &["::ffff:203.0.113.9"], "203.0.113.9"),
            ("127.0.0.1", &["203.0.113.9:4711"], "203.0.113.9"),
            ("127.0.0.1", &["[2001:db8::1]:4711"], "2001:db8::1"),
            ("127.0.0.1", &["[2001:db8::1]"], "2001:db8::1"),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append("x-forwarded-for", line.parse().unwrap());
            }
            let found = caller(peer.parse().unwrap(), &headers, &proxies);
            assert_eq!(found, expected.parse::<IpAddr>().unwrap(), "{peer} {lines:?}");
        }
        let mut headers = HeaderMap::new();
        headers.append("x-forwarded-for", "1.1.1.1".parse().unwrap());
        assert_eq!(caller("127.0.0.1".parse().unwrap(), &headers, &[]), "127.0.0.1".parse::<IpAddr>().unwrap());
    }
}
