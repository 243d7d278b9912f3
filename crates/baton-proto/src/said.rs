use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A sentence of the hub's or a device's, with a code and what it names, so that each end can say it in its user's language. `text` says
/// the same for ends that don't know the code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Said {
    /// Stable, such as `runs_program`; docs/protocol.md lists them. Families have a dot: `acts_later.git`.
    pub code: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
    pub text: String,
}

impl Said {
    pub fn new(code: &str, text: impl Into<String>) -> Self {
        Self { code: code.to_owned(), params: BTreeMap::new(), text: text.into() }
    }

    /// The same with something that it names.
    #[must_use]
    pub fn naming(mut self, name: &str, value: impl Into<String>) -> Self {
        self.params.insert(name.to_owned(), value.into());
        self
    }
}

/// Several sentences as one text.
pub fn all_said(said: &[Said]) -> String {
    said.iter().map(|it| it.text.as_str()).collect::<Vec<_>>().join(" ")
}
