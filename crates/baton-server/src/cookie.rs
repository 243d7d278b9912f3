//! The cookie that a browser keeps its token in. Cookies don't know ports: hubs on one host are sent each other's, so each has a name of
//! its own.

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use baton_proto::Digest;
use baton_runtime::Hub;

/// What every hub used to call it.
const OLD_NAME: &str = "baton_token";
/// Browsers keep a cookie for at most 400 days.
const AGE_S: u32 = 400 * 24 * 60 * 60;

#[derive(Debug)]
pub(crate) struct Cookie {
    name: String,
    /// Names that it had before, and has for browsers that signed in then.
    old_names: Vec<String>,
    secure: bool,
}

/// A token that a browser sent.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) token: String,
    /// The name it came under, where that isn't the one it should have.
    old_name: Option<String>,
}

impl Cookie {
    /// A hub is who its first user is. Over TLS only the hub itself can set the cookie, which the prefix makes browsers see to.
    pub(crate) fn of(hub: &Hub, secure: bool) -> Self {
        let first = hub.users().into_iter().next().map(|(id, _)| id.to_string()).unwrap_or_default();
        Self::named(&format!("baton_{}", Digest::of_bytes(first.as_bytes()).short()), secure)
    }

    fn named(plain: &str, secure: bool) -> Self {
        if secure {
            Self { name: format!("__Host-{plain}"), old_names: vec![plain.to_owned(), OLD_NAME.to_owned()], secure }
        } else {
            Self { name: plain.to_owned(), old_names: vec![OLD_NAME.to_owned()], secure }
        }
    }

    /// The tokens that may be this hub's: the one with its name, and without it those with an old name, which may be another hub's.
    pub(crate) fn find(&self, headers: &HeaderMap) -> Vec<Found> {
        let values = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
        let pairs: Vec<_> = values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('=')).collect();
        let named = |wanted: &str| pairs.iter().find(|(name, _)| *name == wanted).map(|(_, token)| (*token).to_owned());
        if let Some(token) = named(&self.name) {
            return vec![Found { token, old_name: None }];
        }
        let old = self.old_names.iter().filter_map(|name| Some(Found { token: named(name)?, old_name: Some(name.clone()) }));
        old.collect()
    }

    /// Gives a browser its token, or takes it back with an empty one.
    pub(crate) fn set(&self, response: &mut Response, token: &str) {
        append(response, &self.name, token, self.secure);
    }

    /// A token that came under an old name gets the right one, and the old one goes.
    pub(crate) fn renew(&self, found: &Found, response: &mut Response) {
        let Some(old_name) = &found.old_name else { return };
        // A route that has just taken the token back has said so.
        if !response.headers().contains_key(header::SET_COOKIE) {
            self.set(response, &found.token);
        }
        append(response, old_name, "", self.secure);
    }
}

fn append(response: &mut Response, name: &str, token: &str, secure: bool) {
    let age = if token.is_empty() { 0 } else { AGE_S };
    let secure = if secure { "; Secure" } else { "" };
    let cookie = format!("{name}={token}; HttpOnly; SameSite=Strict; Path=/; Max-Age={age}{secure}");
    if let Ok(mut value) = HeaderValue::from_str(&cookie) {
        value.set_sensitive(true);
        response.headers_mut().append(header::SET_COOKIE, value);
    }
}
