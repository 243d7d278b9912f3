//! What a device says that it offers: its tools and workspaces.

use baton_model::{compile, parse_arguments_with};
use baton_proto::{ClientFrame, ToolSpec};

/// Nothing panics, whatever the schemas; one that is taken can be used; and a refusal stays short.
pub fn check(bytes: &[u8]) {
    if let Ok(tool) = serde_json::from_slice::<ToolSpec>(bytes) {
        offered(&tool);
    }
    if let Ok(ClientFrame::Hello { tools, workspaces, .. }) = serde_json::from_slice(bytes) {
        tools.iter().for_each(offered);
        for workspace in workspaces {
            let written = serde_json::to_vec(&workspace).expect("a workspace can be written");
            assert_eq!(serde_json::from_slice::<baton_proto::Workspace>(&written).ok(), Some(workspace));
        }
    }
}

fn offered(tool: &ToolSpec) {
    if let Some(problem) = tool.problem() {
        assert!(problem.len() <= 64 * 1024, "{} bytes of words", problem.len());
        return;
    }
    match compile(&tool.parameters) {
        Ok(schema) => {
            for raw in ["", "{}", r#"{"path":"a","text":["b",1,null,{"c":true}]}"#] {
                if let Ok(parsed) = parse_arguments_with(raw, &schema) {
                    assert!(schema.is_valid(&parsed.value));
                }
            }
        }
        Err(error) => assert!(error.to_string().len() <= 4 * 1024, "{error:.200}"),
    }
}
