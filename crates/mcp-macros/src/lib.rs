//! Attribute macros for handlers. Servers use them through the feature `macros` of `mcp-server`.
//!
//! The macros are thin: each of them writes the argument struct and the route that an author writes by hand otherwise. The
//! plain API has the same abilities.
//!
//! | macro | route | added by |
//! |---|---|---|
//! | [`#[tool]`](macro@tool) | `ToolRoute` | `ServerBuilder::tool` |
//! | [`#[prompt]`](macro@prompt) | `PromptRoute` | `ServerBuilder::prompt` |
//! | [`#[resource("uri")]`](macro@resource) | `ResourceRoute` | `ServerBuilder::resource` |
//! | [`#[resource("uri/{variable}")]`](macro@resource) | `TemplateRoute` | `ServerBuilder::resource_template` |
//! | [`#[debug_handler]`](macro@debug_handler) | none: it checks a handler of the plain API | |
//!
//! # The function and its route
//!
//! The function stays as it is, so other code and unit tests call it. Beside the function `add`, the macro defines a type
//! with the same name and one associated function: `add::route()` returns the route. `use` imports both by one name. A
//! module that has the same name as an imported function conflicts with its type. Call `add::add::route()` then, without
//! an import of the function.
//!
//! # Parameters
//!
//! A parameter is an argument of the call, unless its type is an extractor.
//!
//! - Its doc comment is the description of the argument.
//! - `Option<T>` makes the argument optional. `#[arg(default = 1.0)]` sets a default, and `#[arg(default)]` selects
//!   `Default::default()`.
//! - `#[arg(name = "type")]` sets another name on the wire.
//! - `#[serde(…)]` and `#[schemars(…)]` apply as on the field of a struct, for example `#[schemars(range(min = 1))]`.
//!   A name in `#[schemars(rename = …)]` must be the name on the wire.
//! - The type implements `serde::Deserialize` and `schemars::JsonSchema`, and it owns its values.
//!
//! The macros know an extractor by the last segment of its type: `State<T>`, `Extension<T>`, `Option<Extension<T>>`,
//! `Context`, `Progress`, `Inputs`, `Cancelled`, `Meta`, `Principal`, `Option<Principal>`, `ResourceUri`, `Server`,
//! `Args<T>` and `RawArgs`. `#[extract]` before a parameter marks any other extractor, and `#[arg]` marks an argument whose
//! type has one of these names.
//!
//! # Options
//!
//! The options of an attribute are methods of the route: `#[tool(read_only, title = "Add")]` calls `.read_only()` and
//! `.title("Add")`. Other methods follow `route()`: `.tool(add::route().layer(layer))`. The option `name` replaces the name
//! of the function, and `description` replaces its doc comment.

mod debug_handler;
mod expand;
mod function;
mod options;
mod parameter;

use proc_macro::TokenStream;

use crate::{expand::Target, function::Function};

/// Makes a tool of an async function.
///
/// ```
/// use mcp_server::{prelude::*, macros::tool};
///
/// /// Add two numbers.
/// #[tool(read_only)]
/// async fn add(
///     /// The first number.
///     a: f64,
///     /// The second number.
///     #[arg(default = 1.0)]
///     b: f64,
/// ) -> String {
///     (a + b).to_string()
/// }
///
/// let server = Server::builder("calculator", "1.0.0").tool(add::route()).build();
/// # let _: Server = server;
/// ```
///
/// Options without a value: `read_only`, `destructive`, `additive`, `idempotent`, `open_world`, `closed_world`,
/// `long_running`, `requires_authentication`, `skip_input_validation`, `skip_output_validation`.
///
/// Options with a value: `name`, `title`, `description`, `icon`, `meta`, `annotations`, `input_schema`, `parameters`,
/// `output_schema`, `requires_scopes`, `requires_client`, `task`, `task_policy`, `timeout`.
///
/// The [page of this crate](crate) explains parameters.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    expand(Target::Tool, options, item)
}

/// Makes a prompt of an async function.
///
/// ```
/// use mcp_server::{prelude::*, macros::prompt};
///
/// /// Review code.
/// #[prompt(title = "Review")]
/// async fn review(
///     /// The code to review.
///     code: String,
///     /// The language of the code.
///     language: Option<String>,
/// ) -> String {
///     format!("Review this {} code:\n{code}", language.unwrap_or_default())
/// }
///
/// let server = Server::builder("reviewer", "1.0.0").prompt(review::route()).build();
/// # let _: Server = server;
/// ```
///
/// Options: `name`, `title`, `description`, `icon`, `meta`, `arguments`, `requires_scopes`, and without a value
/// `requires_authentication`.
///
/// The [page of this crate](crate) explains parameters.
#[proc_macro_attribute]
pub fn prompt(options: TokenStream, item: TokenStream) -> TokenStream {
    expand(Target::Prompt, options, item)
}

/// Makes a resource of an async function, or a resource template if the URI has variables.
///
/// Each plain parameter receives the variable of the same name.
///
/// ```
/// use mcp_server::{prelude::*, macros::resource};
///
/// /// The notes of today.
/// #[resource("notes://today", mime_type = "text/plain")]
/// async fn today() -> &'static str {
///     "Buy milk."
/// }
///
/// /// The notes of a day.
/// #[resource("notes://{date}")]
/// async fn day(date: String) -> String {
///     format!("Notes of {date}")
/// }
///
/// let server =
///     Server::builder("notes", "1.0.0").resource(today::route()).resource_template(day::route()).build();
/// # let _: Server = server;
/// ```
///
/// Options: `name`, `title`, `description`, `mime_type`, `annotations`, `icon`, `meta`, `requires_scopes`, `cache`, for a
/// resource `size`, and without a value `requires_authentication`.
///
/// The [page of this crate](crate) explains parameters.
#[proc_macro_attribute]
pub fn resource(options: TokenStream, item: TokenStream) -> TokenStream {
    expand(Target::Resource, options, item)
}

/// Checks a handler of the plain API. The compiler names the part that breaks a rule.
///
/// ```
/// use mcp_server::{prelude::*, macros::debug_handler};
///
/// #[derive(Clone)]
/// struct App;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Query { text: String }
///
/// #[debug_handler]
/// async fn search(State(_app): State<App>, Args(query): Args<Query>) -> Result<String, ToolError> {
///     Ok(query.text)
/// }
/// ```
///
/// The option `resource`, `prompt` or `completion` selects another kind of handler: `#[debug_handler(prompt)]`. The state of
/// the server is the type in `State<T>`. If the server has a larger state, name it: `#[debug_handler(state = App)]`.
///
/// The macro changes nothing at run time.
#[proc_macro_attribute]
pub fn debug_handler(options: TokenStream, item: TokenStream) -> TokenStream {
    let function = syn::parse_macro_input!(item as Function);
    debug_handler::expand(options.into(), &function).into()
}

fn expand(target: Target, options: TokenStream, item: TokenStream) -> TokenStream {
    let function = syn::parse_macro_input!(item as Function);
    expand::expand(target, options.into(), function).into()
}
