//! The kinds of handlers.

use mcp_protocol::{CallToolResult, Completion, GetPromptResult, ReadResourceResult};

mod sealed {
    #[expect(unnameable_types, reason = "the set of kinds is closed")]
    pub trait Sealed {}
}

/// The kind of a handler: it serves a tool, a resource, a prompt or a completion.
pub trait Kind: sealed::Sealed + Send + Sync + 'static {
    /// The final output of the handlers.
    type Output: Send + 'static;
}

macro_rules! kind {
    ($(#[$doc:meta])* $name:ident => $output:ty) => {
        $(#[$doc])*
        #[derive(Debug)]
        #[expect(clippy::exhaustive_enums, reason = "a marker that has no values")]
        pub enum $name {}
        impl sealed::Sealed for $name {}
        impl Kind for $name {
            type Output = $output;
        }
    };
}

kind! {
    /// Handlers of tools.
    ToolKind => CallToolResult
}
kind! {
    /// Handlers of resources and resource templates.
    ResourceKind => ReadResourceResult
}
kind! {
    /// Handlers of prompts.
    PromptKind => GetPromptResult
}
kind! {
    /// Handlers that complete an argument.
    CompletionKind => Completion
}
