//! The rules of Ollama.

use super::{BASE, PatternRule, Rules};
use crate::Provider;

/// The server decodes the tools into Go structs (`api/types.go`, `ToolFunctionParameters`): `required` is a list of
/// texts, `type` of the root is a text. No source states limits: the strictest rules of Anthropic and OpenAI are used.
pub(super) const RULES: Rules = Rules {
    provider: Provider::Ollama,
    max_tools: Some(128),
    patterns: PatternRule::Linear,
    items_required: true,
    ..BASE
};
