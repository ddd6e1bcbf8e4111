//! Tools: a handler, its definition, and the rules for its calls.

use std::time::Duration;

use mcp_protocol::{
    ClientCapabilities, Icon, JsonObject, Meta, ProtocolVersion, TaskSupport, Tool, ToolAnnotations, ToolExecution,
};
use mcp_schema::{
    Schema, SchemaError,
    header::{HeaderParam, header_params},
};
use serde_json::{Map, Value, json};
use tower_layer::Layer;
use tower_service::Service;

use super::{Definition, Entry, List, Parameter, RegistrationError, parameter};
use crate::{
    access::Access,
    handler::{Description, Erased, Handler, Ready, Returns, ToolKind},
    layers::{HandlerService, Invocation, Outcome},
    tasks::{TaskPolicy, ToolTasks},
};

/// A tool before its registration. `S` is the state that its handler still needs.
///
/// # Example
/// ```
/// use std::time::Duration;
///
/// use mcp_protocol::{ClientCapabilities, Icon, Meta};
/// use mcp_server_core::{RawArgs, TaskPolicy, TaskSupport, ToolRoute, tool};
/// use serde_json::json;
///
/// let search: ToolRoute = tool("search", async |RawArgs(_): RawArgs| json!({ "hits": 0 }))
///     .title("Search")
///     .description("Searches the web.")
///     .icon(Icon::new("https://example.com/icon.png"))
///     .meta(Meta::default())
///     .input_schema(json!({ "type": "object" }))
///     .output_schema(json!({ "type": "object" }))
///     .skip_input_validation()
///     .skip_output_validation()
///     .read_only()
///     .open_world()
///     .requires_scopes(["search"])
///     .requires_authentication()
///     .requires_client(ClientCapabilities::default())
///     .timeout(Duration::from_secs(10));
/// let add: ToolRoute = tool("add", async || "added").additive().idempotent().closed_world();
/// let delete: ToolRoute = tool("delete", async || "deleted")
///     .destructive()
///     .task(TaskSupport::Optional)
///     .task_policy(TaskPolicy::After(Duration::from_secs(5)));
/// let build: ToolRoute = tool("build", async || "built").long_running();
/// # let _ = (search, add, delete, build);
/// ```
#[must_use = "a route does nothing until a server is given it"]
pub struct ToolRoute<S = ()> {
    tool: Tool,
    description: Description,
    input_schema: Option<Value>,
    parameters: Option<Vec<Parameter>>,
    output_schema: Option<Value>,
    validate_input: bool,
    validate_output: bool,
    access: Access,
    required_client: Option<ClientCapabilities>,
    timeout: Option<Duration>,
    tasks: ToolTasks,
    layers: Option<HandlerService>,
    handler: Erased<S, ToolKind>,
}

/// Creates a tool with a name and a handler.
///
/// The arguments of the handler describe the input, and its output type describes the structured output.
///
/// ```
/// use mcp_server_core::{Args, tool};
///
/// /// Say hello.
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Hello { name: String }
///
/// async fn hello(Args(hello): Args<Hello>) -> String {
///     format!("Hello, {}!", hello.name)
/// }
///
/// let route = tool("hello", hello).read_only();
/// # let _: mcp_server_core::ToolRoute<()> = route;
/// ```
pub fn tool<M, S, H>(name: impl Into<String>, handler: H) -> ToolRoute<S>
where
    S: Clone + Send + Sync + 'static,
    H: Handler<M, S, ToolKind>,
{
    let mut description = Description::default();
    H::describe(&mut description);
    let mut tool = Tool::new(name, JsonObject::new());
    tool.description = description.text.take();
    ToolRoute {
        tool,
        description,
        input_schema: None,
        parameters: None,
        output_schema: None,
        validate_input: true,
        validate_output: true,
        access: Access::default(),
        required_client: None,
        timeout: None,
        tasks: ToolTasks::default(),
        layers: None,
        handler: Erased::new(handler),
    }
}

