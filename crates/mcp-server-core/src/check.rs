//! Checks of handlers at compile time: the compiler names the part of a handler that breaks a rule.
//!
//! # The rules of handlers
//!
//! A handler serves a tool, a resource, a prompt or a completion. It is a function or a closure that follows these rules:
//!
//! 1. It is `async`, and its future is `Send`.
//! 2. It takes at most 8 arguments, and each argument is an extractor.
//! 3. It takes its typed arguments, [`Args<T>`](crate::Args) or [`RawArgs`](crate::RawArgs), once and **last**. `T` owns its
//!    values, and it implements `serde::Deserialize` and `schemars::JsonSchema`.
//! 4. It returns a type that its kind of handler supports, or a `Result` of this type. The error type converts into
//!    [`ToolError`](crate::ToolError).
//! 5. It is `Clone + Send + Sync + 'static`. Functions are. A closure is if its captured values are.
//!
//! [`tool`](crate::tool), [`resource`](crate::resource), [`template`](crate::template) and [`prompt`](crate::prompt) check
//! the same rules, at the place where a program creates the route. The functions of this module check a handler beside its
//! definition, and they check one part of a handler alone. They are `const` and do nothing at run time. [`form`] is the
//! exception: it checks the form of a question at run time, for unit tests.
//!
//! ```
//! use mcp_server_core::{Args, Progress, State, ToolError, ToolKind, check};
//!
//! #[derive(Clone)]
//! struct App;
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Query { text: String }
//!
//! async fn search(State(_app): State<App>, progress: Progress, Args(query): Args<Query>) -> Result<String, ToolError> {
//!     progress.report(1.0, None, None).await;
//!     Ok(query.text)
//! }
//!
//! // The whole handler, with the state of the server:
//! const _: () = check::tool::<App, _, _>(&search);
//! // Its parts:
//! const _: () = check::argument::<App, State<App>>();
//! const _: () = check::arguments::<Query>();
//! const _: () = check::output::<ToolKind, Result<String, ToolError>>();
//! ```

use mcp_schema::elicitation::{Form, FormError};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::handler::{
    CompletionKind, FromCall, FromCallParts, Handler, IntoOutput, Kind, PromptKind, ResourceKind, ToolKind, schema_of,
};

