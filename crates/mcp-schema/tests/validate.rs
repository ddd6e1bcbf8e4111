//! Validation and its error texts.

use mcp_schema::{Dialect, Schema, ValidationErrorKind};
use serde_json::{Value, json};

/// The whole message for a value that must not match.
fn message(schema: &Value, value: &Value) -> String {
    let schema = Schema::compile(schema).expect("compiles");
    assert!(!schema.is_valid(value), "{value} must not match");
    schema.validate(value).expect_err("must not match").to_string()
}

#[test]
fn errors_are_readable_sentences() {
    let person = json!({
        "type": "object",
        "properties": {"age": {"type": "integer", "minimum": 0}, "name": {"type": "string"}},
        "required": ["name"],
        "additionalProperties": false
    });
    let shape = json!({"oneOf": [
        {"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["kind", "r"]},
        {"type": "object", "properties": {"kind": {"const": "square"}, "a": {"type": "number"}}, "required": ["kind", "a"]}
    ]});
    for (schema, value, expected) in [
        (
            json!({"properties": {"items": {"items": {"properties": {"name": {"type": "string"}}}}}}),
            json!({"items": [{"name": 3}]}),
            "`/items/0/name`: expected a string, got a number",
        ),
        (json!({"type": "integer"}), json!(1.5), "expected an integer, got 1.5"),
        (json!({"type": ["string", "null"]}), json!([]), "expected null or a string, got an array"),
        (json!({"enum": ["a", "b"]}), json!("c"), r#"expected one of "a", "b", got "c""#),
        (json!({"const": {"a": 1}}), json!(null), r#"expected {"a":1}, got null"#),
        (person.clone(), json!({}), r#"the required property "name" is missing"#),
        (person, json!({"name": "x", "agee": 3}), r#"unexpected property "agee", known are "age", "name""#),
        (
            json!({"prefixItems": [{"type": "string"}, {"minimum": 0}]}),
            json!([1, -1]),
            "`/0`: expected a string, got a number; `/1`: must be at least 0, got -1",
        ),
        (
            json!({"oneOf": [{"properties": {"k": {"const": "a"}}}, {"properties": {"k": {"enum": ["a", "b"]}}}]}),
            json!({"k": "c"}),
            r#"`/k`: expected one of "a", "b", got "c""#,
        ),
        (json!({"minLength": 2}), json!("é"), "must be at least 2 characters long, got 1"),
        (json!({"maxItems": 1}), json!([1, 2]), "must have at most 1 item, got 2"),
        (json!({"minProperties": 2}), json!({}), "must have at least 2 properties, got 0"),
        (json!({"pattern": "^a+$"}), json!("b"), r#"must match the pattern `^a+$`, got "b""#),
        (json!({"multipleOf": 5}), json!(7), "must be a multiple of 5, got 7"),
        (json!({"exclusiveMaximum": 5}), json!(5), "must be less than 5, got 5"),
        (json!({"uniqueItems": true}), json!([1, 1.0]), "the items must be unique"),
        (json!({"properties": {"a": false}}), json!({"a": 1}), "`/a`: nothing is allowed here"),
        (json!({"additionalProperties": false}), json!({"a": 1}), "no properties are allowed here"),
        (json!({"not": {"type": "null"}}), json!(null), r#"must not match {"type":"null"}"#),
        (json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), json!(1), "expected a string or null, got a number"),
        (
            shape.clone(),
            json!({"kind": "square", "a": "x"}),
            "matches none of the 2 alternatives; the closest one fails because: `/a`: expected a number, got a string",
        ),
        (shape, json!({"kind": "cube"}), r#"`/kind`: expected one of "circle", "square", got "cube""#),
        (
            json!({"anyOf": [{"minimum": 5}, {"multipleOf": 2}]}),
            json!(3),
            "matches none of the 2 alternatives: (must be at least 5, got 3), (must be a multiple of 2, got 3)",
        ),
        (
            json!({"anyOf": [{"type": "string"}, {"properties": {"a": {"minimum": 5}}}]}),
            json!({"a": 3}),
            "matches none of the 2 alternatives; the closest one fails because: `/a`: must be at least 5, got 3",
        ),
        (
            json!({"anyOf": [{"minimum": 5}]}),
            json!(3),
            "matches none of the 1 alternatives: (must be at least 5, got 3)",
        ),
        (
            json!({"oneOf": [{"type": "integer"}, {"type": "number"}]}),
            json!(1),
            "matches more than one of the alternatives, and must match exactly one",
        ),
        (
            json!({"propertyNames": {"maxLength": 1}}),
            json!({"ab": 1}),
            r#"the property name "ab" is not allowed: must be at most 1 character long, got 2"#,
        ),
    ] {
        assert_eq!(message(&schema, &value), expected);
    }
}

#[test]
fn each_keyword_has_a_sentence() {
    for (schema, value, expected) in [
        (json!({"type": "boolean"}), json!("x"), "expected a boolean, got a string"),
        (json!({"type": "array"}), json!({}), "expected an array, got an object"),
        (json!({"type": "object"}), json!(true), "expected an object, got a boolean"),
        (json!({"type": "null"}), json!(1), "expected null, got a number"),
        (json!({"type": "number"}), json!(null), "expected a number, got null"),
        (json!({"maximum": 2}), json!(3), "must be at most 2, got 3"),
        (json!({"exclusiveMinimum": 2}), json!(2), "must be greater than 2, got 2"),
        (json!({"maxLength": 1}), json!("ab"), "must be at most 1 character long, got 2"),
        (json!({"minItems": 1}), json!([]), "must have at least 1 item, got 0"),
        (json!({"maxProperties": 1}), json!({"a": 1, "b": 2}), "must have at most 1 property, got 2"),
        (json!({"contains": {"const": 1}}), json!([2]), "must contain the number of items that `contains` allows"),
        (json!({"prefixItems": [{}], "unevaluatedItems": false}), json!([1, 2, 3]), "has 2 items that are not allowed"),
        (
            json!({"properties": {"a": {}}, "unevaluatedProperties": false}),
            json!({"b": 1, "c": 2}),
            r#"unexpected properties "b", "c", known are "a""#,
        ),
        (
            json!({"anyOf": (2..=5).map(|n| json!({"multipleOf": n})).collect::<Value>()}),
            json!(1),
            "matches none of the 4 alternatives: (must be a multiple of 2, got 1), (must be a multiple of 3, got 1), \
             (must be a multiple of 4, got 1), (must be a multiple of 5, got 1)",
        ),
        (
            json!({"anyOf": (2..=7).map(|n| json!({"multipleOf": n})).collect::<Value>()}),
            json!(1),
            "matches none of the 6 alternatives: (must be a multiple of 2, got 1), (must be a multiple of 3, got 1), \
             (must be a multiple of 4, got 1), (must be a multiple of 5, got 1), and 2 more",
        ),
    ] {
        assert_eq!(message(&schema, &value), expected);
    }
    // Draft 07 also checks formats and contents.
    for (keyword, argument, value, expected) in [
        ("format", json!("date"), json!("today"), r#"must be a valid date, got "today""#),
        ("contentEncoding", json!("base64"), json!("?"), "must be encoded as base64"),
        ("contentMediaType", json!("application/json"), json!("{"), "must contain application/json"),
        ("additionalItems", json!(false), json!([1, 2]), "must have at most 1 item, got 2"),
    ] {
        let mut schema = json!({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{}]});
        schema[keyword] = argument;
        assert_eq!(message(&schema, &value), expected);
    }
}

#[test]
fn errors_have_both_json_pointers() {
    let schema = Schema::compile(&json!({
        "$defs": {"n": {"type": "string"}}, "properties": {"a/b": {"items": {"$ref": "#/$defs/n"}}}
    }))
    .unwrap();
    let errors = schema.validate(&json!({"a/b": ["x", 1]})).unwrap_err();
    let error = errors.first().unwrap();
    assert_eq!(error.instance_pointer(), "/a~1b/1");
    assert_eq!(error.schema_pointer(), "/$defs/n/type");
    assert_eq!(error.kind(), ValidationErrorKind::Type);
    assert_eq!((errors.total(), errors.is_complete()), (1, true));
}

#[test]
fn keeps_the_first_errors_and_counts_the_others() {
    let schema = Schema::compile(&json!({"items": {"type": "string"}})).unwrap();
    let errors = schema.validate(&json!(vec![0; 100])).unwrap_err();
    assert_eq!((errors.iter().count(), errors.total()), (8, 100));
    let mut places = Vec::new();
    for error in &errors {
        places.push(error.instance_pointer());
    }
    assert_eq!(places, ["/0", "/1", "/2", "/3", "/4", "/5", "/6", "/7"]);
    assert!(errors.to_string().ends_with("; and 92 more"), "{errors}");
}

#[test]
fn errors_do_not_contain_large_values() {
    let big = "x".repeat(1 << 20);
    let wide: Value = (0..20_000).map(|n| json!({"n": n})).collect();
    let mut named = serde_json::Map::new();
    named.insert(big.clone(), json!(1));
    for (schema, value) in [
        (json!({"enum": ["a"]}), json!(big)),
        (json!({"const": 1}), wide.clone()),
        (json!({"maxLength": 1}), json!(big)),
        (json!({"anyOf": [{"const": 1}, {"const": 2}]}), wide.clone()),
        (json!({"additionalProperties": false}), Value::Object(named.clone())),
        (json!({"additionalProperties": {"type": "string"}}), Value::Object(named.clone())),
        (json!({"items": {"type": "string"}}), wide),
        (json!({"propertyNames": {"maxLength": 3}}), Value::Object(named)),
        (json!({"enum": (0..1000).map(|n| format!("option {n}")).collect::<Vec<_>>()}), json!("z")),
    ] {
        let length = message(&schema, &value).len();
        assert!(length < 4_000, "{length} bytes for {schema}");
    }
}

#[test]
fn respects_the_dialect() {
    let tuple = |dialect: &str| json!({"$schema": dialect, "items": [{"type": "string"}]});
    let old = Schema::compile(&tuple("http://json-schema.org/draft-07/schema#")).unwrap();
    assert_eq!(old.dialect(), Dialect::Draft7);
    assert!(old.is_valid(&json!(["a", 1])) && !old.is_valid(&json!([1])));
    assert!(Schema::compile(&tuple("https://json-schema.org/draft/2020-12/schema")).is_err());

    let prefix = |head: Value| {
        let mut schema = json!({"prefixItems": [{"type": "string"}]});
        schema.as_object_mut().unwrap().extend(head.as_object().unwrap().clone());
        Schema::compile(&schema).unwrap()
    };
    assert!(!prefix(json!({})).is_valid(&json!([1])));
    assert!(!prefix(json!({"$schema": "https://json-schema.org/draft/2020-12/schema"})).is_valid(&json!([1])));
    assert!(prefix(json!({"$schema": "https://json-schema.org/draft/2019-09/schema"})).is_valid(&json!([1])));

    let exclusive = json!({
        "$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": true
    });
    assert!(!Schema::compile(&exclusive).unwrap().is_valid(&json!(1)));
}

#[test]
fn a_number_without_fraction_is_an_integer_and_lengths_count_code_points() {
    let check = |schema: Value, value: Value| Schema::compile(&schema).unwrap().is_valid(&value);
    assert!(check(json!({"type": "integer"}), json!(1.0)));
    assert!(check(json!({"enum": [1]}), json!(1.0)));
    assert!(check(json!({"maxLength": 1}), json!("😀")));
    assert!(check(json!(true), json!("anything")));
    assert!(!check(json!(false), json!("anything")));
}

#[test]
fn clones_share_the_compiled_schema() {
    let schema = Schema::compile(&json!({"type": "string"})).unwrap();
    let clone = schema.clone();
    assert!(std::ptr::eq(schema.source(), clone.source()));
    std::thread::spawn(move || assert!(clone.is_valid(&json!("x")))).join().unwrap();
}

#[test]
fn each_fault_has_its_kind_and_its_place() {
    use ValidationErrorKind as Kind;
    for (keywords, value, kind) in [
        (json!({"type": "string"}), json!(1), Kind::Type),
        (json!({"type": ["string", "null"]}), json!(1), Kind::Type),
        (json!({"enum": ["a"]}), json!("b"), Kind::Value),
        (json!({"required": ["k"]}), json!({}), Kind::Required),
        (json!({"additionalProperties": false}), json!({"k": 1}), Kind::Property),
        (json!({"uniqueItems": true}), json!([1, 1]), Kind::Items),
        (json!({"minLength": 2}), json!("a"), Kind::Size),
        (json!({"maxLength": 2}), json!("abc"), Kind::Size),
        (json!({"minItems": 1}), json!([]), Kind::Size),
        (json!({"maxItems": 1}), json!([1, 2]), Kind::Size),
        (json!({"pattern": "^a"}), json!("b"), Kind::Pattern),
        (json!({"minimum": 2}), json!(1), Kind::Range),
        (json!({"maximum": 2}), json!(3), Kind::Range),
        (json!({"exclusiveMinimum": 2}), json!(2), Kind::Range),
        (json!({"exclusiveMaximum": 2}), json!(2), Kind::Range),
        (json!({"anyOf": [{"minimum": 5}, {"multipleOf": 2}]}), json!(3), Kind::Combination),
        (json!({"oneOf": [{"minimum": 5}, {"multipleOf": 2}]}), json!(3), Kind::Combination),
        (json!({"oneOf": [{"type": "integer"}, {"type": "number"}]}), json!(1), Kind::Combination),
        (json!({"allOf": [{"type": "integer"}, {"minimum": 2}]}), json!(1), Kind::Range),
    ] {
        let schema = Schema::compile(&json!({"properties": {"list": {"items": keywords}}})).unwrap();
        let errors = schema.validate(&json!({"list": [value]})).unwrap_err();
        let error = errors.first().unwrap();
        assert_eq!(
            (error.kind(), error.instance_pointer(), errors.total()),
            (kind, "/list/0", 1),
            "{keywords}: {errors}"
        );
        assert_eq!(errors.to_string(), format!("`/list/0`: {}", error.message()));
    }
}

#[test]
fn unknown_keywords_and_keywords_of_other_types_do_not_apply() {
    let schema =
        json!({"type": "string", "minLength": 3, "pattern": "^a", "minimum": 5, "x-unknown": {"type": "integer"}});
    let schema = Schema::compile(&schema).unwrap();
    assert!(schema.is_valid(&json!("abc")));
    // A value of another type has one error.
    let errors = schema.validate(&json!([])).unwrap_err();
    assert_eq!((errors.total(), errors.first().unwrap().kind()), (1, ValidationErrorKind::Type));
}

#[test]
fn a_value_that_is_not_a_schema_is_rejected() {
    for value in [json!(null), json!("string"), json!(1), json!([])] {
        let error = Schema::compile(&value).unwrap_err();
        assert!(error.to_string().contains("a schema must be an object or a boolean"), "{error}");
    }
}
