use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::fmt;

/// A SHA-256 digest as 64 lower-case hexadecimal digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Digest(pub String);

impl Digest {
    /// The digest of bytes as they are.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(hex::encode(Sha256::digest(bytes)))
    }

    /// The digest of a JSON value, independent of the order in which its keys were written.
    pub fn of_json(value: &Value) -> Self {
        let mut text = String::new();
        canonical(value, &mut text);
        Self::of_bytes(text.as_bytes())
    }

    /// The first twelve digits, for people.
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({})", self.short())
    }
}

/// Writes `value` with sorted keys and no spaces. Maps are sorted here, since another crate may have switched
/// `serde_json` to keep the order of insertion.
fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<_> = map.keys().collect();
            keys.sort_unstable();
            out.push('{');
            for (index, key) in keys.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&Value::String(key.clone()).to_string());
                out.push(':');
                canonical(&map[key], out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                canonical(item, out);
            }
            out.push(']');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_json_digest_ignores_the_order_of_keys_and_nothing_else() {
        let one = Digest::of_json(&json!({"a": [1, {"x": null, "b": "é"}], "c": true}));
        let other = Digest::of_json(&serde_json::from_str::<Value>(r#"{"c":true,"a":[1,{"b":"é","x":null}]}"#).unwrap());
        assert_eq!(one, other);
        assert_ne!(one, Digest::of_json(&json!({"a": [{"x": null, "b": "é"}, 1], "c": true})));
        assert_ne!(Digest::of_json(&json!({"a": "1"})), Digest::of_json(&json!({"a": 1})));
    }
}
