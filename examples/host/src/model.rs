//! The model of the host, as the handler of sampling requests.

use mcp_client::{
    Handler, InputContext,
    protocol::{
        ClientCapabilities, CreateMessageParams, CreateMessageResult, RpcError, SamplingBlock, SamplingCapability,
    },
    transport::BoxFuture,
};

/// A model that answers with the first words of the last message. Replace [`Model::complete`] by a request to a provider.
pub(crate) struct Model {
    server: String,
}

impl Model {
    /// Returns the model for the sampling requests of a server.
    pub(crate) fn new(server: &str) -> Self {
        Self { server: server.to_owned() }
    }

    /// Returns the text of the model. `max_words` bounds it.
    fn complete(prompt: &str, max_words: usize) -> String {
        let words: Vec<&str> = prompt.split_whitespace().take(max_words).collect();
        words.join(" ")
    }
}

impl Handler for Model {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::new().with_sampling(SamplingCapability::new())
    }

    fn sample(
        &self,
        request: InputContext<CreateMessageParams>,
    ) -> BoxFuture<'_, Result<CreateMessageResult, RpcError>> {
        Box::pin(async move {
            // The user must know which server uses the model, and for which call.
            let tool = request.call().and_then(|call| call.name()).unwrap_or("unknown").to_owned();
            eprintln!("the server {} samples during the call of {tool}", self.server);
            let prompt = request.messages.last().map(|message| message.content.text()).unwrap_or_default();
            let max_words = usize::try_from(request.max_tokens).unwrap_or(usize::MAX).min(8);
            let text = Self::complete(&prompt, max_words);
            Ok(CreateMessageResult::new("example-model", SamplingBlock::text(text)))
        })
    }
}
