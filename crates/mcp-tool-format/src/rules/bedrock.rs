//! The rules of AWS Bedrock Converse.

use super::{BASE, PatternRule, Rules};
use crate::Provider;

/// `toolSpec.name` has 1 to 64 of `[a-zA-Z0-9_-]`; a description has at least one character (API reference of Converse,
/// litellm#24668).
///
/// Bedrock passes the schema to models of several vendors. No source states the keywords that all of them accept. The
/// rules for keys are those of Anthropic; type arrays are avoided, references are inlined for Nova (pydantic-ai,
/// `profiles/amazon.py`). No source states a limit of tools: the limit of OpenAI is used.
pub(super) const RULES: Rules = Rules {
    provider: Provider::Bedrock,
    max_tools: Some(128),
    patterns: PatternRule::Linear,
    items_required: true,
    ..BASE
};
