//! `#[debug_handler]`: checks each part of a handler at its place in the signature.

use proc_macro2::TokenStream;
use quote::{ToTokens as _, quote, quote_spanned};
use syn::{
    Error, Ident, Token, Type,
    parse::{ParseStream, Parser as _},
    spanned::Spanned as _,
};

use crate::{
    function::{Errors, Function, MOST_ARGUMENTS, typed},
    parameter::{self, placeholder},
};

/// Returns the function, and the checks.
pub(crate) fn expand(options: TokenStream, function: &Function) -> TokenStream {
    let mut errors = Errors::default();
    let options = errors.value(Options::read.parse2(options));
    function.check(&mut errors);
    let types: Vec<&Type> = function.sig.inputs.iter().filter_map(typed).map(|parameter| &*parameter.ty).collect();
    let last = types.len().saturating_sub(1);
    for (index, ty) in types.iter().enumerate() {
        if index != last && parameter::takes_arguments(ty) {
            let again = types.get(index + 1..).is_some_and(|rest| rest.iter().any(|ty| parameter::takes_arguments(ty)));
            let text = if again {
                "a handler takes its arguments once: merge them into one struct"
            } else {
                "this argument must be the last argument of the handler, because it consumes the call"
            };
            errors.add(Error::new_spanned(ty, text));
        }
    }
    if let Some(ty) = types.get(MOST_ARGUMENTS) {
        let text =
            format!("a handler has at most {MOST_ARGUMENTS} arguments: merge fields of `Args<T>` into one struct");
        errors.add(Error::new_spanned(ty, text));
    }
    let checks = options.filter(|_| errors.is_empty()).map(|options| checks(&options, function, &types));
    let errors = errors.finish();
    quote!(#errors #function #checks)
}

/// The options of `#[debug_handler]`.
struct Options {
    kind: TokenStream,
    state: Option<Type>,
}

impl Options {
    fn read(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut options = Self { kind: quote!(ToolKind), state: None };
        while !input.is_empty() {
            let option: Ident = input.parse()?;
            match option.to_string().as_str() {
                "tool" => options.kind = quote!(ToolKind),
                "resource" => options.kind = quote!(ResourceKind),
                "prompt" => options.kind = quote!(PromptKind),
                "completion" => options.kind = quote!(CompletionKind),
                "state" => {
                    input.parse::<Token![=]>()?;
                    options.state = Some(input.parse()?);
                }
                name => {
                    let text = format!(
                        "unknown option `{name}`: the options of `#[debug_handler]` are tool, resource, prompt, completion, state = …"
                    );
                    return Err(Error::new_spanned(option, text));
                }
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }
}

fn checks(options: &Options, function: &Function, types: &[&Type]) -> TokenStream {
    let kind = &options.kind;
    let states: Vec<&Type> = types.iter().filter_map(|ty| parameter::state_of(ty)).collect();
    // Without `State`, the handler works for every state. Several states are parts of a state that the macro does not know.
    let (generics, state) = match (&options.state, states.as_slice()) {
        (Some(state), _) => (None, quote!(#state)),
        (None, [state, rest @ ..]) if rest.iter().all(|other| same(other, state)) => (None, quote!(#state)),
        (None, []) => {
            let bounds = quote!(::core::clone::Clone + ::core::marker::Send + ::core::marker::Sync + 'static);
            (Some(quote!(<__S: #bounds>)), quote!(__S))
        }
        (None, [state, ..]) => {
            let text = "the handler takes parts of a larger state: name it, `#[debug_handler(state = App)]`";
            return Error::new_spanned(state, text).to_compile_error();
        }
    };
    let last = types.len().saturating_sub(1);
    let arguments = types.iter().enumerate().map(|(index, ty)| {
        if index < last {
            quote_spanned!(ty.span()=> ::mcp_server::check::argument::<#state, #ty>();)
        } else {
            quote_spanned!(ty.span()=> ::mcp_server::check::last_argument::<#state, #ty, _>();)
        }
    });
    let output = function.output().map(|output| {
        quote_spanned!(output.span()=> ::mcp_server::check::output::<::mcp_server::handler::#kind, #output>();)
    });
    let name = &function.sig.ident;
    let names: Vec<Ident> = (0..types.len()).map(placeholder).collect();
    let sends = quote_spanned!(name.span()=> ::mcp_server::check::sends(&#name(#(#names),*)));
    quote! {
        const _: () = {
            fn __check #generics (#(#names: #types),*) {
                #(#arguments)*
                #output
                #sends
            }
        };
    }
}

fn same(left: &Type, right: &Type) -> bool {
    left.to_token_stream().to_string() == right.to_token_stream().to_string()
}
