//! The status route: a document of the application.

use std::{fmt, sync::Arc};

use mcp_protocol::Principal;
use serde_json::Value;

use super::{HttpConfig, path::absolute};

/// Returns the document for a caller.
type Document = dyn Fn(Option<&Principal>) -> Option<Value> + Send + Sync;

/// The path of the status, and its document.
#[derive(Clone)]
pub(crate) struct StatusRoute {
    pub(crate) path: String,
    pub(crate) document: Arc<Document>,
}

impl fmt::Debug for StatusRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatusRoute").field("path", &self.path).finish_non_exhaustive()
    }
}

impl HttpConfig {
    /// Answers GET and HEAD at this path with a JSON document of the application. Off by default.
    ///
    /// The checks of a request for the endpoint hold for these requests too: `Host`, `Origin`, the authentication of the caller,
    /// and the scopes of the server. The function receives the principal of the caller. If it returns `None`, the answer is 403.
    /// It runs for each request, so it must not block.
    ///
    /// ```
    /// use mcp_server_http::HttpConfig;
    ///
    /// let config = HttpConfig::new().status("/status", |caller| {
    ///     let is_operator = caller.is_none_or(|caller| caller.scopes.contains("operate"));
    ///     is_operator.then(|| serde_json::json!({ "jobs": 3 }))
    /// });
    /// # let _ = config;
    /// ```
    ///
    /// The rules for the path are those of [`path`](Self::path).
    #[must_use]
    pub fn status(
        mut self,
        path: impl Into<String>,
        document: impl Fn(Option<&Principal>) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        match absolute("status", path.into()) {
            Ok(path) => self.status = Some(StatusRoute { path, document: Arc::new(document) }),
            Err(fault) => return self.invalid(fault),
        }
        self
    }
}
