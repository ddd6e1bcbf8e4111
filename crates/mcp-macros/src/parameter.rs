//! The parameters of a function: extractors, or arguments of the call.

use proc_macro2::{Group, Span, TokenStream};
use quote::quote;
use syn::{
    Attribute, Error, Expr, ExprLit, GenericArgument, Ident, Lit, LitStr, Meta, Pat, PatType, PathArguments, Token,
    Type, ext::IdentExt as _, meta::ParseNestedMeta, token,
};

/// The extractors by their names, each with whether it has a type parameter.
const EXTRACTORS: &[(&str, bool)] = &[
    ("State", true),
    ("Extension", true),
    ("Args", true),
    ("Cancelled", false),
    ("Context", false),
    ("Inputs", false),
    ("Meta", false),
    ("Principal", false),
    ("Progress", false),
    ("RawArgs", false),
    ("ResourceUri", false),
    ("Server", false),
];

/// A parameter of a function.
pub(crate) enum Parameter {
    Extractor(Extractor),
    Argument(Box<Argument>),
}

/// A parameter that reads one part of the call.
pub(crate) struct Extractor {
    pub(crate) ty: Box<Type>,
    /// Whether `#[extract]` marks it.
    pub(crate) is_marked: bool,
}

impl Extractor {
    /// Whether it consumes the call, and therefore has to be last.
    pub(crate) fn is_last(&self) -> bool {
        !self.is_marked && takes_arguments(&self.ty)
    }

