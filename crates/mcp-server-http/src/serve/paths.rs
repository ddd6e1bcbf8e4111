//! The endpoint on our listener: only the configured paths exist.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use http::{Request, Response, StatusCode};
use mcp_http_listener::RequestBody;
use mcp_protocol::RpcError;

use crate::{
    Body, McpService,
    answer::{access::AccessRecord, cors, respond, vectored::VectoredBody},
    request::guard,
};

/// The endpoint on our listener, where only the configured paths exist.
#[derive(Clone)]
pub(super) struct ConfiguredPaths(pub(super) McpService);

impl ConfiguredPaths {
    async fn answer(&self, request: Request<RequestBody>) -> Response<Body> {
        let endpoint = &self.0.inner.endpoint;
        let (requested, path) = (request.uri().path(), &*endpoint.config.path);
        let is_metadata = endpoint.auth.metadata(requested).is_some();
        if is_metadata || requested == path || endpoint.config.other_paths().any(|other| other == requested) {
            return self.0.handle(request).await;
        }
        let access = AccessRecord::start(&request);
        let mut refused = endpoint.admit(&request).err().unwrap_or_else(|| {
            let error = RpcError::invalid_request(format!("the endpoint is {path}"));
            let mut refused = respond::refusal(StatusCode::NOT_FOUND, &error);
            cors::share(&mut refused, guard::origin_of(request.headers()).cloned());
            refused
        });
        access.finish(&mut refused);
        refused
    }
}

impl tower_service::Service<Request<RequestBody>> for ConfiguredPaths {
    type Response = Response<VectoredBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<VectoredBody>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        // Boxed, because this future is large, and an answer that streams would keep its memory.
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request).await.map(VectoredBody)) })
    }
}
