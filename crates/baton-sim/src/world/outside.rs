//! What is outside: effects that happened, and files. Nothing here is ever taken back.

use baton_proto::{CallId, SessionId};
use serde_json::Value;
use std::collections::BTreeMap;

/// One effect as it happens.
#[derive(Clone, Debug)]
pub(crate) struct Did {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    pub(crate) session: SessionId,
    pub(crate) call_id: CallId,
    pub(crate) attempt: u32,
    pub(crate) once: bool,
}

impl Did {
    /// What the effect is about, whichever call it came by.
    pub(crate) fn mark(&self) -> String {
        let named = self.arguments.get("tag").or_else(|| self.arguments.get("path"));
        named.and_then(Value::as_str).unwrap_or_default().to_owned()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Outside {
    pub(crate) done: Vec<Did>,
    files: BTreeMap<String, String>,
}

impl Outside {
    /// Acts, and says whether the same was done before although it may happen once only.
    pub(crate) fn act(&mut self, did: &Did) -> bool {
        let doubled = did.once && self.done.iter().any(|before| before.tool == did.tool && before.mark() == did.mark());
        if !did.once {
            let text = did.arguments.get("text").and_then(Value::as_str).unwrap_or_default();
            self.files.insert(did.mark(), text.to_owned());
        }
        self.done.push(did.clone());
        doubled
    }

    pub(crate) fn found(&self, call: CallId) -> bool {
        self.done.iter().any(|did| did.call_id == call)
    }

    pub(crate) fn read(&self, arguments: &Value) -> String {
        let path = arguments.get("path").and_then(Value::as_str).unwrap_or_default();
        self.files.get(path).map_or_else(|| "(no such file)".to_owned(), Clone::clone)
    }

    /// What is left of it all: each effect once, whatever it took.
    pub(crate) fn left(&self) -> BTreeMap<String, usize> {
        let mut left = BTreeMap::new();
        for did in &self.done {
            let count = left.entry(format!("{} {}", did.tool, did.mark())).or_insert(0);
            *count = if did.once { *count + 1 } else { 1 };
        }
        left
    }
}
