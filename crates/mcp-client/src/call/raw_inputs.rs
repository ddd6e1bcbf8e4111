//! Calls whose input requests the caller answers, one round at a time.

use std::fmt;

use bytes::Bytes;
use mcp_protocol::{InputRequiredResult, JsonObject};
use mcp_transport::BoxFuture;

use super::{
    Call, CreatedTask, RawResult, Reply, execute, execute_or_start_task,
    tasks::{TaskOptions, cancel_if_closing},
};
use crate::{Error, connection::InputResponses};

/// A call that ends with the input requests of the server, instead of answering them ([`Call::raw_inputs`]).
///
/// # Errors
/// The errors of a [`Call`]. A request state that the server does not accept is an error of the server
/// ([`Error::rpc`]): the client does not start the call anew.
///
/// See the example of [`Call::raw_inputs`].
#[must_use = "a call does nothing until it is awaited"]
pub struct RawInputs<T> {
    call: Call<T>,
}

/// The outcome of one round of a call.
///
/// See the example of [`Call::raw_inputs`].
#[derive(Debug, Clone)]
#[expect(clippy::exhaustive_enums, reason = "a round has no other outcome")]
pub enum Round<T> {
    /// The result of the call.
    Complete(T),
    /// The server needs answers before it has a result.
    InputRequired(InputRequired),
    /// The call became a task ([`RawInputs::raw_task`]).
    Task(CreatedTask),
}

/// The input requests of a round, and the state that the next round returns to the server.
///
/// See the example of [`Call::raw_inputs`].
#[derive(Debug, Clone)]
pub struct InputRequired {
    result: InputRequiredResult,
    bytes: Bytes,
}

impl<T> Call<T> {
    /// Ends the call with the input requests of the server (2026-07-28), instead of answering them by handlers.
    ///
    /// Use it for a relay, and for answers that take longer than a connection. The next round is the same call with
    /// [`RawInputs::resume`]. It needs no data of this client, so another client can send it.
    ///
    /// In older revisions, input requests arrive as requests of the server while the call runs. The handler of
    /// [`Call::answers`] answers them there, or a handler of the client. Handlers also answer the input requests of a task
    /// that the call became.
    ///
    /// The call declares the capabilities of the handlers. [`Call::capabilities`] declares those of another party that
    /// answers.
    ///
    /// ```
    /// # use mcp_server::{Server, prelude::*};
    /// # #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// # struct Answer { name: String }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_client::Error> {
    /// use mcp_client::{
    ///     Client, Round,
    ///     protocol::{ClientCapabilities, ElicitationCapability, JsonObject},
    /// };
    /// use serde_json::json;
    ///
    /// # let server = Server::builder("s", "1").tool(tool("greet", async |inputs: Inputs| {
    /// #     let Answer { name } = inputs.elicit("name", "Your name?").await?;
    /// #     Ok::<_, ToolError>(format!("Hello, {name}!"))
    /// # })).build();
    /// let client = Client::connect(&server).await?;
    /// let forms = ClientCapabilities::new().with_elicitation(ElicitationCapability::new());
    /// let call = || client.call_tool("greet", ()).capabilities(forms.clone()).raw_inputs();
    /// let Round::InputRequired(asked) = call().await? else { panic!("the tool asks") };
    /// let mut answers = JsonObject::new();
    /// for (key, request) in asked.result().input_requests.iter().flat_map(|requests| requests.iter()) {
    ///     println!("{key}: {} {:?}", request.method, request.params);
    ///     answers.insert(key.clone(), json!({ "action": "accept", "content": { "name": "Ada" } }));
    /// }
    /// let state = asked.into_result().request_state;
    /// let Round::Complete(result) = call().resume(answers, state).await? else { panic!("the tool has its answers") };
    /// assert_eq!(result.text(), "Hello, Ada!");
    /// # Ok(())
    /// # }
    /// ```
    pub fn raw_inputs(mut self) -> RawInputs<T> {
        self.options.raw_inputs = true;
        RawInputs { call: self }
    }
}

impl<T> RawInputs<T> {
    /// Sends the next round: the responses by the keys of their input requests, and the request state of the last round.
    ///
    /// Method, name and arguments must be those of the first round. Without responses the server receives the state alone.
    /// In a revision without input responses the call fails ([`Error::is_unsupported`]), and the client does not send it.
    ///
    /// See the example of [`Call::raw_inputs`].
    pub fn resume(mut self, responses: JsonObject, state: Option<String>) -> Self {
        let responses = (!responses.is_empty()).then_some(responses);
        self.call.options.resume = Some(Box::new(InputResponses { responses, state }));
        self
    }

