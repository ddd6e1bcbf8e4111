//! Limits that bound the cost of hostile schemas and values.

use mcp_schema::{Limits, Schema, SchemaErrorKind};
use serde_json::{Map, Value, json};

fn refused(schema: &Value) -> (SchemaErrorKind, String) {
    let error = Schema::compile(schema).expect_err("must be refused");
    let message = error.to_string();
    let place = if error.pointer().is_empty() { String::new() } else { format!("`{}`: ", error.pointer()) };
    assert_eq!(message, format!("{place}{}", error.message()));
    (error.kind(), message)
}

#[test]
fn rejections_name_the_limit_and_the_location() {
    for (schema, kind, part) in [
        (json!(3), SchemaErrorKind::Invalid, "must be an object or a boolean"),
        (json!({"type": "strin"}), SchemaErrorKind::Invalid, "`/type`: "),
        (json!({"$schema": "https://example.com/own"}), SchemaErrorKind::Dialect, "is not supported"),
        (json!({"$schema": 7}), SchemaErrorKind::Dialect, "`/$schema`"),
        (json!({"items": {"$schema": "https://example.com/own"}}), SchemaErrorKind::Dialect, "`/items/$schema`"),
        (json!({"$ref": "https://example.com/s.json"}), SchemaErrorKind::Reference, "outside the schema"),
        (json!({"$ref": "file:///etc/passwd"}), SchemaErrorKind::Reference, "outside the schema"),
        (json!({"$ref": "other.json#/a"}), SchemaErrorKind::Reference, "outside the schema"),
        (
            json!({"$id": "https://example.com/a.json", "items": {"$ref": "b.json"}}),
            SchemaErrorKind::Reference,
            "`/items/$ref`",
        ),
        (json!({"$dynamicRef": "https://example.com/s#x"}), SchemaErrorKind::Reference, "outside the schema"),
        (json!({"properties": {"a": {"$ref": "#/$defs/no"}}}), SchemaErrorKind::Reference, "`/properties/a/$ref`"),
        (json!({"$ref": "#no-anchor"}), SchemaErrorKind::Reference, "leads nowhere"),
        (json!({"$defs": {"a": {"$id": "#a"}}, "$ref": "#a"}), SchemaErrorKind::Reference, "leads nowhere"),
        (json!({"$ref": "#/$defs/%7A"}), SchemaErrorKind::Reference, "leads nowhere"),
        (
            json!({"$defs": {"%zz": {}}, "items": {"$ref": "#/$defs/%zz"}}),
            SchemaErrorKind::Reference,
            "`/items/$ref`: \"#/$defs/%zz\" contains \"%zz\", which is not a percent-encoded byte",
        ),
        (json!({"$ref": "#/$defs/%ff"}), SchemaErrorKind::Reference, "is not UTF-8 when it is percent-decoded"),
        (json!({"$ref": "#"}), SchemaErrorKind::Reference, "without end"),
        (
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}}),
            SchemaErrorKind::Reference,
            "without end",
        ),
        (
            json!({"$id": "https://example.com/root", "$dynamicAnchor": "a", "$ref": "item", "$defs": {
                "item": {"$id": "item", "$dynamicRef": "#a", "$defs": {"own": {"$dynamicAnchor": "a"}}}
            }}),
            SchemaErrorKind::Reference,
            "without end",
        ),
        (json!({"pattern": "("}), SchemaErrorKind::Pattern, "`/pattern`"),
        (json!({"pattern": "^(?=a)"}), SchemaErrorKind::Pattern, "look-around"),
        (json!({"pattern": r"(a)\1"}), SchemaErrorKind::Pattern, "back-references"),
        (json!({"patternProperties": {"(": {}}}), SchemaErrorKind::Pattern, "`/patternProperties"),
        (json!({"patternProperties": {"(?=a)": {}}}), SchemaErrorKind::Pattern, "look-around"),
        (
            json!({"$schema": "http://json-schema.org/draft-04/schema#", "pattern": "(?!a)"}),
            SchemaErrorKind::Pattern,
            "look-around",
        ),
        (json!({"pattern": "((a{100}){100}){100}"}), SchemaErrorKind::Pattern, "too large"),
    ] {
        let (found, message) = refused(&schema);
        assert_eq!(found, kind, "{schema}: {message}");
        assert!(message.contains(part), "{schema}: {message}");
    }
}

