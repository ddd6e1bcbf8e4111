//! The extractor `Inputs`: input requests of a handler to the user, the model or the client, in every revision.

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

use super::{CallParts, Description, FromCallParts, schema_of};
use crate::{
    context::Context,
    error::{Fault, InputError, ToolError},
    inputs::{InputCollector, InputLimits, run_once},
    random,
    session::OpenPage,
    trace::{self, Bridge},
};

/// Sends input requests while a call runs: to the user ([`Inputs::elicit`]), the model ([`Inputs::sample`]) or the
/// client ([`Inputs::roots`]). Each input request has a key that is unique in its call.
///
/// # Request inputs first, act later
///
/// In a session the handler waits for the answer. In the stateless era the input request becomes the result of the
/// call: the handler **ends there**. When the client repeats the call with the answer, the handler **runs again from
/// its start**, and answered input requests return at once.
///
/// Code before an input request may therefore run several times. Request all inputs first, or wrap side effects in
/// [`Inputs::once`] and changing values in [`Inputs::remember`].
///
/// Input requests that are polled together, for example by `tokio::join!`, are sent together. In a loop, give each one
/// its own key. A `select!` or a timeout around an input request works in a session only: elsewhere the input request
/// ends the run.
///
/// # Example
/// ```
/// use mcp_protocol::{CreateMessageParams, SamplingMessage};
/// use mcp_server_core::{InputError, Inputs, Server, tool};
/// use serde_json::json;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Confirm {
///     yes: bool,
/// }
///
/// async fn delete(inputs: Inputs) -> Result<String, InputError> {
///     let answer: Confirm = inputs.elicit("confirm", "Delete the file?").await?;
///     Ok(if answer.yes { "deleted" } else { "kept" }.to_owned())
/// }
///
/// async fn publish(inputs: Inputs) -> Result<String, InputError> {
///     let schema = json!({ "type": "object", "properties": { "title": { "type": "string" } } });
///     let form = mcp_schema::elicitation::Form::from_schema(&schema).expect("the schema is a form");
///     let values = inputs.elicit_form("title", "What is the title?", &form).await?;
///     inputs.elicit_url("login", "Log in to publish.", "https://example.com/login").await?;
///     inputs.elicit_page("terms", "Accept the terms.", "https://example.com/terms", "page-7").await?;
///     let request = CreateMessageParams::new(vec![SamplingMessage::user("Write a summary.")], 100);
///     let summary = inputs.sample("summary", request).await?;
///     let roots = inputs.roots("roots").await?;
///     Ok(format!("{values:?} {summary:?} {}", roots.len()))
/// }
///
/// let server = Server::builder("files", "1.0").tool(tool("delete", delete)).tool(tool("publish", publish)).build();
/// # let _ = server;
/// ```
#[derive(Debug, Clone)]
pub struct Inputs {
    context: Context,
    collector: Arc<InputCollector>,
}

impl<S: Send + Sync> FromCallParts<S> for Inputs {
    fn describe(description: &mut Description) {
        description.uses_inputs = true;
    }

    async fn from_call_parts(parts: &mut CallParts, _state: &S) -> Result<Self, ToolError> {
        let context = parts.context.clone();
        match context.collector().cloned() {
            Some(collector) => Ok(Self { context, collector }),
            None => {
                let details = "an extractor that wraps `Inputs` has to call `Inputs::describe` in its own `describe`";
                let event = "a handler takes `Inputs` without declaring it at registration";
                let fault = Fault::report(event, "input requests are not available here", &details);
                Err(ToolError::protocol(RpcError::internal(fault.text(context.shows_faults()))))
            }
        }
    }
}

