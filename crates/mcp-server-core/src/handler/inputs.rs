//! Inputs: what a handler asks of the user, the model or the client while it serves a request, in every revision.

use std::{future::Future, sync::Arc, time::Duration};

use mcp_protocol::{
    ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitAction, ElicitParams, ElicitResult,
    ElicitationCapability, FormElicitParams, InputRequest, JsonObject, ListRootsResult, Root, RootsCapability,
    RpcError, SamplingCapability, Shape, UrlElicitParams, jsonrpc::decode_value,
};
use mcp_schema::elicitation::Form;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tracing::Instrument as _;
use uuid::Uuid;

use super::{CallParts, Description, FromCallParts, schema_of};
use crate::{
    context::Context,
    error::{InputError, ToolError},
    inputs::{InputCollector, InputLimits, run_once},
    trace::{self, Bridge},
};

/// Asks the other side while a call runs: the user ([`Inputs::elicit`]), the model ([`Inputs::sample`]), the client
/// ([`Inputs::roots`]). Every question has a key that is unique in its call.
///
/// # Ask first, act after
///
/// In a session the handler waits for the answer. In the stateless revision it cannot: there the question becomes the
/// result of the request, the handler **ends where it asked**, and when the client comes back with the answer it **runs
/// again from the top**; questions that are answered return at once. So whatever a handler does before a question may be
/// done again. Either ask first and act after, or wrap what must not happen twice into [`Inputs::once`], and what must not
/// change between rounds into [`Inputs::remember`].
///
/// Questions that are polled together, such as by `tokio::join!`, are asked together. A key is used once in a call; in a
/// loop, number it. A `select!` or a timeout around a question means something in a session only: elsewhere the question
/// ends the run.
#[derive(Debug, Clone)]
pub struct Inputs {
    context: Context,
    collector: Arc<InputCollector>,
}

impl<S: Send + Sync> FromCallParts<S> for Inputs {
    fn describe(description: &mut Description) {
        description.asks = true;
    }

    async fn from_call_parts(parts: &mut CallParts, _state: &S) -> Result<Self, ToolError> {
        let context = parts.context.clone();
        match context.collector().cloned() {
            Some(collector) => Ok(Self { context, collector }),
            None => {
                tracing::error!(
                    "a handler draws `Inputs` and did not say so at registration, so that nothing can be asked: an \
                     extractor that wraps `Inputs` has to call `Inputs::describe` in its own `describe`"
                );
                Err(ToolError::protocol(RpcError::internal("nobody can be asked here")))
            }
        }
    }
}

impl Inputs {
    /// Asks the user to fill in a form. The fields of `T` are the fields of the form: texts, numbers, booleans, unit enums
    /// and lists of those; doc comments are their descriptions, `#[schemars(…)]` adds titles, formats and bounds.
    ///
    /// Never ask for secrets this way: they belong behind a URL ([`Inputs::elicit_url`]).
    ///
    /// # Errors
    /// [`InputError`]: the user declined or cancelled, the client cannot be asked, the answer came too late or did not fit
    /// three times.
    pub async fn elicit<T: DeserializeOwned + JsonSchema>(
        &self,
        key: &str,
        message: impl Into<String>,
    ) -> Result<T, InputError> {
        let (schema, _) = schema_of::<T>();
        let form = Form::from_schema(&schema).map_err(|e| InputError::misuse(format!("the form `{key}`: {e}")))?;
        // The type may refuse what fits the form: that is an answer that does not fit, as any other.
        self.fill_in(key, message, &form, |content| decode_value(content).map_err(InputError::invalid)).await
    }

    /// Asks the user to fill in a form that is known at run time only.
    ///
    /// # Errors
    /// As for [`Inputs::elicit`].
    pub async fn elicit_form(
        &self,
        key: &str,
        message: impl Into<String>,
        form: &Form,
    ) -> Result<JsonObject, InputError> {
        self.fill_in(key, message, form, |content| Ok(JsonObject::from_value(content.clone()).unwrap_or_default()))
            .await
    }

    async fn fill_in<T>(
        &self,
        key: &str,
        message: impl Into<String>,
        form: &Form,
        read: impl Fn(&Value) -> Result<T, InputError>,
    ) -> Result<T, InputError> {
        let mut needed = ElicitationCapability::default();
        needed.form = Some(JsonObject::new());
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(needed);
        self.require(&capabilities)?;
        let schema = if self.context.version().has_elicitation_modes() {
            form.schema()
        } else {
            form.legacy_schema().map_err(|_| InputError::unsupported(capabilities.clone()))?
        };
        let schema = JsonObject::from_value(schema).unwrap_or_default();
        let params = ElicitParams::Form(FormElicitParams::new(message, schema));
        self.ask(key, &capabilities, self.elicitation(params)?, self.limits().elicitation, |answer| {
            let content = accepted(answer)?.content.unwrap_or_default();
            let content = form
                .accept(&Value::Object(content.into_inner()))
                .map_err(|errors| InputError::invalid(errors.to_string()))?;
            let read = read(&content)?;
            // What the form did not ask for is not kept.
            Ok((read, json!({ "action": "accept", "content": content })))
        })
        .await
    }

