//! The subset of JSON Schema for elicitation forms.

use std::collections::{BTreeMap, HashSet};

use mcp_schema::{
    Schema,
    elicitation::{self, FieldKind, Form},
};
use schemars::{JsonSchema, schema_for};
use serde::Deserialize;
use serde_json::{Value, json};

fn property(schema: Value) -> Value {
    let mut root = json!({"type": "object", "properties": {}});
    root["properties"]["p"] = schema;
    root
}

#[test]
fn parses_and_renders_the_subset_unchanged() {
    for schema in [
        json!({"type": "string", "title": "T", "description": "D", "minLength": 1, "maxLength": 9, "default": "abc"}),
        json!({"type": "string", "format": "email"}),
        json!({"type": "string", "format": "uri", "default": "https://example.com/"}),
        json!({"type": "string", "format": "date"}),
        json!({"type": "string", "format": "date-time"}),
        json!({"type": "number", "minimum": 0.5, "maximum": 2, "default": 1.5}),
        json!({"type": "integer", "minimum": -3, "maximum": 3, "default": 0}),
        json!({"type": "boolean", "default": true}),
        json!({"type": "string", "enum": ["a", "b"], "default": "b"}),
        json!({"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]}),
        json!({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1, "maxItems": 2, "default": ["a"]}),
        json!({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}}),
    ] {
        let schema = property(schema);
        elicitation::check(&schema).unwrap_or_else(|error| panic!("{schema}: {error}"));
        let rendered = Form::parse(&schema).unwrap().schema();
        assert_eq!(rendered, schema);
        Schema::compile(&rendered).unwrap();
    }
    let both =
        json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["b"]});
    assert_eq!(Form::parse(&both).unwrap().schema(), both);
}

#[test]
fn accepts_variants_of_the_subset() {
    for (given, rendered) in [
        (
            json!({"type": "string", "enum": ["a", "b"], "enumNames": ["A", "b"]}),
            json!({"type": "string", "enum": ["a", "b"], "enumNames": ["A", "b"]}),
        ),
        (json!({"type": "string", "pattern": "^a", "x-own": 1, "examples": [""]}), json!({"type": "string"})),
        (json!({"type": "string", "minLength": 3.0}), json!({"type": "string", "minLength": 3})),
        (json!({"type": "integer", "default": 3.0}), json!({"type": "integer", "default": 3})),
    ] {
        assert_eq!(Form::parse(&property(given)).unwrap().schema(), property(rendered));
    }
    let root = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": false,
        "title": "T", "description": "D"
    });
    assert_eq!(Form::parse(&root).unwrap().schema(), json!({"type": "object", "properties": {}}));
}

