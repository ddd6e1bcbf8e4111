//! The model of the agent.

use std::error::Error;

use mcp_client::protocol::{GetPromptResult, JsonObject, PromptMessage};
use mcp_tool_format::{Call, ContentOptions, Messages, Options, Provider, render};
use serde_json::{Value, json};

/// A language model. An implementation for an account sends the request to the API of its provider, with the name of the model.
pub(crate) trait Model {
    /// Returns the response to a request, both in the shapes of the provider.
    fn complete(&mut self, request: &JsonObject) -> impl Future<Output = Result<Value, Box<dyn Error>>>;
}

/// A model that follows a script: it reads the shopping list, asks for each price, and corrects a call that failed.
pub(crate) struct ScriptedModel {
    provider: Provider,
    turn: usize,
}

impl ScriptedModel {
    pub(crate) fn new(provider: Provider) -> Self {
        Self { provider, turn: 0 }
    }

    /// Returns the calls of a turn, or the answer.
    fn turn(&self, request: &str) -> Result<Vec<(&'static str, Value)>, String> {
        match self.turn {
            1 => Ok(vec![("notes__search", json!({ "words": "shopping" }))]),
            // The model reads the list in the result of the first call. The second call has an argument of the wrong type.
            2 if request.contains("lemons and flour") => {
                Ok(vec![("shop__price", json!({ "item": "lemons" })), ("shop__price", json!({ "item": 7 }))])
            }
            // The model reads the fault in the result of the second call.
            3 if request.contains("item") && request.contains("2 francs") => {
                Ok(vec![("shop__price", json!({ "item": "flour" }))])
            }
            4 if request.contains("3 francs") => Err("Lemons and flour cost 5 francs.".to_owned()),
            _ => Err(format!("The model does not understand request {}.", self.turn)),
        }
    }
}

impl Model for ScriptedModel {
    async fn complete(&mut self, request: &JsonObject) -> Result<Value, Box<dyn Error>> {
        self.turn += 1;
        let request = serde_json::to_string(request)?;
        let provider = self.provider;
        let messages = match self.turn(&request) {
            Ok(calls) => {
                if let Some((missing, _)) = calls.iter().find(|(name, _)| !request.contains(&format!("\"{name}\""))) {
                    return Err(format!(
                        "the script of the model calls {missing}, and the servers of the file have no such tool; add a server \
                         `notes` with the tool `search` and a server `shop` with the tool `price`, or omit the file"
                    )
                    .into());
                }
                let calls = calls.into_iter().enumerate().map(|(index, (name, arguments))| {
                    let arguments = JsonObject::from_value(arguments).unwrap_or_default();
                    Call::new(format!("call{}turn{}", index, self.turn), name, arguments)
                });
                render([], &Options::new(provider)).call_messages(&calls.collect::<Vec<_>>())
            }
            Err(answer) => {
                let answer = GetPromptResult::new(vec![PromptMessage::assistant(answer)]);
                Messages::from_prompt(provider, &answer, &ContentOptions::new()).messages
            }
        };
        let message = messages.first().cloned().unwrap_or_default();
        Ok(match provider {
            Provider::Anthropic => message,
            Provider::OpenAiResponses => json!({ "output": messages }),
            Provider::Gemini => json!({ "candidates": [{ "content": message }] }),
            Provider::Bedrock => json!({ "output": { "message": message } }),
            Provider::Ollama => json!({ "message": message }),
            _ => json!({ "choices": [{ "message": message }] }),
        })
    }
}