    /// Sends the user to a URL, for what must not pass through the client: secrets, payments, sign-ins elsewhere
    /// (2025-11-25 and later). `Ok` means that the user agreed to go there, not that anything happened there: check that
    /// yourself, and that the visitor is the user who was asked. [`Inputs::elicit_page`] lets you tell the client when the
    /// user is done there.
    ///
    /// # Errors
    /// As for [`Inputs::elicit`].
    pub async fn elicit_url(
        &self,
        key: &str,
        message: impl Into<String>,
        url: impl Into<String>,
    ) -> Result<(), InputError> {
        self.send_to(key, UrlElicitParams::new(message, url)).await
    }

    /// Like [`Inputs::elicit_url`], under an id of yours for the page, which no other page has and nobody can guess. Who
    /// serves the page tells the client by [`Notices::elicitation_complete`](crate::Notices::elicitation_complete) that the
    /// user is done there. 2025-11-25 alone has such ids and tells of them.
    ///
    /// # Errors
    /// As for [`Inputs::elicit`].
    pub async fn elicit_page(
        &self,
        key: &str,
        page: impl Into<String>,
        message: impl Into<String>,
        url: impl Into<String>,
    ) -> Result<(), InputError> {
        self.send_to(key, UrlElicitParams::new(message, url).with_elicitation_id(page)).await
    }

    async fn send_to(&self, key: &str, mut params: UrlElicitParams) -> Result<(), InputError> {
        let mut needed = ElicitationCapability::default();
        needed.url = Some(JsonObject::new());
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(needed);
        self.require(&capabilities)?;
        let mut page = None;
        if self.context.version().has_elicitation_complete() {
            page.clone_from(&params.elicitation_id);
            if page.is_none() {
                params.elicitation_id = Some(Uuid::new_v4().simple().to_string());
            }
        }
        let request = self.elicitation(ElicitParams::Url(params))?;
        let page = self.context.session().zip(page);
        // The user may be done there before the client says that they agreed.
        if let Some((session, page)) = &page {
            session.sends_to(page);
        }
        let asked = self.ask(key, &capabilities, request, self.limits().elicitation, |answer| {
            accepted(answer)?;
            Ok(((), json!({ "action": "accept" })))
        });
        let agreed = asked.await;
        if let (Err(_), Some((session, page))) = (&agreed, &page) {
            session.forget_page(page);
        }
        agreed
    }

    /// Asks the client's model. Where the conversation has uses of tools, the next message has their results and nothing
    /// else ([`CreateMessageParams::check_conversation`]).
    ///
    /// # Errors
    /// [`InputError`]: the conversation is none, the client cannot be asked (or not with tools), it refused, or the answer
    /// came too late.
    pub async fn sample(&self, key: &str, params: CreateMessageParams) -> Result<CreateMessageResult, InputError> {
        params.check_conversation().map_err(|e| InputError::misuse(format!("the sampling `{key}`: {e}")))?;
        let mut needed = SamplingCapability::default();
        if params.tools.is_some() || params.tool_choice.is_some() {
            needed.tools = Some(JsonObject::new());
        }
        let mut capabilities = ClientCapabilities::default();
        capabilities.sampling = Some(needed);
        self.require(&capabilities)?;
        let mut params = params;
        params.shape(self.context.version());
        let request = InputRequest::create_message(&params).map_err(|e| InputError::misuse(e.to_string()))?;
        self.ask(key, &capabilities, request, self.limits().sampling, decoded).await
    }

    /// Asks the client for its roots: the places that it lets servers work in.
    ///
    /// # Errors
    /// [`InputError`]: the client has none to offer, or the answer came too late.
    pub async fn roots(&self, key: &str) -> Result<Vec<Root>, InputError> {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(RootsCapability::default());
        self.require(&capabilities)?;
        let request = InputRequest::list_roots();
        let result: ListRootsResult = self.ask(key, &capabilities, request, self.limits().roots, decoded).await?;
        Ok(result.roots)
    }

    /// Asks several questions of one kind at once and waits for all answers, which come in the order of the questions; the
    /// first that fails ends it. Questions of different kinds go together by `tokio::try_join!`.
    ///
    /// ```
    /// # use mcp_server_core::{InputError, Inputs};
    /// # #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// # struct Confirm { yes: bool }
    /// # async fn ask(inputs: Inputs, names: Vec<String>) -> Result<(), InputError> {
    /// let answers: Vec<Confirm> =
    ///     inputs.all(names.iter().map(|name| inputs.elicit(name, format!("Delete {name}?")))).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The first error.
    pub async fn all<T, F: Future<Output = Result<T, InputError>>>(
        &self,
        questions: impl IntoIterator<Item = F>,
    ) -> Result<Vec<T>, InputError> {
        let mut questions: Vec<_> = questions.into_iter().map(|question| Some(Box::pin(question))).collect();
        let mut answers: Vec<Option<T>> = questions.iter().map(|_| None).collect();
        std::future::poll_fn(move |cx| {
            let mut done = true;
            for (question, answer) in questions.iter_mut().zip(&mut answers) {
                let Some(asked) = question else { continue };
                match asked.as_mut().poll(cx) {
                    std::task::Poll::Ready(Ok(value)) => {
                        *answer = Some(value);
                        *question = None;
                    }
                    std::task::Poll::Ready(Err(error)) => return std::task::Poll::Ready(Err(error)),
                    std::task::Poll::Pending => done = false,
                }
            }
            if !done {
                return std::task::Poll::Pending;
            }
            std::task::Poll::Ready(Ok(answers.iter_mut().filter_map(Option::take).collect()))
        })
        .await
    }

