//! The extractors of values that a request names: the argument of a completion and the URI of a read.

/// The argument that a completion handler completes.
///
/// ```
/// use mcp_server_core::{Completing, PromptRoute, prompt};
///
/// let route: PromptRoute = prompt("review", async || "Review my code.")
///     .complete("language", async |completing: Completing| vec![format!("{}ust", completing.value)]);
/// # let _ = route;
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Completing {
    /// The name of the argument or variable.
    pub argument: String,
    /// The text that the user typed so far.
    pub value: String,
    /// The other arguments that have a value already (2025-06-18 and later).
    pub context: std::collections::BTreeMap<String, String>,
}

/// The URI of a read, for handlers of resources and resource templates.
///
/// ```
/// use mcp_server_core::{ResourceUri, TemplateRoute, template};
///
/// let route: TemplateRoute = template("notes://{date}", async |ResourceUri(uri): ResourceUri| format!("read {uri}"));
/// # let _ = route;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "made to be taken apart in a handler's arguments")]
pub struct ResourceUri(pub String);
