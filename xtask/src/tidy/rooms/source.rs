//! Reads the source files of a crate into modules: what each defines, imports and names.

use std::{collections::BTreeSet, path::Path};

use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};

use anyhow::{Context, Error};

/// A path of identifiers, such as `crate::session::Outbox`.
pub(super) type Segments = Vec<String>;

/// One source file. Inline modules count as parts of their file; tests do not count.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// The place in the crate. Empty for the crate's root.
    pub(super) path: Segments,
    /// The items that the module defines.
    pub(super) items: BTreeSet<String>,
    pub(super) imports: Vec<Import>,
    /// The paths of two or more segments in the code.
    pub(super) paths: Vec<Segments>,
}

/// One name that a `use` declaration imports. The last segment is `*` for a glob.
#[derive(Debug)]
pub(super) struct Import {
    pub(super) path: Segments,
    pub(super) alias: Option<String>,
    /// Whether the declaration has a visibility: such a re-export is not an import of the module itself.
    pub(super) is_reexport: bool,
}

/// Parses each Rust file under `src`, except folders and files named `tests`.
pub(super) fn read(src: &Path) -> Result<Vec<Module>, Error> {
    let mut modules = Vec::new();
    let mut folders = vec![src.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.file_stem().is_some_and(|stem| stem == "tests") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
                let below = path.strip_prefix(src)?.to_string_lossy().replace('\\', "/");
                modules.push(parse(&below, &text).with_context(|| path.display().to_string())?);
            }
        }
    }
    Ok(modules)
}

/// Parses one file; `below` is its path under `src`.
pub(super) fn parse(below: &str, text: &str) -> Result<Module, Error> {
    let mut path: Segments = below.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if path.last().is_some_and(|last| matches!(last.as_str(), "lib" | "main" | "mod")) {
        path.pop();
    }
    let tokens: TokenStream = text.parse().map_err(|error| Error::msg(format!("not Rust: {error}")))?;
    let mut module = Module { path, ..Module::default() };
    module.scan(tokens, true);
    Ok(module)
}

impl Module {
    /// Collects from a stream of tokens. `items` is true if the stream contains the items of the module.
    fn scan(&mut self, tokens: TokenStream, items: bool) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            at += 1;
            match token {
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    if let Some(TokenTree::Group(attribute)) = tokens.get(at) {
                        at = if is_test(attribute) { end_of_item(&tokens, at + 1) } else { at + 1 };
                    }
                }
                TokenTree::Group(group) => {
                    let in_module = at >= 3 && is_word(&tokens[at - 3], "mod") && group.delimiter() == Delimiter::Brace;
                    self.scan(group.stream(), items && in_module);
                }
                TokenTree::Ident(word) if word == "use" => {
                    let end =
                        tokens[at..].iter().position(|token| is_punct(token, ';')).map_or(tokens.len(), |n| at + n);
                    let is_reexport = at >= 2 && is_visibility(&tokens[..at - 1]);
                    self.import(&tokens[at..end], Vec::new(), is_reexport);
                    at = end;
                }
                TokenTree::Ident(word) => {
                    if items
                        && is_item(&word.to_string())
                        && let Some(TokenTree::Ident(name)) = tokens[at..].iter().find(|token| !is_punct(token, '!'))
                    {
                        self.items.insert(name.to_string());
                    }
                    let start = at - 1;
                    let (path, end) = path_at(&tokens, start);
                    let continues =
                        start >= 1 && is_punct(&tokens[start - 1], ':') && start >= 2 && is_joint(&tokens[start - 2]);
                    if path.len() > 1 && !continues {
                        self.paths.push(path);
                    }
                    at = end;
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }

    /// Collects the names of one `use` tree.
    fn import(&mut self, tree: &[TokenTree], mut path: Segments, is_reexport: bool) {
        let mut alias = None;
        let mut tokens = tree.iter();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Ident(word) if word == "as" => alias = tokens.next().map(ToString::to_string),
                TokenTree::Ident(word) if word == "self" && !path.is_empty() => {}
                TokenTree::Ident(word) => path.push(word.to_string()),
                TokenTree::Punct(punct) if punct.as_char() == '*' => path.push("*".to_owned()),
                TokenTree::Group(group) => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    for part in inner.split(|token| is_punct(token, ',')).filter(|part| !part.is_empty()) {
                        self.import(part, path.clone(), is_reexport);
                    }
                    return;
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
        self.imports.push(Import { path, alias, is_reexport });
    }
}

/// Reads `a::b::c` at `start` and returns it with the index behind it.
fn path_at(tokens: &[TokenTree], start: usize) -> (Segments, usize) {
    let mut path = vec![tokens[start].to_string()];
    let mut at = start + 1;
    while let [first, second, TokenTree::Ident(word), ..] = &tokens[at..]
        && is_joint(first)
        && is_punct(second, ':')
    {
        path.push(word.to_string());
        at += 3;
    }
    (path, at)
}

/// Whether an attribute is `cfg(test)` or `cfg(all(test, …))`.
fn is_test(attribute: &Group) -> bool {
    let text = attribute.stream().to_string().replace(' ', "");
    text.starts_with("cfg(test") || text.starts_with("cfg(all(test")
}

/// The index behind the item that starts at `at`.
fn end_of_item(tokens: &[TokenTree], at: usize) -> usize {
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => matches!(punct.as_char(), ';' | ','),
        TokenTree::Ident(_) | TokenTree::Literal(_) => false,
    };
    tokens[at..].iter().position(ends).map_or(tokens.len(), |n| at + n + 1)
}

/// Whether the tokens end with `pub` or `pub(…)`.
fn is_visibility(before: &[TokenTree]) -> bool {
    match before {
        [.., word, TokenTree::Group(group)] if group.delimiter() == Delimiter::Parenthesis => is_word(word, "pub"),
        [.., word] => is_word(word, "pub"),
        [] => false,
    }
}

fn is_item(word: &str) -> bool {
    matches!(word, "struct" | "enum" | "trait" | "fn" | "type" | "const" | "static" | "union" | "macro_rules")
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(found) if found == word)
}

fn is_punct(token: &TokenTree, char: char) -> bool {
    matches!(token, TokenTree::Punct(found) if found.as_char() == char)
}

/// Whether the token is the first half of `::`.
fn is_joint(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(found) if found.as_char() == ':' && found.spacing() == Spacing::Joint)
}
