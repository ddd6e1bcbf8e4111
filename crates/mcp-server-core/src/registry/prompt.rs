//! Prompts: a handler, its definition, and the completions of its arguments.

use std::collections::HashSet;

use mcp_protocol::{Icon, Meta, Prompt, PromptArgument, ProtocolVersion};
use serde_json::Value;

use super::{
    CompletionSource, Definition, Entry, List, RegistrationError,
    completion::Sources,
    text_fields::{self, TextField},
};
use crate::{
    access::Access,
    handler::{CompletionKind, Description, Erased, Handler, PromptKind, Ready},
};

/// A prompt before its registration. `S` is the state that its handler still needs.
///
/// # Example
/// ```
/// use mcp_protocol::{Icon, Meta, PromptArgument};
/// use mcp_server_core::{PromptRoute, RawArgs, prompt};
///
/// let mut route: PromptRoute = prompt("review", async |RawArgs(arguments): RawArgs| format!("Review {arguments:?}"))
///     .title("Review")
///     .description("Reviews code.")
///     .arguments([PromptArgument::new("language")])
///     .icon(Icon::new("https://example.com/icon.png"))
///     .meta(Meta::default())
///     .requires_scopes(["code:read"])
///     .requires_authentication()
///     .complete_from("language", ["rust", "ruby"])
///     .complete("focus", async || vec!["errors".to_owned()]);
/// route.arguments_mut().push(PromptArgument::new("focus"));
/// ```
#[must_use = "a route does nothing until a server is given it"]
pub struct PromptRoute<S = ()> {
    prompt: Prompt,
    access: Access,
    pub(super) handler: Erased<S, PromptKind>,
    completions: Sources<S>,
    /// The schema of the arguments. Each of its fields has to accept a text.
    fields: Option<Value>,
}

/// Creates a prompt with a name. The handler returns its messages.
///
/// The fields of the handler's `Args<T>` are the arguments of the prompt. A field that is not an `Option` is required, and
/// its doc comment is the description of the argument.
///
/// ```
/// use mcp_server_core::{Args, PromptRoute, prompt};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Review {
///     /// The code to review.
///     code: String,
/// }
///
/// let route: PromptRoute = prompt("review", async |Args(review): Args<Review>| format!("Review this:\n{}", review.code));
/// # let _ = route;
/// ```
pub fn prompt<M, S, H>(name: impl Into<String>, handler: H) -> PromptRoute<S>
where
    S: Clone + Send + Sync + 'static,
    H: Handler<M, S, PromptKind>,
{
    let mut description = Description::default();
    H::describe(&mut description);
    let mut prompt = Prompt::new(name);
    prompt.arguments = description.input.as_ref().map(arguments_of).unwrap_or_default();
    prompt.description = description.text;
    PromptRoute {
        prompt,
        access: Access::default(),
        handler: Erased::new(handler),
        completions: Sources::default(),
        fields: description.input,
    }
}

/// Returns the properties of an object schema as prompt arguments.
fn arguments_of(schema: &Value) -> Vec<PromptArgument> {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties
        .map(|(name, property)| {
            let mut argument = PromptArgument::new(name.as_str());
            argument.required = Some(required.contains(&name.as_str()));
            argument.description = property["description"].as_str().map(str::to_owned);
            argument.title = property["title"].as_str().map(str::to_owned);
            argument
        })
        .collect()
}

impl<S> PromptRoute<S> {
    pub(super) fn from_parts(prompt: Prompt, handler: Erased<S, PromptKind>) -> Self {
        Self { prompt, access: Access::default(), handler, completions: Sources::default(), fields: None }
    }

    /// Returns the definitions of the arguments, to change them.
    ///
    /// See the [example](Self#example).
    pub fn arguments_mut(&mut self) -> &mut Vec<PromptArgument> {
        &mut self.prompt.arguments
    }

    /// Sets the description of the prompt. It replaces the doc comment of the arguments.
    ///
    /// See the [example](Self#example).
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.prompt.description = Some(text.into());
        self
    }

    /// Sets the title, which people see instead of the name.
    ///
    /// See the [example](Self#example).
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.prompt.title = Some(title.into());
        self
    }

    /// Sets the arguments, instead of those that the handler describes.
    ///
    /// See the [example](Self#example).
    pub fn arguments(mut self, arguments: impl IntoIterator<Item = PromptArgument>) -> Self {
        self.prompt.arguments = arguments.into_iter().collect();
        self
    }

    /// Adds an icon.
    ///
    /// See the [example](Self#example).
    pub fn icon(mut self, icon: Icon) -> Self {
        self.prompt.icons.push(icon);
        self
    }

    /// Requires that a caller over a network was granted all of these scopes, also to complete an argument. Other callers do
    /// not see the prompt in the list.
    ///
    /// See the [example](Self#example).
    pub fn requires_scopes<T: Into<String>>(mut self, scopes: impl IntoIterator<Item = T>) -> Self {
        self.access.require(scopes);
        self
    }

    /// Requires that a caller over a network is authenticated. Other callers do not see the prompt in the list.
    ///
    /// See the [example](Self#example).
    pub fn requires_authentication(mut self) -> Self {
        self.access.require_caller();
        self
    }

    /// Sets `_meta` of the definition.
    ///
    /// See the [example](Self#example).
    pub fn meta(mut self, meta: Meta) -> Self {
        self.prompt.meta = Some(meta);
        self
    }
}

