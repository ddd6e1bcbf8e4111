//! The call that a policy decides.

use std::fmt;

use mcp_protocol::{JsonObject, Principal, ToolAnnotations};

/// The kind of a call.
///
/// ```
/// use mcp_agent::policy::{Action, PolicyInput};
///
/// assert_eq!(PolicyInput::new("github", "push").action, Action::CallTool);
/// assert_eq!(PolicyInput::resource("files", "file:///notes.md").action, Action::ReadResource);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// The call of a tool.
    #[default]
    CallTool,
    /// The read of a resource.
    ReadResource,
    /// The request of a prompt.
    GetPrompt,
}

/// Returns the identity of an authenticated caller in policies, events and keys: its subject, and its issuer if it has one.
///
/// ```
/// use mcp_agent::policy::identity;
/// use mcp_client::protocol::Principal;
///
/// let mut caller = Principal::new("ada");
/// assert_eq!(identity(&caller), "ada");
/// caller.issuer = Some("https://idp.example.com".to_owned());
/// assert_eq!(identity(&caller), "ada@https://idp.example.com");
/// ```
#[must_use]
pub fn identity(principal: &Principal) -> String {
    match &principal.issuer {
        Some(issuer) => format!("{}@{issuer}", principal.subject),
        None => principal.subject.clone(),
    }
}

/// A call before it runs: the input of policies and hooks.
///
/// The debug text contains no arguments, because they may be secret.
///
/// ```
/// use mcp_agent::policy::PolicyInput;
///
/// let input = PolicyInput::new("github", "push_files").principal("ada");
/// assert_eq!(input.principal.as_deref(), Some("ada"));
/// ```
#[derive(Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct PolicyInput {
    /// The kind of the call.
    pub action: Action,
    /// The name of the server.
    pub server: String,
    /// The name of the tool or the prompt at the server, or the URI of the resource.
    pub tool: String,
    /// The annotations of the tool.
    pub annotations: Option<ToolAnnotations>,
    /// The identity of the caller, if there is one.
    pub principal: Option<String>,
    /// The arguments of the call. Rules do not read them; hooks and approvers can.
    pub arguments: JsonObject,
    /// The request completes an argument of the prompt or a variable of the resource. The rules are those of the item.
    pub is_completion: bool,
}

impl PolicyInput {
    /// Returns a call without annotations, principal and arguments.
    #[must_use]
    pub fn new(server: impl Into<String>, tool: impl Into<String>) -> Self {
        Self { server: server.into(), tool: tool.into(), ..Self::default() }
    }

    /// Returns the read of a resource.
    #[must_use]
    pub fn resource(server: impl Into<String>, uri: impl Into<String>) -> Self {
        Self { action: Action::ReadResource, ..Self::new(server, uri) }
    }

    /// Returns the request of a prompt.
    #[must_use]
    pub fn prompt(server: impl Into<String>, name: impl Into<String>) -> Self {
        Self { action: Action::GetPrompt, ..Self::new(server, name) }
    }

    /// Sets the annotations of the tool.
    #[must_use]
    pub fn annotations(mut self, annotations: Option<ToolAnnotations>) -> Self {
        self.annotations = annotations;
        self
    }

    /// Sets the identity of the caller.
    #[must_use]
    pub fn principal(mut self, principal: impl Into<String>) -> Self {
        self.principal = Some(principal.into());
        self
    }

    /// Sets the arguments of the call.
    #[must_use]
    pub fn arguments(mut self, arguments: JsonObject) -> Self {
        self.arguments = arguments;
        self
    }

    /// Marks the request as a completion for the prompt or the resource.
    ///
    /// ```
    /// use mcp_agent::policy::{Action, PolicyInput};
    ///
    /// let input = PolicyInput::prompt("docs", "review").completion();
    /// assert_eq!((input.action, input.is_completion), (Action::GetPrompt, true));
    /// ```
    #[must_use]
    pub fn completion(mut self) -> Self {
        self.is_completion = true;
        self
    }
}

impl fmt::Debug for PolicyInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyInput")
            .field("action", &self.action)
            .field("server", &self.server)
            .field("tool", &self.tool)
            .field("annotations", &self.annotations)
            .field("principal", &self.principal)
            .field("arguments", &self.arguments.len())
            .field("is_completion", &self.is_completion)
            .finish()
    }
}
