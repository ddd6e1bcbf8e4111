//! An axum application with users and a login of its own. Its MCP server serves the same users with the same tokens.
//!
//! ```text
//! cargo run -p axum-app
//! TOKEN=$(curl -s -X POST -u ada:lovelace http://127.0.0.1:8080/login)
//! curl -H "Authorization: Bearer $TOKEN" http://127.0.0.1:8080/notes
//! mcp call http://127.0.0.1:8080/mcp --header "Authorization: Bearer $TOKEN" add_note text=hello
//! ```

pub mod logins;
pub mod notes;

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use mcp_server::prelude::{HttpConfig, HttpServer as _, Server};

use self::{logins::Logins, notes::Notes};

/// The parts that the routes share.
#[derive(Clone)]
struct App {
    logins: Logins,
    notes: Notes,
}

/// Returns the application: its own routes, and the MCP server at `/mcp`.
///
/// # Panics
/// If the configuration of the endpoint is invalid.
pub fn app(server: Server, logins: Logins, notes: Notes, config: HttpConfig) -> Router {
    let mcp = server.into_router(config.authenticate(logins.authenticator()));
    Router::new()
        .route("/", get(async || "POST /login, GET /notes, POST /logout, and the MCP server at /mcp.\n"))
        .route("/login", post(log_in))
        .route("/logout", post(log_out))
        .route("/notes", get(list))
        .with_state(App { logins, notes })
        .merge(mcp)
}

async fn log_in(State(app): State<App>, headers: HeaderMap) -> Response {
    match app.logins.log_in(&headers).await {
        Ok(token) => token.into_response(),
        Err(rejection) => rejection.status().into_response(),
    }
}

async fn log_out(State(app): State<App>, headers: HeaderMap) -> StatusCode {
    match bearer(&headers) {
        Some(token) => {
            app.logins.log_out(token);
            StatusCode::NO_CONTENT
        }
        None => StatusCode::UNAUTHORIZED,
    }
}

async fn list(State(app): State<App>, headers: HeaderMap) -> Result<String, StatusCode> {
    let user = bearer(&headers).and_then(|token| app.logins.user(token)).ok_or(StatusCode::UNAUTHORIZED)?;
    Ok(app.notes.of(&user.subject).join("\n"))
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get("authorization")?.to_str().ok()?.strip_prefix("Bearer ")
}
