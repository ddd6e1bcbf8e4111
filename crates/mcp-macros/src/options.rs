//! The options of an attribute. Each option is a method of the route.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{
    Error, Expr, Ident, Token,
    parse::{ParseStream, Parser as _},
};

/// The methods of a route that an attribute may call.
pub(crate) struct Methods {
    pub(crate) attribute: &'static str,
    /// Methods without a parameter.
    pub(crate) flags: &'static [&'static str],
    /// Methods with one parameter.
    pub(crate) values: &'static [&'static str],
}

/// The options of one attribute.
#[derive(Default)]
pub(crate) struct Options {
    /// The option `name`.
    pub(crate) name: Option<Expr>,
    /// Whether the option `description` replaces the doc comment.
    pub(crate) has_description: bool,
    /// The calls of the other methods.
    pub(crate) calls: TokenStream,
}

impl Methods {
    /// Reads the options, as `#[tool(read_only, title = "Add")]` has them.
    pub(crate) fn read(&self, options: TokenStream) -> syn::Result<Options> {
        (|input: ParseStream<'_>| self.parse(input)).parse2(options)
    }

    /// Parses the options until the end of the input.
    pub(crate) fn parse(&self, input: ParseStream<'_>) -> syn::Result<Options> {
        let mut read = Options::default();
        let mut seen: Vec<String> = Vec::new();
        while !input.is_empty() {
            let option: Ident = input.parse().map_err(|error| Error::new(error.span(), self.expectation()))?;
            let name = option.to_string();
            if seen.contains(&name) {
                return Err(Error::new_spanned(option, format!("the option `{name}` occurs twice")));
            }
            if self.flags.contains(&name.as_str()) {
                if input.peek(Token![=]) {
                    return Err(input.error(format!("the option `{name}` has no value: write `{name}` alone")));
                }
                read.calls.extend(quote!(.#option()));
            } else if self.values.contains(&name.as_str()) {
                if !input.peek(Token![=]) {
                    return Err(Error::new_spanned(option, format!("the option `{name}` needs a value: `{name} = …`")));
                }
                input.parse::<Token![=]>()?;
                let value: Expr = input.parse()?;
                match name.as_str() {
                    "name" => read.name = Some(value),
                    _ => {
                        let call = quote_spanned!(option.span()=> .#option);
                        read.calls.extend(quote!(#call(#value)));
                    }
                }
                read.has_description |= name == "description";
            } else {
                let text = format!("unknown option `{name}`: {}", self.expectation());
                return Err(Error::new_spanned(option, text));
            }
            seen.push(name);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(read)
    }

    fn expectation(&self) -> String {
        let flags = self.flags.iter().map(|name| (*name).to_owned());
        let values = self.values.iter().map(|name| format!("{name} = …"));
        let all: Vec<String> = flags.chain(values).collect();
        format!("the options of `#[{}]` are {}", self.attribute, all.join(", "))
    }
}
