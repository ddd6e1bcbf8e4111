//! Extractors for the surroundings of a call: state, extensions, the principal, the metadata.

use mcp_protocol::{Meta, Principal, RpcError};

use super::{CallParts, Description, FromCallParts, ToolError};
use crate::{
    context::{Cancelled, Completing, Context, Progress, ResourceUri},
    error::Fault,
};

/// A part of a larger state. Every state is a part of itself.
///
/// ```
/// use mcp_server_core::FromRef;
///
/// #[derive(Clone)]
/// struct App { greeting: String, limit: u32 }
///
/// #[derive(Clone)]
/// struct Limit(u32);
///
/// impl FromRef<App> for Limit {
///     fn from_ref(app: &App) -> Self {
///         Self(app.limit)
///     }
/// }
/// # assert_eq!(Limit::from_ref(&App { greeting: String::new(), limit: 3 }).0, 3);
/// ```
#[diagnostic::on_unimplemented(
    message = "the state `{T}` of the server has no part `{Self}`",
    label = "a handler takes `State<{Self}>`",
    note = "`with_state` must receive the type that the handlers take; call it after the handlers and before `build`",
    note = "for a part of a larger state: `impl FromRef<{T}> for {Self}`",
    note = "the rules of handlers: `docs/handlers.md` of the library, and the documentation of `mcp_server::check`"
)]
pub trait FromRef<T> {
    /// Clones the part.
    fn from_ref(whole: &T) -> Self;
}

impl<T: Clone> FromRef<T> for T {
    fn from_ref(whole: &T) -> Self {
        whole.clone()
    }
}

/// Extracts the state of the server ([`ServerBuilder::with_state`](crate::ServerBuilder::with_state)), or a part of it
/// ([`FromRef`]).
///
/// ```
/// use mcp_server_core::{Server, State, tool};
///
/// let server = Server::builder("greeter", "1.0.0")
///     .tool(tool("greet", async |State(greeting): State<String>| greeting))
///     .with_state("Hello!".to_owned())
///     .build();
/// # let _: Server = server;
/// ```
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::exhaustive_structs, reason = "made to be taken apart in a handler's arguments")]
pub struct State<T>(pub T);

impl<S: Send + Sync, T: FromRef<S>> FromCallParts<S> for State<T> {
    async fn from_call_parts(_parts: &mut CallParts, state: &S) -> Result<Self, ToolError> {
        Ok(Self(T::from_ref(state)))
    }
}

/// Extracts a value that the transport or a middleware attached to the request, such as HTTP headers.
///
/// Use `Option<Extension<T>>` if the value may be missing.
///
/// ```
/// use std::sync::Arc;
///
/// use mcp_server_core::{Extension, ToolRoute, tool};
///
/// #[derive(Clone)]
/// struct Tenant(Arc<str>);
///
/// let route: ToolRoute = tool("tenant", async |Extension(tenant): Extension<Tenant>| tenant.0.to_string());
/// # let _ = route;
/// ```
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::exhaustive_structs, reason = "made to be taken apart in a handler's arguments")]
pub struct Extension<T>(pub T);

impl<S: Send + Sync, T: Clone + Send + Sync + 'static> FromCallParts<S> for Extension<T> {
    async fn from_call_parts(parts: &mut CallParts, _state: &S) -> Result<Self, ToolError> {
        parts.context.extension::<T>().cloned().map(Extension).ok_or_else(|| {
            let event = "the request does not have the extension that a handler needs";
            let text = "the server is missing a part that this call needs";
            let fault = Fault::report(event, text, &std::any::type_name::<T>());
            ToolError::protocol(RpcError::internal(fault.text(parts.context.shows_faults())))
        })
    }
}

impl<S: Send + Sync, T: Clone + Send + Sync + 'static> FromCallParts<S> for Option<Extension<T>> {
    async fn from_call_parts(parts: &mut CallParts, _state: &S) -> Result<Self, ToolError> {
        Ok(parts.context.extension::<T>().cloned().map(Extension))
    }
}

impl<S: Send + Sync> FromCallParts<S> for Context {
    async fn from_call_parts(parts: &mut CallParts, _state: &S) -> Result<Self, ToolError> {
        Ok(parts.context.clone())
    }
}

impl<S: Send + Sync> FromCallParts<S> for Progress {
    async fn from_call_parts(parts: &mut CallParts, _state: &S) -> Result<Self, ToolError> {
        Ok(parts.context.progress())
    }
}

impl<S: Send + Sync> FromCallParts<S> for Cancelled {
    async fn from_call_parts(parts: &mut CallParts, _state: &S) -> Result<Self, ToolError> {
        Ok(parts.context.cancelled())
    }
}

/// Extracts the authenticated caller. Fails for an anonymous caller: use `Option<Principal>` to serve both.
impl<S: Send + Sync> FromCallParts<S> for Principal {
    async fn from_call_parts(parts: &mut CallParts, _state: &S) -> Result<Self, ToolError> {
        parts
            .context
            .principal()
            .cloned()
            .ok_or_else(|| ToolError::protocol(RpcError::invalid_request("this call needs an authenticated caller")))
    }
}

impl<S: Send + Sync> FromCallParts<S> for Option<Principal> {
    async fn from_call_parts(parts: &mut CallParts, _state: &S) -> Result<Self, ToolError> {
        Ok(parts.context.principal().cloned())
    }
}

/// Extracts `_meta` of the request. It is empty if the request has none.
impl<S: Send + Sync> FromCallParts<S> for Meta {
    async fn from_call_parts(parts: &mut CallParts, _state: &S) -> Result<Self, ToolError> {
        Ok(parts.context.meta().clone())
    }
}

/// Extracts the text to complete. Only completion handlers have it.
impl<S: Send + Sync> FromCallParts<S> for Completing {
    fn describe(description: &mut Description) {
        description.takes_completing = true;
    }

    async fn from_call_parts(parts: &mut CallParts, _state: &S) -> Result<Self, ToolError> {
        let completing = parts.context.extension::<Self>().cloned();
        completing.ok_or_else(|| ToolError::protocol(RpcError::internal("the handler is not a completion handler")))
    }
}

/// Extracts the URI of the resource. Only resource handlers have it.
impl<S: Send + Sync> FromCallParts<S> for ResourceUri {
    fn describe(description: &mut Description) {
        description.takes_resource_uri = true;
    }

    async fn from_call_parts(parts: &mut CallParts, _state: &S) -> Result<Self, ToolError> {
        let uri = parts.context.extension::<Self>().cloned();
        uri.ok_or_else(|| ToolError::protocol(RpcError::internal("the handler is not a resource handler")))
    }
}
