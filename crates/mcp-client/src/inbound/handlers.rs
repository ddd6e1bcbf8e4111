//! Who answers when the server asks: the user, the model, the roots. What is set is what the client says it can do.

use std::sync::Arc;

use mcp_protocol::{
    ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitResult, ElicitationCapability,
    FormElicitParams, JsonObject, Root, RootsCapability, RpcError, SamplingCapability, UrlElicitParams,
};
use mcp_transport::BoxFuture;
use serde_json::{Value, value::RawValue};

use super::{InputContext, RawRequest, RequestSource, Roots, ServerRequest, server_request::refuse};

/// Answers what a server asks. Every method has a default that refuses; [`Handler::capabilities`] says which ones are real.
///
/// Closures do the same for who needs one of them only: [`ClientBuilder::on_elicit`](crate::ClientBuilder::on_elicit) and its
/// neighbours, which go before the handler.
///
/// Each answer is made on a task of its own. The server may take its question back: the future is dropped then.
pub trait Handler: Send + Sync + 'static {
    /// What this handler can do, in the newest form.
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::new()
    }

    /// Asks the user to fill in a form. The user sees which server asks ([`InputContext::server`]), and can always decline.
    fn elicit(&self, asked: InputContext<FormElicitParams>) -> BoxFuture<'_, Result<ElicitResult, RpcError>> {
        drop(asked);
        Box::pin(std::future::ready(Err(refuse("elicitation/create"))))
    }

    /// Asks the user to visit a URL. The user sees it in full and agrees before anything opens it.
    fn elicit_url(&self, asked: InputContext<UrlElicitParams>) -> BoxFuture<'_, Result<ElicitResult, RpcError>> {
        drop(asked);
        Box::pin(std::future::ready(Err(refuse("elicitation/create"))))
    }

    /// Asks the model.
    fn sample(&self, asked: InputContext<CreateMessageParams>) -> BoxFuture<'_, Result<CreateMessageResult, RpcError>> {
        drop(asked);
        Box::pin(std::future::ready(Err(refuse("sampling/createMessage"))))
    }

    /// Lists the roots.
    fn list_roots(&self) -> BoxFuture<'_, Result<Vec<Root>, RpcError>> {
        Box::pin(std::future::ready(Err(refuse("roots/list"))))
    }

    /// Answers a request that the protocol does not know.
    fn request(&self, asked: InputContext<RawRequest>) -> BoxFuture<'_, Result<Value, RpcError>> {
        Box::pin(std::future::ready(Err(refuse(asked.method()))))
    }
}

type Answering<P, R> = Arc<dyn Fn(InputContext<P>) -> BoxFuture<'static, Result<R, RpcError>> + Send + Sync>;

/// Everybody who answers.
#[derive(Clone, Default)]
pub(crate) struct HandlerSet {
    pub(crate) elicit: Option<Answering<FormElicitParams, ElicitResult>>,
    pub(crate) elicit_url: Option<Answering<UrlElicitParams, ElicitResult>>,
    pub(crate) sample: Option<Answering<CreateMessageParams, CreateMessageResult>>,
    pub(crate) samples_with_tools: bool,
    pub(crate) roots: Option<Roots>,
    pub(crate) other: Option<Answering<RawRequest, Value>>,
    pub(crate) handler: Option<Arc<dyn Handler>>,
}

/// Makes an object of a closure.
pub(crate) fn answering<P, R, F, Fut>(answer: F) -> Answering<P, R>
where
    F: Fn(InputContext<P>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, RpcError>> + Send + 'static,
{
    Arc::new(move |asked| Box::pin(answer(asked)))
}

impl HandlerSet {
    /// What they can do, in the newest form.
    pub(crate) fn capabilities(&self) -> ClientCapabilities {
        let mut capabilities = self.handler.as_ref().map(|handler| handler.capabilities()).unwrap_or_default();
        let elicitation = match (self.elicit.is_some(), self.elicit_url.is_some()) {
            (true, true) => Some(ElicitationCapability::form_and_url()),
            // The bare form says the same, and older servers read it too.
            (true, false) => Some(ElicitationCapability::new()),
            (false, true) => Some(ElicitationCapability::url()),
            (false, false) => None,
        };
        if let Some(elicitation) = elicitation {
            match &mut capabilities.elicitation {
                Some(declared) => {
                    // A mode of the handler is not lost when a closure takes the other one.
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
        }
        capabilities
    }

    /// A question, ready to be answered within a limit.
    pub(crate) fn request(
        &self,
        method: &str,
        params: Option<&RawValue>,
        asker: RequestSource,
        limit: std::time::Duration,
    ) -> ServerRequest {
        ServerRequest::new(self.clone(), method, params, asker, limit)
    }
}

impl std::fmt::Debug for HandlerSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HandlerSet").field("capabilities", &self.capabilities()).finish_non_exhaustive()
    }
}
