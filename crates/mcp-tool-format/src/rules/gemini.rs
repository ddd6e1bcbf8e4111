//! The rules of Google Gemini, for the member `parameters`.

use super::{BASE, CharRule, FormatRule, NullForm, PatternRule, Rules};
use crate::Provider;

/// Members of `Schema` (python-genai, `types.py`), without those that the API refuses or ignores: `default`, `example`
/// and `additionalProperties` (vercel/ai, pydantic-ai), `title` (python-genai#1732).
const KEYWORDS: &[&str] = &[
    "type",
    "description",
    "nullable",
    "enum",
    "items",
    "minItems",
    "maxItems",
    "properties",
    "required",
    "minProperties",
    "maxProperties",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "anyOf",
];

pub(super) const RULES: Rules = Rules {
    provider: Provider::Gemini,
    // Property names begin with a letter or `_`, contain no dot and have at most 64 characters (python-genai).
    key: Some(CharRule::new(64, "_", "_")),
    // "at most 512 function declarations" (Vertex AI).
    max_tools: Some(512),
    // No source states a limit. 1,024 characters is the limit of the Vertex AI documentation for older models.
    max_description: None,
    keywords: KEYWORDS,
    // "only 'enum' and 'date-time' are supported for STRING type": no format is written.
    formats: FormatRule::Only(&[]),
    // The engine is RE2, which has no lookaround.
    patterns: PatternRule::Linear,
    null: NullForm::Nullable,
    // "Invalid value at … type": arrays of types are refused.
    type_lists: false,
    // "schema didn't specify the schema type field" (Vertex AI).
    type_required: true,
    // "items: missing field".
    items_required: true,
    // "Invalid value at … enum[0] (TYPE_STRING)" (azure-devops-mcp#139); "enum[0]: cannot be empty".
    text_enums: true,
    // "When using any_of, it must be the only field set" (Vertex AI, opencode#15795).
    union_alone: true,
    // "parameters.properties: should be non-empty for OBJECT type" (pipecat-flows#110).
    empty_properties: false,
    ..BASE
};
