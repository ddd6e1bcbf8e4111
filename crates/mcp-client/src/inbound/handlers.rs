//! The handlers for requests of the server. The handlers determine the capabilities that the client declares.

use std::{any::Any, sync::Arc};

use mcp_protocol::{
    ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitResult, ElicitationCapability,
    FormElicitParams, JsonObject, LoggingMessageParams, Root, RootsCapability, RpcError, SamplingCapability,
    UrlElicitParams,
};
use mcp_transport::BoxFuture;
use serde_json::{Value, value::RawValue};

use super::{InputContext, RawRequest, RequestSource, Roots, ServerRequest, server_request::refuse};
use crate::connection::{OwnHandler, RunningCall};

/// Handles requests of the server. Each method rejects its request by default; [`Handler::capabilities`] declares the
/// implemented ones.
///
/// Closures of the builder, such as [`ClientBuilder::on_elicit`](crate::ClientBuilder::on_elicit), take precedence over
/// a handler. Each request runs on its own task. If the server cancels its request, the future is dropped.
///
/// ```
/// use mcp_client::{
///     Client, Handler, InputContext,
///     protocol::{ClientCapabilities, ElicitResult, ElicitationCapability, FormElicitParams, RpcError},
///     transport::BoxFuture,
/// };
///
/// struct Terminal;
///
/// impl Handler for Terminal {
///     fn capabilities(&self) -> ClientCapabilities {
///         let mut capabilities = ClientCapabilities::new();
///         capabilities.elicitation = Some(ElicitationCapability::new());
///         capabilities
///     }
///
///     fn elicit(&self, form: InputContext<FormElicitParams>) -> BoxFuture<'_, Result<ElicitResult, RpcError>> {
///         println!("{}: {}", form.server().name, form.message);
///         Box::pin(std::future::ready(Ok(ElicitResult::decline())))
///     }
/// }
///
/// let builder = Client::builder("my-app", "1.0").handler(Terminal);
/// ```
pub trait Handler: Send + Sync + 'static {
    /// Returns the capabilities of this handler, in the newest form.
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::new()
    }

    /// Lets the user fill in a form. Show the user which server asks ([`InputContext::server`]), and let the user
    /// decline.
    fn elicit(&self, context: InputContext<FormElicitParams>) -> BoxFuture<'_, Result<ElicitResult, RpcError>> {
        drop(context);
        Box::pin(std::future::ready(Err(refuse("elicitation/create"))))
    }

    /// Lets the user visit a URL. Show the user the whole URL, and open it only with consent.
    fn elicit_url(&self, context: InputContext<UrlElicitParams>) -> BoxFuture<'_, Result<ElicitResult, RpcError>> {
        drop(context);
        Box::pin(std::future::ready(Err(refuse("elicitation/create"))))
    }

    /// Samples from a model.
    fn sample(
        &self,
        context: InputContext<CreateMessageParams>,
    ) -> BoxFuture<'_, Result<CreateMessageResult, RpcError>> {
        drop(context);
        Box::pin(std::future::ready(Err(refuse("sampling/createMessage"))))
    }

    /// Returns the roots.
    fn list_roots(&self) -> BoxFuture<'_, Result<Vec<Root>, RpcError>> {
        Box::pin(std::future::ready(Err(refuse("roots/list"))))
    }

    /// Whether [`Handler::request`] also answers elicitation, sampling and roots. It is for a relay, whose answers come from another
    /// client. Default: false.
    ///
    /// The client checks that the handler declared the capability. The parameters and the result stay JSON, so members that this
    /// library does not know pass. An answer to a form receives no default values. The server decides whether it fits the form.
    ///
    /// ```
    /// use mcp_client::{
    ///     Handler, InputContext, RawRequest,
    ///     protocol::{ClientCapabilities, RootsCapability, RpcError},
    ///     transport::BoxFuture,
    /// };
    /// use serde_json::{Value, json};
    ///
    /// struct Relay;
    ///
    /// impl Handler for Relay {
    ///     fn capabilities(&self) -> ClientCapabilities {
    ///         ClientCapabilities::new().with_roots(RootsCapability::new())
    ///     }
    ///
    ///     fn relays(&self) -> bool {
    ///         true
    ///     }
    ///
    ///     fn request(&self, question: InputContext<RawRequest>) -> BoxFuture<'_, Result<Value, RpcError>> {
    ///         println!("{} {:?}", question.method(), question.raw_params());
    ///         Box::pin(async { Ok(json!({ "roots": [] })) })
    ///     }
    /// }
    ///
    /// let builder = mcp_client::Client::builder("my-relay", "1.0").handler(Relay);
    /// ```
    fn relays(&self) -> bool {
        false
    }

    /// Returns the reason for which the caller drops its call ([`Call::answers`](crate::Call::answers)), for the notification to the
    /// server. It is for a relay, whose client can name one. `None`: the client sends a text of its own. Default: `None`.
    ///
    /// The drop of a call runs this function, so it must neither block nor panic. The relay bounds the length.
    ///
    /// ```
    /// use mcp_client::Handler;
    ///
    /// struct Relay {
    ///     reason: Option<String>,
    /// }
    ///
    /// impl Handler for Relay {
    ///     fn cancellation_reason(&self) -> Option<String> {
    ///         self.reason.clone()
    ///     }
    /// }
    /// # let _ = Relay { reason: None };
    /// ```
    fn cancellation_reason(&self) -> Option<String> {
        None
    }

    /// Returns a text that is equal for the calls of one caller, and for no other caller. It is for a relay of several callers.
    ///
    /// A server without request streams can send a request during several calls, and name none of them. If all these calls have one
    /// caller, the handler of one of them answers ([`Call::answers`](crate::Call::answers)). The request fails otherwise. Default:
    /// `None`, for a caller that is not known.
    ///
    /// A handler whose call ends before its answer returns an error with the data `{"reason": "call_ended"}`. The handler of another
    /// running call of the caller then answers.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use mcp_client::Handler;
    ///
    /// struct Relay {
    ///     session: Arc<str>,
    /// }
    ///
    /// impl Handler for Relay {
    ///     fn caller(&self) -> Option<Arc<str>> {
    ///         Some(Arc::clone(&self.session))
    ///     }
    /// }
    /// # let _ = Relay { session: "7f3a".into() };
    /// ```
    fn caller(&self) -> Option<Arc<str>> {
        None
    }

    /// Handles a request that the protocol does not define.
    fn request(&self, context: InputContext<RawRequest>) -> BoxFuture<'_, Result<Value, RpcError>> {
        Box::pin(std::future::ready(Err(refuse(context.method()))))
    }

    /// Receives a log record of the server during a call with this handler ([`Call::answers`](crate::Call::answers)). It must
    /// not block. Other readers receive the record too ([`Client::notifications`](crate::Client::notifications)).
    ///
    /// Over Streamable HTTP, the record came on the stream of the call. Without such streams, the call was the only one that ran.
    fn log(&self, _record: LoggingMessageParams) {}

    /// Receives a log record of the server that belongs to no known call, as the handler of the client
    /// ([`ClientBuilder::handler`](crate::ClientBuilder::handler)). It must not block. Other readers receive the record too
    /// ([`Client::notifications`](crate::Client::notifications)).
    ///
    /// Over Streamable HTTP, the record came on the stream of the session. Without request streams, no call or several calls ran, or a
    /// cancelled call can have caused the record. The record can then belong to another request of this client, such as `tools/list`.
    fn log_without_call(&self, _record: LoggingMessageParams) {}
}