impl<S> ToolRoute<S> {
    /// Sets the description for the model. It replaces the doc comment of the arguments.
    ///
    /// See the [example](Self#example).
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.tool.description = Some(text.into());
        self
    }

    /// Sets the title, which people see instead of the name.
    ///
    /// See the [example](Self#example).
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.tool.title = Some(title.into());
        self
    }

    /// Adds an icon.
    ///
    /// See the [example](Self#example).
    pub fn icon(mut self, icon: Icon) -> Self {
        self.tool.icons.push(icon);
        self
    }

    /// Sets `_meta` of the definition.
    ///
    /// See the [example](Self#example).
    pub fn meta(mut self, meta: Meta) -> Self {
        self.tool.meta = Some(meta);
        self
    }

    /// Marks the tool as read-only: it changes nothing.
    ///
    /// See the [example](Self#example).
    pub fn read_only(mut self) -> Self {
        self.annotations_mut().read_only_hint = Some(true);
        self
    }

    /// Marks the tool as destructive: it may delete or overwrite data.
    ///
    /// See the [example](Self#example).
    pub fn destructive(mut self) -> Self {
        let annotations = self.annotations_mut();
        annotations.read_only_hint = Some(false);
        annotations.destructive_hint = Some(true);
        self
    }

    /// Marks the tool as additive: it changes data, but only adds to it.
    ///
    /// See the [example](Self#example).
    pub fn additive(mut self) -> Self {
        let annotations = self.annotations_mut();
        annotations.read_only_hint = Some(false);
        annotations.destructive_hint = Some(false);
        self
    }

    /// Marks the tool as idempotent: a second call with the same arguments has no further effect.
    ///
    /// See the [example](Self#example).
    pub fn idempotent(mut self) -> Self {
        self.annotations_mut().idempotent_hint = Some(true);
        self
    }

    /// Marks the tool as open: it reaches external systems, as a web search does. Clients assume it by default.
    ///
    /// See the [example](Self#example).
    pub fn open_world(mut self) -> Self {
        self.annotations_mut().open_world_hint = Some(true);
        self
    }

    /// Marks the tool as closed: it does not reach external systems. A calculator does not.
    ///
    /// See the [example](Self#example).
    pub fn closed_world(mut self) -> Self {
        self.annotations_mut().open_world_hint = Some(false);
        self
    }

    /// Sets all annotations at once.
    ///
    /// ```
    /// use mcp_protocol::ToolAnnotations;
    /// use mcp_server_core::{ToolRoute, tool};
    ///
    /// let annotations = ToolAnnotations::new().with_read_only_hint(true).with_open_world_hint(false);
    /// let route: ToolRoute = tool("add", async || "2").annotations(annotations);
    /// # let _ = route;
    /// ```
    pub fn annotations(mut self, annotations: ToolAnnotations) -> Self {
        self.tool.annotations = Some(annotations);
        self
    }

    /// Sets the JSON Schema of the arguments. It replaces the schema that the handler describes.
    ///
    /// ```
    /// use mcp_server_core::{RawArgs, ToolRoute, tool};
    /// use serde_json::json;
    ///
    /// let route: ToolRoute = tool("count", async |RawArgs(arguments): RawArgs| arguments.len().to_string())
    ///     .input_schema(json!({ "type": "object", "properties": { "first": {} } }));
    /// # let _ = route;
    /// ```
    pub fn input_schema(mut self, schema: impl Into<Value>) -> Self {
        self.input_schema = Some(schema.into());
        self
    }

    /// Describes the arguments as a list of parameters. The server fills in defaults before the handler runs.
    ///
    /// ```
    /// use mcp_server_core::{Parameter, ParameterType, RawArgs, ToolRoute, tool};
    ///
    /// let route: ToolRoute = tool("greet", async |RawArgs(arguments): RawArgs| format!("Hello, {}!", arguments["name"]))
    ///     .parameters([Parameter::new("name", ParameterType::String).default_value("world")]);
    /// # let _ = route;
    /// ```
    pub fn parameters(mut self, parameters: impl IntoIterator<Item = Parameter>) -> Self {
        self.parameters = Some(parameters.into_iter().collect());
        self
    }

    /// Sets the JSON Schema of the structured output.
    ///
    /// If the handler returns a [`Value`], the value is structured content and text. A handler that returns content only, such
    /// as a `String` or an [`Image`](crate::Image), cannot have an output schema.
    ///
    /// See the [example](Self#example).
    pub fn output_schema(mut self, schema: impl Into<Value>) -> Self {
        self.output_schema = Some(schema.into());
        self
    }

    /// Runs the handler without a check of the arguments against the input schema.
    ///
    /// See the [example](Self#example).
    pub fn skip_input_validation(mut self) -> Self {
        self.validate_input = false;
        self
    }

    /// Sends structured output without a check against the output schema.
    ///
    /// See the [example](Self#example).
    pub fn skip_output_validation(mut self) -> Self {
        self.validate_output = false;
        self
    }

    /// Requires that a caller over a network was granted all of these scopes. Other callers do not see the tool in the list
    /// ([`ServerBuilder::list_forbidden_entries`](crate::ServerBuilder::list_forbidden_entries)).
    ///
    /// See the [example](Self#example).
    pub fn requires_scopes<T: Into<String>>(mut self, scopes: impl IntoIterator<Item = T>) -> Self {
        self.access.require(scopes);
        self
    }

    /// Requires that a caller over a network is authenticated. Other callers do not see the tool in the list.
    ///
    /// See the [example](Self#example).
    pub fn requires_authentication(mut self) -> Self {
        self.access.require_caller();
        self
    }

    /// Requires that the client declared these capabilities. Otherwise the server refuses the call (`-32021`).
    ///
    /// See the [example](Self#example).
    pub fn requires_client(mut self, capabilities: ClientCapabilities) -> Self {
        self.required_client = Some(capabilities);
        self
    }

    /// Sets whether a call may run as a task, or must.
    ///
    /// With [`TaskSupport::Required`], the server refuses clients that do not support tasks. Clients of revisions before
    /// 2025-11-25, which have no tasks, receive the plain result. The server's timeout of tool calls does not hold for a task:
    /// the task may run until it expires.
    ///
    /// See the [example](Self#example).
    pub fn task(mut self, support: TaskSupport) -> Self {
        self.tasks.support = support;
        self.tool.execution = (support != TaskSupport::Forbidden).then(|| ToolExecution::new(support));
        self
    }

    /// Sets when a call becomes a task, instead of the policy of the server.
    ///
    /// See the [example](Self#example).
    pub fn task_policy(mut self, policy: TaskPolicy) -> Self {
        self.tasks.policy = Some(policy);
        self
    }

    /// Marks the tool as long-running: it may run as a task.
    ///
    /// If the client lets the server decide, a call becomes a task at once.
    ///
    /// See the [example](Self#example).
    pub fn long_running(self) -> Self {
        self.task(TaskSupport::Optional).task_policy(TaskPolicy::Immediately)
    }

    /// Sets the total timeout of a call, instead of the limit of the server. It must not be zero.
    ///
    /// See the [example](Self#example).
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Wraps every call of the tool in a tower layer, as [`ServerBuilder::layer`](crate::ServerBuilder::layer) does for all calls.
    ///
    /// The layer that was added last receives a call first.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use mcp_server_core::{RateLimit, Server, tool};
    ///
    /// let limit = RateLimit::per_principal(10, Duration::from_secs(60));
    /// let server = Server::builder("mail", "1.0.0").tool(tool("send", async || "sent").layer(limit)).build();
    /// # let _: Server = server;
    /// ```
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<HandlerService>,
        L::Service: Service<Invocation, Response = Outcome> + Clone + Send + 'static,
        <L::Service as Service<Invocation>>::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        <L::Service as Service<Invocation>>::Future: Send + 'static,
    {
        let layers = self.layers.take().unwrap_or_else(HandlerService::of_tool);
        self.layers = Some(layers.behind(&layer));
        self
    }

    fn annotations_mut(&mut self) -> &mut ToolAnnotations {
        self.tool.annotations.get_or_insert_default()
    }
}

