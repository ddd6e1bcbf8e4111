//! How large and how involved a schema may be. A schema can come from a stranger, and small schemas can be
//! made to cost exponential time or unbounded stack; everything here is checked before a schema is compiled.

use serde_json::Value;

use crate::error::{SchemaError, SchemaErrorKind};

/// Bounds on a schema. The defaults are far above what tools in the field use.
///
/// # Example
/// ```
/// use mcp_schema::{Limits, Schema, SchemaErrorKind};
/// use serde_json::json;
///
/// let limits = Limits::new().depth(3).size(64 << 10).subschemas(100).branches(10).references(10);
/// let limits = limits.patterns(5).pattern_memory(64 << 10).expansion(100).nesting(16);
/// let schema = json!({ "properties": { "a": { "properties": { "b": {} } } } });
/// let error = Schema::compile_with(&schema, &limits).unwrap_err();
/// assert_eq!(error.kind(), SchemaErrorKind::Limit);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Nesting of objects and arrays in the schema document. Default 128.
    pub depth: usize,
    /// Bytes of the schema as compact JSON. Default 1 MiB.
    pub size: usize,
    /// Subschemas in the document, the root included. Default 10,000.
    pub subschemas: usize,
    /// Branches of one `allOf`, `anyOf` or `oneOf`. Default 1,000.
    pub branches: usize,
    /// References (`$ref`, `$dynamicRef`, `$recursiveRef`). Default 2,000.
    pub references: usize,
    /// Regular expressions (`pattern` and `patternProperties`). Default 500.
    pub patterns: usize,
    /// Bytes of memory of one compiled regular expression. Default 1 MiB.
    pub pattern_memory: usize,
    /// Subschemas that apply to one and the same value once references are followed. Default 10,000.
    pub expansion: usize,
    /// Subschemas entered within each other while a value is validated: bounds the stack. Default 1,024.
    /// A schema without recursion is refused when it can exceed it, and a value is when it does.
    pub nesting: usize,
}

impl Limits {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self {
            depth: 128,
            size: 1 << 20,
            subschemas: 10_000,
            branches: 1_000,
            references: 2_000,
            patterns: 500,
            pattern_memory: 1 << 20,
            expansion: 10_000,
            nesting: 1_024,
        }
    }

    /// Sets the deepest nesting of objects and arrays in the schema document.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn depth(mut self, depth: usize) -> Self {
        self.depth = depth;
        self
    }

    /// Sets the maximum bytes of the schema as compact JSON.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn size(mut self, size: usize) -> Self {
        self.size = size;
        self
    }

    /// Sets the maximum number of subschemas in the document, with the root.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn subschemas(mut self, subschemas: usize) -> Self {
        self.subschemas = subschemas;
        self
    }

    /// Sets the maximum number of branches of one `allOf`, `anyOf` or `oneOf`.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn branches(mut self, branches: usize) -> Self {
        self.branches = branches;
        self
    }

    /// Sets the maximum number of references.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn references(mut self, references: usize) -> Self {
        self.references = references;
        self
    }

    /// Sets the maximum number of regular expressions.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn patterns(mut self, patterns: usize) -> Self {
        self.patterns = patterns;
        self
    }

    /// Sets the maximum bytes of memory of one compiled regular expression.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn pattern_memory(mut self, pattern_memory: usize) -> Self {
        self.pattern_memory = pattern_memory;
        self
    }

    /// Sets the maximum number of subschemas that apply to one value.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn expansion(mut self, expansion: usize) -> Self {
        self.expansion = expansion;
        self
    }

    /// Sets the maximum number of subschemas that validation enters within each other.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn nesting(mut self, nesting: usize) -> Self {
        self.nesting = nesting;
        self
    }

    /// Checks depth and size without recursion, so that no document can exhaust the stack here or later.
    pub(crate) fn check_document(&self, document: &Value) -> Result<(), SchemaError> {
        let mut size = 0usize;
        let mut stack = vec![(document, 1usize)];
        while let Some((value, depth)) = stack.pop() {
            size += match value {
                Value::Null => 4,
                Value::Bool(_) => 5,
                Value::Number(number) => number.to_string().len(),
                Value::String(text) => text.len() + 2,
                Value::Array(items) => {
                    stack.extend(items.iter().map(|item| (item, depth + 1)));
                    items.len() + 2
                }
                Value::Object(map) => {
                    stack.extend(map.values().map(|member| (member, depth + 1)));
                    map.keys().map(|name| name.len() + 4).sum::<usize>() + 2
                }
            };
            if depth > self.depth + 1 || (depth > self.depth && (value.is_array() || value.is_object())) {
                return Err(exceeded("", format!("is nested more than {} levels deep", self.depth)));
            }
            if size > self.size {
                return Err(exceeded("", format!("is larger than {} bytes", self.size)));
            }
        }
        Ok(())
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::new()
    }
}

/// The error for an exceeded limit; `what` completes "the schema …".
pub(crate) fn exceeded(pointer: &str, what: impl std::fmt::Display) -> SchemaError {
    SchemaError::new(SchemaErrorKind::Limit, pointer, format!("the schema {what}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn depth_is_counted_in_containers() {
        let limits = Limits { depth: 3, ..Limits::new() };
        assert!(limits.check_document(&json!({"a": {"b": {"c": 1}}})).is_ok());
        assert!(limits.check_document(&json!({"a": {"b": {"c": []}}})).is_err());
    }

    #[test]
    fn size_is_close_to_the_size_of_compact_json() {
        let value = json!({"type": "object", "properties": {"a": {"enum": [1, 2.5, null, true, "x"]}}});
        let exact = value.to_string().len();
        let at = |size| Limits { size, ..Limits::new() }.check_document(&value).is_ok();
        assert!(!at(exact - 8));
        assert!(at(exact + 16));
    }

    #[test]
    fn each_value_has_a_size() {
        for (value, size) in [
            (json!(null), 4),
            (json!(true), 5),
            (json!(12), 2),
            (json!("abc"), 5),
            (json!([]), 2),
            (json!([1, 2, 3]), 8),
            (json!({}), 2),
            (json!({"a": 1, "bc": 2}), 15),
        ] {
            let fits = |size| Limits { size, ..Limits::new() }.check_document(&value).is_ok();
            assert!(fits(size) && !fits(size - 1), "{value}");
        }
    }

    #[test]
    fn a_very_deep_document_does_not_exhaust_the_stack() {
        let mut value = json!(1);
        for _ in 0..100_000 {
            value = Value::Array(vec![value]);
        }
        assert_eq!(Limits::new().check_document(&value).unwrap_err().kind(), SchemaErrorKind::Limit);
        // Dropping it would recurse, which is what its maker has to avoid.
        while let Value::Array(mut items) = value {
            value = items.pop().unwrap();
        }
    }
}