#[test]
fn resolves_references_within_the_schema() {
    for schema in [
        json!({"$defs": {"s": {"type": "string"}}, "items": {"$ref": "#/$defs/s"}}),
        json!({"definitions": {"s": {"type": "string"}}, "items": {"$ref": "#/definitions/s"}}),
        json!({"$defs": {"x": {"$anchor": "s", "type": "string"}}, "items": {"$ref": "#s"}}),
        json!({"$defs": {"a b": {"type": "string"}}, "items": {"$ref": "#/$defs/a%20b"}}),
        json!({"$defs": {"a/b": {"type": "string"}}, "items": {"$ref": "#/$defs/a~1b"}}),
        json!({"$id": "https://example.com/root", "$defs": {"x": {"$id": "item", "type": "string"}},
               "items": {"$ref": "item"}}),
        json!({"$id": "https://example.com/root", "$defs": {"x": {"$id": "item", "$defs": {"s": {"type": "string"}}}},
               "items": {"$ref": "https://example.com/item#/$defs/s"}}),
        json!({"$id": "https://example.com/root", "items": {"$ref": "#/$defs/s"}, "$defs": {"s": {"type": "string"}}}),
        json!({"$ref": "https://example.com/list", "$defs": {"x": {
            "$id": "https://example.com/list", "items": {"$ref": "#/$defs/s"}, "$defs": {"s": {"type": "string"}}
        }}}),
        json!({"$defs": {"x": {"$dynamicAnchor": "s", "type": "string"}}, "items": {"$dynamicRef": "#s"}}),
        json!({"components": {"s": {"type": "string"}}, "items": {"$ref": "#/components/s"}}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"x": {"$id": "#s", "type": "string"}},
               "items": {"$ref": "#s"}}),
    ] {
        let compiled = Schema::compile(&schema).unwrap_or_else(|error| panic!("{schema}: {error}"));
        assert!(compiled.is_valid(&json!(["a"])), "{schema}");
        assert!(!compiled.is_valid(&json!([1])), "{schema}");
    }
}

#[test]
fn enforces_limits_at_their_boundaries() {
    let list = |n: usize| json!({"anyOf": vec![json!({}); n]});
    let props = |n: usize| json!({"properties": (0..n).map(|n| (n.to_string(), json!({}))).collect::<Map<_, _>>()});
    let refs = |n: usize| {
        let members = (0..n).map(|n| (n.to_string(), json!({"$ref": "#/$defs/a"}))).collect::<Map<_, _>>();
        json!({"$defs": {"a": {}}, "properties": members})
    };
    let nested = |n: usize| (0..n).fold(json!({}), |inner, _| json!({"not": inner}));
    let patterns =
        |n: usize| json!({"patternProperties": (0..n).map(|n| (n.to_string(), json!({}))).collect::<Map<_, _>>()});
    let limits = || {
        Limits::new()
            .depth(60)
            .size(1000)
            .subschemas(30)
            .branches(5)
            .references(6)
            .patterns(4)
            .nesting(20)
            .expansion(15)
    };
    let check = |what: &str, fits: Value, exceeds: Value| {
        if let Err(error) = Schema::compile_with(&fits, &limits()) {
            panic!("{what}: {error}");
        }
        let error = Schema::compile_with(&exceeds, &limits()).expect_err(what);
        assert_eq!(error.kind(), SchemaErrorKind::Limit, "{what}: {error}");
    };
    check("branches", list(5), list(6));
    check("subschemas", props(29), props(30));
    check("references", refs(6), refs(7));
    check("patterns", patterns(4), patterns(5));
    check("expansion", nested(14), nested(15));
    let deep = |n: usize| (0..n).fold(json!({}), |inner, _| json!({"items": inner}));
    check("nesting", deep(19), deep(20));
    let annotated = |n: usize| json!({"default": (0..n).fold(json!(1), |inner, _| json!([inner]))});
    check("depth", annotated(59), annotated(60));
    let titled = |bytes: usize| json!({"title": "x".repeat(bytes)});
    check("size", titled(987), titled(988));
    let repeated = json!({"pattern": "a{1000}"});
    assert!(Schema::compile_with(&repeated, &limits()).is_ok());
    let error = Schema::compile_with(&repeated, &limits().pattern_memory(1000)).expect_err("the expression is large");
    assert_eq!(error.kind(), SchemaErrorKind::Pattern);
}

#[test]
fn a_small_schema_does_not_take_exponential_time() {
    let mut defs = Map::new();
    for level in 0..64 {
        let next = json!({"$ref": format!("#/$defs/a{}", level + 1)});
        defs.insert(format!("a{level}"), json!({"allOf": [next.clone(), next]}));
    }
    defs.insert("a64".to_owned(), json!({"type": "string"}));
    let (kind, message) = refused(&json!({"$defs": defs, "$ref": "#/$defs/a0"}));
    assert_eq!(kind, SchemaErrorKind::Limit, "{message}");
}

