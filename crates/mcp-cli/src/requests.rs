//! Requests to a server: by its client, or through the host of a configuration file, whose policies decide each request.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use mcp_agent::{
    CallError, Host, ServerState,
    policy::{PolicyInput, Refusal, RefusalKind},
};
use mcp_client::Client;
use mcp_protocol::{
    CallToolResult, CompleteParams, CompleteResult, GetPromptResult, JsonObject, ReadResourceResult, Tool,
};
use serde_json::Value;

use crate::{approval, arguments::with_signature, failure::Failure, progress::Progress, question};

/// Sends the requests of a command to one server.
#[derive(Clone)]
pub(crate) struct Requests {
    client: Client,
    /// `None` for a server of the command line.
    hosted: Option<Arc<Hosted>>,
}

/// A server of a configuration file in its host.
struct Hosted {
    host: Host,
    server: String,
    tool_timeouts: BTreeMap<String, Duration>,
}

/// The error of a request.
pub(crate) enum RequestError {
    /// The client or the server.
    Client(mcp_client::Error),
    /// The host did not send the request.
    Host(Failure),
}

impl Requests {
    /// Returns the requests to the server of the command line.
    pub(crate) fn of_client(client: Client) -> Self {
        Self { client, hosted: None }
    }

    /// Returns the requests to a server of a host. The time limits are for tools that the server does not list.
    pub(crate) fn of_host(
        host: Host,
        server: String,
        client: Client,
        tool_timeouts: BTreeMap<String, Duration>,
    ) -> Self {
        Self { client, hosted: Some(Arc::new(Hosted { host, server, tool_timeouts })) }
    }

    /// Returns a tool of the catalog of the host.
    pub(crate) fn listed_tool(&self, name: &str) -> Option<Tool> {
        let hosted = self.hosted.as_deref()?;
        hosted.host.catalog().tool(&hosted.display_name(name)).ok().map(|tool| tool.tool().clone())
    }

    /// Returns the tools of the catalog of the host, if the server listed all its tools.
    pub(crate) fn listed_tools(&self) -> Option<Vec<Tool>> {
        let hosted = self.hosted.as_deref()?;
        let is_complete = hosted.host.status(&hosted.server)?.state == ServerState::Ready;
        let catalog = hosted.host.catalog();
        let own = catalog.tools().iter().filter(|tool| tool.server() == hosted.server);
        let tools: Vec<Tool> = own.map(|tool| tool.tool().clone()).collect();
        (is_complete && !tools.is_empty()).then_some(tools)
    }

    /// Calls a tool. A host validates the arguments first.
    pub(crate) async fn call_tool(
        &self,
        name: &str,
        arguments: JsonObject,
        progress: &Progress,
    ) -> Result<CallToolResult, RequestError> {
        let Some(hosted) = self.hosted.as_deref() else {
            let called = self.client.call_tool(name, Value::from(arguments)).on_progress(progress.callback()).await;
            return Ok(called?.into_inner());
        };
        let display_name = hosted.display_name(name);
        if hosted.host.catalog().tool(&display_name).is_err() {
            // A server can serve tools that it does not list. The policies decide their calls too.
            hosted.decide(PolicyInput::new(&hosted.server, name).arguments(arguments.clone())).await?;
            let mut call = self.client.call_tool(name, Value::from(arguments)).on_progress(progress.callback());
            if let Some(limit) = hosted.tool_timeouts.get(name) {
                call = call.idle_timeout(*limit).total_timeout(*limit);
            }
            return Ok(call.await?.into_inner());
        }
        let call = || {
            let arguments = Value::from(arguments.clone());
            hosted.host.call(&*display_name, arguments).on_progress(progress.callback())
        };
        let called = match call().await {
            Err(CallError::Refused(refusal)) if hosted.is_accepted(&display_name, &refusal).await? => call().await,
            called => called,
        };
        match called {
            Ok(result) => Ok(result.into_inner()),
            Err(error @ CallError::InvalidArguments(_)) => {
                let failure = Failure::usage(error.to_string());
                Err(RequestError::Host(match self.listed_tool(name) {
                    Some(tool) => with_signature(&tool, failure),
                    None => failure,
                }))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads a resource.
    pub(crate) async fn read_resource(&self, uri: &str) -> Result<ReadResourceResult, RequestError> {
        match self.hosted.as_deref() {
            Some(hosted) => Ok(hosted.host.read(&hosted.server, uri).await?),
            None => Ok(self.client.read_resource(uri).await?),
        }
    }

    /// Returns a prompt with its arguments filled in.
    pub(crate) async fn get_prompt(
        &self,
        name: &str,
        arguments: Vec<(String, String)>,
    ) -> Result<GetPromptResult, RequestError> {
        if let Some(hosted) = self.hosted.as_deref() {
            let members = arguments.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
            let input = PolicyInput::prompt(&hosted.server, name).arguments(members.collect());
            hosted.decide(input).await?;
        }
        Ok(self.client.get_prompt(name, arguments).await?)
    }

    /// Returns the values that complete an argument.
    pub(crate) async fn complete(&self, params: &CompleteParams) -> Result<CompleteResult, RequestError> {
        match self.hosted.as_deref() {
            Some(hosted) => Ok(hosted.host.complete(&hosted.server, params.clone()).await?),
            None => Ok(self.client.complete_with(params).await?),
        }
    }
}

impl Hosted {
    fn display_name(&self, tool: &str) -> String {
        format!("{}:{tool}", self.server)
    }

    async fn decide(&self, input: PolicyInput) -> Result<(), RequestError> {
        Ok(self.host.decide(&input).await?)
    }

    /// Asks the user at the terminal to accept a changed definition. Returns whether the definition is accepted now.
    async fn is_accepted(&self, display_name: &str, refusal: &Refusal) -> Result<bool, Failure> {
        if refusal.kind() != RefusalKind::Unaccepted || !question::is_possible() {
            return Ok(false);
        }
        if !approval::accepts_definition(display_name, refusal).await {
            return Ok(false);
        }
        self.host.accept_definition(display_name).await.map_err(|error| Failure::local(error.to_string()))?;
        Ok(true)
    }
}

impl From<mcp_client::Error> for RequestError {
    fn from(error: mcp_client::Error) -> Self {
        Self::Client(error)
    }
}

impl From<Failure> for RequestError {
    fn from(failure: Failure) -> Self {
        Self::Host(failure)
    }
}

impl From<CallError> for RequestError {
    fn from(error: CallError) -> Self {
        Self::Host(match error {
            CallError::Client { error, .. } => return Self::Client(error),
            CallError::Refused(refusal) => refused(&refusal),
            CallError::Unavailable { .. } => Failure::no_server_ready(error.to_string()),
            CallError::Changed { .. } | CallError::Cancelled { .. } => Failure::local(error.to_string()),
            _ => Failure::usage(error.to_string()),
        })
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Client(error) => error.into(),
            RequestError::Host(failure) => failure,
        }
    }
}

/// Returns the failure of a refused request, with the remedy if the user can permit the request.
fn refused(refusal: &Refusal) -> Failure {
    let failure = Failure::local(refusal.to_string());
    match refusal.kind() {
        RefusalKind::NoApprover => {
            failure.with_hint("; run `mcp` with stdin and stderr at a terminal, or approve with --yes")
        }
        RefusalKind::Unaccepted if !question::is_possible() => {
            failure.with_hint("; run `mcp` with stdin and stderr at a terminal to accept it")
        }
        _ => failure,
    }
}