#[test]
fn rejections_name_the_keyword_outside_the_subset() {
    for (schema, message) in [
        (
            json!({}),
            "the field `p` has no type, and a form has only strings, numbers, integers, booleans and lists of choices",
        ),
        (json!(true), "the field `p` has the schema true, not an object"),
        (json!({"type": ["string", "null"]}), r#"the field `p` has the type ["string","null"], and"#),
        (json!({"type": "object", "properties": {}}), r#"the field `p` has the type "object""#),
        (json!({"type": "null"}), r#"the field `p` has the type "null""#),
        (json!({"type": "string", "format": "uuid"}), r#"the field `p` has the format "uuid""#),
        (json!({"type": "string", "const": "a"}), r#"the field `p` has "const", which is not possible in a form"#),
        (json!({"type": "string", "anyOf": []}), r#"the field `p` has "anyOf""#),
        (json!({"type": "string", "$ref": "#/x"}), r#"the field `p` has "$ref""#),
        (json!({"type": "number", "multipleOf": 2}), r#"the field `p` has "multipleOf""#),
        (json!({"type": "number", "minLength": 2}), r#"the field `p` has "minLength""#),
        (json!({"type": "string", "enum": []}), "the field `p` has nothing to choose from"),
        (json!({"type": "string", "enum": [1]}), "the field `p` has the choice 1, and only strings"),
        (json!({"type": "string", "enum": ["a", "a"]}), r#"the field `p` has the choice "a" twice"#),
        (json!({"type": "string", "enum": ["a"], "enumNames": []}), r#"the field `p` has "enumNames" that"#),
        (json!({"type": "string", "oneOf": [{"title": "A"}]}), "the field `p` has the choice null"),
        (
            json!({"type": "string", "oneOf": [{"const": "a", "minLength": 1}]}),
            r#"the field `p` has a choice with "minLength""#,
        ),
        (json!({"type": "array"}), r#"the field `p` is a list, and has no "items""#),
        (json!({"type": "array", "items": {"type": "string"}}), "the field `p` is a list, and can only be"),
        (
            json!({"type": "array", "items": {"type": "object", "properties": {}}}),
            "the field `p` is a list whose items have",
        ),
        (json!({"type": "string", "default": 3}), "the field `p` has the default 3, which is not a string"),
        (
            json!({"type": "string", "maxLength": 1, "default": "abc"}),
            "the field `p` has a default that does not fit: must have",
        ),
        (
            json!({"type": "string", "enum": ["a"], "default": "b"}),
            "the field `p` has a default that does not fit: expected",
        ),
        (
            json!({"type": "integer", "default": 1.5}),
            "the field `p` has a default that does not fit: expected an integer",
        ),
        (json!({"type": "string", "minLength": -1}), "the field `p` has the minLength -1, which is not a count"),
        (json!({"type": "string", "title": 3}), "the field `p` has the title 3, which is not a string"),
    ] {
        let error = Form::parse(&property(schema.clone())).expect_err(&schema.to_string());
        assert!(error.to_string().starts_with(message), "{schema}: {error}");
        assert_eq!(error.field_name(), Some("p"));
    }
    for schema in [
        json!(null),
        json!({}),
        json!({"type": "array"}),
        json!({"type": "object", "properties": []}),
        json!({"type": "object", "properties": {}, "required": ["a"]}),
        json!({"type": "object", "properties": {}, "required": "a"}),
        json!({"type": "object", "oneOf": []}),
        json!({"type": "object", "$defs": {}}),
        json!({"type": "object", "$schema": "https://example.com/own"}),
    ] {
        let error = Form::parse(&schema).expect_err(&schema.to_string());
        assert_eq!(elicitation::check(&schema), Err(error), "{schema}");
    }
}

/// How it is to be packed.
#[derive(JsonSchema, Deserialize, Debug, PartialEq, Eq, Hash)]
#[serde(rename_all = "kebab-case")]
enum Wrapping {
    /// Plain paper
    Paper,
    /// A box
    /// made of wood
    WoodenBox,
    None,
}

#[derive(JsonSchema, Deserialize, Debug, PartialEq, Eq, Hash)]
enum Size {
    Small,
    Large,
}

#[derive(JsonSchema, Deserialize, Debug, PartialEq)]
enum Only {
    One,
}

fn two() -> u8 {
    2
}

/// An order.
#[derive(JsonSchema, Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
struct Order {
    /// Who gets it
    name: String,
    #[schemars(title = "Mail", email, length(max = 50))]
    email: Option<String>,
    #[serde(default = "two")]
    count: u8,
    #[schemars(range(min = 0.5, max = 9.5))]
    weight: f64,
    temperature: Option<i64>,
    express: bool,
    #[serde(default)]
    gift: bool,
    wrapping: Wrapping,
    inner_wrapping: Option<Wrapping>,
    /// How large
    size: Size,
    sizes: Vec<Size>,
    wrappings: Option<HashSet<Wrapping>>,
    only: Only,
    initial: char,
}

#[test]
fn converts_the_schema_of_a_rust_type_to_a_form() {
    let form = Form::from_schema(schema_for!(Order).as_value()).unwrap();
    let wrapping = json!([
        {"const": "paper", "title": "Plain paper"},
        {"const": "wooden-box", "title": "A box made of wood"},
        {"const": "none", "title": "none"}
    ]);
    let by_value = |list: &Value| {
        let entries = list.as_array().unwrap().iter();
        entries.map(|entry| (entry["const"].to_string(), entry.clone())).collect::<BTreeMap<_, _>>()
    };
    let schema = form.schema();
    let mut properties = schema["properties"].clone();
    // The order of the variants depends on the generator.
    for pointer in ["/wrapping/oneOf", "/inner_wrapping/oneOf", "/wrappings/items/anyOf"] {
        let list = properties.pointer_mut(pointer).unwrap().take();
        assert_eq!(by_value(&list), by_value(&wrapping), "{pointer}");
    }
    assert_eq!(
        properties,
        json!({
            "name": {"type": "string", "description": "Who gets it"},
            "email": {"type": "string", "title": "Mail", "format": "email", "maxLength": 50},
            "count": {"type": "integer", "minimum": 0, "maximum": 255, "default": 2},
            "weight": {"type": "number", "minimum": 0.5, "maximum": 9.5},
            "temperature": {"type": "integer"},
            "express": {"type": "boolean"},
            "gift": {"type": "boolean", "default": false},
            "wrapping": {"type": "string", "description": "How it is to be packed.", "oneOf": null},
            "inner_wrapping": {"type": "string", "description": "How it is to be packed.", "oneOf": null},
            "size": {"type": "string", "description": "How large", "enum": ["Small", "Large"]},
            "sizes": {"type": "array", "items": {"type": "string", "enum": ["Small", "Large"]}},
            "wrappings": {"type": "array", "items": {"anyOf": null}},
            "only": {"type": "string", "enum": ["One"]},
            "initial": {"type": "string", "minLength": 1, "maxLength": 1},
        })
    );
    let required: HashSet<_> = form.fields().iter().filter(|field| field.required).map(|field| &*field.name).collect();
    assert_eq!(required, HashSet::from(["name", "weight", "express", "wrapping", "size", "sizes", "only", "initial"]));
    elicitation::check(&schema).unwrap();

    let answer = json!({
        "name": "x", "count": 3.0, "weight": 1, "temperature": null, "express": true, "wrapping": "wooden-box",
        "size": "Small", "sizes": ["Large", "Small"], "only": "One", "initial": "é", "other": 1
    });
    let order: Order = serde_json::from_value(form.accept(&answer).unwrap()).unwrap();
    assert_eq!((order.count, order.weight, order.temperature), (3, 1.0, None));
    assert_eq!((order.wrapping, order.sizes.len()), (Wrapping::WoodenBox, 2));
}

#[test]
fn rejects_types_without_a_form_with_the_field() {
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema counts")]
    struct Inner {
        a: u8,
    }
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema counts")]
    struct Nested {
        inner: Inner,
    }
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema counts")]
    struct OptionalNested {
        inner: Option<Inner>,
    }
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema counts")]
    struct List {
        inner: Vec<String>,
    }
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema counts")]
    enum Tagged {
        A { a: u8 },
        B(String),
    }
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema counts")]
    struct Union {
        inner: Tagged,
    }
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema counts")]
    struct Anything {
        inner: Value,
    }
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema counts")]
    struct Recursive {
        inner: Option<Box<Recursive>>,
    }
    for (schema, part) in [
        (schema_for!(Nested), "is an object, and the fields of a form cannot be nested"),
        (schema_for!(OptionalNested), "is an object, and the fields"),
        (schema_for!(List), "is a list, and a form has only lists of choices"),
        (schema_for!(Union), "is a union, and a form has only enumerations"),
        (schema_for!(Anything), "can be any value"),
        (schema_for!(Recursive), "is an object, and the fields"),
    ] {
        let error = Form::from_schema(schema.as_value()).unwrap_err();
        assert_eq!(error.field_name(), Some("inner"), "{error}");
        assert!(error.to_string().starts_with(&format!("the field `inner` {part}")), "{error}");
    }
    for schema in [schema_for!(Tagged), schema_for!(Size), schema_for!(Vec<u8>), schema_for!(String)] {
        let error = Form::from_schema(schema.as_value()).unwrap_err();
        assert_eq!(error.field_name(), None, "{error}");
    }
}

#[test]
fn rejects_references_that_name_no_schema() {
    let defs = json!({ "%zz": { "type": "string" } });
    for (reference, part) in [
        ("#/$defs/%zz", "which contains \"%zz\", which is not a percent-encoded byte"),
        ("#/$defs/%25zy", "which is not in the schema"),
        ("other#/$defs", "which is not in the schema"),
    ] {
        let schema = json!({ "type": "object", "properties": { "a": { "$ref": reference } }, "$defs": defs });
        let error = Form::from_schema(&schema).unwrap_err().to_string();
        assert_eq!(error, format!("the field `a` refers to \"{reference}\", {part}"));
    }
    let schema = json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/%25zz" } }, "$defs": defs });
    assert!(Form::from_schema(&schema).is_ok());
}

#[test]
fn parses_schemas_of_other_generators() {
    for (given, expected) in [
        (json!({"allOf": [{"$ref": "#/$defs/S"}], "description": "D"}), json!({"type": "string", "description": "D"})),
        (
            json!({"type": ["string", "null"], "enum": ["a", null], "default": null}),
            json!({"type": "string", "enum": ["a"]}),
        ),
        (
            json!({"oneOf": [{"type": "null"}, {"type": "string", "enum": ["a"]}]}),
            json!({"type": "string", "enum": ["a"]}),
        ),
        (
            json!({"oneOf": [{"enum": ["a", "b"]}, {"const": "c", "title": "C"}]}),
            json!({"type": "string", "oneOf": [
                {"const": "a", "title": "a"}, {"const": "b", "title": "b"}, {"const": "c", "title": "C"}
            ]}),
        ),
        (
            json!({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10, "maximum": 20, "format": "int32"}),
            json!({"type": "integer", "minimum": 1, "maximum": 9}),
        ),
        (
            json!({"type": "integer", "exclusiveMinimum": 3, "minimum": 10, "exclusiveMaximum": 20, "maximum": 15}),
            json!({"type": "integer", "minimum": 10, "maximum": 15}),
        ),
        (json!({"type": "string", "format": "uuid", "pattern": "^a"}), json!({"type": "string"})),
    ] {
        let document = json!({
            "type": "object", "$defs": {"S": {"type": "string", "description": "other"}}, "properties": {"p": given}
        });
        assert_eq!(Form::from_schema(&document).unwrap().schema(), property(expected));
    }
    for broken in [
        json!({"$ref": "#/$defs/no"}),
        json!({"$ref": "#/properties/p"}),
        json!({"$ref": "https://example.com/"}),
        json!({"type": "number", "exclusiveMinimum": 0}),
        json!({"enum": [1, 2]}),
        json!({"allOf": [{"type": "string"}, {"minLength": 3}]}),
    ] {
        let error = Form::from_schema(&property(broken.clone())).expect_err(&broken.to_string());
        assert_eq!(error.field_name(), Some("p"));
    }
}

#[test]
fn a_field_that_can_be_null_is_not_required() {
    for (schema, is_required) in [
        (json!({"type": "string"}), true),
        (json!({"type": ["string"]}), true),
        (json!({"type": ["string", "null"]}), false),
        (json!({"enum": ["a", "b"]}), true),
        (json!({"enum": ["a", null]}), false),
        (json!({"oneOf": [{"const": "a"}, {"const": "b"}]}), true),
        (json!({"oneOf": [{"const": "a"}, {"type": "null"}]}), false),
        (json!({"anyOf": [{"type": ["string", "null"]}, {"type": "null"}]}), false),
    ] {
        let mut document = property(schema.clone());
        document["required"] = json!(["p"]);
        let form = Form::from_schema(&document).unwrap_or_else(|error| panic!("{schema}: {error}"));
        assert_eq!(form.fields()[0].required, is_required, "{schema}");
    }
}

#[test]
fn validates_answers_with_readable_errors() {
    let form = Form::parse(&json!({"type": "object", "required": ["name"], "properties": {
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "big": {"type": "integer", "minimum": 9_007_199_254_740_993i64},
        "colour": {"type": "string", "enum": ["red", "blue"]},
        "day": {"type": "string", "format": "date"},
        "many": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1, "maxItems": 2},
        "mail": {"type": "string", "format": "email"},
        "name": {"type": "string", "minLength": 2, "maxLength": 4},
        "page": {"type": "string", "format": "uri"},
        "ratio": {"type": "number", "maximum": 1},
        "time": {"type": "string", "format": "date-time"},
        "yes": {"type": "boolean"},
    }}))
    .unwrap();
    let with = |name: &str, value: Value| {
        let mut content = json!({"name": "abc"});
        content[name] = value;
        form.validate(&content).err().map(|errors| errors.to_string())
    };
    for (name, value, expected) in [
        ("name", json!("éé"), None),
        ("name", json!(null), Some(r#"the required field "name" is missing"#)),
        ("name", json!("a"), Some("`/name`: must have at least 2 characters, got 1")),
        ("name", json!("abcde"), Some("`/name`: must have at most 4 characters, got 5")),
        ("name", json!(3), Some("`/name`: expected a string, got 3")),
        ("age", json!(3), None),
        ("age", json!(3.0), None),
        ("age", json!(1.5e2), None),
        ("age", json!(null), None),
        ("age", json!(1.5), Some("`/age`: expected an integer, got 1.5")),
        ("age", json!(u64::MAX), Some("`/age`: must be at most 150, got 18446744073709551615")),
        ("big", json!(9_007_199_254_740_993i64), None),
        (
            "big",
            json!(9_007_199_254_740_992i64),
            Some("`/big`: must be at least 9007199254740993, got 9007199254740992"),
        ),
        // A float of this size does not identify an integer.
        ("age", json!(9_007_199_254_740_992.0), Some("`/age`: expected an integer, got 9007199254740992.0")),
        ("age", json!("3"), Some(r#"`/age`: expected an integer, got "3""#)),
        ("age", json!(-1), Some("`/age`: must be at least 0, got -1")),
        ("age", json!(151), Some("`/age`: must be at most 150, got 151")),
        ("ratio", json!(1), None),
        ("ratio", json!(1.0), None),
        ("ratio", json!(0.25), None),
        ("ratio", json!(1.01), Some("`/ratio`: must be at most 1, got 1.01")),
        ("colour", json!("red"), None),
        ("colour", json!("green"), Some(r#"`/colour`: expected one of "red", "blue", got "green""#)),
        ("many", json!(["b", "a"]), None),
        ("many", json!([]), Some("`/many`: must have at least 1 choice, got 0")),
        ("many", json!(["c"]), Some(r#"`/many`: expected one of "a", "b", got "c""#)),
        ("many", json!("a"), Some(r#"`/many`: expected a list of choices, got "a""#)),
        ("mail", json!("a@example.com"), None),
        ("mail", json!("nobody"), Some(r#"`/mail`: must be a valid email, got "nobody""#)),
        ("page", json!("https://example.com/"), None),
        ("page", json!("no uri"), Some(r#"`/page`: must be a valid uri, got "no uri""#)),
        ("day", json!("2026-07-28"), None),
        ("day", json!("2026-02-30"), Some(r#"`/day`: must be a valid date, got "2026-02-30""#)),
        ("time", json!("2026-07-28T10:00:00Z"), None),
        ("time", json!("2026-07-28"), Some(r#"`/time`: must be a valid date-time, got "2026-07-28""#)),
        ("yes", json!(false), None),
        ("yes", json!("true"), Some(r#"`/yes`: expected a boolean, got "true""#)),
        ("unknown", json!({"a": 1}), None),
    ] {
        assert_eq!(with(name, value.clone()).as_deref(), expected, "{name}: {value}");
    }
    assert!(form.validate(&json!([])).is_err());
    let errors = form.validate(&json!({"age": "x", "yes": 1})).unwrap_err();
    assert_eq!(errors.total(), 3);
}

#[test]
fn inserts_defaults_for_missing_answers() {
    let form = Form::parse(&json!({"type": "object", "properties": {
        "a": {"type": "string", "default": "x"}, "b": {"type": "integer", "default": 3.0},
        "c": {"type": "boolean", "default": false}, "d": {"type": "string"},
        "e": {"type": "array", "items": {"enum": ["u", "v"]}, "default": ["u"]}
    }}))
    .unwrap();
    let mut content = json!({"a": "y"}).as_object().unwrap().clone();
    form.fill_defaults(&mut content);
    assert_eq!(Value::Object(content), json!({"a": "y", "b": 3, "c": false, "e": ["u"]}));
}

#[test]
fn renders_forms_for_the_first_revision_with_elicitation() {
    let form = Form::parse(&json!({"type": "object", "required": ["a"], "properties": {
        "a": {"type": "string", "oneOf": [{"const": "x", "title": "X!"}, {"const": "y", "title": "y"}], "default": "x"},
        "b": {"type": "boolean", "default": true},
        "c": {"type": "integer", "minimum": 1, "default": 3},
        "d": {"type": "string", "enum": ["u", "v"]}
    }}))
    .unwrap();
    assert_eq!(
        form.legacy_schema().unwrap(),
        json!({"type": "object", "required": ["a"], "properties": {
            "a": {"type": "string", "enum": ["x", "y"], "enumNames": ["X!", "y"]},
            "b": {"type": "boolean", "default": true},
            "c": {"type": "integer", "minimum": 1},
            "d": {"type": "string", "enum": ["u", "v"]}
        }})
    );
    // Read back it is the same form but for the defaults.
    let again = Form::parse(&form.legacy_schema().unwrap()).unwrap();
    assert!(
        matches!(&again.fields()[0].kind, FieldKind::Choice { options, .. } if options[0].title.as_deref() == Some("X!"))
    );

    let several = Form::parse(&property(json!({"type": "array", "items": {"type": "string", "enum": ["a"]}}))).unwrap();
    assert_eq!(several.legacy_schema().unwrap_err().field_name(), Some("p"));
}
