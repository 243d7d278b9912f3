use regex::{Captures, Regex};
use std::sync::LazyLock;

/// Replaces what is plainly a secret by a note of its kind (E9). A net for the obvious, not a guarantee.
pub fn redact(text: &str) -> String {
    static SECRETS: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(concat!(
            r"(?s)(?P<key>-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z))",
            r"|(?P<token>\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,}|glpat-[A-Za-z0-9_-]{20,}",
            r"|sk-[A-Za-z0-9_-]{20,}|AKIA[0-9A-Z]{16}|xox[abprs]-[A-Za-z0-9-]{10,}|npm_[A-Za-z0-9]{36}|AIza[0-9A-Za-z_-]{35}))",
            r"|(?P<before>\b[Bb]earer\s+)(?P<bearer>[A-Za-z0-9._~+/=-]{16,})",
            r"|(?P<scheme>\b[a-z][a-z0-9+.-]*://[^/\s:@]*:)(?P<password>[^/\s@]+)@",
        ))
        .ok()
    });
    let Some(secrets) = SECRETS.as_ref() else { return "[not shown: the filter for secrets is broken]".to_owned() };
    let replaced = secrets.replace_all(text, |found: &Captures<'_>| {
        if found.name("key").is_some() {
            "[private key not shown]".to_owned()
        } else if found.name("token").is_some() {
            "[token not shown]".to_owned()
        } else if let Some(before) = found.name("before") {
            format!("{}[token not shown]", before.as_str())
        } else {
            format!("{}[password not shown]@", found.name("scheme").map_or("", |scheme| scheme.as_str()))
        }
    });
    replaced.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e9_obvious_secrets_are_not_shown_and_words_are() {
        let rows = [
            ("token ghp_0123456789abcdefghijklmnopqrstuvwxyz!", "token [token not shown]!"),
            ("Authorization: Bearer abcdefghijklmnop.qrst", "Authorization: Bearer [token not shown]"),
            ("https://me:hunter2@example.org/x", "https://me:[password not shown]@example.org/x"),
            ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nafter", "[private key not shown]\nafter"),
            ("bearer of news, https://example.org:8080/x sk-learn", "bearer of news, https://example.org:8080/x sk-learn"),
        ];
        for (given, shown) in rows {
            assert_eq!(redact(given), shown);
        }
    }
}
