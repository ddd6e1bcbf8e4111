//! Writes the route of a function: its argument struct, its handler and its definition.

use mcp_uri_template::UriTemplate;
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::{
    Error, FnArg, Ident, LitStr, Token,
    ext::IdentExt as _,
    parse::{ParseStream, Parser as _},
    spanned::Spanned as _,
};

use crate::{
    function::{Errors, Function, MOST_ARGUMENTS},
    options::{Methods, Options},
    parameter::{self, Argument, Default, Extractor, Parameter, placeholder},
};

/// The macro.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Tool,
    Prompt,
    Resource,
}

/// The route that a function becomes.
enum Route {
    Tool,
    Prompt,
    Resource(LitStr),
    Template(LitStr),
}

const TOOL: Methods = Methods {
    attribute: "tool",
    flags: &[
        "read_only",
        "destructive",
        "additive",
        "idempotent",
        "open_world",
        "closed_world",
        "long_running",
        "requires_authentication",
        "skip_input_validation",
        "skip_output_validation",
    ],
    values: &[
        "name",
        "title",
        "description",
        "icon",
        "meta",
        "annotations",
        "input_schema",
        "parameters",
        "output_schema",
        "requires_scopes",
        "requires_client",
        "task",
        "task_policy",
        "timeout",
    ],
};
const PROMPT: Methods = Methods {
    attribute: "prompt",
    flags: &["requires_authentication"],
    values: &["name", "title", "description", "icon", "meta", "arguments", "requires_scopes"],
};
const RESOURCE: Methods = Methods {
    attribute: "resource",
    flags: &["requires_authentication"],
    values: &[
        "name",
        "title",
        "description",
        "mime_type",
        "annotations",
        "icon",
        "meta",
        "requires_scopes",
        "cache",
        "size",
    ],
};

impl Target {
    fn read(self, options: TokenStream) -> syn::Result<(Route, Options)> {
        match self {
            Self::Tool => Ok((Route::Tool, TOOL.read(options)?)),
            Self::Prompt => Ok((Route::Prompt, PROMPT.read(options)?)),
            Self::Resource => read_resource.parse2(options),
        }
    }

    /// The type of the route if the attribute is not valid.
    fn fallback(self) -> Route {
        let uri = || LitStr::new("", Span::call_site());
        match self {
            Self::Tool => Route::Tool,
            Self::Prompt => Route::Prompt,
            Self::Resource => Route::Resource(uri()),
        }
    }
}

fn read_resource(input: ParseStream<'_>) -> syn::Result<(Route, Options)> {
    let text = "a resource needs its URI: `#[resource(\"notes://today\")]` or, as a template, `#[resource(\"notes://{date}\")]`";
    let uri: LitStr = input.parse().map_err(|error| Error::new(error.span(), text))?;
    if !input.is_empty() {
        input.parse::<Token![,]>()?;
    }
    let options = RESOURCE.parse(input)?;
    let is_template = uri.value().contains(['{', '}']);
    Ok((if is_template { Route::Template(uri) } else { Route::Resource(uri) }, options))
}

impl Route {
    fn ty(&self) -> TokenStream {
        match self {
            Self::Tool => quote!(::mcp_server::ToolRoute),
            Self::Prompt => quote!(::mcp_server::PromptRoute),
            Self::Resource(_) => quote!(::mcp_server::ResourceRoute),
            Self::Template(_) => quote!(::mcp_server::TemplateRoute),
        }
    }

