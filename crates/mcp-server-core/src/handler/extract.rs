//! Extractors that read what surrounds a call: state, extensions, the principal, the metadata.

use mcp_protocol::{Meta, Principal, RpcError};

use super::{CallParts, FromCallParts, ToolError};
use crate::context::{Cancelled, Completing, Context, Progress, ResourceUri};

/// A part of a larger state. Every state is a part of itself.
pub trait FromRef<T> {
    /// The part, cloned out of the whole.
    fn from_ref(whole: &T) -> Self;
}

impl<T: Clone> FromRef<T> for T {
    fn from_ref(whole: &T) -> Self {
        whole.clone()
    }
}

/// The state that the server was given by `with_state`, or a part of it ([`FromRef`]).
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::exhaustive_structs, reason = "made to be taken apart in a handler's arguments")]
pub struct State<T>(pub T);

impl<S: Send + Sync, T: FromRef<S>> FromCallParts<S> for State<T> {
    async fn from_call_parts(_parts: &mut CallParts, state: &S) -> Result<Self, ToolError> {
        Ok(Self(T::from_ref(state)))
    }
}

/// A value that the transport or a layer attached to the request, such as HTTP headers.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::exhaustive_structs, reason = "made to be taken apart in a handler's arguments")]
pub struct Extension<T>(pub T);

impl<S: Send + Sync, T: Clone + Send + Sync + 'static> FromCallParts<S> for Extension<T> {
    async fn from_call_parts(parts: &mut CallParts, _state: &S) -> Result<Self, ToolError> {
        parts.context.extension::<T>().cloned().map(Extension).ok_or_else(|| {
            tracing::error!(
                r#type = std::any::type_name::<T>(),
                "a handler asks for an extension that nobody attached"
            );
            ToolError::protocol(RpcError::internal("the server is missing a part that this call needs"))
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

/// Who calls. Fails when nobody was authenticated; take `Option<Principal>` to serve both.
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

/// The `_meta` that came with the request; empty when there was none.
impl<S: Send + Sync> FromCallParts<S> for Meta {
    async fn from_call_parts(parts: &mut CallParts, _state: &S) -> Result<Self, ToolError> {
        Ok(parts.context.meta().clone())
    }
}

/// What is to be completed; only handlers of completions have it.
impl<S: Send + Sync> FromCallParts<S> for Completing {
    async fn from_call_parts(parts: &mut CallParts, _state: &S) -> Result<Self, ToolError> {
        let completing = parts.context.extension::<Self>().cloned();
        completing.ok_or_else(|| ToolError::protocol(RpcError::internal("this handler completes nothing")))
    }
}

/// The URI that is read; only handlers of resources have it.
impl<S: Send + Sync> FromCallParts<S> for ResourceUri {
    async fn from_call_parts(parts: &mut CallParts, _state: &S) -> Result<Self, ToolError> {
        let uri = parts.context.extension::<Self>().cloned();
        uri.ok_or_else(|| ToolError::protocol(RpcError::internal("this handler reads no resource")))
    }
}
