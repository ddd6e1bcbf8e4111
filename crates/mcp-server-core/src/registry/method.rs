//! Methods that extensions add to the protocol: their routes, their handlers and their results.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use mcp_protocol::{
    JsonObject, Meta, ProtocolVersion, ResultPayload, RpcError, jsonrpc::decode_params, method::RequestName,
};
use mcp_transport::Line;
use serde::{Serialize, Serializer, de::DeserializeOwned, ser::SerializeMap as _};
use serde_json::{Value, value::RawValue};

use super::{ListStyle, RegistrationError};
use crate::{
    access::Access,
    context::Context,
    error::{Fault, Named},
};

/// The member of a result that holds its metadata.
const META: &str = "_meta";

pub(crate) type MethodFuture = Pin<Box<dyn Future<Output = Result<MethodResult, RpcError>> + Send>>;

/// A method of an extension, and the function that serves it.
///
/// # Example
/// ```
/// use mcp_protocol::RpcError;
/// use mcp_server_core::extension::{MethodCall, MethodResult, MethodRoute};
///
/// #[derive(serde::Deserialize)]
/// struct Echo {
///     text: String,
/// }
///
/// async fn echo(call: MethodCall) -> Result<MethodResult, RpcError> {
///     let Echo { text } = call.params()?;
///     MethodResult::json(&serde_json::json!({ "text": text }))
/// }
///
/// let route = MethodRoute::new("com.example/echo", echo);
/// # let _: MethodRoute = route;
/// ```
#[must_use = "a route does nothing until an extension registers it"]
pub struct MethodRoute {
    pub(crate) name: String,
    pub(crate) exists_in: fn(ProtocolVersion) -> bool,
    pub(crate) needs_session: bool,
    pub(crate) access: Access,
    pub(crate) run: MethodRun,
}

type ImmediateFn = dyn Fn(&MethodRequest<'_>) -> Result<MethodResult, RpcError> + Send + Sync;

impl Named for MethodRoute {
    fn kind(&self) -> &'static str {
        "method"
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// The function behind a method.
pub(crate) enum MethodRun {
    /// Returns the result while the request is prepared.
    Immediate(Box<ImmediateFn>),
    /// Returns the result later.
    Async(Box<dyn Fn(MethodCall) -> MethodFuture + Send + Sync>),
}

impl MethodRoute {
    /// Creates a method that an async function serves.
    ///
    /// The call counts as a running handler: it needs a permit, `Limits::read_timeout` bounds it, and a cancellation by
    /// the client drops its future. Layers do not wrap it.
    ///
    /// See the [example](Self#example).
    pub fn new<F, R>(name: impl Into<String>, handler: F) -> Self
    where
        F: Fn(MethodCall) -> R + Send + Sync + 'static,
        R: Future<Output = Result<MethodResult, RpcError>> + Send + 'static,
    {
        Self::with_run(name.into(), MethodRun::Async(Box::new(move |call| Box::pin(handler(call)))))
    }

    /// Creates a method whose result is in memory. The function must not block.
    ///
    /// The call needs no permit and has no time limit.
    ///
    /// ```
    /// use mcp_server_core::extension::{MethodResult, MethodRoute};
    ///
    /// let route = MethodRoute::immediate("com.example/motto", |request| {
    ///     MethodResult::json(&serde_json::json!({ "motto": "festina lente", "revision": request.version().as_str() }))
    /// });
    /// # let _: MethodRoute = route;
    /// ```
    pub fn immediate<F>(name: impl Into<String>, function: F) -> Self
    where
        F: Fn(&MethodRequest<'_>) -> Result<MethodResult, RpcError> + Send + Sync + 'static,
    {
        Self::with_run(name.into(), MethodRun::Immediate(Box::new(function)))
    }

    fn with_run(name: String, run: MethodRun) -> Self {
        Self { name, exists_in: |_| true, needs_session: false, access: Access::default(), run }
    }

    /// Limits the method to some revisions. By default it exists in all of them.
    ///
    /// ```
    /// # use mcp_server_core::extension::{MethodResult, MethodRoute};
    /// use mcp_protocol::ProtocolVersion;
    ///
    /// let route = MethodRoute::immediate("com.example/motto", |_| MethodResult::json(&serde_json::json!({})))
    ///     .revisions(ProtocolVersion::has_extensions);
    /// # let _: MethodRoute = route;
    /// ```
    pub fn revisions(mut self, exists_in: fn(ProtocolVersion) -> bool) -> Self {
        self.exists_in = exists_in;
        self
    }

    /// Refuses the method to clients of the session era that have no session (sessionless mode).
    ///
    /// ```
    /// use mcp_server_core::extension::{MethodResult, MethodRoute};
    ///
    /// let route = MethodRoute::immediate("com.example/purge", |_| MethodResult::json(&serde_json::json!({})))
    ///     .needs_session()
    ///     .requires_scopes(["admin"]);
    /// # let _: MethodRoute = route;
    /// ```
    pub fn needs_session(mut self) -> Self {
        self.needs_session = true;
        self
    }

    /// Requires that every caller over a network was granted all of these scopes.
    pub fn requires_scopes<T: Into<String>>(mut self, scopes: impl IntoIterator<Item = T>) -> Self {
        self.access.require(scopes);
        self
    }

    /// Requires that every caller over a network is authenticated.
    pub fn requires_authentication(mut self) -> Self {
        self.access.require_caller();
        self
    }

    /// Checks the name.
    pub(crate) fn check(&self) -> Result<(), RegistrationError> {
        let name = &self.name;
        if name.trim().is_empty() {
            return Err(RegistrationError::new("the name of a method is empty"));
        }
        match RequestName::parse(name) {
            Some(known) if !is_left_to_extensions(known) => {
                Err(RegistrationError::new(format!("the method `{name}` belongs to the protocol itself")))
            }
            _ => Ok(()),
        }
    }
}

/// Whether the server leaves a method of the protocol to an extension of the builder.
fn is_left_to_extensions(name: RequestName) -> bool {
    matches!(name, RequestName::ListSkills | RequestName::GetSkill | RequestName::ReadDirectory)
}

impl fmt::Debug for MethodRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MethodRoute").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A request for a method of an extension, while the server prepares it.
///
/// # Example
/// ```
/// use mcp_server_core::extension::{MethodResult, MethodRoute};
///
/// #[derive(serde::Deserialize)]
/// struct Sum { numbers: Vec<i64> }
///
/// let route = MethodRoute::immediate("com.example/sum", |request| {
///     let Sum { numbers } = request.params()?;
///     let (method, revision) = (request.name(), request.version().as_str());
///     MethodResult::json(&serde_json::json!({ "sum": numbers.iter().sum::<i64>(), "of": [method, revision] }))
/// })
/// .needs_session()
/// .requires_scopes(["math"]);
/// # let _: MethodRoute = route;
/// ```
#[derive(Debug)]
pub struct MethodRequest<'a> {
    name: &'a str,
    params: Option<&'a RawValue>,
    version: ProtocolVersion,
    style: &'a ListStyle,
}

impl<'a> MethodRequest<'a> {
    pub(crate) fn new(
        name: &'a str,
        params: Option<&'a RawValue>,
        version: ProtocolVersion,
        style: &'a ListStyle,
    ) -> Self {
        Self { name, params, version, style }
    }

    /// Returns the name of the method.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn name(&self) -> &str {
        self.name
    }

    /// Returns the revision of the request.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.version
    }

    /// Decodes the parameters. Missing parameters count as an empty object.
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// Returns `-32602` when the parameters do not fit the type.
    pub fn params<T: DeserializeOwned>(&self) -> Result<T, RpcError> {
        decode_params(self.name, self.params)
    }

    pub(crate) fn style(&self) -> &ListStyle {
        self.style
    }
}