impl Inputs {
    /// Asks the user to fill in a form. The fields of `T` are the fields of the form: strings, numbers, booleans, unit
    /// enums, and lists of those. Doc comments become descriptions, and `#[schemars(…)]` adds titles, formats and
    /// bounds.
    ///
    /// Do not request secrets this way: use a page ([`Inputs::elicit_url`]).
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// [`InputError`]: the user declined or cancelled, the client does not support forms, the answer was late, or three
    /// answers were invalid.
    pub async fn elicit<T: DeserializeOwned + JsonSchema>(
        &self,
        key: &str,
        message: impl Into<String>,
    ) -> Result<T, InputError> {
        let (schema, _) = schema_of::<T>();
        let form = Form::from_schema(&schema).map_err(|e| InputError::misuse(format!("the form `{key}`: {e}")))?;
        // A value that fits the form may still be rejected by the type, which makes the answer invalid.
        self.fill_in(key, message, &form, |content| decode_value(content).map_err(InputError::invalid)).await
    }

    /// Asks the user to confirm or to decline. Returns `true` only if the user confirmed.
    ///
    /// The form has no fields, so the client shows the message and its own buttons. A user who declines or dismisses the
    /// form did not confirm.
    ///
    /// ```
    /// use mcp_server_core::{Inputs, ToolError};
    ///
    /// async fn delete(inputs: Inputs) -> Result<&'static str, ToolError> {
    ///     if !inputs.confirm("delete", "Delete all files?").await? {
    ///         return Ok("Nothing was deleted.");
    ///     }
    ///     Ok("All files were deleted.")
    /// }
    /// # let _ = delete;
    /// ```
    ///
    /// # Errors
    /// [`InputError`]: the client does not support forms, the answer was late, or three answers were invalid.
    pub async fn confirm(&self, key: &str, message: impl Into<String>) -> Result<bool, InputError> {
        let capabilities = form_capability();
        self.require(&capabilities)?;
        let schema = JsonObject::from_value(json!({ "type": "object", "properties": {} })).unwrap_or_default();
        let params = ElicitParams::Form(FormElicitParams::new(message, schema));
        self.ask(key, &capabilities, self.elicitation(params)?, self.limits().elicitation, |answer| {
            let (result, _): (ElicitResult, _) = decoded(answer)?;
            let confirmed = result.action == ElicitAction::Accept;
            let kept = if confirmed { json!({ "action": "accept" }) } else { json!({ "action": "decline" }) };
            Ok((confirmed, kept))
        })
        .await
    }

