use crate::tls::Authority;
use reqwest::Url;
use std::fmt;
use std::str::FromStr;

/// Where a hub is reached, and by what it proves itself there: an `http` or `https` address, possibly below a path, without user, query
/// or fragment.
#[derive(Clone, PartialEq, Eq)]
pub struct HubUrl {
    url: Url,
    authority: Authority,
}

/// Why a text is no hub's address. Never repeats the text, since people paste secrets into addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("the hub's address can't be read; it looks like http://127.0.0.1:7440")]
    Unreadable,
    #[error("the hub's address has to begin with http:// or https://")]
    Scheme,
    #[error("the hub's address holds a name or password; remove them: a device proves itself with its token only")]
    Credentials,
    #[error("the hub's address has a '?' or '#' part; remove it")]
    Extra,
}

impl HubUrl {
    /// The same address, at which nobody counts as the hub but whom this authority vouches for.
    #[must_use]
    pub fn vouched_for_by(self, authority: Authority) -> Self {
        Self { authority, ..self }
    }

    /// Whether what is said there is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Host and port, whatever is spoken there.
    pub fn place(&self) -> (String, Option<u16>) {
        (self.url.host_str().unwrap_or_default().to_owned(), self.url.port_or_known_default())
    }

    pub(crate) const fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The address of a route, each part encoded by itself.
    pub(crate) fn route(&self, parts: &[&str], query: &[(&str, String)]) -> Url {
        let mut url = self.url.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(parts);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    /// The address of the live connection.
    pub(crate) fn websocket(&self) -> Url {
        let mut url = self.route(&["v1", "ws"], &[]);
        let scheme = if url.scheme() == "https" { "wss" } else { "ws" };
        // Both are schemes with a host, so that one may stand for the other.
        let _ = url.set_scheme(scheme);
        url
    }
}

impl FromStr for HubUrl {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let url: Url = text.trim().parse().map_err(|_| AddressError::Unreadable)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(AddressError::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(AddressError::Credentials);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(AddressError::Extra);
        }
        if url.host().is_none() || url.cannot_be_a_base() {
            return Err(AddressError::Unreadable);
        }
        Ok(Self { url, authority: Authority::System })
    }
}

impl fmt::Display for HubUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.url.as_str().trim_end_matches('/'))
    }
}

impl fmt::Debug for HubUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HubUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_built_below_the_base() {
        for base in ["http://127.0.0.1:7440", "http://127.0.0.1:7440/"] {
            let hub: HubUrl = base.parse().unwrap();
            assert_eq!(hub.to_string(), "http://127.0.0.1:7440");
            assert_eq!(hub.route(&["v1", "hub"], &[]).as_str(), "http://127.0.0.1:7440/v1/hub");
            assert_eq!(hub.websocket().as_str(), "ws://127.0.0.1:7440/v1/ws");
        }
        let below: HubUrl = "https://example.org/baton/".parse().unwrap();
        assert_eq!(below.websocket().as_str(), "wss://example.org/baton/v1/ws");
        let route = below.route(&["v1", "pairings", "A/../B?"], &[("limit", "a b".into())]);
        assert_eq!(route.as_str(), "https://example.org/baton/v1/pairings/A%2F..%2FB%3F?limit=a+b");
    }

    #[test]
    fn what_is_no_address_is_refused_by_name() {
        for (text, error) in [
            ("", AddressError::Unreadable),
            ("127.0.0.1:7440", AddressError::Unreadable),
            ("ws://hub", AddressError::Scheme),
            ("file:///etc/passwd", AddressError::Scheme),
            ("http://me:secret@hub", AddressError::Credentials),
            ("http://hub/?token=secret", AddressError::Extra),
            ("http://hub/#secret", AddressError::Extra),
        ] {
            assert_eq!(text.parse::<HubUrl>(), Err(error), "{text}");
        }
    }
}
