//! URI templates (RFC 6570): parsing, expansion, and matching in linear time.

mod expand;
mod matcher;
mod parse;
mod vars;

use std::{fmt, str::FromStr, sync::Arc};

pub use self::vars::{VarValue, Vars};
use self::{matcher::Matcher, parse::Part};

/// Bytes of a template.
pub(crate) const MAX_TEMPLATE: usize = 1024;
/// Variables of a template, repetitions counted.
pub(crate) const MAX_VARIABLES: usize = 32;
/// Bytes of a URI that is matched; a longer one matches nothing.
pub(crate) const MAX_URI: usize = 8 * 1024;

/// A URI template of RFC 6570 that can be expanded and matched.
///
/// What a URI must look like to match, and what is captured (percent-decoded; a value that is not UTF-8 or
/// a malformed `%` means no match):
///
/// | expression | matches | captures |
/// |---|---|---|
/// | `{var}` | one path segment: one or more characters, no `/`, `?`, `#` (in a query no `&`) | text |
/// | `{a,b}` | the same, separated by commas; the last ones may be missing | texts |
/// | `{list*}` | the same | a list, split at commas |
/// | `{+var}` | one or more of any characters, `/` included | text |
/// | `{/a,b}`, `{.a,b}` | segments or labels, each after its separator; the last ones may be missing | texts |
/// | `{/list*}`, `{.list*}` | any number of them | a list, if there is one at least |
/// | `{;a,b}` | path parameters in this order, each optional | texts |
/// | `{?a,b}`, `{&a,b}` | query parameters in any order, each optional, no others; at the end of the template | texts |
/// | `{?list*}`, `{&list*}` | the same, repeatable | a list |
/// | `{#var}` | the fragment, optional; last in the template | text |
///
/// Literals are compared after percent-normalisation (`%7E` is `~`, `%2f` is `%2F`, `é` is `%C3%A9`). A
/// variable that occurs twice must have the same value twice. Where two readings are possible
/// (`{a}-{b}` on `x-y-z`), the earlier expression takes as much as it can.
#[derive(Clone)]
pub struct UriTemplate {
    inner: Arc<Inner>,
}

struct Inner {
    source: String,
    parts: Vec<Part>,
    matcher: Option<Matcher>,
}

/// A template that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    kind: TemplateErrorKind,
    position: usize,
    message: String,
}

/// What is wrong with a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TemplateErrorKind {
    /// It is not a template by the grammar of RFC 6570.
    Syntax,
    /// It is longer than 1,024 bytes or has more than 32 variables.
    Limit,
    /// It can be expanded, but a URI could be matched against it in more than one way, or in none that is sensible.
    Ambiguous,
}

impl UriTemplate {
    /// Parses a template that URIs will be matched against.
    ///
    /// # Errors
    ///
    /// It is malformed, too long, or ambiguous: expressions that touch each other (`{a}{b}`),
    /// a query or fragment expression that is not last, several variables in `{+a,b}` or `{#a,b}`, and the
    /// prefix modifier (`{a:3}`).
    pub fn parse(template: &str) -> Result<Self, TemplateError> {
        let parts = parse::parse(template)?;
        let matcher = Some(Matcher::new(&parts)?);
        Ok(Self { inner: Arc::new(Inner { source: template.to_owned(), parts, matcher }) })
    }

    /// Parses a template of somebody else that will be expanded. It [`matches`](Self::matches) nothing when
    /// [`parse`](Self::parse) would call it ambiguous.
    ///
    /// # Errors
    ///
    /// It is malformed or too long.
    pub fn parse_for_expansion(template: &str) -> Result<Self, TemplateError> {
        let parts = parse::parse(template)?;
        let matcher = Matcher::new(&parts).ok();
        Ok(Self { inner: Arc::new(Inner { source: template.to_owned(), parts, matcher }) })
    }

    /// The template as it was written.
    pub fn as_str(&self) -> &str {
        &self.inner.source
    }

    /// The names of the variables, each once, in the order of the template.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        let names = || self.inner.parts.iter().flat_map(Part::variables).map(|variable| variable.name.as_str());
        names()
            .enumerate()
            .filter(move |(index, name)| !names().take(*index).any(|earlier| earlier == *name))
            .map(|(_, name)| name)
    }

    /// The URI for some values. Variables without a value are left out, as RFC 6570 says; values of other names are ignored.
    pub fn expand(&self, vars: &Vars) -> String {
        expand::expand(&self.inner.parts, vars)
    }

    /// The values that make this template a URI, or `None` when the URI is none of its. Takes time linear in the
    /// length of the URI; a URI over 8 KiB never matches.
    pub fn matches(&self, uri: &str) -> Option<Vars> {
        self.inner.matcher.as_ref()?.matches(uri, &mut 0)
    }
}

impl FromStr for UriTemplate {
    type Err = TemplateError;

    fn from_str(template: &str) -> Result<Self, TemplateError> {
        Self::parse(template)
    }
}

impl fmt::Display for UriTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for UriTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UriTemplate").field(&self.as_str()).finish()
    }
}

impl PartialEq for UriTemplate {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str() && self.inner.matcher.is_some() == other.inner.matcher.is_some()
    }
}

impl Eq for UriTemplate {}

impl TemplateError {
    pub(crate) fn new(kind: TemplateErrorKind, position: usize, message: impl Into<String>) -> Self {
        Self { kind, position, message: message.into() }
    }

    /// What is wrong.
    pub fn kind(&self) -> TemplateErrorKind {
        self.kind
    }

    /// Byte offset in the template.
    pub fn position(&self) -> usize {
        self.position
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {} of the URI template)", self.message, self.position)
    }
}

impl std::error::Error for TemplateError {}
