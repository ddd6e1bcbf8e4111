//! The caller on a connection or in a session.

use std::{fmt, sync::Arc};

use mcp_protocol::Principal;

use super::Scope;
use crate::{context::Extensions, tasks::Owner};

/// The caller on a connection or in a session, for [`Server::serve_as`](crate::Server::serve_as) and for transports.
///
/// # Example
/// ```
/// use std::sync::Arc;
///
/// use mcp_protocol::Principal;
/// use mcp_server_core::{Caller, Extensions};
///
/// let mut extensions = Extensions::default();
/// extensions.insert("10.0.0.7".parse::<std::net::IpAddr>()?);
/// let caller = Caller::remote()
///     .principal(Some(Arc::new(Principal::new("alice"))))
///     .extensions(extensions)
///     .session_id("c41f");
/// // The debug text has no session id.
/// assert!(!format!("{caller:?}").contains("c41f"));
/// let local = Caller::local();
/// # let _ = local;
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Default)]
pub struct Caller {
    is_local: bool,
    principal: Option<Arc<Principal>>,
    extensions: Extensions,
    session_id: Option<Box<str>>,
}

impl Caller {
    /// The process's own client (stdio, in memory). Scopes do not apply to it.
    #[must_use]
    pub fn local() -> Self {
        Self { is_local: true, ..Self::default() }
    }

    /// A network caller without authentication.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn remote() -> Self {
        Self::default()
    }

    /// Sets the authenticated principal.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn principal(mut self, principal: Option<Arc<Principal>>) -> Self {
        self.principal = principal;
        self
    }

    /// Sets values for the `Extension` extractor of every call on the connection.
    #[must_use]
    pub fn extensions(mut self, extensions: Extensions) -> Self {
        self.extensions = extensions;
        self
    }

    /// Sets the transport's id of the connection, for [`Context::session_id`](crate::Context::session_id).
    #[must_use]
    pub fn session_id(mut self, id: impl Into<Box<str>>) -> Self {
        self.session_id = Some(id.into());
        self
    }

    pub(crate) fn id(&self) -> Option<Box<str>> {
        self.session_id.clone()
    }

    pub(crate) fn authenticated(&self) -> Option<&Principal> {
        self.principal.as_deref()
    }

    pub(crate) fn is_local(&self) -> bool {
        self.is_local
    }

    /// Whether the caller can be distinguished from other callers.
    pub(crate) fn is_one(&self) -> bool {
        Owner::of(self.principal.as_deref(), self.is_local).is_one()
    }

    /// Returns a scope with the data of this caller.
    #[doc(hidden)]
    #[must_use]
    pub fn scope(&self, scope: Scope) -> Scope {
        let scope = scope.principal(self.principal.clone()).extensions(self.extensions.clone());
        if self.is_local { scope.local() } else { scope }
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The id is a secret of the session, so it is not printed.
        f.debug_struct("Caller").field("is_local", &self.is_local).finish_non_exhaustive()
    }
}
