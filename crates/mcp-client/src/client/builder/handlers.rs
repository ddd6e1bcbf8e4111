//! The setters for handlers of server requests and for callbacks of notifications.

use std::sync::Arc;

use mcp_protocol::{
    CreateMessageParams, CreateMessageResult, ElicitResult, FormElicitParams, NotificationMethod, Root, RpcError,
    UrlElicitParams,
};
use serde_json::Value;

use super::ClientBuilder;
use crate::{
    Handler, InputContext, Notification, RawRequest, Roots,
    inbound::{HandlerSet, answering},
};

impl ClientBuilder {
    /// Sets the handler that lets the user fill in a form. The client adds default values for missing fields, and does
    /// not send an answer that does not fit the form.
    ///
    /// Show the user which server asks ([`InputContext::server`]), and let the user decline.
    ///
    /// ```
    /// use mcp_client::{Client, InputContext, protocol::{ElicitResult, FormElicitParams, JsonObject}};
    ///
    /// let builder = Client::builder("my-app", "1.0").on_elicit(async |form: InputContext<FormElicitParams>| {
    ///     println!("{}: {}", form.server().name, form.message);
    ///     Ok(ElicitResult::accept(JsonObject::new().with("name", "Ada")))
    /// });
    /// ```
    pub fn on_elicit<F, Fut>(mut self, answer: F) -> Self
    where
        F: Fn(InputContext<FormElicitParams>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ElicitResult, RpcError>> + Send + 'static,
    {
        self.handlers.elicit = Some(answering(answer));
        self
    }

    /// Sets the handler that lets the user visit a URL. Show the user the whole URL, and open it only with consent.
    ///
    /// See the [example](Self#example).
    pub fn on_elicit_url<F, Fut>(mut self, answer: F) -> Self
    where
        F: Fn(InputContext<UrlElicitParams>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ElicitResult, RpcError>> + Send + 'static,
    {
        self.handlers.elicit_url = Some(answering(answer));
        self
    }

    /// Sets the handler that samples from a model, without tools.
    ///
    /// See the [example](Self#example).
    pub fn on_sample<F, Fut>(mut self, answer: F) -> Self
    where
        F: Fn(InputContext<CreateMessageParams>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<CreateMessageResult, RpcError>> + Send + 'static,
    {
        self.handlers.sample = Some(answering(answer));
        self
    }

    /// Sets the handler that samples from a model, which can be given tools (2025-11-25).
    ///
    /// ```
    /// use mcp_client::{Client, protocol::RpcError};
    ///
    /// let builder = Client::builder("my-app", "1.0").on_sample_with_tools(async |request| {
    ///     println!("{} tools", request.tools.as_ref().map_or(0, Vec::len));
    ///     Err(RpcError::internal("no model"))
    /// });
    /// ```
    pub fn on_sample_with_tools<F, Fut>(mut self, answer: F) -> Self
    where
        F: Fn(InputContext<CreateMessageParams>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<CreateMessageResult, RpcError>> + Send + 'static,
    {
        self.handlers.samples_with_tools = true;
        self.on_sample(answer)
    }

    /// Sets the roots: the `file://` URIs in which servers may work. [`Client::roots`](crate::Client::roots) changes them later.
    ///
    /// See the [example](Self#example).
    pub fn roots(mut self, roots: impl IntoIterator<Item = Root>) -> Self {
        match Roots::new(roots) {
            Ok(roots) => self.handlers.roots = Some(roots),
            Err(error) => drop(self.error.get_or_insert(error)),
        }
        self
    }

    /// Sets the handler for requests that the protocol does not define.
    ///
    /// See the [example](Self#example).
    pub fn on_request<F, Fut>(mut self, answer: F) -> Self
    where
        F: Fn(InputContext<RawRequest>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Value, RpcError>> + Send + 'static,
    {
        self.handlers.other = Some(answering(answer));
        self
    }

    /// Sets the handler for all requests that have no closure.
    ///
    /// ```
    /// use mcp_client::{Client, Handler};
    ///
    /// struct NoAnswers;
    ///
    /// impl Handler for NoAnswers {}
    ///
    /// let builder = Client::builder("my-app", "1.0").handler(NoAnswers);
    /// ```
    pub fn handler(mut self, handler: impl Handler) -> Self {
        self.handlers.handler = Some(Arc::new(handler));
        self
    }

    /// Sets the handler for all requests, and removes the closures that were set before. The client declares the capabilities of
    /// this handler only.
    ///
    /// ```
    /// use mcp_client::{Client, Handler};
    ///
    /// struct NoAnswers;
    ///
    /// impl Handler for NoAnswers {}
    ///
    /// let builder = Client::builder("my-app", "1.0").roots([]).only_handler(NoAnswers);
    /// ```
    pub fn only_handler(mut self, handler: impl Handler) -> Self {
        self.handlers = HandlerSet { handler: Some(Arc::new(handler)), ..HandlerSet::default() };
        self
    }

    /// Returns true if the builder has a handler or a closure for requests of the server.
    ///
    /// ```
    /// use mcp_client::{Client, protocol::RpcError};
    ///
    /// let builder = Client::builder("my-app", "1.0");
    /// assert!(!builder.has_handlers());
    /// assert!(builder.on_sample(async |_request| Err(RpcError::internal("no model"))).has_handlers());
    /// ```
    #[must_use]
    pub fn has_handlers(&self) -> bool {
        !self.handlers.is_empty()
    }

    /// Calls `callback` with each notification, one at a time. See also [`Client::notifications`](crate::Client::notifications).
    ///
    /// See the [example](Self#example).
    pub fn on_notification(mut self, callback: impl FnMut(&Notification) + Send + 'static) -> Self {
        self.callbacks.all.push(Box::new(callback));
        self
    }

    /// Calls `callback` with the parameters of each notification of one type. Invalid notifications are logged and
    /// skipped.
    ///
    /// In 2026-07-28 the client subscribes to changes of lists if a callback needs them. For changes of resources see
    /// [`Client::subscribe`](crate::Client::subscribe).
    ///
    /// ```
    /// use mcp_client::{Client, protocol::notification::LoggingMessage};
    ///
    /// let builder = Client::builder("my-app", "1.0").on::<LoggingMessage>(|message| println!("{:?}", message.data));
    /// ```
    pub fn on<N: NotificationMethod>(mut self, mut callback: impl FnMut(N::Params) + Send + 'static) -> Self {
        self.callbacks.want(N::NAME);
        self.on_notification(move |notification| match notification.params::<N>() {
            Some(Ok(params)) => callback(params),
            Some(Err(error)) => tracing::debug!(%error, "a notification has invalid parameters"),
            None => {}
        })
    }
}