    /// The bound that the state of the server has to satisfy.
    pub(crate) fn bound(&self) -> Option<TokenStream> {
        let ty = &self.ty;
        if self.is_marked {
            return Some(quote!(#ty: ::mcp_server::extract::FromCallParts<__S>));
        }
        state_of(ty).map(|part| quote!(#part: ::mcp_server::extract::FromRef<__S>))
    }
}

/// A parameter that is an argument of the call: a field of the argument struct.
pub(crate) struct Argument {
    pub(crate) ident: Ident,
    pub(crate) ty: Box<Type>,
    /// The name on the wire that `#[arg(name = …)]` sets.
    pub(crate) name: Option<LitStr>,
    pub(crate) default: Option<Default>,
    /// Doc comments, `#[serde(…)]` and `#[schemars(…)]`.
    pub(crate) attrs: Vec<Attribute>,
}

/// The value of an argument that a call omits.
pub(crate) enum Default {
    /// `#[arg(default)]`
    OfType,
    /// `#[arg(default = …)]`
    Value(Expr),
}

impl Argument {
    /// Returns the name on the wire, or `None` if the type of a flattened argument determines the names.
    pub(crate) fn wire_name(&self) -> Option<String> {
        let serde = FieldNames::of(&self.attrs, "serde");
        if serde.is_flattened {
            return None;
        }
        let name = self.name.as_ref().or(serde.rename.as_ref());
        Some(name.map_or_else(|| self.ident.unraw().to_string(), LitStr::value))
    }

    /// Rejects a name that applies to the schema only. A client follows the schema, and the call would lack the argument.
    fn check_schema_name(&self) -> syn::Result<()> {
        let (Some(in_schema), Some(name)) = (FieldNames::of(&self.attrs, "schemars").rename, self.wire_name()) else {
            return Ok(());
        };
        let listed = in_schema.value();
        if listed == name {
            return Ok(());
        }
        let text = format!(
            "the schema names this argument `{listed}`, but calls name it `{name}`: write `#[arg(name = {listed:?})]` instead of \
             `#[schemars(rename = …)]`"
        );
        Err(Error::new_spanned(in_schema, text))
    }
}

/// The options of `#[serde(…)]` or `#[schemars(…)]` that change the name of an argument.
#[derive(std::default::Default)]
struct FieldNames {
    /// `rename = "…"` or `rename(deserialize = "…")`
    rename: Option<LitStr>,
    /// `flatten`
    is_flattened: bool,
}

impl FieldNames {
    /// Reads the attributes of one derive macro.
    fn of(attributes: &[Attribute], macro_name: &str) -> Self {
        let mut names = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident(macro_name)) {
            // The derive macro reports an attribute that is not valid.
            let _ = attribute.parse_nested_meta(|option| names.read(&option));
        }
        names
    }

    fn read(&mut self, option: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let is_rename = option.path.is_ident("rename");
        self.is_flattened |= option.path.is_ident("flatten");
        if option.input.peek(Token![=]) {
            let value: Expr = option.value()?.parse()?;
            if let (true, Expr::Lit(ExprLit { lit: Lit::Str(name), .. })) = (is_rename, value) {
                self.rename = Some(name);
            }
        } else if option.input.peek(token::Paren) && !is_rename {
            // Other options have values of any kind, for example `range(min = 1)`.
            option.input.parse::<Group>()?;
        } else if option.input.peek(token::Paren) {
            option.parse_nested_meta(|side| {
                let value: LitStr = side.value()?.parse()?;
                if side.path.is_ident("deserialize") {
                    self.rename = Some(value);
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// Reads a parameter, and removes the attributes that belong to the macro.
pub(crate) fn read(parameter: &mut PatType) -> syn::Result<Parameter> {
    let mut attrs = Vec::new();
    let mut marks = Marks::default();
    let mut failed = None;
    parameter.attrs.retain(|attribute| {
        let path = attribute.path();
        if ["doc", "serde", "schemars"].iter().any(|name| path.is_ident(name)) {
            attrs.push(attribute.clone());
        } else if path.is_ident("extract") || path.is_ident("arg") {
            if let Err(error) = marks.read(attribute) {
                failed = Some(error);
            }
        } else if path.is_ident("cfg") || path.is_ident("cfg_attr") {
            failed = Some(Error::new_spanned(attribute, "a parameter of a handler cannot be conditional"));
        } else {
            return true;
        }
        false
    });
    if let Some(error) = failed {
        return Err(error);
    }
    let ty = Box::new(ungrouped(&parameter.ty).clone());
    if marks.extract || (!marks.arg && is_extractor(&ty)) {
        return Ok(Parameter::Extractor(Extractor { ty, is_marked: marks.extract }));
    }
    let ident = match &*parameter.pat {
        Pat::Ident(pattern) if pattern.subpat.is_none() && pattern.by_ref.is_none() => pattern.ident.clone(),
        pattern => {
            let text =
                "an argument of a call needs a name: write one identifier here, or `#[extract]` for an extractor";
            return Err(Error::new_spanned(pattern, text));
        }
    };
    if let Type::Reference(_) = *ty {
        let text = format!("the argument `{ident}` borrows: use an owned type, for example `String` instead of `&str`");
        return Err(Error::new_spanned(&ty, text));
    }
    if let Some(Default::Value(value)) = &marks.default
        && inner(&ty, "Option").is_some()
    {
        let text = format!("`{ident}` is an `Option`, which is `None` by default: remove the default or the `Option`");
        return Err(Error::new_spanned(value, text));
    }
    if let (Some(name), Some(_)) = (&marks.name, FieldNames::of(&attrs, "serde").rename) {
        let text = format!("`{ident}` has a second name in `#[serde(rename = …)]`: remove one of the two names");
        return Err(Error::new_spanned(name, text));
    }
    let argument = Argument { ident, ty, name: marks.name, default: marks.default, attrs };
    argument.check_schema_name()?;
    Ok(Parameter::Argument(Box::new(argument)))
}

/// The attributes of one parameter.
#[derive(std::default::Default)]
struct Marks {
    extract: bool,
    arg: bool,
    name: Option<LitStr>,
    default: Option<Default>,
}

impl Marks {
    fn read(&mut self, attribute: &Attribute) -> syn::Result<()> {
        if attribute.path().is_ident("extract") {
            self.extract = true;
            attribute.meta.require_path_only()?;
        } else {
            self.arg = true;
            if !matches!(attribute.meta, Meta::Path(_)) {
                attribute.parse_nested_meta(|option| {
                    if option.path.is_ident("default") {
                        let is_value = option.input.peek(Token![=]);
                        self.default =
                            Some(if is_value { Default::Value(option.value()?.parse()?) } else { Default::OfType });
                        Ok(())
                    } else if option.path.is_ident("name") {
                        self.name = Some(option.value()?.parse()?);
                        Ok(())
                    } else {
                        Err(option.error(
                            "unknown option of `#[arg]`: the options are `default`, `default = …` and `name = \"…\"`",
                        ))
                    }
                })?;
            }
        }
        if self.extract && self.arg {
            return Err(Error::new_spanned(attribute, "a parameter is either `#[extract]` or `#[arg]`"));
        }
        Ok(())
    }
}

/// The type without the groups around a type that `macro_rules!` inserts, and without parentheses.
fn ungrouped(mut ty: &Type) -> &Type {
    loop {
        ty = match ty {
            Type::Group(group) => &group.elem,
            Type::Paren(parentheses) => &parentheses.elem,
            _ => return ty,
        };
    }
}

/// Whether the name of the type is the name of an extractor.
fn is_extractor(ty: &Type) -> bool {
    let optional = inner(ty, "Option").filter(|ty| named(ty, "Principal") || inner(ty, "Extension").is_some());
    optional.is_some()
        || EXTRACTORS.iter().any(|(name, generic)| if *generic { inner(ty, name).is_some() } else { named(ty, name) })
}

/// Whether the type is `Args<T>` or `RawArgs`.
pub(crate) fn takes_arguments(ty: &Type) -> bool {
    inner(ty, "Args").is_some() || named(ty, "RawArgs")
}

/// The type `T` of `State<T>`.
pub(crate) fn state_of(ty: &Type) -> Option<&Type> {
    inner(ty, "State")
}

/// The type `T` of `name<T>`.
fn inner<'t>(ty: &'t Type, name: &str) -> Option<&'t Type> {
    let Type::Path(path) = ungrouped(ty) else { return None };
    let last = path.path.segments.last()?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Type(inner) if last.ident == name => Some(inner),
        _ => None,
    }
}

fn named(ty: &Type, name: &str) -> bool {
    let Type::Path(path) = ungrouped(ty) else { return false };
    path.path.segments.last().is_some_and(|last| last.ident == name && last.arguments.is_none())
}

/// The identifier of the parameter at an index, in generated code.
pub(crate) fn placeholder(index: usize) -> Ident {
    Ident::new(&format!("__{index}"), Span::mixed_site())
}

#[cfg(test)]
mod tests {
    use syn::{FnArg, Item, parse_quote};

    use super::*;

    /// The extractors of `mcp-server-core` that no function of an attribute has: those of completions.
    const NOT_OF_ATTRIBUTES: &[&str] = &["Completing"];

    /// Returns the name of the type that an item makes an extractor, and whether the type is generic.
    fn extractor(item: &Item) -> Option<(String, bool)> {
        let Item::Impl(item) = item else { return None };
        let (implemented, _) = item.trait_.as_ref()?;
        let implemented = &implemented.segments.last()?.ident;
        let Type::Path(path) = &*item.self_ty else { return None };
        let last = path.path.segments.last()?;
        let is_of_all_types = item.generics.type_params().any(|parameter| parameter.ident == last.ident);
        let is_extractor = implemented == "FromCallParts" || implemented == "FromCall";
        (is_extractor && !is_of_all_types && last.ident != "Option")
            .then(|| (last.ident.to_string(), !last.arguments.is_none()))
    }

    #[test]
    fn the_header_of_an_implementation_may_have_any_form() {
        let cases: [(Item, Option<(&str, bool)>); 6] = [
            (
                parse_quote!(
                    impl<S: Sync> FromCallParts<S> for Server {}
                ),
                Some(("Server", false)),
            ),
            (
                parse_quote!(
                    impl<T, S> crate::handler::FromCall<S> for Args<T> where T: Sync {}
                ),
                Some(("Args", true)),
            ),
            (parse_quote!(impl FromCall<()> for RawArgs {}), Some(("RawArgs", false))),
            (
                parse_quote!(
                    impl<S, T: FromCallParts<S>> FromCall<S, via::Parts> for T {}
                ),
                None,
            ),
            (
                parse_quote!(
                    impl<S> FromCallParts<S> for Option<Principal> {}
                ),
                None,
            ),
            (
                parse_quote!(
                    impl<S> Other<S> for Server {}
                ),
                None,
            ),
        ];
        for (index, (item, expected)) in cases.iter().enumerate() {
            assert_eq!(extractor(item), expected.map(|(name, generic)| (name.to_owned(), generic)), "case {index}");
        }
    }

    #[test]
    fn the_list_has_each_extractor_of_the_library() {
        let core = concat!(env!("CARGO_MANIFEST_DIR"), "/../mcp-server-core/src");
        let mut directories = vec![std::path::PathBuf::from(core)];
        let mut found = Vec::new();
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(&directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    directories.push(path);
                    continue;
                }
                let file = syn::parse_file(&std::fs::read_to_string(&path).unwrap()).unwrap();
                found.extend(file.items.iter().filter_map(extractor));
            }
        }
        let listed = EXTRACTORS.iter().map(|(name, generic)| ((*name).to_owned(), *generic));
        let others = NOT_OF_ATTRIBUTES.iter().map(|name| ((*name).to_owned(), false));
        let mut listed: Vec<(String, bool)> = listed.chain(others).collect();
        listed.sort_unstable();
        found.sort_unstable();
        assert_eq!(listed, found);
    }

    #[test]
    fn a_name_in_the_schema_is_accepted_if_calls_use_it() {
        let cases: [(FnArg, bool); 8] = [
            (parse_quote!(#[schemars(rename = "day")] date: String), false),
            (parse_quote!(#[schemars(length(min = 1), rename = "day")] date: String), false),
            (parse_quote!(#[schemars(rename(serialize = "d", deserialize = "day"))] date: String), false),
            (parse_quote!(#[arg(name = "when")] #[schemars(rename = "day")] date: String), false),
            (parse_quote!(#[serde(rename = "day")] #[schemars(rename = "day")] date: String), true),
            (parse_quote!(#[arg(name = "day")] #[schemars(rename = "day")] date: String), true),
            (parse_quote!(#[schemars(rename = "date")] date: String), true),
            (parse_quote!(#[schemars(length(min = 1), email)] date: String), true),
        ];
        for (index, (parameter, is_accepted)) in cases.into_iter().enumerate() {
            let FnArg::Typed(mut parameter) = parameter else { unreachable!("no case has `self`") };
            assert_eq!(read(&mut parameter).is_ok(), is_accepted, "case {index}");
        }
    }
}
