//! The rules of `x-mcp-header`.

use mcp_schema::header::{HeaderKind, HeaderParamErrorKind as Kind, header_params, matches};
use serde_json::{Value, json};

/// An input schema with one property `p`.
fn with(property: Value) -> Value {
    let mut schema = json!({"type": "object", "properties": {}});
    schema["properties"]["p"] = property;
    schema
}

#[test]
fn finds_parameters_at_any_depth_of_properties() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string", "x-mcp-header": "Region"},
        "b": {"type": "object", "properties": {
            "c/d": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "n!#$%&'*+-.^_`|~9"}}}
        }},
        "c": {"type": "boolean", "x-mcp-header": "Method"},
        // A property of that name, and data of that name, are no annotations.
        "x-mcp-header": {"type": "string"},
        "z": {"default": {"x-mcp-header": ""}, "enum": [{"x-mcp-header": ""}], "examples": [{"x-mcp-header": 1}]}
    }});
    let found = header_params(&schema).unwrap();
    let found: Vec<_> = found.iter().map(|p| (p.header_name(), p.path.join(" "), p.kind)).collect();
    assert_eq!(
        found,
        [
            ("Mcp-Param-Region".to_owned(), "a".to_owned(), HeaderKind::String),
            ("Mcp-Param-n!#$%&'*+-.^_`|~9".to_owned(), "b c/d n".to_owned(), HeaderKind::Integer),
            ("Mcp-Param-Method".to_owned(), "c".to_owned(), HeaderKind::Boolean),
        ]
    );
    assert!(header_params(&json!({"type": "object"})).unwrap().is_empty());
    assert!(header_params(&json!(true)).unwrap().is_empty());
}

#[test]
fn enforces_the_rules_for_names_and_types() {
    let string = |name: Value| with(json!({"type": "string", "x-mcp-header": name}));
    let typed = |kind: Value| with(json!({"type": kind, "x-mcp-header": "A"}));
    for (schema, kind) in [
        (string(json!("")), Kind::Empty),
        (string(json!(null)), Kind::Empty),
        (string(json!(1)), Kind::Empty),
        (string(json!("a b")), Kind::NotToken),
        (string(json!("a:b")), Kind::NotToken),
        (string(json!("a\r\nX: 1")), Kind::NotToken),
        (string(json!("é")), Kind::NotToken),
        (string(json!("a\u{7f}")), Kind::NotToken),
        (typed(json!("number")), Kind::Type),
        (typed(json!("object")), Kind::Type),
        (typed(json!("array")), Kind::Type),
        (typed(json!("null")), Kind::Type),
        (typed(json!(["string", "null"])), Kind::Type),
        (with(json!({"x-mcp-header": "A"})), Kind::Type),
        (with(json!({"enum": ["a"], "x-mcp-header": "A"})), Kind::Type),
        (
            json!({"properties": {"a": {"type": "string", "x-mcp-header": "Key"},
                                  "b": {"properties": {"c": {"type": "string", "x-mcp-header": "kEY"}}}}}),
            Kind::Duplicate,
        ),
    ] {
        assert_eq!(header_params(&schema).unwrap_err().kind(), kind, "{schema}");
    }
}

#[test]
fn rejects_annotations_elsewhere() {
    let a = || json!({"type": "string", "x-mcp-header": "A"});
    let old = |rest: Value| {
        let mut schema = json!({"$schema": "http://json-schema.org/draft-07/schema#"});
        schema.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        schema
    };
    for schema in [
        a(),
        with(json!({"items": a()})),
        with(json!({"prefixItems": [a()]})),
        with(json!({"contains": a()})),
        with(json!({"additionalProperties": a()})),
        with(json!({"patternProperties": {"x": a()}})),
        with(json!({"propertyNames": a()})),
        with(json!({"unevaluatedProperties": a()})),
        with(json!({"allOf": [a()]})),
        with(json!({"anyOf": [a()]})),
        with(json!({"oneOf": [{"properties": {"q": a()}}]})),
        with(json!({"not": a()})),
        with(json!({"if": a()})),
        with(json!({"then": a()})),
        with(json!({"else": a()})),
        json!({"dependentSchemas": {"p": {"properties": {"q": a()}}}}),
        json!({"$defs": {"d": a()}, "properties": {"p": {"$ref": "#/$defs/d"}}}),
        json!({"definitions": {"d": {"properties": {"q": a()}}}}),
        old(json!({"properties": {"p": {"additionalItems": a()}}})),
        old(json!({"properties": {"p": {"items": [a()]}}})),
        old(json!({"dependencies": {"p": a()}})),
        old(json!({"properties": {"p": {"$ref": "#/definitions/d", "type": "string", "x-mcp-header": "A"}}})),
        old(json!({"properties": {"p": {"$ref": "#/definitions/d", "properties": {"q": a()}}}})),
    ] {
        assert_eq!(header_params(&schema).unwrap_err().kind(), Kind::Misplaced, "{schema}");
    }
    // A member that is not a keyword of the dialect contains no schemas.
    assert!(header_params(&old(json!({"properties": {"p": {"prefixItems": [a()]}}}))).unwrap().is_empty());
    assert!(header_params(&with(json!({"additionalItems": a(), "x-own": a()}))).unwrap().is_empty());
    // Beside a reference the newer dialects do read other keywords.
    let beside = with(json!({"$ref": "#/$defs/d", "type": "string", "x-mcp-header": "A"}));
    assert_eq!(header_params(&beside).unwrap().len(), 1);
}

