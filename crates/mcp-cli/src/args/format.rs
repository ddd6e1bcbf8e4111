//! The formats of LLM providers.

use clap::ValueEnum;
use mcp_tool_format::Provider;

/// The format of an LLM provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Anthropic, Messages API.
    Anthropic,
    /// OpenAI, Chat Completions API.
    #[value(name = "openai", alias = "openai-chat")]
    OpenAiChat,
    /// OpenAI, Responses API.
    #[value(name = "openai-responses")]
    OpenAiResponses,
    /// Google Gemini.
    Gemini,
    /// AWS Bedrock, Converse API.
    Bedrock,
    /// Mistral.
    Mistral,
    /// Ollama.
    Ollama,
}

impl Format {
    /// Returns the provider of the format.
    pub(crate) fn provider(self) -> Provider {
        match self {
            Self::Anthropic => Provider::Anthropic,
            Self::OpenAiChat => Provider::OpenAiChat,
            Self::OpenAiResponses => Provider::OpenAiResponses,
            Self::Gemini => Provider::Gemini,
            Self::Bedrock => Provider::Bedrock,
            Self::Mistral => Provider::Mistral,
            Self::Ollama => Provider::Ollama,
        }
    }
}
