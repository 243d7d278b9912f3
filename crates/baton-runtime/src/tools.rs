use baton_core::{ProposedCall, Surroundings, hub_tools};
use baton_model::{Repair, compile, parse_arguments_with};
use baton_proto::{DeviceId, Digest, Effect, MAX_ARGUMENTS_BYTES, ModelToolCall, StateModified, ToolError, ToolSpec};
use jsonschema::Validator;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Schemas that are kept compiled; beyond it all are dropped and compiled anew when they are met.
const KEPT: usize = 512;

/// Checks what a model writes against the schema of the tool it means (R2). Schemas are compiled once.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    compiled: Mutex<HashMap<Digest, Arc<Validator>>>,
}

impl Checks {
    /// Why a device's tool can't be offered, or `None`.
    pub(crate) fn problem(&self, spec: &ToolSpec) -> Option<String> {
        if let Some(problem) = spec.problem() {
            return Some(problem);
        }
        if hub_tools().iter().any(|tool| tool.name == spec.name) {
            return Some(format!("'{}' is the name of a tool of the hub's own", spec.name));
        }
        self.validator(&spec.parameters).err()
    }

    fn validator(&self, schema: &serde_json::Value) -> Result<Arc<Validator>, String> {
        let digest = Digest::of_json(schema);
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = compiled.get(&digest) {
            return Ok(Arc::clone(known));
        }
        let fresh = Arc::new(compile(schema).map_err(|error| error.to_string())?);
        if compiled.len() >= KEPT {
            compiled.clear();
        }
        compiled.insert(digest, Arc::clone(&fresh));
        Ok(fresh)
    }

    /// A call as the model wrote it, understood as far as it can be. One for an unknown tool passes; the core refuses it in words.
    pub(crate) fn understand(
        &self,
        call: &ModelToolCall,
        fits: bool,
        around: &Surroundings,
        workspace_device: Option<DeviceId>,
    ) -> ProposedCall {
        let proposed = |written: String, arguments| ProposedCall { tool: call.name.clone(), written, arguments, fetched: None };
        if !fits || call.arguments.len() > MAX_ARGUMENTS_BYTES {
            let message = format!(
                "The arguments have {} bytes; at most {MAX_ARGUMENTS_BYTES} are taken in one call, and half as much again in one answer.",
                call.arguments.len()
            );
            return proposed("{}".to_owned(), Err(refusal("too_large", message, "Work in smaller pieces.")));
        }
        let hub_tool = hub_tools().into_iter().find(|tool| tool.name == call.name);
        let (schema, harmless) = match (&hub_tool, around.offer(&call.name, workspace_device)) {
            (Some(tool), _) => (&tool.parameters, true),
            (None, Some(offer)) => (&offer.spec.parameters, offer.spec.effect == Effect::Read),
            (None, None) => return proposed(call.arguments.clone(), Ok(serde_json::json!({}))),
        };
        let validator = match self.validator(schema) {
            Ok(validator) => validator,
            Err(problem) => return proposed(call.arguments.clone(), Err(refusal("unusable_tool", problem, "Use another tool."))),
        };
        match parse_arguments_with(&call.arguments, &validator) {
            Ok(parsed) if parsed.repaired == Repair::Values && !harmless => proposed(
                call.arguments.clone(),
                Err(refusal(
                    "invalid_arguments",
                    "The arguments aren't valid JSON, and mending them might change a value.",
                    "Send the same call again as strict JSON, with quotes and backslashes escaped.",
                )),
            ),
            Ok(parsed) => proposed(parsed.value.to_string(), Ok(parsed.value)),
            Err(error) => proposed(
                call.arguments.clone(),
                Err(refusal("invalid_arguments", error.to_string(), "Correct the arguments as the tool's schema says and call it again.")),
            ),
        }
    }
}

fn refusal(code: &str, message: impl Into<String>, hint: &str) -> ToolError {
    ToolError { code: code.to_owned(), message: message.into(), hint: hint.to_owned(), state_modified: StateModified::No }
}