#[test]
fn errors_name_the_location() {
    let error = header_params(&with(json!({"type": "number", "x-mcp-header": "A"}))).unwrap_err();
    assert_eq!(error.pointer(), "/properties/p/x-mcp-header");
    assert_eq!(
        error.to_string(),
        "`/properties/p/x-mcp-header`: stands on a property with \"number\", and needs \"string\", \"integer\" or \"boolean\""
    );
}

#[test]
fn compares_arguments_and_headers_by_type() {
    for (argument, header, expected) in [
        (json!("a"), "a", true),
        (json!("a"), "A", false),
        (json!("42"), "42", true),
        (json!("42"), "42.0", false),
        (json!(""), "", true),
        (json!(42), "42", true),
        (json!(42), "42.0", true),
        (json!(42), "4.2e1", true),
        (json!(42), "4.2E+1", true),
        (json!(42), "420e-1", true),
        (json!(42), "4200.00e-2", true),
        (json!(42.0), "42", true),
        (json!(42), "43", false),
        (json!(42), "+42", false),
        (json!(42), "042", false),
        (json!(42), " 42", false),
        (json!(42), "42.", false),
        (json!(42), "0x2a", false),
        (json!(42), "42e", false),
        (json!(42), "4_2", false),
        (json!(42), "٤٢", false),
        (json!(42), "", false),
        (json!(42), "-", false),
        (json!(0), "-0", true),
        (json!(0), "0.000", true),
        (json!(0), "0e99999999999999999999", true),
        (json!(0), ".0", false),
        (json!(-7), "-7", true),
        (json!(-7), "-70e-1", true),
        (json!(1_000_000), "1e6", true),
        (json!(1), "1e-99999999999999999999", false),
        (json!(1000), "1e99999999999999999999", false),
        (json!(1), "1.5", false),
        (json!(1.5), "1.5", false),
        (json!(9_007_199_254_740_991u64), "9007199254740991", true),
        (json!(-9_007_199_254_740_991i64), "-9007199254740991", true),
        (json!(9_007_199_254_740_992u64), "9007199254740992", false),
        (json!(u64::MAX), "18446744073709551615", false),
        (json!(1e300), "1e300", false),
        (json!(1), "NaN", false),
        (json!(1), "Infinity", false),
        (json!(true), "true", true),
        (json!(false), "false", true),
        (json!(true), "True", false),
        (json!(true), "1", false),
        (json!(null), "null", false),
        (json!(null), "", false),
        (json!({}), "{}", false),
        (json!([]), "[]", false),
    ] {
        assert_eq!(matches(&argument, header), expected, "{argument} {header:?}");
    }
}

#[test]
fn client_and_server_encode_the_same_value() {
    let schema = json!({"properties": {"a": {"properties": {"n": {"type": "integer", "x-mcp-header": "N"}}}}});
    let param = &header_params(&schema).unwrap()[0];
    for (arguments, text) in [
        (json!({"a": {"n": 42.0}}), Some("42")),
        (json!({"a": {"n": -1}}), Some("-1")),
        (json!({"a": {"n": null}}), None),
        (json!({"a": {}}), None),
        (json!({"a": 3}), None),
        (json!({}), None),
        (json!(null), None),
        (json!({"a": {"n": 1.5}}), None),
        (json!({"a": {"n": "42"}}), None),
        (json!({"a": {"n": 9_007_199_254_740_992u64}}), None),
    ] {
        let written = param.argument(&arguments).and_then(|argument| param.text(argument));
        assert_eq!(written.as_deref(), text, "{arguments}");
        if let (Some(argument), Some(text)) = (param.argument(&arguments), text) {
            assert!(param.matches(argument, text));
        }
    }
    assert!(!param.matches(&json!("42"), "42"), "an argument of another type than the parameter");
}