/// Gives a log record to the handler of a call.
pub(crate) fn log_of_call(call: &RunningCall, record: LoggingMessageParams) {
    if let Some(own) = call.own().and_then(|own| own.handler.downcast_ref::<Arc<dyn Handler>>()) {
        own.log(record);
    }
}

type Answering<P, R> = Arc<dyn Fn(InputContext<P>) -> BoxFuture<'static, Result<R, RpcError>> + Send + Sync>;

/// All handlers of a client.
#[derive(Clone, Default)]
pub(crate) struct HandlerSet {
    pub(crate) elicit: Option<Answering<FormElicitParams, ElicitResult>>,
    pub(crate) elicit_url: Option<Answering<UrlElicitParams, ElicitResult>>,
    pub(crate) sample: Option<Answering<CreateMessageParams, CreateMessageResult>>,
    pub(crate) samples_with_tools: bool,
    pub(crate) roots: Option<Roots>,
    /// Lists the roots of one call, instead of `roots`.
    pub(crate) roots_of_call: Option<Arc<dyn Handler>>,
    /// Answers the input requests during one call as JSON, if it declares them.
    pub(crate) relay_of_call: Option<Arc<dyn Handler>>,
    pub(crate) other: Option<Answering<RawRequest, Value>>,
    pub(crate) handler: Option<Arc<dyn Handler>>,
}

/// Returns the handler of a call in the form that the call stores.
pub(crate) fn own_handler(handler: Arc<dyn Handler>) -> OwnHandler {
    fn reason(handler: &(dyn Any + Send + Sync)) -> Option<String> {
        handler.downcast_ref::<Arc<dyn Handler>>()?.cancellation_reason()
    }
    let identity = Arc::as_ptr(&handler).cast::<()>().addr();
    let (declared, caller) = (handler.capabilities(), handler.caller());
    OwnHandler { identity, declared, caller, handler: Box::new(handler), reason }
}

