//! Who is on the other side of a connection that carries everything in one stream.

use std::{fmt, sync::Arc};

use mcp_protocol::Principal;

use super::Scope;
use crate::{context::Extensions, tasks::Owner};

/// Who is on the other side of a connection or opens a session, for [`Server::serve_as`](crate::Server::serve_as) and
/// [`Server::initialize`](crate::Server::initialize).
#[derive(Clone, Default)]
pub struct Caller {
    is_local: bool,
    principal: Option<Arc<Principal>>,
    extensions: Extensions,
    session_id: Option<Box<str>>,
}

impl Caller {
    /// Whoever owns the process (stdio, in memory): scopes do not apply to it.
    #[must_use]
    pub fn local() -> Self {
        Self { is_local: true, ..Self::default() }
    }

    /// Somebody on a network, of whom nothing is known.
    #[must_use]
    pub fn remote() -> Self {
        Self::default()
    }

    /// Who was authenticated when the connection was opened.
    #[must_use]
    pub fn principal(mut self, principal: Option<Arc<Principal>>) -> Self {
        self.principal = principal;
        self
    }

    /// Values for the `Extension` extractor of every call on the connection.
    #[must_use]
    pub fn extensions(mut self, extensions: Extensions) -> Self {
        self.extensions = extensions;
        self
    }

    /// The id that the transport has for the connection, for [`Context::session_id`](crate::Context::session_id).
    #[must_use]
    pub fn session_id(mut self, id: impl Into<Box<str>>) -> Self {
        self.session_id = Some(id.into());
        self
    }

    pub(crate) fn id(&self) -> Option<Box<str>> {
        self.session_id.clone()
    }

    pub(crate) fn is_local(&self) -> bool {
        self.is_local
    }

    /// Whether it can be told from other callers.
    pub(crate) fn is_one(&self) -> bool {
        Owner::of(self.principal.as_deref(), self.is_local).is_one()
    }

    /// The same request, of this caller.
    pub(crate) fn scope(&self, scope: Scope) -> Scope {
        let scope = scope.principal(self.principal.clone()).extensions(self.extensions.clone());
        if self.is_local { scope.local() } else { scope }
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The id lets its holder speak for the session, so it is not printed.
        f.debug_struct("Caller").field("is_local", &self.is_local).finish_non_exhaustive()
    }
}
