//! The dialects of JSON Schema that are understood, and how a schema declares one.

use std::fmt;

use serde_json::Value;

/// A dialect (draft) of JSON Schema.
///
/// ```
/// use mcp_schema::Dialect;
///
/// assert_eq!(Dialect::default(), Dialect::Draft202012);
/// assert_eq!(Dialect::Draft7.to_string(), "draft-07");
/// assert_eq!(Dialect::from_uri(Dialect::Draft7.uri()), Some(Dialect::Draft7));
/// // Newer dialects are greater.
/// assert!(Dialect::Draft4 < Dialect::Draft201909);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub enum Dialect {
    /// Draft 04.
    Draft4,
    /// Draft 06.
    Draft6,
    /// Draft 07.
    Draft7,
    /// Draft 2019-09.
    Draft201909,
    /// Draft 2020-12, the dialect of a schema that declares none.
    #[default]
    Draft202012,
}

impl Dialect {
    /// Returns the dialect that a `$schema` URI names, with or without a trailing `#`, by `http` or `https`.
    ///
    /// ```
    /// use mcp_schema::Dialect;
    ///
    /// assert_eq!(Dialect::from_uri("https://json-schema.org/draft-07/schema"), Some(Dialect::Draft7));
    /// assert_eq!(Dialect::from_uri("draft-07"), None);
    /// ```
    pub fn from_uri(uri: &str) -> Option<Self> {
        let uri = uri.strip_suffix('#').unwrap_or(uri);
        let rest = uri.strip_prefix("https://").or_else(|| uri.strip_prefix("http://"))?;
        match rest {
            "json-schema.org/draft-04/schema" => Some(Self::Draft4),
            "json-schema.org/draft-06/schema" => Some(Self::Draft6),
            "json-schema.org/draft-07/schema" => Some(Self::Draft7),
            "json-schema.org/draft/2019-09/schema" => Some(Self::Draft201909),
            "json-schema.org/draft/2020-12/schema" => Some(Self::Draft202012),
            _ => None,
        }
    }

    /// Returns the URI that names this dialect in `$schema`.
    pub fn uri(self) -> &'static str {
        match self {
            Self::Draft4 => "http://json-schema.org/draft-04/schema#",
            Self::Draft6 => "http://json-schema.org/draft-06/schema#",
            Self::Draft7 => "http://json-schema.org/draft-07/schema#",
            Self::Draft201909 => "https://json-schema.org/draft/2019-09/schema",
            Self::Draft202012 => "https://json-schema.org/draft/2020-12/schema",
        }
    }

    /// Returns the dialect of a schema: the one its root declares, else the default.
    /// `None` when it declares something that is not a known dialect.
    ///
    /// ```
    /// use mcp_schema::Dialect;
    /// use serde_json::json;
    ///
    /// assert_eq!(Dialect::of(&json!({ "type": "string" })), Some(Dialect::Draft202012));
    /// let declared = json!({ "$schema": "http://json-schema.org/draft-06/schema#" });
    /// assert_eq!(Dialect::of(&declared), Some(Dialect::Draft6));
    /// assert_eq!(Dialect::of(&json!({ "$schema": "https://example.com/dialect" })), None);
    /// ```
    pub fn of(schema: &Value) -> Option<Self> {
        match schema.get("$schema") {
            None => Some(Self::default()),
            Some(Value::String(uri)) => Self::from_uri(uri),
            Some(_) => None,
        }
    }

    /// Whether keywords beside `$ref` are ignored, as up to draft 07.
    pub(crate) fn ref_hides_siblings(self) -> bool {
        self <= Self::Draft7
    }

    /// The keyword that gives a schema its identifier.
    pub(crate) fn id_keyword(self) -> &'static str {
        if self == Self::Draft4 { "id" } else { "$id" }
    }

    pub(crate) fn draft(self) -> jsonschema::Draft {
        match self {
            Self::Draft4 => jsonschema::Draft::Draft4,
            Self::Draft6 => jsonschema::Draft::Draft6,
            Self::Draft7 => jsonschema::Draft::Draft7,
            Self::Draft201909 => jsonschema::Draft::Draft201909,
            Self::Draft202012 => jsonschema::Draft::Draft202012,
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Draft4 => "draft-04",
            Self::Draft6 => "draft-06",
            Self::Draft7 => "draft-07",
            Self::Draft201909 => "2019-09",
            Self::Draft202012 => "2020-12",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_dialect_is_recognized_by_its_uri() {
        for dialect in [Dialect::Draft4, Dialect::Draft6, Dialect::Draft7, Dialect::Draft201909, Dialect::Draft202012] {
            assert_eq!(Dialect::from_uri(dialect.uri()), Some(dialect));
            assert_eq!(Dialect::from_uri(dialect.uri().trim_end_matches('#')), Some(dialect));
        }
        assert_eq!(Dialect::from_uri("https://json-schema.org/draft-07/schema"), Some(Dialect::Draft7));
        assert_eq!(Dialect::Draft7.to_string(), "draft-07");
        for unknown in
            ["", "draft-07", "https://json-schema.org/draft/2099-01/schema", "http://json-schema.org/schema#"]
        {
            assert_eq!(Dialect::from_uri(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_schema_without_declaration_is_2020_12() {
        assert_eq!(Dialect::of(&serde_json::json!({})), Some(Dialect::Draft202012));
        assert_eq!(Dialect::of(&serde_json::json!(true)), Some(Dialect::Draft202012));
        assert_eq!(Dialect::of(&serde_json::json!({"$schema": 7})), None);
    }
}
