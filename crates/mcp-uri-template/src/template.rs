//! The template type, which joins parser, expander and matcher.

use std::{fmt, str::FromStr, sync::Arc};

use crate::{
    TemplateError, Vars, expand,
    matcher::Matcher,
    parse::{self, Part},
};

/// A URI template of RFC 6570 that can be expanded and matched. Cloning it is cheap.
///
/// The table shows which part of a URI an expression matches, and which value it captures. Values are
/// percent-decoded. A URI with a malformed `%` or with a captured value that is not UTF-8 does not match.
///
/// | expression | matches | captures |
/// |---|---|---|
/// | `{var}` | one path segment: one or more characters except `/`, `?`, `#` (and `&` in a query) | text |
/// | `{a,b}` | the same, separated by commas; the last variables are optional | texts |
/// | `{list*}` | the same | a list, split at commas |
/// | `{+var}` | one or more characters of any kind, `/` included | text |
/// | `{/a,b}`, `{.a,b}` | segments or labels, each after its separator; the last variables are optional | texts |
/// | `{/list*}`, `{.list*}` | any number of segments or labels | a list, when there is at least one item |
/// | `{;a,b}` | path parameters in this order, each optional | texts |
/// | `{?a,b}`, `{&a,b}` | query parameters in any order, each optional, no others; at the end of the template | texts |
/// | `{?list*}`, `{&list*}` | the same, repeatable | a list |
/// | `{#var}` | the fragment, optional; last in the template | text |
///
/// Literals are compared after percent-normalisation (`%7E` is `~`, `%2f` is `%2F`, `é` is `%C3%A9`). A variable
/// that occurs twice must have the same value twice. When two readings are possible (`{a}-{b}` on `x-y-z`), the
/// earlier expression captures as much as it can.
///
/// ```
/// use mcp_uri_template::{UriTemplate, Vars};
///
/// let template: UriTemplate = "notes://{folder}{/rest*}".parse()?;
/// assert_eq!(template.variables().collect::<Vec<_>>(), ["folder", "rest"]);
/// assert_eq!(template.as_str(), "notes://{folder}{/rest*}");
///
/// let vars = template.matches("notes://trips/2026/plan").ok_or("no match")?;
/// assert_eq!(vars.text("folder"), Some("trips"));
/// assert_eq!(template.expand(&vars), "notes://trips/2026/plan");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct UriTemplate {
    inner: Arc<Inner>,
}

struct Inner {
    source: String,
    parts: Vec<Part>,
    matcher: Option<Matcher>,
}

impl UriTemplate {
    /// Parses a template for matching and expansion.
    ///
    /// # Errors
    /// The template is malformed, too long, or ambiguous. These templates are ambiguous:
    ///
    /// - adjacent expressions (`{a}{b}`);
    /// - a query or fragment expression that is not last;
    /// - several variables in `{+a,b}` or `{#a,b}`;
    /// - a prefix modifier (`{a:3}`);
    /// - an optional variable that occurs twice (`{a,b,b}`, `{a}{?a}`), or a name of a text and of a list (`{a}/{a*}`).
    ///
    /// ```
    /// use mcp_uri_template::{TemplateErrorKind, UriTemplate};
    ///
    /// let error = UriTemplate::parse("notes://{year}{month}").unwrap_err();
    /// assert_eq!((error.kind(), error.position()), (TemplateErrorKind::Ambiguous, 15));
    /// ```
    pub fn parse(template: &str) -> Result<Self, TemplateError> {
        let parts = parse::parse(template)?;
        let matcher = Some(Matcher::new(&parts)?);
        Ok(Self { inner: Arc::new(Inner { source: template.to_owned(), parts, matcher }) })
    }

    /// Parses a template of a peer for expansion. An ambiguous template is accepted, but never
    /// [matches](Self::matches).
    ///
    /// ```
    /// use mcp_uri_template::{UriTemplate, Vars};
    ///
    /// let template = UriTemplate::parse_for_expansion("notes://{year}{month}")?;
    /// let vars = Vars::new().with("year", "2026").with("month", "07");
    /// assert_eq!(template.expand(&vars), "notes://202607");
    /// assert_eq!(template.matches("notes://202607"), None);
    /// # Ok::<(), mcp_uri_template::TemplateError>(())
    /// ```
    ///
    /// # Errors
    /// The template is malformed or too long.
    pub fn parse_for_expansion(template: &str) -> Result<Self, TemplateError> {
        let parts = parse::parse(template)?;
        let matcher = Matcher::new(&parts).ok();
        Ok(Self { inner: Arc::new(Inner { source: template.to_owned(), parts, matcher }) })
    }

    /// Returns the source text of the template.
    pub fn as_str(&self) -> &str {
        &self.inner.source
    }

    /// Returns the names of the variables, each once, in the order of the template.
    ///
    /// ```
    /// use mcp_uri_template::UriTemplate;
    ///
    /// let template = UriTemplate::parse("compare://{left}/{right}?base={left}")?;
    /// assert_eq!(template.variables().collect::<Vec<_>>(), ["left", "right"]);
    /// # Ok::<(), mcp_uri_template::TemplateError>(())
    /// ```
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        let names = || self.inner.parts.iter().flat_map(Part::variables).map(|variable| variable.name.as_str());
        names()
            .enumerate()
            .filter(move |(index, name)| !names().take(*index).any(|earlier| earlier == *name))
            .map(|(_, name)| name)
    }

    /// Returns the URI for the given values.
    ///
    /// A variable without a value expands to nothing (RFC 6570 §2.3). Values of unknown names are ignored.
    ///
    /// ```
    /// use mcp_uri_template::{UriTemplate, Vars};
    ///
    /// let template = UriTemplate::parse("search://{index}{?text,page}")?;
    /// let vars = Vars::new().with("index", "notes").with("text", "a & b");
    /// assert_eq!(template.expand(&vars), "search://notes?text=a%20%26%20b");
    /// # Ok::<(), mcp_uri_template::TemplateError>(())
    /// ```
    pub fn expand(&self, vars: &Vars) -> String {
        expand::expand(&self.inner.parts, vars)
    }

    /// Returns the values of the variables when the URI matches the template.
    ///
    /// The time is linear in the length of the URI. A URI over 8 KiB never matches.
    ///
    /// ```
    /// use mcp_uri_template::UriTemplate;
    ///
    /// let template = UriTemplate::parse("file:///{+path}")?;
    /// let vars = template.matches("file:///src/my%20notes.md").unwrap();
    /// assert_eq!(vars.text("path"), Some("src/my notes.md"));
    /// assert_eq!(template.matches("https://example.com"), None);
    /// # Ok::<(), mcp_uri_template::TemplateError>(())
    /// ```
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