#[test]
fn error_reports_of_recursive_schemas_are_bounded() {
    // Twelve alternatives that all recurse by the same member: 12^40 ways to fail at the bottom.
    let branch = |name: &str| {
        json!({
            "type": "object", "properties": {"kind": {"const": name}, "operand": {"$ref": "#"}}, "required": ["kind"]
        })
    };
    let schema =
        Schema::compile(&json!({"oneOf": (0..12).map(|n| branch(&format!("k{n}"))).collect::<Vec<_>>()})).unwrap();
    let mut value = json!({"kind": "wrong"});
    for _ in 0..40 {
        value = json!({"kind": "k3", "operand": value});
    }
    assert!(!schema.is_valid(&value));
    let errors = schema.validate(&value).unwrap_err();
    assert!(!errors.is_complete());
}

#[test]
fn error_reports_do_not_copy_a_large_value_per_alternative() {
    let branches: Vec<_> = (0..1000).map(|n| json!({"const": n})).collect();
    let schema = Schema::compile(&json!({"anyOf": branches})).unwrap();
    let errors = schema.validate(&json!("x".repeat(4 << 20))).unwrap_err();
    assert!(!errors.is_complete());
    // The same schema reports a useful error for a small value.
    assert!(schema.validate(&json!("x")).unwrap_err().is_complete());
}

#[test]
fn a_large_value_reports_its_first_error() {
    let schema = Schema::compile(&json!({"items": {"type": "object", "required": ["a"]}})).unwrap();
    let mut rows: Vec<_> = (0..50_000).map(|n| json!({"a": n})).collect();
    rows.push(json!({}));
    let errors = schema.validate(&Value::from(rows)).unwrap_err();
    assert_eq!(errors.to_string(), r#"`/50000`: the required property "a" is missing"#);
    assert!(!errors.is_complete());
}

#[test]
fn recursion_is_bounded_on_a_small_stack() {
    // Chains of references multiply with the depth of the value.
    let mut defs = Map::new();
    for link in 0..100 {
        defs.insert(format!("l{link}"), json!({"allOf": [{"$ref": format!("#/$defs/l{}", link + 1)}]}));
    }
    defs.insert(
        "l100".to_owned(),
        json!({"items": {"$ref": "#/$defs/l0"}, "additionalProperties": {"$ref": "#/$defs/l0"},
        "unevaluatedItems": false}),
    );
    let chained = json!({"$defs": defs, "$ref": "#/$defs/l0"});
    let mut alternatives: Value = serde_json::from_str(&chained.to_string().replace("allOf", "anyOf")).unwrap();
    alternatives["$defs"]["l100"] = json!({"items": {"$ref": "#/$defs/l0"}, "minItems": 1, "type": "array"});
    let plain = json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#"}}]});
    let dynamic =
        json!({"$dynamicAnchor": "n", "type": "array", "items": {"$dynamicRef": "#n"}, "unevaluatedItems": false});
    std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(move || {
            for schema in [chained, alternatives, plain, dynamic] {
                let schema = Schema::compile(&schema).unwrap();
                for depth in [1, 2, 3, 4, 5, 10, 50, 127, 300, 1_000] {
                    for leaf in [json!([]), json!(1)] {
                        let value = (0..depth).fold(leaf, |inner, _| json!([inner]));
                        // The result may differ. The test checks that validation returns.
                        assert_eq!(schema.is_valid(&value), schema.validate(&value).is_ok());
                    }
                }
            }
        })
        .unwrap()
        .join()
        .unwrap();
}

#[test]
fn a_recursive_schema_accepts_values_up_to_the_depth_of_messages() {
    let schema = Schema::compile(&json!({
        "$defs": {"node": {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}},
        "$ref": "#/$defs/node"
    }))
    .unwrap();
    let value = (0..62).fold(json!({}), |inner, _| json!({"children": [inner]}));
    schema.validate(&value).unwrap();
}

#[test]
fn a_schema_at_the_depth_limit_compiles_on_a_small_stack() {
    // `properties` nests two levels per subschema.
    let schema = (0..63).fold(json!({"type": "string"}), |inner, _| json!({"properties": {"p": inner}}));
    let union = (0..63).fold(json!({"type": "string"}), |inner, _| json!({"anyOf": [inner]}));
    std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(move || {
            for schema in [schema, union] {
                let compiled = Schema::compile(&schema).unwrap();
                let value = (0..63).fold(json!(1), |inner, _| json!({"p": inner}));
                assert!(compiled.validate(&value).is_err());
                drop(compiled);
            }
        })
        .unwrap()
        .join()
        .unwrap();
}

#[test]
fn patterns_do_not_backtrack() {
    let schema = Schema::compile(&json!({"pattern": "^(a|aa|a*)+$"})).unwrap();
    assert!(!schema.is_valid(&json!(format!("{}b", "a".repeat(100_000)))));
}
