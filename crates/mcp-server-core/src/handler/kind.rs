//! The kinds of handlers.

use mcp_protocol::{CallToolResult, Completion, GetPromptResult, ReadResourceResult};

mod sealed {
    #[expect(unnameable_types, reason = "the set of kinds is closed")]
    pub trait Sealed {
        /// Whether a call completes an argument.
        const COMPLETES: bool;
        /// Whether a call reads a URI.
        const READS: bool;
    }
}

/// The kind of a handler: it serves a tool, a resource, a prompt or a completion.
///
/// ```
/// use mcp_server_core::{Handler, Kind, PromptKind, ResourceKind, ToolKind};
///
/// /// Accepts a handler of any kind without state.
/// fn check<K: Kind, M>(_handler: impl Handler<M, (), K>) {}
///
/// async fn greet() -> String {
///     "Hello!".to_owned()
/// }
///
/// // One function can serve a tool, a resource and a prompt.
/// check::<ToolKind, _>(greet);
/// check::<ResourceKind, _>(greet);
/// check::<PromptKind, _>(greet);
/// ```
pub trait Kind: sealed::Sealed + Send + Sync + 'static {
    /// The final output of the handlers.
    type Output: Send + 'static;
}

macro_rules! kind {
    ($(#[$doc:meta])* $name:ident => $output:ty, completes: $completes:literal, reads: $reads:literal) => {
        $(#[$doc])*
        #[derive(Debug)]
        #[expect(clippy::exhaustive_enums, reason = "a marker that has no values")]
        pub enum $name {}
        impl sealed::Sealed for $name {
            const COMPLETES: bool = $completes;
            const READS: bool = $reads;
        }
        impl Kind for $name {
            type Output = $output;
        }
    };
}

kind! {
    /// Handlers of tools.
    ToolKind => CallToolResult, completes: false, reads: false
}
kind! {
    /// Handlers of resources and resource templates.
    ResourceKind => ReadResourceResult, completes: false, reads: true
}
kind! {
    /// Handlers of prompts.
    PromptKind => GetPromptResult, completes: false, reads: false
}
kind! {
    /// Handlers that complete an argument.
    CompletionKind => Completion, completes: true, reads: false
}
