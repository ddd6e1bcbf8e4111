//! The address of the peer in the extensions of each request.

use std::{
    net::SocketAddr,
    task::{Context, Poll},
};

use http::Request;
use tower_service::Service;

/// The address from which a request came, in the extensions of the request.
///
/// The listener adds it with [`Serve::peer_addresses`](crate::Serve::peer_addresses). An application on another listener adds it
/// itself. Behind a proxy the address of the connection is the one of the proxy. The application must then read the client's
/// address from a header that the proxy sets, and only from a proxy that it trusts.
///
/// ```
/// use axum::{Router, extract::Request, middleware::map_request};
/// use mcp_http_listener::PeerAddr;
///
/// /// Adds the address that the proxy writes into `X-Real-IP`. Clients must not reach the server without the proxy.
/// async fn with_peer(mut request: Request) -> Request {
///     let address = request.headers().get("x-real-ip").and_then(|value| value.to_str().ok()?.parse().ok());
///     if let Some(ip) = address {
///         request.extensions_mut().insert(PeerAddr(std::net::SocketAddr::new(ip, 0)));
///     }
///     request
/// }
///
/// let app: Router = Router::new().layer(map_request(with_peer));
/// # let _ = app;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "applications construct it, and an address is all that it has")]
pub struct PeerAddr(pub SocketAddr);

/// Adds a value of the connection to each request, such as the address of the peer.
#[derive(Clone)]
pub(crate) struct WithExtension<S, E> {
    pub(crate) service: S,
    pub(crate) extension: Option<E>,
}

impl<S: Service<Request<B>>, B, E: Clone + Send + Sync + 'static> Service<Request<B>> for WithExtension<S, E> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        if let Some(extension) = &self.extension {
            request.extensions_mut().insert(extension.clone());
        }
        self.service.call(request)
    }
}