    /// Runs a side effect at most once per call, however often the handler runs: later rounds get the first result. A round
    /// that comes while the first is still at it waits. If the process ends in the middle, later rounds get an error: the
    /// effect is never tried a second time, also when it failed. Nothing can be asked inside of it: ask first. What is asked
    /// beside it, as by `tokio::join!`, ends the run of the handler in the stateless revision when the effect is done.
    ///
    /// # Errors
    /// The error of `effect`, or one that says that an earlier round did not finish it.
    pub async fn once<T, E, F, Fut>(&self, key: &str, effect: F) -> Result<T, ToolError>
    where
        T: Serialize + DeserializeOwned,
        E: Into<ToolError>,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        run_once(&self.collector, key, effect).await
    }

    /// Computes a value the first time, and gives the same one in every later round of the call: a random choice, a time, a
    /// snapshot. The value travels in the sealed state, so it should be small.
    ///
    /// # Errors
    /// When the value cannot be written as JSON, or read back.
    pub fn remember<T: Serialize + DeserializeOwned>(
        &self,
        key: &str,
        compute: impl FnOnce() -> T,
    ) -> Result<T, ToolError> {
        let collector = &self.collector;
        if let Some(value) = collector.remembered(key) {
            return Ok(serde_json::from_value(value)?);
        }
        let value = serde_json::to_value(compute())?;
        collector.remember(key, value.clone());
        Ok(serde_json::from_value(value)?)
    }

    fn limits(&self) -> &InputLimits {
        &self.collector.services().limits
    }

    fn require(&self, needed: &ClientCapabilities) -> Result<(), InputError> {
        match needed.missing_from(self.context.client_capabilities()) {
            // Nothing was declared where there is no session, whatever the client can do.
            Some(missing) if self.context.version().has_handshake() && self.context.session().is_none() => {
                Err(InputError::without_session(missing))
            }
            Some(missing) => Err(InputError::unsupported(missing)),
            None => Ok(()),
        }
    }

    fn elicitation(&self, mut params: ElicitParams) -> Result<InputRequest, InputError> {
        params.shape(self.context.version());
        InputRequest::elicit(&params).map_err(|e| InputError::misuse(e.to_string()))
    }

    async fn ask<T>(
        &self,
        key: &str,
        needed: &ClientCapabilities,
        request: InputRequest,
        limit: Duration,
        check: impl Fn(&Value) -> Result<(T, Value), InputError>,
    ) -> Result<T, InputError> {
        // Statelessly the question is part of the answer, whose trace the client knows.
        if self.context.session().is_none() {
            return self.collector.ask(key, needed, request, limit, check).await;
        }
        let span = trace::ask(&request.method, self.context.span());
        let bridge = self.collector.services().bridge.as_ref();
        let stands = bridge.filter(|_| !span.is_disabled()).and_then(|Bridge(bridge)| bridge.inject(&span));
        let request = match stands.or_else(|| self.context.trace_context()) {
            Some(context) => trace::traced(request, &context),
            None => request,
        };
        let answer = self.collector.ask(key, needed, request, limit, check).instrument(span.clone()).await;
        trace::answered(&span, &answer);
        answer
    }
}

fn accepted(answer: &Value) -> Result<ElicitResult, InputError> {
    let (result, _): (ElicitResult, _) = decoded(answer)?;
    match result.action {
        ElicitAction::Accept => Ok(result),
        ElicitAction::Decline => Err(InputError::declined()),
        _ => Err(InputError::cancelled()),
    }
}

/// An answer as its type, and what of it is kept: the members that the type knows.
fn decoded<T: DeserializeOwned + Serialize>(answer: &Value) -> Result<(T, Value), InputError> {
    let decoded: T = decode_value(answer).map_err(InputError::invalid)?;
    let kept = serde_json::to_value(&decoded).map_err(|e| InputError::invalid(e.to_string()))?;
    Ok((decoded, kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_does_not_fit_is_told_in_the_words_of_json() {
        for (answer, expected) in [
            (json!(7), "the answer did not fit the question: invalid type: integer `7`, expected an object"),
            (json!({ "action": 7 }), "the answer did not fit the question: `/action`: invalid type"),
        ] {
            let error = decoded::<ElicitResult>(&answer).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
