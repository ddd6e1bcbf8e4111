//! The application that contains the server: an axum router with other routes.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, StatusCode},
    middleware::{Next, from_fn_with_state},
    response::Response,
    routing::get,
};
use mcp_server::prelude::{HttpConfig, HttpServer, Principal, Server};

/// Returns the application. Only callers with the token reach the MCP server.
pub fn app(server: Server, config: HttpConfig, token: Arc<str>) -> Router {
    let mcp = server.clone().into_router(config).route_layer(from_fn_with_state(token, authenticate));
    let health = async move || if server.is_shutting_down() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    Router::new().route("/", get(async || "The application works.")).route("/health", get(health)).merge(mcp)
}

async fn authenticate(State(token): State<Arc<str>>, mut request: Request, next: Next) -> Result<Response, StatusCode> {
    let user = user_of(request.headers(), &token).ok_or(StatusCode::UNAUTHORIZED)?;
    request.extensions_mut().insert(Principal::new(user));
    Ok(next.run(request).await)
}

/// Returns the user of a request. Replace this function by the check of your application.
fn user_of(headers: &HeaderMap, token: &str) -> Option<String> {
    let sent = headers.get("authorization")?.to_str().ok()?.strip_prefix("Bearer ")?;
    (sent == token).then(|| "ada".to_owned())
}
