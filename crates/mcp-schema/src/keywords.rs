//! The keywords that contain subschemas, and how each applies them.

use serde_json::{Map, Value};

use crate::dialect::Dialect;

/// The target of a subschema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Applies {
    /// The same value as the schema that holds it.
    InPlace,
    /// The member of an object with the name of the subschema.
    Member,
    /// Any member or member name of an object.
    Members,
    /// The item of an array at the position of the subschema.
    Item,
    /// Any item of an array.
    Items,
    /// A definition, which only references apply.
    Nothing,
}

/// A subschema: the keyword that holds it, its name or position there, and the schema.
#[derive(Debug, Clone)]
pub(crate) struct Subschema<'a> {
    pub(crate) keyword: &'a str,
    pub(crate) token: Option<Token<'a>>,
    pub(crate) applies: Applies,
    pub(crate) schema: &'a Value,
}

/// The step below a keyword that leads to a subschema.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Token<'a> {
    Name(&'a str),
    Index(usize),
}

impl Subschema<'_> {
    /// Appends the way from the parent schema to this subschema to a JSON pointer.
    pub(crate) fn push_pointer(&self, pointer: &mut String) {
        push_token(pointer, self.keyword);
        match self.token {
            Some(Token::Name(name)) => push_token(pointer, name),
            Some(Token::Index(index)) => push_token(pointer, &index.to_string()),
            None => {}
        }
    }
}

/// Appends one reference token, escaped, to a JSON pointer.
pub(crate) fn push_token(pointer: &mut String, token: &str) {
    pointer.push('/');
    for c in token.chars() {
        match c {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            c => pointer.push(c),
        }
    }
}

#[derive(Clone, Copy)]
enum Shape {
    One,
    Many,
    OneOrMany,
    Named,
}

use Applies as A;
use Dialect as D;
use Shape as S;

/// Keyword, what it holds, what that applies to, first and last dialect that knows it.
const KEYWORDS: &[(&str, Shape, Applies, Dialect, Dialect)] = &[
    ("$defs", S::Named, A::Nothing, D::Draft4, D::Draft202012),
    ("definitions", S::Named, A::Nothing, D::Draft4, D::Draft202012),
    ("properties", S::Named, A::Member, D::Draft4, D::Draft202012),
    ("patternProperties", S::Named, A::Members, D::Draft4, D::Draft202012),
    ("additionalProperties", S::One, A::Members, D::Draft4, D::Draft202012),
    ("propertyNames", S::One, A::Members, D::Draft6, D::Draft202012),
    ("unevaluatedProperties", S::One, A::Members, D::Draft201909, D::Draft202012),
    ("prefixItems", S::Many, A::Item, D::Draft202012, D::Draft202012),
    ("items", S::OneOrMany, A::Items, D::Draft4, D::Draft202012),
    ("additionalItems", S::One, A::Items, D::Draft4, D::Draft201909),
    ("unevaluatedItems", S::One, A::Items, D::Draft201909, D::Draft202012),
    ("contains", S::One, A::Items, D::Draft6, D::Draft202012),
    ("allOf", S::Many, A::InPlace, D::Draft4, D::Draft202012),
    ("anyOf", S::Many, A::InPlace, D::Draft4, D::Draft202012),
    ("oneOf", S::Many, A::InPlace, D::Draft4, D::Draft202012),
    ("not", S::One, A::InPlace, D::Draft4, D::Draft202012),
    ("if", S::One, A::InPlace, D::Draft7, D::Draft202012),
    ("then", S::One, A::InPlace, D::Draft7, D::Draft202012),
    ("else", S::One, A::InPlace, D::Draft7, D::Draft202012),
    // Kept by the later dialects for compatibility.
    ("dependencies", S::Named, A::InPlace, D::Draft4, D::Draft202012),
    ("dependentSchemas", S::Named, A::InPlace, D::Draft201909, D::Draft202012),
    ("contentSchema", S::One, A::Nothing, D::Draft201909, D::Draft202012),
];

/// Whether a value can be a schema at all: an object or a boolean.
pub(crate) fn is_schema(value: &Value) -> bool {
    matches!(value, Value::Object(_) | Value::Bool(_))
}

/// Calls a function for each direct subschema of a schema object. Values in `const`, `enum`, `default`, `examples`
/// and unknown keywords are not schemas.
pub(crate) fn subschemas<'a>(schema: &'a Map<String, Value>, dialect: Dialect, visit: &mut dyn FnMut(Subschema<'a>)) {
    for (keyword, value) in schema {
        let Some(&(_, shape, applies, _, _)) =
            KEYWORDS.iter().find(|(name, _, _, first, last)| name == keyword && (*first..=*last).contains(&dialect))
        else {
            continue;
        };
        let mut emit = |token, applies, schema: &'a Value| {
            if is_schema(schema) {
                visit(Subschema { keyword, token, applies, schema });
            }
        };
        match (shape, value) {
            (Shape::Many, Value::Array(list)) => {
                for (index, schema) in list.iter().enumerate() {
                    emit(Some(Token::Index(index)), applies, schema);
                }
            }
            (Shape::OneOrMany, Value::Array(list)) => {
                for (index, schema) in list.iter().enumerate() {
                    emit(Some(Token::Index(index)), Applies::Item, schema);
                }
            }
            (Shape::Named, Value::Object(map)) => {
                for (name, schema) in map {
                    emit(Some(Token::Name(name)), applies, schema);
                }
            }
            (Shape::One | Shape::OneOrMany, schema) => emit(None, applies, schema),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pointers(schema: &Value, dialect: Dialect) -> Vec<String> {
        let mut found = Vec::new();
        subschemas(schema.as_object().unwrap(), dialect, &mut |sub| {
            let mut pointer = String::new();
            sub.push_pointer(&mut pointer);
            found.push(pointer);
        });
        found.sort();
        found
    }

    #[test]
    fn data_is_not_read_as_a_schema() {
        let schema = json!({
            "properties": {"a/b": {}, "c~": true, "bad": 3},
            "default": {"properties": {}}, "const": {}, "enum": [{}], "x-own": {"properties": {}},
            "allOf": [{}, false], "items": {}, "dependencies": {"k": ["a"]},
        });
        assert_eq!(
            pointers(&schema, Dialect::Draft202012),
            ["/allOf/0", "/allOf/1", "/items", "/properties/a~1b", "/properties/c~0"]
        );
    }

    #[test]
    fn a_keyword_counts_in_the_dialects_that_know_it() {
        let schema = json!({"prefixItems": [{}], "if": {}, "additionalItems": {}});
        assert_eq!(pointers(&schema, Dialect::Draft202012), ["/if", "/prefixItems/0"]);
        assert_eq!(pointers(&schema, Dialect::Draft7), ["/additionalItems", "/if"]);
        assert_eq!(pointers(&schema, Dialect::Draft4), ["/additionalItems"]);
    }
}