    /// Ends the call with the task that it became ([`Round::Task`]), instead of waiting for the result of the task. `accepts` is
    /// whether the call may become a task.
    ///
    /// In 2025-11-25, the caller adds the parameter `task` to a [raw request](crate::Client::request_raw). In 2026-07-28, a call
    /// that may become a task declares the extension, and the server decides. If the server requires a task that the call does
    /// not accept, the error of the server is the outcome.
    ///
    /// The caller sends the requests about the task: `tasks/get` and others. [`CreatedTask::take_progress`] returns the progress of the
    /// task after the answer. If the future is dropped before the server answers,
    /// the client cancels the task of 2025-11-25, and the call in 2026-07-28.
    ///
    /// ```
    /// # use mcp_server::{Server, prelude::*, tasks::{TaskPolicy, TaskSupport}};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use mcp_client::{Client, Round};
    /// use serde_json::{Value, json};
    ///
    /// # let build = tool("build", async || "built").task(TaskSupport::Optional);
    /// # let server = Server::builder("s", "1").task_policy(TaskPolicy::Immediately).tool(build).build();
    /// let client = Client::connect(&server).await?;
    /// let call = client.request_raw("tools/call", json!({ "name": "build" })).raw_inputs().raw_task(true);
    /// let Round::Task(created) = call.await? else { panic!("the tool runs as a task") };
    /// let created: Value = serde_json::from_slice(created.result().bytes())?;
    /// let task = client.request_raw("tasks/get", json!({ "taskId": created["taskId"] })).await?;
    /// println!("{}", task["status"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn raw_task(mut self, accepts: bool) -> Self {
        self.call.options.relayed_task = Some(accepts);
        self
    }
}

impl InputRequired {
    fn read(reply: &Reply) -> Result<Self, Error> {
        let result: InputRequiredResult = reply.read()?;
        if result.input_requests.as_ref().is_none_or(|requests| requests.is_empty()) && result.request_state.is_none() {
            return Err(Error::invalid("the result requires input but contains no input requests"));
        }
        Ok(Self { result, bytes: reply.bytes.clone() })
    }

    /// Returns the result.
    ///
    /// See the example of [`Call::raw_inputs`].
    #[must_use]
    pub fn result(&self) -> &InputRequiredResult {
        &self.result
    }

    /// Returns the result by value.
    ///
    /// See the example of [`Call::raw_inputs`].
    #[must_use]
    pub fn into_result(self) -> InputRequiredResult {
        self.result
    }

    /// Returns the result as the JSON that the server sent, with members that this library does not know.
    ///
    /// ```
    /// use mcp_client::InputRequired;
    ///
    /// fn is_large(asked: &InputRequired) -> bool {
    ///     asked.bytes().len() > 65_536
    /// }
    /// # let _ = is_large;
    /// ```
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

impl<T: 'static> IntoFuture for RawInputs<T> {
    type Output = Result<Round<T>, Error>;
    type IntoFuture = BoxFuture<'static, Result<Round<T>, Error>>;

    fn into_future(self) -> Self::IntoFuture {
        let Call { handle, mut request, mut options, read } = self.call;
        Box::pin(async move {
            let request = request.as_mut().map_err(|error| error.clone())?;
            let reply = if options.relayed_task.is_some() {
                let (reply, guard) = execute_or_start_task(&handle.core, request, &mut options).await?;
                if let Some(task) = &reply.task {
                    let guard = guard.filter(|_| options.on_progress.is_some() && reply.version.has_core_tasks());
                    let options = TaskOptions::of(&handle.core, options, reply.connection);
                    cancel_if_closing(&handle.core, &task.task_id, &options)?;
                    let created = RawResult::read(&handle.core, &reply)?;
                    return Ok(Round::Task(CreatedTask::new(created, guard)));
                }
                reply
            } else {
                execute(&handle.core, request, &mut options).await?
            };
            if reply.requires_input {
                return InputRequired::read(&reply).map(Round::InputRequired);
            }
            read(&handle.core, &reply).map(Round::Complete)
        })
    }
}

impl<T> fmt::Debug for RawInputs<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawInputs").field("call", &self.call).finish_non_exhaustive()
    }
}
