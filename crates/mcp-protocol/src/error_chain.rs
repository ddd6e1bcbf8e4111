//! The text of an error with its sources.

use std::{error::Error, fmt};

/// Displays an error and its sources on one line, separated by `: `.
///
/// The text of some errors ends with that of their source. Such a source is not displayed again.
///
/// ```
/// use std::{error::Error, fmt};
///
/// use mcp_protocol::ErrorChain;
///
/// #[derive(Debug)]
/// struct Unreadable(std::num::ParseIntError);
///
/// impl fmt::Display for Unreadable {
///     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
///         f.write_str("the port cannot be read")
///     }
/// }
///
/// impl Error for Unreadable {
///     fn source(&self) -> Option<&(dyn Error + 'static)> {
///         Some(&self.0)
///     }
/// }
///
/// let error = Unreadable("7x".parse::<u16>().unwrap_err());
/// assert_eq!(ErrorChain::new(&error).to_string(), "the port cannot be read: invalid digit found in string");
/// ```
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct ErrorChain<'a> {
    error: &'a (dyn Error + 'static),
    omitted: &'a [&'a str],
}

impl<'a> ErrorChain<'a> {
    /// Returns the chain that begins with this error.
    #[must_use]
    pub fn new(error: &'a (dyn Error + 'static)) -> Self {
        Self { error, omitted: &[] }
    }

    /// Omits the sources with these texts. The last source is always displayed.
    #[must_use]
    pub fn without(self, omitted: &'a [&'a str]) -> Self {
        Self { omitted, ..self }
    }
}

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.error.to_string();
        let mut next = self.error.source();
        while let Some(source) = next {
            next = source.source();
            let text = source.to_string();
            if !ends_with(&shown, &text) && (next.is_none() || !self.omitted.contains(&&*text)) {
                shown.push_str(": ");
                shown.push_str(&text);
            }
        }
        f.write_str(&shown)
    }
}

/// Returns whether a text ends with the whole words of a source. An empty source has no words.
fn ends_with(text: &str, source: &str) -> bool {
    let before = text.strip_suffix(source);
    before.is_some_and(|before| source.is_empty() || !before.ends_with(char::is_alphanumeric))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Layer>>);

    impl fmt::Display for Layer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Layer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|source| source as _)
        }
    }

    #[test]
    fn displays_each_source_that_is_not_omitted() {
        let wrap = |text, source| Layer(text, Some(Box::new(source)));
        let error = wrap("a", wrap("b", wrap("c", Layer("b", None))));
        let chain = ErrorChain::new(&error);
        assert_eq!(chain.to_string(), "a: b: c: b");
        // The error itself and the last source are never omitted.
        assert_eq!(chain.without(&["a", "b"]).to_string(), "a: c: b");
        assert_eq!(ErrorChain::new(&Layer("a", None)).to_string(), "a");
    }

    #[test]
    fn displays_each_source_once() {
        for (layers, expected) in [
            (&["a: b: c", "b: c", "c"][..], "a: b: c"),
            (&["a: b", "b", "c"], "a: b: c"),
            (&["a", "a", "b"], "a: b"),
            (&["a (b)", "b"], "a (b): b"),
            (&["overload", "load"], "overload: load"),
            (&["overload", "", "load"], "overload: load"),
        ] {
            let wrap = |source, text: &&'static str| Some(Box::new(Layer(text, source)));
            let error = layers.iter().rev().fold(None, wrap).unwrap();
            assert_eq!(ErrorChain::new(&*error).to_string(), expected);
        }
    }
}