impl<S: Clone + Send + Sync + 'static> ToolRoute<S> {
    /// Provides the state of the handler, for example to add the tool to a running server.
    ///
    /// ```
    /// use mcp_server_core::{Server, State, ToolRoute, tool};
    ///
    /// async fn name(State(name): State<String>) -> String {
    ///     name
    /// }
    ///
    /// let server = Server::builder("app", "1.0.0").build();
    /// let route: ToolRoute<String> = tool("name", name);
    /// server.tools().add(route.with_state("Ada".to_owned()))?;
    /// assert_eq!(server.tools().names(), ["name"]);
    /// # Ok::<(), mcp_server_core::RegistrationError>(())
    /// ```
    pub fn with_state(self, state: S) -> ToolRoute<()> {
        let ready = self.handler.with_state(state);
        ToolRoute {
            tool: self.tool,
            description: self.description,
            input_schema: self.input_schema,
            parameters: self.parameters,
            output_schema: self.output_schema,
            validate_input: self.validate_input,
            validate_output: self.validate_output,
            access: self.access,
            required_client: self.required_client,
            timeout: self.timeout,
            tasks: self.tasks,
            layers: self.layers,
            handler: Erased::ready(ready),
        }
    }
}

impl<S> ToolRoute<S> {
    /// Checks the definition, and separates it from the handler.
    pub(crate) fn check(mut self) -> Result<(ToolSpec, Erased<S, ToolKind>), RegistrationError> {
        let name = self.tool.name.clone();
        let refuse = |what: String| RegistrationError::new(format!("the tool `{name}`: {what}"));
        if !Tool::is_valid_name(&name) {
            return Err(refuse("a name has 1 to 128 characters of A-Z a-z 0-9 _ - .".into()));
        }
        self.handler.check_extractors().map_err(refuse)?;
        let mut defaults = Map::new();
        let compile_input = if self.input_schema.is_some() { Schema::compile } else { compile_derived };
        let compile_output = if self.output_schema.is_some() { Schema::compile } else { compile_derived };
        let input = if let Some(schema) = self.input_schema.take() {
            schema
        } else if let Some(parameters) = self.parameters.take() {
            let (schema, filled_in) = parameter::schema_of(parameters).map_err(refuse)?;
            defaults = filled_in;
            schema
        } else if let Some(schema) = self.description.input.take() {
            schema
        } else if self.description.takes_raw_arguments {
            return Err(refuse("`RawArgs` needs `input_schema(…)` or `parameters(…)`".into()));
        } else {
            json!({ "type": "object", "additionalProperties": false })
        };
        mcp_schema::check_tool_input_schema(&input).map_err(|e| refuse(format!("input schema: {e}")))?;
        let header_params = header_params(&input).map_err(|e| refuse(e.to_string()))?;
        let compiled = compile_input(&input).map_err(|e| refuse(format!("input schema: {e}")))?;
        let output = self.output_schema.take().or(self.description.output.take());
        if output.is_some() && self.description.returns == Returns::Content {
            let instead = "`Json<T>`, `Structured<T>`, `serde_json::Value` or `CallToolResult`";
            return Err(refuse(format!(
                "output schema: its handler returns content only and no structured content; return {instead}"
            )));
        }
        let output_schema = match &output {
            Some(schema) => Some(compile_output(schema).map_err(|e| refuse(format!("output schema: {e}")))?),
            None => None,
        };
        if self.timeout.is_some_and(|limit| limit.is_zero()) {
            return Err(refuse("its `timeout` is zero: no call could succeed".into()));
        }
        let Value::Object(input) = input else { return Err(refuse("the input schema is not an object".into())) };
        if self.tool.description.as_deref().is_none_or(|text| text.trim().is_empty()) {
            tracing::warn!(
                tool = %name,
                "the tool has no description for the model: call `description(…)`, or write a doc comment on its arguments"
            );
        }
        self.tool.input_schema = input.into();
        let text_is_data = self.description.returns == Returns::Value && output.is_some();
        self.tool.output_schema = output;
        let spec = ToolSpec {
            tool: self.tool,
            text_is_data,
            input: self.validate_input.then_some(compiled),
            output: output_schema.filter(|_| self.validate_output),
            defaults,
            header_params,
            access: self.access,
            required_client: self.required_client,
            timeout: self.timeout,
            tasks: self.tasks,
            layers: self.layers,
        };
        Ok((spec, self.handler))
    }
}

