//! The rules of Mistral.

use super::{BASE, PatternRule, Rules};
use crate::Provider;

/// The shape is that of Chat Completions (vercel/ai, `mistral-prepare-tools.ts`). No source states limits of names, keys
/// and tools: the strictest rules of Anthropic and OpenAI are used.
pub(super) const RULES: Rules = Rules {
    provider: Provider::Mistral,
    max_tools: Some(128),
    patterns: PatternRule::Linear,
    items_required: true,
    ..BASE
};
