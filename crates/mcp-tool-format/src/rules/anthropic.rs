//! The rules of Anthropic Messages.

use super::{BASE, FormatRule, NullForm, PatternRule, Rules, StrictBudget};
use crate::Provider;

/// The API accepts JSON Schema 2020-12 with an object at the root and without unions at the root
/// (anthropic-sdk-python, `types/tool_param.py`).
pub(super) const RULES: Rules = Rules {
    provider: Provider::Anthropic,
    // Tool search accepts up to 10,000 tools (platform.claude.com, tool search tool).
    max_tools: Some(10_000),
    null: NullForm::TypeList,
    type_lists: true,
    ..BASE
};

/// Keywords that the SDK keeps for strict schemas (anthropic-sdk-python, `lib/_parse/_transform.py`).
const KEYWORDS: &[&str] = &[
    "type",
    "title",
    "description",
    "enum",
    "anyOf",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "minItems",
    "format",
];

/// The transform of the SDK for `strict`: closed objects, `minItems` of 0 or 1, these formats. Optional properties stay
/// optional.
pub(super) const STRICT: Rules = Rules {
    keywords: KEYWORDS,
    formats: FormatRule::Only(&[
        "date-time",
        "time",
        "date",
        "duration",
        "email",
        "hostname",
        "uri",
        "ipv4",
        "ipv6",
        "uuid",
    ]),
    patterns: PatternRule::Linear,
    null: NullForm::AnyOf,
    type_lists: false,
    type_required: true,
    items_required: true,
    closed: true,
    max_min_items: Some(1),
    // No source states a depth. The limit of OpenAI is used.
    max_depth: Some(10),
    // A third-party summary of the documentation. Bedrock reports 24 optional parameters for the same models
    // (strands-agents/harness-sdk#2664).
    strict_budget: Some(StrictBudget { tools: 20, optional: 24, unions: 16 }),
    ..RULES
};
