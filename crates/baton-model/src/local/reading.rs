//! What servers say of their models, each in its own way. Pure.

use super::FoundModel;
use serde_json::Value;

/// Names are shown to people and sent back; one of another length or with line breaks is nobody's.
const MAX_NAME_BYTES: usize = 256;

/// Ollama's `/api/tags`, newest first.
pub(super) fn ollama_names(list: &Value) -> Option<Vec<String>> {
    Some(names(list["models"].as_array()?, "name"))
}

/// Ollama's `/api/show`. A model that only embeds is left out; an older server says nothing of what its models can do.
pub(super) fn ollama_model(name: String, about: &Value) -> Option<FoundModel> {
    let Some(abilities) = about["capabilities"].as_array() else {
        return Some(FoundModel { name, tools: None, images: None, is_loaded: false });
    };
    let can = |what: &str| abilities.iter().any(|ability| ability == what);
    can("completion").then(|| FoundModel { name, tools: Some(can("tools")), images: Some(can("vision")), is_loaded: false })
}

/// The list that every OpenAI-compatible server has at `/v1/models`.
pub(super) fn listed_names(list: &Value) -> Option<Vec<String>> {
    Some(names(list["data"].as_array()?, "id"))
}

/// llama.cpp's `/props`, which is of the one model that it serves.
pub(super) fn llama_cpp_model(name: String, about: &Value) -> FoundModel {
    let template = &about["chat_template_caps"];
    let tools = template["supports_tool_calls"].as_bool().or_else(|| template["supports_tools"].as_bool());
    FoundModel { name, tools, images: about["modalities"]["vision"].as_bool(), is_loaded: true }
}

/// LM Studio's own lists: `/api/v1/models`, and `/api/v0/models` before it.
pub(super) fn lm_studio_models(list: &Value) -> Option<Vec<FoundModel>> {
    let entries = list["models"].as_array().or_else(|| list["data"].as_array())?;
    let models = entries.iter().filter(|entry| matches!(entry["type"].as_str(), Some("llm" | "vlm"))).filter_map(|entry| {
        let abilities = &entry["capabilities"];
        let listed = abilities.as_array().map(|all| all.iter().any(|ability| ability == "tool_use"));
        let is_loaded = entry["state"] == "loaded" || entry["loaded_instances"].as_array().is_some_and(|all| !all.is_empty());
        Some(FoundModel {
            name: good_name(entry["key"].as_str().or_else(|| entry["id"].as_str())?)?,
            tools: abilities["trained_for_tool_use"].as_bool().or(listed),
            images: abilities["vision"].as_bool().or_else(|| entry["type"].as_str().map(|kind| kind == "vlm")),
            is_loaded,
        })
    });
    Some(models.collect())
}

fn names(entries: &[Value], field: &str) -> Vec<String> {
    entries.iter().filter_map(|entry| good_name(entry[field].as_str()?)).collect()
}

fn good_name(name: &str) -> Option<String> {
    let is_good = (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.chars().any(char::is_control);
    is_good.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    type Told = (&'static str, Option<bool>, Option<bool>, bool);

    fn told(models: Vec<FoundModel>) -> Vec<(String, Option<bool>, Option<bool>, bool)> {
        models.into_iter().map(|model| (model.name, model.tools, model.images, model.is_loaded)).collect()
    }

    fn expect(models: Vec<FoundModel>, expected: &[Told]) {
        let expected: Vec<_> = expected.iter().map(|&(name, tools, images, loaded)| (name.to_owned(), tools, images, loaded)).collect();
        assert_eq!(told(models), expected);
    }

    #[test]
    fn ollama() {
        let list = json!({"models": [{"name": "qwen3:8b", "size": 5}, {"name": "nomic-embed-text"}, {"name": "a\nb"}, {"size": 1}]});
        assert_eq!(ollama_names(&list).unwrap(), ["qwen3:8b", "nomic-embed-text"]);
        assert_eq!(ollama_names(&json!({"data": []})), None);
        let about = |abilities: Value| ollama_model("m".into(), &json!({"capabilities": abilities})).into_iter().collect();
        expect(about(json!(["completion", "tools"])), &[("m", Some(true), Some(false), false)]);
        expect(about(json!(["completion", "vision"])), &[("m", Some(false), Some(true), false)]);
        expect(about(json!(["embedding"])), &[]);
        expect(ollama_model("m".into(), &Value::Null).into_iter().collect(), &[("m", None, None, false)]);
    }

    #[test]
    fn llama_cpp() {
        assert_eq!(listed_names(&json!({"object": "list", "data": [{"id": "qwen"}]})).unwrap(), ["qwen"]);
        assert_eq!(listed_names(&json!({"status": "ok"})), None);
        for (about, tools, images) in [
            (
                json!({"chat_template_caps": {"supports_tools": true, "supports_tool_calls": true}, "modalities": {"vision": true}}),
                Some(true),
                Some(true),
            ),
            (json!({"chat_template_caps": {"supports_tools": false}}), Some(false), None),
            (Value::Null, None, None),
        ] {
            expect(vec![llama_cpp_model("m".into(), &about)], &[("m", tools, images, true)]);
        }
    }

    #[test]
    fn lm_studio() {
        let newer = json!({"models": [
            {"type": "llm", "key": "google/gemma", "loaded_instances": [], "capabilities": {"vision": true, "trained_for_tool_use": false}},
            {"type": "llm", "key": "qwen/qwen3", "loaded_instances": [{"id": "qwen/qwen3"}], "capabilities": {"vision": false, "trained_for_tool_use": true}},
            {"type": "embedding", "key": "nomic"},
        ]});
        expect(
            lm_studio_models(&newer).unwrap(),
            &[("google/gemma", Some(false), Some(true), false), ("qwen/qwen3", Some(true), Some(false), true)],
        );
        let older = json!({"data": [
            {"id": "qwen", "type": "llm", "state": "loaded", "capabilities": ["tool_use"]},
            {"id": "llava", "type": "vlm", "state": "not-loaded"},
            {"id": "nomic", "type": "embeddings"},
        ]});
        expect(lm_studio_models(&older).unwrap(), &[("qwen", Some(true), Some(false), true), ("llava", None, Some(true), false)]);
        assert_eq!(lm_studio_models(&json!({"error": "no such path"})), None);
    }
}