    fn noun(&self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource(_) => "resource",
            Self::Template(_) => "resource template",
        }
    }

    fn kind(&self) -> TokenStream {
        match self {
            Self::Tool => quote!(::mcp_server::handler::ToolKind),
            Self::Prompt => quote!(::mcp_server::handler::PromptKind),
            Self::Resource(_) | Self::Template(_) => quote!(::mcp_server::handler::ResourceKind),
        }
    }

    /// The call that creates the route, up to its handler.
    fn create(&self, name: &TokenStream, handler: &TokenStream) -> TokenStream {
        match self {
            Self::Tool => quote!(::mcp_server::tool(#name, #handler)),
            Self::Prompt => quote!(::mcp_server::prompt(#name, #handler)),
            Self::Resource(uri) => quote!(::mcp_server::resource(#uri, #handler).name(#name)),
            Self::Template(uri) => quote!(::mcp_server::template(#uri, #handler).name(#name)),
        }
    }

    /// Checks that the URI provides the arguments.
    fn check(&self, arguments: &[&Argument], errors: &mut Errors) {
        let known = match self {
            Self::Tool | Self::Prompt => return,
            Self::Resource(uri) => {
                for (argument, name) in named(arguments) {
                    let text = format!("the URI {} has no variable `{{{name}}}` for this argument", uri.token());
                    errors.add(Error::new_spanned(&argument.ident, text));
                }
                return;
            }
            Self::Template(uri) => match UriTemplate::parse(&uri.value()) {
                Ok(template) => template.variables().map(str::to_owned).collect::<Vec<_>>(),
                Err(error) => return errors.add(Error::new_spanned(uri, error)),
            },
        };
        for (argument, name) in named(arguments) {
            if !known.contains(&name) {
                let text = format!(
                    "the URI template has no variable `{{{name}}}` for this argument; its variables are {}",
                    known.iter().map(|name| format!("`{{{name}}}`")).collect::<Vec<_>>().join(", ")
                );
                errors.add(Error::new_spanned(&argument.ident, text));
            }
        }
    }
}

/// Returns the arguments with their names on the wire, without flattened arguments.
fn named<'a>(arguments: &[&'a Argument]) -> impl Iterator<Item = (&'a Argument, String)> {
    arguments.iter().filter_map(|argument| Some((*argument, argument.wire_name()?)))
}

/// Returns the function, and the type with its route.
pub(crate) fn expand(target: Target, options: TokenStream, mut function: Function) -> TokenStream {
    let mut errors = Errors::default();
    let read = errors.value(target.read(options));
    function.check(&mut errors);
    let mut parameters = Vec::new();
    for parameter in &mut function.sig.inputs {
        if let FnArg::Typed(parameter) = parameter {
            let read = parameter::read(parameter);
            parameters.extend(errors.value(read));
        }
    }
    check_order(&parameters, &mut errors);
    let (route, options) = read.unwrap_or_else(|| (target.fallback(), Options::default()));
    let arguments: Vec<&Argument> = parameters.iter().filter_map(argument).collect();
    route.check(&arguments, &mut errors);
    let errors = errors.finish();
    let is_valid = errors.is_none();
    // The errors are the body of `route`, so the compiler does not add an error about a missing route.
    let body = errors.unwrap_or_else(|| body(&route, &options, &function, &parameters));
    let bounds = parameters.iter().filter_map(extractor).filter_map(Extractor::bound).filter(|_| is_valid);
    let (name, vis, ty) = (&function.sig.ident, &function.vis, route.ty());
    let checks = is_valid.then(|| checks(&route, &function, &arguments));
    let doc = format!("The {} `{name}`: `{name}::route()` returns its route.", route.noun());
    let route_doc = format!("Returns the route of the {} `{name}`.", route.noun());
    let route_fn = quote_spanned!(name.span()=> route);
    quote! {
        #function
        #checks

        #[doc = #doc]
        #[allow(non_camel_case_types, dead_code, missing_debug_implementations, clippy::exhaustive_structs)]
        #vis struct #name {}

        impl #name {
            #[doc = #route_doc]
            pub fn #route_fn<__S>() -> #ty<__S>
            where
                __S: ::core::clone::Clone + ::core::marker::Send + ::core::marker::Sync + 'static,
                #(#bounds,)*
            {
                #body
            }
        }
    }
}

fn argument(parameter: &Parameter) -> Option<&Argument> {
    match parameter {
        Parameter::Argument(argument) => Some(argument),
        Parameter::Extractor(_) => None,
    }
}

fn extractor(parameter: &Parameter) -> Option<&Extractor> {
    match parameter {
        Parameter::Extractor(extractor) => Some(extractor),
        Parameter::Argument(_) => None,
    }
}

/// The call has its arguments once: as plain parameters, or as the last parameter.
fn check_order(parameters: &[Parameter], errors: &mut Errors) {
    let has_plain = parameters.iter().any(|parameter| argument(parameter).is_some());
    for (index, extractor) in parameters.iter().map(extractor).enumerate() {
        let Some(extractor) = extractor.filter(|extractor| extractor.is_last()) else { continue };
        let text = if has_plain {
            "this parameter takes all arguments of the call: remove it, or the plain parameters"
        } else if index + 1 < parameters.len() {
            "this parameter consumes the call: it must be last, and there can be only one"
        } else {
            continue;
        };
        errors.add(Error::new_spanned(&extractor.ty, text));
    }
    let extractors: Vec<&Extractor> = parameters.iter().filter_map(extractor).collect();
    if let Some(extractor) = extractors.get(MOST_ARGUMENTS - usize::from(has_plain)) {
        let text =
            format!("a handler has at most {MOST_ARGUMENTS} extractors, and the plain parameters are one of them");
        errors.add(Error::new_spanned(&extractor.ty, text));
    }
}

/// The body of `route`.
fn body(route: &Route, options: &Options, function: &Function, parameters: &[Parameter]) -> TokenStream {
    let arguments: Vec<&Argument> = parameters.iter().filter_map(argument).collect();
    let arguments_struct = (!arguments.is_empty()).then(|| arguments_struct(function, &arguments));
    let name = &function.sig.ident;
    let handler = match &arguments_struct {
        Some(_) => handler(name, parameters),
        None => quote!(#name),
    };
    let wire_name = match &options.name {
        Some(name) => quote!(#name),
        None => {
            let name = name.unraw().to_string();
            quote!(#name)
        }
    };
    let route = route.create(&wire_name, &handler);
    let doc = function.doc().filter(|_| !options.has_description).map(|doc| quote!(.description(#doc)));
    let calls = &options.calls;
    quote! {
        #arguments_struct
        #route #doc #calls
    }
}

/// The closure that takes the plain parameters from their struct.
fn handler(name: &Ident, parameters: &[Parameter]) -> TokenStream {
    let (mut patterns, mut values) = (Vec::new(), Vec::new());
    for (index, parameter) in parameters.iter().enumerate() {
        match parameter {
            Parameter::Extractor(Extractor { ty, .. }) => {
                let name = placeholder(index);
                patterns.push(quote!(#name: #ty));
                values.push(quote!(#name));
            }
            Parameter::Argument(argument) => {
                let ident = &argument.ident;
                values.push(quote!(__arguments.#ident));
            }
        }
    }
    patterns.push(quote!(::mcp_server::extract::Args(__arguments): ::mcp_server::extract::Args<__Arguments>));
    let call = quote_spanned!(name.span()=> #name(#(#values),*));
    quote_spanned!(name.span()=> |#(#patterns),*| #call)
}

/// The struct that reads and describes the plain parameters.
fn arguments_struct(function: &Function, arguments: &[&Argument]) -> TokenStream {
    let (mut fields, mut defaults) = (TokenStream::new(), TokenStream::new());
    for Argument { ident, ty, name, default, attrs } in arguments.iter().copied() {
        let rename = name.as_ref().map(|name| quote!(#[serde(rename = #name)]));
        let default = match default {
            None => None,
            Some(Default::OfType) => Some(quote!(#[serde(default)])),
            Some(Default::Value(value)) => {
                let function = format_ident!("__default_{}", ident.unraw());
                let path = function.to_string();
                // A text converts into `String` and the like.
                let is_text = matches!(value, syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(_), .. }));
                let value = if is_text { quote!(::core::convert::From::from(#value)) } else { quote!(#value) };
                defaults.extend(quote!(#[allow(non_snake_case)] fn #function() -> #ty { #value }));
                Some(quote!(#[serde(default = #path)]))
            }
        };
        fields.extend(quote!(#(#attrs)* #rename #default #ident: #ty,));
    }
    let expecting = format!("the arguments of `{}`", function.sig.ident.unraw());
    quote! {
        #[derive(::mcp_server::__private::serde::Deserialize, ::mcp_server::schemars::JsonSchema)]
        #[serde(crate = "::mcp_server::__private::serde", expecting = #expecting)]
        #[schemars(crate = "::mcp_server::schemars")]
        #[allow(non_snake_case)]
        struct __Arguments { #fields }
        #defaults
    }
}

/// Checks of the parts, each at its place in the signature.
fn checks(route: &Route, function: &Function, arguments: &[&Argument]) -> TokenStream {
    let arguments = arguments
        .iter()
        .map(|Argument { ty, .. }| quote_spanned!(ty.span()=> ::mcp_server::__private::check_plain_argument::<#ty>();));
    let kind = route.kind();
    let output = function
        .output()
        .map(|output| quote_spanned!(output.span()=> ::mcp_server::check::output::<#kind, #output>();));
    quote!(const _: () = { #(#arguments)* #output };)
}
