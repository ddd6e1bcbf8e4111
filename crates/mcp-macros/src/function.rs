//! A function with its signature. The macros do not parse the body.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, TokenStreamExt as _};
use syn::{
    Attribute, Error, Expr, FnArg, Meta, ReturnType, Safety, Signature, Type, Visibility,
    ext::IdentExt as _,
    parse::{Parse, ParseStream},
    spanned::Spanned as _,
};

/// The largest number of arguments of a handler.
pub(crate) const MOST_ARGUMENTS: usize = 8;

/// The item below an attribute: a function with any body.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    body: TokenStream,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        let is_function = |word: &str| matches!(word, "fn" | "async" | "const" | "unsafe" | "safe" | "extern");
        let ahead = input.fork().call(proc_macro2::Ident::parse_any);
        if !ahead.is_ok_and(|word| is_function(&word.to_string())) {
            return Err(input.error("a handler is an `async fn`: the attribute belongs on a function"));
        }
        Ok(Self { attrs, vis, sig: input.parse()?, body: input.parse()? })
    }
}

impl ToTokens for Function {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.append_all(&self.attrs);
        self.vis.to_tokens(tokens);
        self.sig.to_tokens(tokens);
        tokens.append_all(self.body.clone());
    }
}

impl Function {
    /// Checks the rules that do not depend on the types of the parameters.
    pub(crate) fn check(&self, errors: &mut Errors) {
        let sig = &self.sig;
        if sig.asyncness.is_none() {
            let text = format!("`{}` is not `async`: a handler is an `async fn`, also without an `.await`", sig.ident);
            errors.add(Error::new_spanned(sig.fn_token, text));
        }
        if let Safety::Unsafe(token) = sig.safety {
            errors.add(Error::new_spanned(token, "a handler is a safe function: remove `unsafe`"));
        }
        if let Some(parameter) = sig.generics.params.first() {
            let text = "a handler has no generic parameters: replace them by types, and references by owned values";
            errors.add(Error::new(parameter.span(), text));
        }
        if let Some(FnArg::Receiver(receiver)) = sig.inputs.first() {
            let text = "a handler has no `self`: use a free function, and take the value as `State<T>`";
            errors.add(Error::new_spanned(receiver.self_token, text));
        }
        for parameter in sig.inputs.iter().filter_map(typed) {
            if let Type::ImplTrait(_) = *parameter.ty {
                let text = "`impl Trait` is not a type that a handler can extract: name the type";
                errors.add(Error::new_spanned(&parameter.ty, text));
            }
        }
    }

    /// The return type, unless it contains an `impl Trait`, which Rust allows in signatures only.
    pub(crate) fn output(&self) -> Option<TokenStream> {
        match &self.sig.output {
            ReturnType::Default => Some(quote::quote!(())),
            ReturnType::Type(_, output) if has_impl(output.to_token_stream()) => None,
            ReturnType::Type(_, output) => Some(output.to_token_stream()),
        }
    }

    /// The doc comment as an expression of one text, or `None` without a doc comment.
    pub(crate) fn doc(&self) -> Option<TokenStream> {
        let mut lines = TokenStream::new();
        for (index, line) in self.attrs.iter().filter_map(doc_line).enumerate() {
            if index > 0 {
                lines.extend(quote::quote!("\n",));
            }
            if let Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = line {
                let text = text.value();
                let text = text.strip_prefix(' ').unwrap_or(&text);
                lines.extend(quote::quote!(#text,));
            } else {
                lines.extend(quote::quote!(#line,));
            }
        }
        (!lines.is_empty()).then(|| quote::quote!(::core::concat!(#lines)))
    }
}

fn has_impl(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(word) => word == "impl",
        TokenTree::Group(group) => has_impl(group.stream()),
        _ => false,
    })
}

fn doc_line(attribute: &Attribute) -> Option<&Expr> {
    match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => Some(&pair.value),
        _ => None,
    }
}

pub(crate) fn typed(parameter: &FnArg) -> Option<&syn::PatType> {
    match parameter {
        FnArg::Typed(parameter) => Some(parameter),
        FnArg::Receiver(_) => None,
    }
}

/// The errors of one expansion. The compiler reports all of them.
#[derive(Default)]
pub(crate) struct Errors(Option<Error>);

impl Errors {
    pub(crate) fn add(&mut self, error: Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Returns the value, and adds an error instead.
    pub(crate) fn value<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn finish(self) -> Option<TokenStream> {
        self.0.map(|errors| errors.to_compile_error())
    }
}
