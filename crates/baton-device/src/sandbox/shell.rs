//! An argument vector as a shell would read it, for people.

/// Each argument quoted where a shell would need it, joined with spaces. For display only: nothing here is ever parsed again.
pub fn quote(argv: &[String]) -> String {
    argv.iter().map(|argument| quote_one(argument)).collect::<Vec<_>>().join(" ")
}

fn quote_one(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:@%+,".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) { argument.to_owned() } else { format!("'{}'", argument.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_told_apart() {
        let argv = ["git", "log", "", "a b", "it's", "$(x)", "*"].map(str::to_owned);
        assert_eq!(quote(&argv), r"git log '' 'a b' 'it'\''s' '$(x)' '*'");
    }
}