/// A running call of an extension's method.
///
/// # Example
/// ```
/// use mcp_protocol::RpcError;
/// use mcp_server_core::extension::{MethodCall, MethodResult};
/// use serde_json::{Value, json};
///
/// async fn echo(call: MethodCall) -> Result<MethodResult, RpcError> {
///     let params: Value = call.params()?;
///     MethodResult::json(&json!({ "params": params, "from": call.name(), "to": call.context().client_info() }))
/// }
/// # let _ = echo;
/// ```
#[derive(Debug)]
pub struct MethodCall {
    name: Arc<str>,
    params: Option<Box<RawValue>>,
    context: Context,
}

impl MethodCall {
    pub(crate) fn new(name: Arc<str>, params: Option<Box<RawValue>>, context: Context) -> Self {
        Self { name, params, context }
    }

    /// Returns the name of the method.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the context of the request: the server, the caller, the revision, progress.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Decodes the parameters. Missing parameters count as an empty object.
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// Returns `-32602` when the parameters do not fit the type.
    pub fn params<T: DeserializeOwned>(&self) -> Result<T, RpcError> {
        decode_params(&self.name, self.params.as_deref())
    }
}

/// The result of an extension's method: a JSON object.
///
/// The server adds the members that the revision requires in every result, such as `resultType`.
///
/// ```
/// use mcp_server_core::extension::MethodResult;
/// use serde_json::json;
///
/// assert!(MethodResult::json(&json!({ "motto": "festina lente" })).is_ok());
/// assert!(MethodResult::json("festina lente").is_err(), "a text is not an object");
/// ```
#[derive(Debug, Clone)]
pub struct MethodResult(pub(crate) ResultForm);

/// The form in which a result of a method reaches the engine.
#[derive(Debug, Clone)]
pub(crate) enum ResultForm {
    /// Members to which the engine adds its own.
    Members(MembersResult),
    /// The whole result as JSON.
    Written(Line),
}

impl MethodResult {
    /// Creates a result from a value that serializes as a JSON object.
    ///
    /// # Errors
    /// Returns `-32603` when the value does not serialize, or is not an object.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self, RpcError> {
        match serde_json::to_value(value) {
            Ok(Value::Object(members)) => Ok(Self::from(JsonObject::from(members))),
            Ok(_) => Err(RpcError::internal("the result of the method is not a JSON object")),
            Err(error) => {
                let text = "the result cannot be written as JSON";
                let fault = Fault::report("the result of a method cannot be written as JSON", text, &error);
                Err(RpcError::internal(fault.to_string()))
            }
        }
    }

    pub(crate) fn written(result: Line) -> Self {
        Self(ResultForm::Written(result))
    }
}

impl From<JsonObject> for MethodResult {
    fn from(mut members: JsonObject) -> Self {
        let meta = match members.remove(META) {
            Some(Value::Object(meta)) => Some(meta.into()),
            _ => None,
        };
        Self(ResultForm::Members(MembersResult { members, meta }))
    }
}

/// A result as its members.
#[derive(Debug, Clone)]
pub(crate) struct MembersResult {
    members: JsonObject,
    meta: Option<Meta>,
}

impl Serialize for MembersResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(meta) = &self.meta {
            map.serialize_entry(META, meta)?;
        }
        for (name, value) in &*self.members {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl ResultPayload for MembersResult {
    fn meta_mut(&mut self) -> &mut Option<Meta> {
        &mut self.meta
    }
}