    /// Asks the user to fill in a form that is built at run time.
    ///
    /// See the [example](Self#example).
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
        let capabilities = form_capability();
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
            // Members that the form does not have are dropped.
            Ok((read, json!({ "action": "accept", "content": content })))
        })
        .await
    }

    /// Sends the user to a URL, for data that must not pass through the client: secrets, payments, logins (2025-11-25
    /// and later).
    ///
    /// `Ok` means that the user agreed to open the page. The application must check the result itself, and that the
    /// visitor is the user of this call. With [`Inputs::elicit_page`] the application can notify the client when the
    /// user is done.
    ///
    /// See the [example](Self#example).
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

    /// Sends the user to a URL, like [`Inputs::elicit_url`], with an unguessable id of the application for the page.
    ///
    /// The application then calls [`Notices::elicitation_complete`](crate::Notices::elicitation_complete) when the user
    /// is done. Only 2025-11-25 has such ids.
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// As for [`Inputs::elicit`].
    pub async fn elicit_page(
        &self,
        key: &str,
        message: impl Into<String>,
        url: impl Into<String>,
        page: impl Into<String>,
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
                params.elicitation_id = Some(random::id()?);
            }
        }
        let request = self.elicitation(ElicitParams::Url(params))?;
        // The user may be done before the client's response arrives.
        let page = self.context.session().zip(page).map(|(session, page)| session.open_page(page));
        let answer = self.ask(key, &capabilities, request, self.limits().elicitation, |answer| {
            accepted(answer)?;
            Ok(((), json!({ "action": "accept" })))
        });
        answer.await?;
        page.into_iter().for_each(OpenPage::keep);
        Ok(())
    }

    /// Requests a completion from the client's model. After a message with tool uses, the next message must contain
    /// their results only ([`CreateMessageParams::check_conversation`]).
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// [`InputError`]: the conversation is malformed, the client does not support sampling (or tools in it), the client
    /// refused, or the answer was late.
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

    /// Requests the roots of the client: the directories in which it lets servers work.
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// [`InputError`]: the client does not support roots, or the answer was late.
    pub async fn roots(&self, key: &str) -> Result<Vec<Root>, InputError> {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(RootsCapability::default());
        self.require(&capabilities)?;
        let request = InputRequest::list_roots();
        let result: ListRootsResult = self.ask(key, &capabilities, request, self.limits().roots, decoded).await?;
        Ok(result.roots)
    }

    /// Sends several input requests of one kind together. Returns their answers in the same order, or the first error.
    ///
    /// For different kinds use `tokio::try_join!`.
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
                let Some(pending) = question else { continue };
                match pending.as_mut().poll(cx) {
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

    /// Runs a side effect at most once per call, however often the handler runs. Later rounds get the first result.
    ///
    /// A round that arrives while the side effect runs waits for it. After a failure, or when the process stopped in
    /// the middle, later rounds get an error: the side effect is never repeated. Input requests inside of it fail.
    /// Input requests beside it, for example by `tokio::join!`, end the run when the side effect is done (stateless
    /// era).
    ///
    /// ```
    /// use mcp_server_core::{Inputs, ToolError};
    ///
    /// async fn pay(inputs: Inputs) -> Result<String, ToolError> {
    ///     inputs.once("payment", async || Ok::<_, ToolError>("receipt 7".to_owned())).await
    /// }
    /// # let _ = pay;
    /// ```
    ///
    /// # Errors
    /// The error of `effect`, or an error that an earlier round did not finish it.
    pub async fn once<T, E, F, Fut>(&self, key: &str, effect: F) -> Result<T, ToolError>
    where
        T: Serialize + DeserializeOwned,
        E: Into<ToolError>,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        run_once(&self.collector, key, effect).await
    }

    /// Computes a value in the first round and returns the same value in later rounds: a random number, a time, a
    /// snapshot. The value travels in the request state, so keep it small.
    ///
    /// ```
    /// use mcp_server_core::{Inputs, ToolError};
    ///
    /// async fn roll(inputs: Inputs) -> Result<String, ToolError> {
    ///     let seed: u64 = inputs.remember("seed", || 4)?;
    ///     Ok(format!("the seed is {seed}"))
    /// }
    /// # let _ = roll;
    /// ```
    ///
    /// # Errors
    /// Fails when the value does not convert to JSON or back.
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
            // Without a session the server knows no capabilities of the client.
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
        // In the stateless era the input request is part of the result, which the client's trace covers.
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

/// The capability of a client that shows forms.
fn form_capability() -> ClientCapabilities {
    let mut needed = ElicitationCapability::default();
    needed.form = Some(JsonObject::new());
    let mut capabilities = ClientCapabilities::default();
    capabilities.elicitation = Some(needed);
    capabilities
}

fn accepted(answer: &Value) -> Result<ElicitResult, InputError> {
    let (result, _): (ElicitResult, _) = decoded(answer)?;
    match result.action {
        ElicitAction::Accept => Ok(result),
        ElicitAction::Decline => Err(InputError::declined()),
        _ => Err(InputError::cancelled()),
    }
}

/// Returns an answer as its type, and the part of it that the flow keeps: the members that the type knows.
fn decoded<T: DeserializeOwned + Serialize>(answer: &Value) -> Result<(T, Value), InputError> {
    let decoded: T = decode_value(answer).map_err(InputError::invalid)?;
    let kept = serde_json::to_value(&decoded).map_err(|e| InputError::invalid(e.to_string()))?;
    Ok((decoded, kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_answer_is_described_with_json_types() {
        for (answer, expected) in [
            (json!(7), "the answer did not fit the question: invalid type: integer `7`, expected an object"),
            (json!({ "action": 7 }), "the answer did not fit the question: `/action`: invalid type"),
        ] {
            let error = decoded::<ElicitResult>(&answer).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