impl<S: Clone + Send + Sync + 'static> PromptRoute<S> {
    /// Completes an argument by a handler, which takes [`Completing`](crate::Completing) and returns a list of texts.
    ///
    /// See the [example](Self#example).
    pub fn complete<M, H: Handler<M, S, CompletionKind>>(mut self, argument: impl Into<String>, handler: H) -> Self {
        self.completions.add(argument.into(), CompletionSource::handler(handler));
        self
    }

    /// Completes an argument from a fixed list: the entries that begin with the typed text.
    ///
    /// See the [example](Self#example).
    pub fn complete_from<T: Into<String>>(
        mut self,
        argument: impl Into<String>,
        values: impl IntoIterator<Item = T>,
    ) -> Self {
        self.completions.add(argument.into(), CompletionSource::list(values));
        self
    }

    /// Provides the state of the handlers, for example to add the prompt to a running server.
    ///
    /// ```
    /// use mcp_server_core::{PromptRoute, Server, State, prompt};
    ///
    /// async fn greet(State(name): State<String>) -> String {
    ///     format!("Greet {name}.")
    /// }
    ///
    /// let server = Server::builder("app", "1.0.0").build();
    /// let route: PromptRoute<String> = prompt("greet", greet);
    /// server.prompts().add(route.with_state("Ada".to_owned()))?;
    /// assert_eq!(server.prompts().names(), ["greet"]);
    /// # Ok::<(), mcp_server_core::RegistrationError>(())
    /// ```
    pub fn with_state(self, state: S) -> PromptRoute<()> {
        PromptRoute {
            prompt: self.prompt,
            access: self.access,
            completions: self.completions.with_state(&state),
            fields: self.fields,
            handler: Erased::ready(self.handler.with_state(state)),
        }
    }
}

impl<S> PromptRoute<S> {
    /// Checks the definition, and separates it from the handlers.
    #[expect(clippy::type_complexity, reason = "three parts that travel together once")]
    pub(crate) fn check(self) -> Result<(PromptSpec, Erased<S, PromptKind>, Sources<S>), RegistrationError> {
        let refuse = |what: String| RegistrationError::new(format!("the prompt `{}`: {what}", self.prompt.name));
        if self.prompt.name.is_empty() {
            return Err(refuse("a name has at least one character".into()));
        }
        self.handler.check_extractors().map_err(refuse)?;
        if let Some(schema) = &self.fields {
            text_fields::check(schema, TextField::One, |_| true).map_err(refuse)?;
        }
        let mut seen = HashSet::new();
        for argument in &self.prompt.arguments {
            if !seen.insert(argument.name.as_str()) {
                return Err(refuse(format!("the argument `{}` is given twice", argument.name)));
            }
        }
        for argument in self.completions.names() {
            if !seen.contains(argument) {
                return Err(refuse(format!("there is no argument `{argument}` to complete")));
            }
        }
        self.completions.check().map_err(refuse)?;
        Ok((PromptSpec { prompt: self.prompt, access: self.access }, self.handler, self.completions))
    }
}

impl<S> std::fmt::Debug for PromptRoute<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PromptRoute").field("prompt", &self.prompt).finish_non_exhaustive()
    }
}

/// The definition of a registered prompt, without its handlers.
pub(crate) struct PromptSpec {
    pub(crate) prompt: Prompt,
    pub(crate) access: Access,
}

/// A registered prompt.
pub(crate) struct PromptEntry {
    pub(crate) spec: PromptSpec,
    pub(crate) completions: Vec<(String, Ready<CompletionKind>)>,
    pub(crate) run: Ready<PromptKind>,
}

impl Definition for PromptEntry {
    fn definition(&self, version: ProtocolVersion) -> Vec<u8> {
        super::definition(&self.spec.prompt, version)
    }
}

impl Entry for PromptEntry {
    const LIST: List = List::Prompts;

    fn key(&self) -> &str {
        &self.spec.prompt.name
    }

    fn access(&self) -> &Access {
        &self.spec.access
    }

    fn brings_more(&self) -> bool {
        !self.completions.is_empty()
    }
}
