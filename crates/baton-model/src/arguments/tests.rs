use super::*;
use proptest::prelude::*;
use serde_json::json;
use std::sync::LazyLock;

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "lines": {"type": "integer", "minimum": 1},
            "mode": {"enum": ["read", "write"]},
            "deep": {"type": "boolean"},
            "edits": {"type": "array", "items": {"type": "object", "properties": {"old": {"type": "string"}}, "required": ["old"]}},
        },
        "required": ["path"],
        "additionalProperties": false,
    })
}

#[test]
fn texts_that_become_arguments() {
    use Repair::{None, Syntax, Values};
    for (raw, value, repaired) in [
        (r#"{"path":"a"}"#, json!({"path": "a"}), None),
        ("  {\"path\": \"a\\n\"}\n", json!({"path": "a\n"}), None),
        // The object in a string, in a fence, with what people leave out or put in.
        (r#""{\"path\":\"a\"}""#, json!({"path": "a"}), Syntax),
        ("```json\n{\"path\":\"a\"}\n```", json!({"path": "a"}), Syntax),
        ("```\n{\"path\":\"a\",}\n```", json!({"path": "a"}), Syntax),
        (r#"{"path":"a",}"#, json!({"path": "a"}), Syntax),
        (r#"{"path":"a","lines":3"#, json!({"path": "a", "lines": 3}), Values),
        (r#"{"lines":3,"path":"a""#, json!({"path": "a", "lines": 3}), Syntax),
        (r#"{"path":"a" "lines":3}"#, json!({"path": "a", "lines": 3}), Syntax),
        (r#"{path:"a", lines: 3}"#, json!({"path": "a", "lines": 3}), Syntax),
        (r"{'path':'a'}", json!({"path": "a"}), Syntax),
        (r#"{"path":"a","deep":True}"#, json!({"path": "a", "deep": true}), Syntax),
        ("{\"path\":\"a\nb\tc\"}", json!({"path": "a\nb\tc"}), Syntax),
        ("{\"path\":\"a\" /* why */}", json!({"path": "a"}), Syntax),
        (r#"{"path":"a","edits":[{"old":"b"},]}"#, json!({"path": "a", "edits": [{"old": "b"}]}), Syntax),
        // Values that the model may have meant otherwise.
        (r#"{"path":"\d+"}"#, json!({"path": "\\d+"}), Values),
        (r#"{"path":"C:\new\docs"}"#, json!({"path": "C:\new\\docs"}), Values),
        (r#"{"path":"a"#, json!({"path": "a"}), Values),
        (r"{path: a}", json!({"path": "a"}), Values),
        (r"{'path':'a\'b'}", json!({"path": "a'b"}), Values),
    ] {
        let parsed = parse_arguments(raw, &schema()).unwrap_or_else(|error| panic!("{raw}: {error}"));
        assert_eq!((parsed.value, parsed.repaired), (value, repaired), "{raw}");
    }
    let nothing = parse_arguments(" ", &json!({"type": "object"})).unwrap();
    assert_eq!((nothing.value, nothing.repaired), (json!({}), None));
}

/// Quotes inside a string that weren't escaped: whatever the repair makes of them is a guess.
#[test]
fn unescaped_quotes_are_never_passed_off_as_unchanged() {
    for raw in [
        r#"{"path":"he said "hi" to me"}"#,
        r#"{"path":"say "a": "b""}"#,
        r#"{"path":"grep "x" file"}"#,
        r#"{"path":"a" "b"}"#,
        r#"{"path":"it"s"}"#,
        r"{'path':'don't'}",
        r#"{"path":“smart”}"#,
        r#"{"path":"a" + "b"}"#,
    ] {
        if let Ok(parsed) = parse_arguments(raw, &json!({"type": "object"})) {
            assert_eq!(parsed.repaired, Repair::Values, "{raw} became {}", parsed.value);
        }
    }
}

#[test]
fn errors_say_where_and_what() {
    let deep = format!("{{\"path\":{}1{}}}", "[".repeat(70), "]".repeat(70));
    let long = format!("{{\"path\":[\"{}\"]}}", "x".repeat(500));
    for (raw, expected) in [
        ("{}", "arguments: \"path\" is a required property"),
        (r#"{"path":5}"#, "arguments.path: 5 is not of type \"string\""),
        (r#"{"path":"a","lines":0}"#, "arguments.lines: 0 is less than the minimum of 1"),
        (r#"{"path":"a","mode":"append"}"#, "arguments.mode: \"append\" is not one of \"read\" or \"write\""),
        (r#"{"path":"a","edits":[{"old":"x"},{}]}"#, "arguments.edits[1]: \"old\" is a required property"),
        (r#"{"path":"a","pth":"b"}"#, "'pth' was unexpected"),
        (r#"{"lines":0,"deep":1}"#, "arguments.deep: 1 is not of type \"boolean\""),
        (r#"{"path":5,}"#, "arguments.path: 5 is not of type"),
        ("[1]", "must be one JSON object, not a list"),
        ("null", "must be one JSON object, not null"),
        ("\"words\"", "must be one JSON object, not a string"),
        ("words", "not valid JSON: expected value at line 1 column 1"),
        (deep.as_str(), "more than 64 levels"),
        (long.as_str(), "arguments.path: value is not of type \"string\""),
        ("", "\"path\" is a required property"),
    ] {
        let error = parse_arguments(raw, &schema()).expect_err(raw).to_string();
        assert!(error.contains(expected), "{raw}: {error}");
        assert!(error.len() < 1_000, "{error}");
    }
    let large = format!("{{\"path\":\"{}\"}}", "x".repeat(MAX_ARGUMENTS_BYTES));
    assert!(matches!(parse_arguments(&large, &schema()), Err(ArgumentsError::TooLarge { .. })));
    let many = json!({"type": "object", "required": ["a", "b", "c", "d", "e", "f", "g"]});
    assert!(parse_arguments("{}", &many).unwrap_err().to_string().ends_with("; and 2 more."));
}

#[test]
fn schemas_are_refused_at_registration() {
    let mut deep = json!({"type": "object"});
    for _ in 0..40 {
        deep = json!({"type": "object", "properties": {"a": deep}});
    }
    for (schema, fits) in [
        (json!({"type": "object"}), true),
        (schema(), true),
        (json!({"type": "object", "properties": {"next": {"$ref": "#"}}}), true),
        (json!({}), false),
        (json!(true), false),
        (json!({"type": "string"}), false),
        (json!({"type": "object", "properties": {"a": {"type": "text"}}}), false),
        (json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}), false),
        (json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "(?=a)b"}}}), false),
        (json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}), false),
        (json!({"type": "object", "properties": {"a": {"$ref": "https://example.com/schema"}}}), false),
        (json!({"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}), false),
        (json!({"type": "object", "required": "path"}), false),
        (json!({"type": "object", "description": "x".repeat(70_000)}), false),
        (deep, false),
    ] {
        assert_eq!(compile(&schema).is_ok(), fits, "{schema}");
    }
}

#[test]
fn references_in_a_circle_do_not_hang() {
    for schema in [
        json!({"type": "object", "$ref": "#"}),
        json!({"type": "object", "allOf": [{"$ref": "#"}]}),
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
    ] {
        let _ = parse_arguments(r#"{"a":1}"#, &schema);
    }
}

/// A stack that overflows takes the hub down, so the bound has to leave room on a small one.
#[test]
fn repair_survives_what_nests_deeply() {
    let on_a_small_stack = std::thread::Builder::new().stack_size(512 * 1024).spawn(|| {
        for count in [60, 70, 6_000] {
            for piece in ["[", "{\"a\":", "f(", "{", "[{", "(", "{a:[", "[/**/", "[\"\","] {
                let _ = parse_arguments(&piece.repeat(count), &json!({"type": "object"}));
                let _ = parse_arguments(&format!("{}\\", piece.repeat(count / 2)), &json!({"type": "object"}));
            }
        }
    });
    on_a_small_stack.unwrap().join().unwrap();
}

/// Text made of the pieces that repairs trip over.
fn nearly_json() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "{",
            "}",
            "[",
            "]",
            ":",
            ",",
            "\"",
            "'",
            "\\",
            "\\n",
            "\\u12",
            "\\u0041",
            "\\d",
            "\n",
            " ",
            "//",
            "/*",
            "*/",
            "#",
            "```",
            "json",
            "true",
            "True",
            "null",
            "None",
            "NaN",
            "undefined",
            "-",
            "1",
            "007",
            "1e",
            ".5",
            "path",
            "\"path\"",
            "\"path\":",
            "“",
            "”",
            "…",
            "...",
            "é",
            "文",
            "\u{0}",
            "\u{feff}",
            "f(",
            ")",
            ";",
            "+",
            "<",
            "`",
            "\\\"",
        ])
        .prop_map(str::to_owned),
        "[a-z]{1,4}",
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9_f64).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::hash_map(any::<String>(), inner, 0..5).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn any_object() -> impl Strategy<Value = Value> {
    prop::collection::hash_map(any::<String>(), any_json(), 0..5).prop_map(|fields| Value::Object(fields.into_iter().collect()))
}

fn all_text(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| all_text(item, texts)),
        Value::Object(fields) => fields.values().for_each(|field| all_text(field, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a model writes: no panic, and what comes out fits.
    #[test]
    fn whatever_is_written_fits_or_is_an_error(raw in prop_oneof![nearly_json(), any::<String>()]) {
        static SCHEMA: LazyLock<Validator> = LazyLock::new(|| compile(&schema()).unwrap());
        if let Ok(parsed) = parse_arguments_with(&raw, &SCHEMA) {
            prop_assert!(SCHEMA.is_valid(&parsed.value));
        }
        // Also behind a beginning that takes the repair into an object's string.
        for begun in [format!("{{\"path\":\"{raw}"), format!("{{\"path\":\"{raw}\"}}"), format!("{{{raw}}}")] {
            if let Ok(parsed) = parse_arguments_with(&begun, &SCHEMA) {
                prop_assert!(SCHEMA.is_valid(&parsed.value));
            }
        }
    }

    /// The tolerant reader agrees with the strict one wherever the strict one reads at all.
    #[test]
    fn tolerance_changes_nothing_about_valid_json(value in any_object(), pretty in any::<bool>()) {
        let raw = if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
        let strict = serde_json::from_str::<Value>(&raw).unwrap();
        prop_assert_eq!(tolerant::read(&raw), Some((strict, Repair::None)));
    }

    #[test]
    fn valid_json_is_never_changed(value in any_object(), pretty in any::<bool>()) {
        let raw = if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
        let parsed = parse_arguments(&raw, &json!({"type": "object"})).unwrap();
        prop_assert_eq!(parsed.repaired, Repair::None);
        prop_assert_eq!(parsed.value, serde_json::from_str::<Value>(&raw).unwrap());
    }

    /// A repair that claims to have changed no value has changed none.
    #[test]
    fn broken_syntax_keeps_the_values_or_says_so(value in any_object(), how in 0..5) {
        let whole = value.to_string();
        let raw = match how {
            0 => format!("{},}}", &whole[..whole.len() - 1]),
            1 => whole[..whole.len() - 1].to_owned(),
            2 => whole.replacen("\":", "\"", 1),
            3 => whole.replacen(",\"", "\"", 1),
            _ => whole.replace("\\n", "\n").replace("\\\\", "\\"),
        };
        if let Ok(parsed) = parse_arguments(&raw, &json!({"type": "object"}))
            && parsed.repaired == Repair::Syntax
            && how < 4
        {
            let (mut before, mut after) = (Vec::new(), Vec::new());
            all_text(&value, &mut before);
            all_text(&parsed.value, &mut after);
            before.sort();
            after.sort();
            prop_assert_eq!(before, after, "{}", raw);
        }
    }

    /// The middle of a string torn open by a quote is never passed off as unchanged.
    #[test]
    fn an_unescaped_quote_is_noticed(before in "[a-z :,]{0,8}", inside in "[a-z :,{}]{1,8}", behind in "[a-z :,]{0,8}") {
        let raw = format!("{{\"path\":\"{before}\"{inside}\"{behind}\"}}");
        if let Ok(parsed) = parse_arguments(&raw, &schema())
            && parsed.repaired != Repair::Values
        {
            prop_assert!(serde_json::from_str::<Value>(&raw).is_ok(), "{} became {}", raw, parsed.value);
        }
    }
}