/// Boxes a closure.
pub(crate) fn answering<P, R, F, Fut>(answer: F) -> Answering<P, R>
where
    F: Fn(InputContext<P>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, RpcError>> + Send + 'static,
{
    Arc::new(move |context| Box::pin(answer(context)))
}

impl HandlerSet {
    /// Returns true if no handler and no closure is set.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { elicit, elicit_url, sample, samples_with_tools: _, roots, other, handler, .. } = self;
        let Self { roots_of_call, relay_of_call, .. } = self;
        let has_closure = elicit.is_some() || elicit_url.is_some() || sample.is_some() || other.is_some();
        let has_handler_of_call = roots_of_call.is_some() || relay_of_call.is_some();
        !has_closure && roots.is_none() && !has_handler_of_call && handler.is_none()
    }

    /// Returns the handlers during a call: the handler of the call answers the requests that it declares.
    pub(crate) fn during(&self, call: Option<&RunningCall>) -> Self {
        let mut handlers = self.clone();
        let own = call.and_then(RunningCall::own);
        let Some((own, declared)) =
            own.and_then(|own| Some((own.handler.downcast_ref::<Arc<dyn Handler>>()?, &own.declared)))
        else {
            return handlers;
        };
        handlers.relay_of_call = own.relays().then(|| Arc::clone(own));
        if declared.supports_form_elicitation() {
            let own = Arc::clone(own);
            handlers.elicit = Some(answering(move |context| {
                let own = Arc::clone(&own);
                async move { own.elicit(context).await }
            }));
        }
        if declared.supports_url_elicitation() {
            let own = Arc::clone(own);
            handlers.elicit_url = Some(answering(move |context| {
                let own = Arc::clone(&own);
                async move { own.elicit_url(context).await }
            }));
        }
        if declared.supports_sampling() {
            handlers.samples_with_tools = declared.supports_sampling_tools();
            let own = Arc::clone(own);
            handlers.sample = Some(answering(move |context| {
                let own = Arc::clone(&own);
                async move { own.sample(context).await }
            }));
        }
        if declared.supports_roots() {
            handlers.roots_of_call = Some(Arc::clone(own));
        }
        handlers
    }

    /// Returns the handler that answers an input request as JSON. Closures of the builder take precedence over a handler.
    pub(crate) fn relay(
        &self,
        declares: fn(&ClientCapabilities) -> bool,
        has_closure: bool,
    ) -> Option<&Arc<dyn Handler>> {
        let of_call = self.relay_of_call.as_ref().filter(|handler| declares(&handler.capabilities()));
        let of_client = || self.handler.as_ref().filter(|handler| !has_closure && handler.relays());
        of_call.or_else(of_client)
    }

    /// Returns the capabilities of all handlers, in the newest form.
    pub(crate) fn capabilities(&self) -> ClientCapabilities {
        let mut capabilities = self.handler.as_ref().map(|handler| handler.capabilities()).unwrap_or_default();
        let elicitation = match (self.elicit.is_some(), self.elicit_url.is_some()) {
            (true, true) => Some(ElicitationCapability::form_and_url()),
            // The empty form has the same meaning, and older servers can read it.
            (true, false) => Some(ElicitationCapability::new()),
            (false, true) => Some(ElicitationCapability::url()),
            (false, false) => None,
        };
        if let Some(elicitation) = elicitation {
            match &mut capabilities.elicitation {
                Some(declared) => {
                    // A closure for one mode must not remove the other mode of the handler.
                    let has_form = declared.has_form() || elicitation.has_form();
                    declared.url = declared.url.take().or(elicitation.url);
                    declared.form = (has_form && declared.url.is_some()).then(JsonObject::new);
                }
                none => *none = Some(elicitation),
            }
        }
        if self.sample.is_some() {
            let sampling = SamplingCapability::new();
            capabilities.sampling = Some(if self.samples_with_tools { sampling.with_tools() } else { sampling });
        }
        if self.roots.is_some() {
            let mut roots = RootsCapability::new();
            roots.list_changed = Some(true);
            capabilities.roots = Some(roots);
        } else if self.roots_of_call.is_some() {
            capabilities.roots.get_or_insert_default();
        }
        capabilities
    }

    /// Prepares a request of the server, to be answered within a time limit.
    pub(crate) fn request(
        &self,
        method: &str,
        params: Option<&RawValue>,
        source: RequestSource,
        limit: std::time::Duration,
    ) -> ServerRequest {
        ServerRequest::new(self.clone(), method, params, source, limit)
    }
}

impl std::fmt::Debug for HandlerSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HandlerSet").field("capabilities", &self.capabilities()).finish_non_exhaustive()
    }
}
