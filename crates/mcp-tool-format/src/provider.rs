//! The providers.

use std::fmt;

/// An API of an LLM provider.
///
/// ```
/// use mcp_tool_format::Provider;
///
/// assert_eq!(Provider::ALL.len(), 7);
/// assert_eq!(Provider::OpenAiChat.to_string(), "openai-chat");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Provider {
    /// Anthropic, Messages API.
    Anthropic,
    /// OpenAI, Chat Completions API.
    OpenAiChat,
    /// OpenAI, Responses API.
    OpenAiResponses,
    /// Google Gemini, `generateContent`, on the Gemini API and on Vertex AI.
    Gemini,
    /// AWS Bedrock, Converse API.
    Bedrock,
    /// Mistral, chat completions.
    Mistral,
    /// Ollama, `/api/chat`.
    Ollama,
}

impl Provider {
    /// Every provider.
    pub const ALL: [Self; 7] = [
        Self::Anthropic,
        Self::OpenAiChat,
        Self::OpenAiResponses,
        Self::Gemini,
        Self::Bedrock,
        Self::Mistral,
        Self::Ollama,
    ];

    /// Returns the name of the provider in lower case.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAiChat => "openai-chat",
            Self::OpenAiResponses => "openai-responses",
            Self::Gemini => "gemini",
            Self::Bedrock => "bedrock",
            Self::Mistral => "mistral",
            Self::Ollama => "ollama",
        }
    }

    /// Whether the provider is one of the two APIs of OpenAI.
    pub(crate) fn is_openai(self) -> bool {
        matches!(self, Self::OpenAiChat | Self::OpenAiResponses)
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