macro_rules! check_handler {
    ($(#[$doc:meta])* $name:ident, $kind:ident) => {
        $(#[$doc])*
        pub const fn $name<S, M, H: Handler<M, S, $kind>>(_handler: &H) {}
    };
}

check_handler! {
    /// Checks the handler of a tool. `S` is the state of the server, or `()`.
    ///
    /// ```
    /// use mcp_server_core::{Args, check};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Query { text: String }
    ///
    /// async fn search(Args(query): Args<Query>) -> String { query.text }
    ///
    /// const _: () = check::tool::<(), _, _>(&search);
    /// ```
    tool, ToolKind
}
check_handler! {
    /// Checks the handler of a resource or of a resource template. `S` is the state of the server, or `()`.
    ///
    /// ```
    /// use mcp_server_core::{Blob, ToolError, check};
    ///
    /// async fn logo() -> Result<Blob, ToolError> { Ok(Blob::new(vec![0x89, b'P', b'N', b'G'])) }
    ///
    /// const _: () = check::resource::<(), _, _>(&logo);
    /// ```
    resource, ResourceKind
}
check_handler! {
    /// Checks the handler of a prompt. `S` is the state of the server, or `()`.
    ///
    /// ```
    /// use mcp_protocol::PromptMessage;
    /// use mcp_server_core::check;
    ///
    /// async fn review() -> Vec<PromptMessage> { vec![PromptMessage::user("Review this code.")] }
    ///
    /// const _: () = check::prompt::<(), _, _>(&review);
    /// ```
    prompt, PromptKind
}
check_handler! {
    /// Checks the handler of a completion. `S` is the state of the server, or `()`.
    ///
    /// ```
    /// use mcp_server_core::check;
    ///
    /// async fn languages() -> Vec<String> { vec!["de".to_owned(), "en".to_owned()] }
    ///
    /// const _: () = check::completion::<(), _, _>(&languages);
    /// ```
    completion, CompletionKind
}

/// Checks that `T` may be any argument of a handler. `S` is the state of the server, or `()`.
///
/// ```
/// use mcp_server_core::{Context, State, check};
///
/// #[derive(Clone)]
/// struct App;
///
/// const _: () = check::argument::<App, State<App>>();
/// const _: () = check::argument::<(), Context>();
/// ```
pub const fn argument<S, T: FromCallParts<S>>() {}

/// Checks that `T` may be the last argument of a handler. `S` is the state of the server, or `()`.
///
/// `M` distinguishes the two kinds of extractors: `check::last_argument::<App, Args<Query>, _>()`.
///
/// ```
/// use mcp_server_core::{Args, Progress, RawArgs, check};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Query { text: String }
///
/// const _: () = check::last_argument::<(), Args<Query>, _>();
/// const _: () = check::last_argument::<(), RawArgs, _>();
/// const _: () = check::last_argument::<(), Progress, _>();
/// ```
pub const fn last_argument<S, T: FromCall<S, M>, M>() {}

/// Checks that `Args<T>` can read and describe the arguments of a call.
///
/// ```
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Query { text: String }
///
/// const _: () = mcp_server_core::check::arguments::<Query>();
/// ```
pub const fn arguments<T: DeserializeOwned + JsonSchema>() {}

/// Checks that a handler of the kind `K` may return `T`.
///
/// ```
/// use mcp_server_core::{Blob, Image, ResourceKind, ToolError, ToolKind, check};
///
/// const _: () = check::output::<ToolKind, Result<Image, ToolError>>();
/// const _: () = check::output::<ResourceKind, Blob>();
/// ```
pub const fn output<K: Kind, T: IntoOutput<K>>() {}

/// Checks that the future of a handler is `Send`. The compiler names the value that is not `Send`.
///
/// ```
/// use mcp_server_core::check;
///
/// async fn now() -> String { "12:00".into() }
///
/// fn check_now() {
///     check::sends(&now());
/// }
/// # check_now();
/// ```
pub const fn sends<F: Future + Send>(_future: &F) {}

/// Checks that [`Inputs::elicit`](crate::Inputs::elicit) can ask for a `T`.
///
/// The server knows the form of a question when the handler asks it. A unit test with this function finds a form that is not
/// valid earlier.
///
/// ```
/// use mcp_server_core::check;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Booking { name: String, guests: u8 }
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Nested { booking: Booking }
///
/// assert!(check::form::<Booking>().is_ok());
/// assert!(check::form::<Nested>().unwrap_err().to_string().contains("booking"));
/// ```
///
/// # Errors
/// Names the first field that a form cannot have: an object, a list of other values than choices, or a union.
pub fn form<T: DeserializeOwned + JsonSchema>() -> Result<(), FormError> {
    Form::from_schema(&schema_of::<T>().0).map(drop)
}

/// Checks a plain parameter of a function with an attribute macro.
#[doc(hidden)]
pub const fn plain_argument<T: plain::PlainArgument>() {}

mod plain {
    use super::{DeserializeOwned, JsonSchema};

    /// The type of an argument. The trait exists for the text of its error.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` cannot be an argument of a call",
        label = "`{Self}` lacks `Deserialize` or `JsonSchema`",
        note = "derive both for the type: `#[derive(serde::Deserialize, schemars::JsonSchema)]`; the type must own its values",
        note = "if the type is an extractor, write `#[extract]` before the parameter",
        note = "the rules of handlers: `docs/handlers.md` of the library, and the documentation of `mcp_server::check`"
    )]
    #[expect(unnameable_types, reason = "code never has to name the trait")]
    pub trait PlainArgument {}

    #[diagnostic::do_not_recommend]
    impl<T: DeserializeOwned + JsonSchema> PlainArgument for T {}
}