/// Accepts a schema that the library derived from types or parameters.
///
/// A release build compiles it when the first call arrives, because the compiler is the largest part of the start of a small
/// server. A debug build compiles it at once, so that tests and the developer see an invalid attribute at the registration.
fn compile_derived(schema: &Value) -> Result<Schema, SchemaError> {
    if cfg!(debug_assertions) { Schema::compile(schema) } else { Schema::deferred(schema) }
}

impl<S> std::fmt::Debug for ToolRoute<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolRoute").field("tool", &self.tool).finish_non_exhaustive()
    }
}

/// The definition of a registered tool, without its handler.
pub(crate) struct ToolSpec {
    pub(crate) tool: Tool,
    /// The compiled input schema, if the server checks arguments.
    pub(crate) input: Option<Schema>,
    /// The compiled output schema, if the server checks structured output.
    pub(crate) output: Option<Schema>,
    /// Whether the JSON text of the handler is the structured content as well.
    pub(crate) text_is_data: bool,
    pub(crate) defaults: Map<String, Value>,
    pub(crate) header_params: Vec<HeaderParam>,
    pub(crate) access: Access,
    pub(crate) required_client: Option<ClientCapabilities>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) tasks: ToolTasks,
    /// The layers of the tool itself.
    pub(crate) layers: Option<HandlerService>,
}

/// A registered tool.
pub(crate) struct ToolEntry {
    pub(crate) spec: ToolSpec,
    pub(crate) run: Ready<ToolKind>,
}

impl Definition for ToolEntry {
    fn definition(&self, version: ProtocolVersion) -> Vec<u8> {
        super::definition(&self.spec.tool, version)
    }
}

impl Entry for ToolEntry {
    const LIST: List = List::Tools;

    fn key(&self) -> &str {
        &self.spec.tool.name
    }

    fn brings_more(&self) -> bool {
        self.spec.tasks.support != TaskSupport::Forbidden
    }

    fn access(&self) -> &Access {
        &self.spec.access
    }
}
