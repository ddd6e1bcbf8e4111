//! The rules of OpenAI Chat Completions and OpenAI Responses.

use super::{BASE, FormatRule, NullForm, PatternRule, Rules};
use crate::Provider;

/// Formats of the guide to structured outputs. The Codex endpoint rejects other formats without `strict` too.
const FORMATS: &[&str] = &["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

pub(super) const CHAT: Rules = Rules {
    provider: Provider::OpenAiChat,
    // No source states a rule for property keys.
    key: None,
    // "array too long. Expected an array with maximum length 128" (zed#32946, opencode#4909).
    max_tools: Some(128),
    // "string too long. Expected a string with maximum length 1024". Reported by users; no page of OpenAI states it.
    max_description: Some(1_024),
    formats: FormatRule::Only(FORMATS),
    // "Invalid JSON schema: regex lookaround is not supported", also without `strict` (opencode#32073, vercel/ai#21037).
    // "'…' is not a 'regex'": the API compiles each pattern with Python's `re` (litellm#40485, free-claude-code#1730).
    patterns: PatternRule::Linear,
    null: NullForm::TypeList,
    type_lists: true,
    // "array schema missing items", also without `strict`.
    items_required: true,
    ..BASE
};

/// No page states a limit of tools for Responses. The limit of Chat Completions is used.
pub(super) const RESPONSES: Rules = Rules { provider: Provider::OpenAiResponses, ..CHAT };

/// Keywords of the guide to structured outputs, without those that pydantic-ai lists as refused
/// (`profiles/openai.py`).
const STRICT_KEYWORDS: &[&str] = &[
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
    "maxItems",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
];

/// The guide to structured outputs: objects are closed, all properties are required, optional values are a union with
/// `null`. The limits are those of the guide.
pub(super) const CHAT_STRICT: Rules = Rules {
    keywords: STRICT_KEYWORDS,
    null: NullForm::AnyOf,
    type_lists: false,
    type_required: true,
    closed: true,
    all_required: true,
    max_depth: Some(10),
    max_properties: Some(5_000),
    max_enum_values: Some(1_000),
    max_text: Some(120_000),
    max_large_enum: Some(15_000),
    // "Objects provided via 'anyOf' must not share identical first keys". Reported by users; no page of OpenAI states it.
    distinct_first_keys: true,
    ..CHAT
};

pub(super) const RESPONSES_STRICT: Rules = Rules { provider: Provider::OpenAiResponses, ..CHAT_STRICT };

/// The limits of the first version of the guide. "144 parameters exceed the limit of 100" (openai-node#1176; ellmer#671).
pub(super) const CHAT_EARLY: Rules = Rules {
    max_depth: Some(5),
    max_properties: Some(100),
    max_enum_values: Some(500),
    max_text: Some(15_000),
    max_large_enum: Some(7_500),
    ..CHAT_STRICT
};

pub(super) const RESPONSES_EARLY: Rules = Rules { provider: Provider::OpenAiResponses, ..CHAT_EARLY };
